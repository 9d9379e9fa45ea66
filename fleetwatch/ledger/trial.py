"""What another policy would have said: two judgements of the same telemetry side by side.

Nothing is stored.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.models import Node
from fleetwatch.ledger import judgement_inputs
from fleetwatch.ledger.hour_cuts import passes
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour, floor_hour, ms_in
from fleetwatch.lib.spans import Span, clip, length_ms
from fleetwatch.telemetry import retention

HOURS_PER_PASS = 24  # bounds memory: 8 GPUs are 69,000 windows
# (GPU, start of the cut in ms, job, state, tier)
Key = tuple[int, int, int | None, str, str]


class TrialError(ValueError):
    """A comparison that can't be made; the text is a sentence for who asked."""


@dataclass(frozen=True, slots=True)
class Said:
    """Milliseconds of one GPU and cut in one state: by the policy that is, and by the one that is
    tried.
    """

    gpu_id: int
    start_ms: int
    job_id: int | None
    state: str
    tier: str
    is_ms: int
    would_ms: int


def bounds(interval: Interval, *, now: datetime) -> Interval:
    """The whole hours of the interval whose columns are kept.

    Raises TrialError when there are none.
    """
    start = max(floor_hour(interval.start), retention.horizon(now))
    end = min(ceil_hour(interval.end), ceil_hour(now))
    if start >= end:
        raise TrialError(
            "no telemetry is kept of that time: columns begin at"
            f" {retention.horizon(now):%Y-%m-%d %H:%M} UTC"
        )
    return Interval(start, end)


def check_reach(tried: Policy) -> None:
    """Raises TrialError for a policy that judges by more of the past than is kept beside an
    hour.
    """
    if tried.reach_ms > ms_in(retention.CONTEXT):
        raise TrialError("that policy judges by more of the past than is kept beside an hour")


def gpu_hours(interval: Interval) -> float:
    """GPU-hours of capacity that a comparison would judge (twice)."""
    total_ms = sum(
        length_ms(clip([(gpu.start_ms, gpu.end_ms)], interval.start_ms, interval.end_ms))
        for gpu in judgement_inputs.all_capacities()
        if gpu.parent_id is None
    )
    return total_ms / HOUR_MS


def compare(now_in_force: Policy, tried: Policy, interval: Interval) -> Iterator[list[Said]]:
    """Node by node and day by day, what both policies say of whole hours; the sums of a GPU and cut
    are equal.
    """
    for node in Node.objects.order_by("pk"):
        yield from compare_node(node, now_in_force, tried, interval)


def compare_node(
    node: Node, now_in_force: Policy, tried: Policy, interval: Interval
) -> Iterator[list[Said]]:
    """The same of one node."""
    sides = [
        (policy, judgement_inputs.node_facts(node, policy, zone()))
        for policy in (now_in_force, tried)
    ]
    if not sides[0][1].capacities:
        return
    for span in passes(interval.start_ms, interval.end_ms, hours=HOURS_PER_PASS):
        now, tried_ms = (_summed(facts, span, policy) for policy, facts in sides)
        yield [
            Said(*key, now[key], tried_ms[key])
            for key in sorted(now.keys() | tried_ms.keys(), key=repr)
        ]


def _summed(facts: judgement_inputs.NodeFacts, span: Span, policy: Policy) -> Counter[Key]:
    sums: Counter[Key] = Counter()
    for entry in judgement_inputs.judge(facts, *span, policy).entries:
        key = (entry.gpu_id, entry.cut_ms, entry.job_id, entry.state, entry.tier)
        sums[key] += entry.gpu_ms
    return sums
