"""A job's pauses: each time in which all of its GPUs were idle without a break, as the ledger has
it, so that they sum to what pages show of the same runs.
"""

from collections.abc import Sequence

from fleetwatch.diagnosis.cause import Pauses
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Run
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.lib.intervals import DAY_MS
from fleetwatch.lib.spans import Span, difference

LOOK_BACK_MS = 30 * DAY_MS
WORK = {"active", "spinning"}  # conditions
WORKED = {"useful", "underused"}  # states: a quiet run has some of a moment's work


def pauses_of(job: Job, *, seen_ms: int) -> Pauses:
    """Of the month before it was seen idle last, and of all that it did since."""
    parts = list(Run.objects.filter(Run.ended_after(seen_ms - LOOK_BACK_MS), job=job))
    idle = [part for part in parts if part.state_ms.get("idle")]
    others = [part for part in parts if not part.state_ms.get("idle")]
    idle_gpu_ms = sum(part.state_ms["idle"] for part in idle)
    worked_ms = [part.end_ms for part in parts if _has_worked(part)]
    _, policy = current_policy()
    return Pauses(
        tuple(difference(_spans(idle), _spans(others))),
        policy.idle_ms(job.kind) / 1000,
        idle_gpu_ms=idle_gpu_ms,
        counted=_share(idle_gpu_ms, idle),
        are_all=bool(idle) and not others,
        worked_ms=max(worked_ms, default=None),
        has_moments=any(map(_has_worked, idle)),
    )


def _share(gpu_ms: int, parts: Sequence[Run]) -> float:
    """Of the parts' time by the clock; 1 where there are none."""
    clock_ms = sum(part.end_ms - part.start_ms for part in parts)
    return gpu_ms / clock_ms if clock_ms else 1.0


def _has_worked(part: Run) -> bool:
    return part.condition in WORK or not WORKED.isdisjoint(part.state_ms)


def _spans(parts: Sequence[Run]) -> list[Span]:
    return [(part.start_ms, part.end_ms) for part in parts]
