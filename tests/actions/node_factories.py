"""A node whose GPU is broken from nine on, and who runs the fleet, who hears of it by a channel."""

from collections.abc import Callable

from fleetwatch.actions.models import Policy
from fleetwatch.actions.taking_steps import advance
from fleetwatch.alerts.messaging import announcing
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import SourceReport
from fleetwatch.ledger.models import Posted
from fleetwatch.notify.models import Channel
from fleetwatch.telemetry.models import HealthEvent
from tests.actions.factories import a_policy, deliver
from tests.alerts import people
from tests.alerts.factories import a_rule, at, ms
from tests.costs.factories import a_gpu, a_rate

NODE = "gpu-07"
Outage = tuple[float, float | None, str]  # from minute to minute (None: it goes on), and why


def a_drain_policy(rule=None, **fields) -> Policy:
    """On, past its week of dry run, of a rule that fires after two minutes."""
    rule = rule or a_rule(name="GPU fault", condition="gpu_fault", minutes=2)
    return a_policy(rule, **({"kind": "drain_node", "teams": [], "job_kinds": []} | fields))


def a_node(name: str = NODE, *, gpus: int = 4, usd: str = "2") -> list[GPU]:
    """The GPUs of a node of Slurm, at so many dollars an hour each."""
    rows = [a_gpu(node=name, index=index) for index in range(gpus)]
    a_rate(usd, node=name)
    SourceReport.objects.create(node=rows[0].node, kind="slurm", ok=True, asserted=[])
    return rows


def operators(name: str = "ops") -> Channel:
    """The channel that operators' route leads to."""
    channel = people.webhook(name)
    people.route("operators", channel)
    return channel


def broken(gpu: GPU, *outages: Outage) -> None:
    """By the outages that the ledger judged by."""
    rows = [
        [ms(start), None if end is None else ms(end), reason, False]
        for start, end, reason in outages or [(0, None, "xid_79")]
    ]
    Posted.objects.update_or_create(gpu=gpu, defaults={"spans": [], "outages": rows})


def hear(minute: float, **which) -> None:
    """The nodes are heard until then."""
    Node.objects.filter(**which).update(last_ms=ms(minute))


def drained(node: Node, minute: float, *, kind: str = "drained") -> None:
    HealthEvent.objects.create(node=node, at_ms=ms(minute), kind=kind, text="drain: by hand")


def goes_on(
    minute: float, *, is_heard: bool = True, deliver_by: Callable[..., None] = deliver
) -> dict[str, int]:
    """What actions did at that minute."""
    if is_heard:
        hear(minute)
    announcing.run(at(minute))
    did = advance(at(minute))
    deliver_by(at(minute))
    return {name: count for name, count in did.items() if count}


def walk(*minutes: float) -> list[dict[str, int]]:
    """What actions did at each of these minutes."""
    return [goes_on(minute) for minute in minutes]
