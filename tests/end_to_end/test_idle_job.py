"""A job idles; its owner is warned twice, over ten minutes; then the agent on its node is asked by
the answer to its batch, over HTTP, and ends it by `scancel`. What it says of it comes with its next
batch, and stands on the incident.

The hub's own stages (posting, rules, actions) run once a minute, as their tasks would. The clocks
of hub and agent are one, which the test moves: half an hour is told in batches of half a minute.
"""

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from agent.actions.order_taking import Refuser
from agent.actions.runner import Runner
from agent.readings import Allocation, Job, Reading, SourceStatus, Workload
from agent.sending.sender import Sender
from fleetwatch.accounts.models import AuditEntry
from fleetwatch.actions.taking_steps import advance
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import timeline
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.ingest.node_orders import open_orders
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger import services as ledger
from fleetwatch.lib.intervals import to_ms
from tests.actions.factories import a_policy, deliver
from tests.agent.daemon import Daemon
from tests.agent.factories import START, gpu
from tests.alerts import people
from tests.alerts.factories import a_rule
from tests.costs.factories import LONG_AGO, set_rate

BEGIN = datetime.fromtimestamp(START / 1000, UTC)
GRACE = 10  # minutes: of the rule, and so of the order
WAIT = 5  # minutes after each warning
NODE = "gpu-07"
KEY = "slurm/della/4711"
JOB = Job(
    KEY,
    scheduler="slurm",
    cluster="della",
    id="4711",
    user="ana",
    account="nlp",
    labels={"nodes": "1"},
)

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.usefixtures("plain_static_files"),
]


class IdleJob:
    """Slurm's word: one job holds both GPUs since the beginning."""

    def resolve(self, processes, *, gpus, start_ms, end_ms):
        held = [Allocation(gpu.uuid, KEY, "slurm", START) for gpu in gpus]
        return Workload([JOB], held, [], [SourceStatus("slurm", ok=True, seen_ms=end_ms)])


@pytest.fixture
def clock():
    with time_machine.travel(BEGIN, tick=False) as traveller:
        yield traveller


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A scancel that writes down what it was asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    asked = tmp_path / "asked"
    script = folder / "scancel"
    script.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: asked.read_text().splitlines() if asked.exists() else []


@pytest.fixture
def fleet(live_server, clock, tmp_path):
    """The hub as it is when the job begins: a rule, a policy that may act, the job's owner."""
    rule = a_rule(minutes=GRACE, created_at=BEGIN, evaluated_ms=START)
    over = BEGIN - timedelta(days=1)
    a_policy(rule, first_wait_minutes=WAIT, second_wait_minutes=WAIT, dry_run_until=over)
    people.app()
    people.team("nlp", people.person())
    model = GPUModel.objects.create(name="H100 SXM")
    set_rate(model, Decimal(2), valid_from=LONG_AGO, now=BEGIN)
    return Fleet(live_server.url, tmp_path, clock)


class Fleet:
    """One node with its agent, and a hub."""

    def __init__(self, url, folder, clock):
        self.url, self.folder, self.clock = url, folder, clock
        self.token = create_agent_token(NODE, BEGIN)
        self.did = []  # what actions did, by minute

    def agent(self, *allowed) -> Daemon:
        """Two GPUs that do nothing, held by the job; sends over HTTP."""
        runner = self._runner(allowed) if allowed else Refuser(self._now_ms)
        sender = Sender(self.url, self.token)
        daemon = Daemon(self.folder / "spool", send=sender.send, runner=runner)
        daemon.workloads = IdleJob()
        daemon.source.infos = [gpu("GPU-1"), gpu("GPU-2", index=1)]
        daemon.source.read = lambda uuid, now_ms: Reading(at_ms=now_ms, util=0.0, power_w=70.0)
        return daemon

    def live(self, daemon: Daemon, minutes: int) -> None:
        """Minute by minute: two batches, then what the hub makes of them."""
        for _ in range(minutes):
            for _ in range(2):
                daemon.go(30)
                self.clock.move_to(datetime.fromtimestamp(daemon.times.wall, UTC), tick=False)
                open_orders.forget()  # else it looks each 5 s of a clock that nobody moves
                while daemon.spool.waiting:
                    daemon.pump.step()
            now = datetime.now(UTC)
            ledger.post(now, 10_000)
            announcing.run(now)
            self.did.append({name: count for name, count in advance(now).items() if count})
            deliver(now)

    def steps(self) -> dict[int, str]:
        """By minute what actions did."""
        return {minute: str(*did) for minute, did in enumerate(self.did, 1) if did}

    def said(self) -> list[str]:
        """The incident's history."""
        return [event.text for event in timeline(Incident.objects.get())]

    def _runner(self, allowed) -> Runner:
        return Runner(
            NODE,
            frozenset(allowed),
            self.folder,
            token=lambda: self.token,
            window_ms=10_000,
            now_ms=self._now_ms,
        )

    def _now_ms(self) -> int:
        return to_ms(datetime.now(UTC))


def test_an_idle_job_is_ended_once_by_its_nodes_agent_and_its_answer_is_kept(fleet, slurm):
    daemon = fleet.agent("stop_job")

    fleet.live(daemon, 30)

    # warned at 16 and 21: ten minutes of idling, and five in which the job may be starting
    assert fleet.steps() == {16: "warned", 21: "warned_again", 26: "acted", 27: "done"}
    assert slurm() == ["-- 4711"]
    order = NodeOrder.objects.get()
    assert (order.node.name, order.job, order.grace_ms) == (NODE, "4711", GRACE * 60_000)
    assert fleet.said()[-4:] == [
        "Ana Diaz is warned",
        "Ana Diaz is warned again",
        "gpu-07 is asked: to end the job",
        "Done: stop_job 4711",
    ]
    result = AuditEntry.objects.get(action="action.result")
    assert (result.subject, result.detail["state"]) == (KEY, "done")


def test_a_job_that_works_again_while_the_order_is_on_its_way_is_not_ended(fleet, slurm):
    daemon = fleet.agent("stop_job")
    fleet.live(daemon, 26)
    assert NodeOrder.objects.count() == 1

    daemon.source.read = lambda uuid, now_ms: Reading(at_ms=now_ms, util=0.9, power_w=500.0)
    fleet.live(daemon, 2)

    assert slurm() == []
    assert fleet.said()[-1] == (
        "Refused: a GPU of the job did something, or was not read, within the grace"
    )


def test_an_agent_whose_operator_allowed_nothing_does_nothing_and_says_so(fleet, slurm):
    daemon = fleet.agent()

    fleet.live(daemon, 28)

    assert slurm() == []
    assert fleet.steps() == {16: "warned", 21: "warned_again", 26: "acted", 27: "refused"}
    assert fleet.said()[-1] == "Refused: this host's operator allows no orders (--allow-actions)"
    assert AuditEntry.objects.get(action="action.result").detail["state"] == "refused"
