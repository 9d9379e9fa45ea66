"""How long a job's pauses were: each time in which all of its GPUs were idle without a break."""

from fleetwatch.diagnosis.cause import Pauses
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Run
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.lib.intervals import DAY_MS
from fleetwatch.lib.spans import Span, difference

LOOK_BACK_MS = 30 * DAY_MS
AT_REST = {"idle", "unobserved"}  # what a run may bridge is of it


def pauses_of(job: Job, *, until_ms: int) -> Pauses:
    """Of the month before. An hour in which a GPU worked for a moment is no pause: a run of the
    ledger goes on over that, a kernel's rest does not.
    """
    of_job = Run.objects.filter(job=job)
    resting: list[Span] = []
    others: list[Span] = []
    for part in of_job.filter(Run.overlapping(until_ms - LOOK_BACK_MS, until_ms)):
        spans = resting if _is_rest(part) else others
        spans.append((part.start_ms, part.end_ms))
    rest = difference(resting, others)
    _, policy = current_policy()
    return Pauses(
        tuple((end_ms - start_ms) / 1000 for start_ms, end_ms in rest),
        policy.idle_interactive_s,
    )


def _is_rest(part: Run) -> bool:
    """Whether the GPU was idle in it and never worked."""
    return "idle" in part.state_ms and part.state_ms.keys() <= AT_REST
