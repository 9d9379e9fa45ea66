"""A node of a real Slurm is drained by its own agent, when the agent itself lost the GPU."""

from collections.abc import Iterator

import pytest

from tests.slurm_lab.site import Site

INDEX = 2
REASON = "FleetWatch incident 42: GPU 2 lost"
BATCH_S = 60.0  # a window, a batch, an answer, a window, a batch

GIVE = """
from datetime import timedelta
from django.utils import timezone
from fleetwatch.ingest.node_orders import OrderTerms, give
from fleetwatch.inventory.models import GPU
gpu = GPU.objects.get(node__name="gpu01", index={index})
terms = OrderTerms(
    "drain_node", "slurm", "", (gpu.uuid,), timedelta(minutes=10), "{reason}", is_dry_run={dry}
)
print(give(gpu.node, terms, timezone.now()).key)
"""
ANSWER = """
from fleetwatch.telemetry.models import HealthEvent
rows = HealthEvent.objects.filter(kind="action_result", text__startswith="{key}")
print(*rows.values_list("text", flat=True), sep="|")
"""
LOSSES = """
from fleetwatch.telemetry.models import HealthEvent
print(HealthEvent.objects.filter(kind="gpu_lost", gpu__index={index}).count())
"""


@pytest.fixture
def allowed(site: Site) -> Iterator[Site]:
    """A site whose agent may drain its node, which takes jobs again afterwards."""
    site.stop_agent()
    site.start_agent("--allow-actions", "drain_node")
    yield site
    site.lab.run("scontrol", "update", "NodeName=gpu01", "State=RESUME")
    site.stop_agent()


def ordered(site: Site, *, dry: bool = False) -> str:
    """What the agent said of an order to drain the node for that GPU."""
    key = site.ask(GIVE.format(index=INDEX, reason=REASON, dry=dry))
    answers: list[str] = []

    def is_answered() -> bool:
        answers[:] = filter(None, site.ask(ANSWER.format(key=key)).split("|"))
        return bool(answers)

    site.lab.wait_for(is_answered, "answer to the order", seconds=BATCH_S)
    [answer] = answers
    return answer.removeprefix(f"{key} ")


def node_of(site: Site) -> str:
    return site.lab.run("sinfo", "-h", "-N", "-n", "gpu01", "-o", "%T|%E").stdout.strip()


def test_an_agent_drains_its_node_for_a_gpu_that_it_lost_itself(allowed: Site) -> None:
    site = allowed
    before = node_of(site)

    # whatever the hub says, the GPU works
    assert ordered(site) == "refused: a GPU of the order works, as far as this agent knows"
    assert node_of(site) == before

    running = str(site.lab.sbatch("--gres=gpu:1", "-J", "goes-on", script="sleep 600"))
    site.lab.wait_for(lambda: site.lab.states().get(running) == "RUNNING", "running job")
    with site.lab.lost(INDEX):
        site.lab.wait_for(
            lambda: int(site.ask(LOSSES.format(index=INDEX))) > 0, "word of the loss",
            seconds=BATCH_S,
        )  # fmt: skip

        assert ordered(site, dry=True) == "would: drain_node gpu01"
        assert node_of(site) == before.replace("idle", "mixed")
        assert ordered(site) == "done: drain_node gpu01"
        # its job goes on, and no other one starts
        assert node_of(site) == f"draining|{REASON}"
        assert REASON in site.lab.run("sinfo", "-R", "-h", "-o", "%60E").stdout
        waiting = str(site.lab.sbatch("--gres=gpu:1", "-J", "waits", script="true"))
        assert ordered(site) == "done: drain_node gpu01, which is drained already"
        assert (site.lab.states()[running], site.lab.states()[waiting]) == ("RUNNING", "PENDING")

    site.lab.run("scancel", running, waiting)
    site.lab.run("scontrol", "update", "NodeName=gpu01", "State=RESUME")
    site.lab.wait_for(lambda: node_of(site).startswith("idle"), "node that takes jobs")
