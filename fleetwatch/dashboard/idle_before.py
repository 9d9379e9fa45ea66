"""Whether what idles was idle before a hole in its data, too. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from fleetwatch.ledger.selectors import RunSpan
from fleetwatch.lib.intervals import HOUR_MS

LOOKS_BACK_MS = 6 * HOUR_MS  # before the newest idle run began


@dataclass(frozen=True, slots=True)
class IdleBefore:
    """Since when a GPU was idle under the same job, but for the time without data in between."""

    since_ms: int
    unseen_ms: int


def idle_before(run: RunSpan, earlier: Iterable[RunSpan]) -> IdleBefore | None:
    """Of an idle run, by the runs before it; None where data says what was before it, or nothing
    does. What another job did on a shared GPU says nothing of this one.
    """
    seen = [each for each in earlier if _tells_of(run, each)]
    newest_first = sorted([run, *seen], key=lambda each: each.end_ms, reverse=True)
    since_ms = run.start_ms
    unseen_ms = 0
    for later, before in pairwise(newest_first):
        hole_ms = later.start_ms - before.end_ms
        if not _is_idle(before, run) or hole_ms <= 0:
            break
        since_ms = before.start_ms
        unseen_ms += hole_ms
    return IdleBefore(since_ms, unseen_ms) if unseen_ms else None


def _tells_of(run: RunSpan, each: RunSpan) -> bool:
    is_same = each.gpu_id == run.gpu_id and each.job_id in (run.job_id, None)
    return is_same and each.end_ms <= run.start_ms and each.condition != "unobserved"


def _is_idle(before: RunSpan, run: RunSpan) -> bool:
    return before.job_id == run.job_id and bool(before.state_ms.get("idle"))
