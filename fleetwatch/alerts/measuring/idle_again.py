"""When jobs whose GPUs rest again, not idle yet, are idle again if they go on resting."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.episodes import Again
from fleetwatch.alerts.measuring.job_lanes import Part, Parts
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.ledger.selectors import current_policy

QUIET = CONDITIONS.index("quiet")
UNSEEN = CONDITIONS.index("unobserved")


class Rest(NamedTuple):
    """Of a GPU that rests since when, and from when on that is counted (after a gap in its data
    anew). None in place of it: it works. `is_idle`: already; `is_gap`: it was before, and nobody
    saw it work since.
    """

    since_ms: int
    counted_ms: int
    is_idle: bool
    is_gap: bool


def idle_again(parts: Parts, watch: Watch, needed: int | None) -> dict[str, Again]:
    """By job that fires when so many of its GPUs are idle (None: all). Not there: what works, and
    what is idle.
    """
    resting = _resting(parts) if watch.firing else {}
    if not resting:
        return {}
    policy = current_policy()[1]
    again: dict[str, Again] = {}
    jobs = Job.objects.filter(pk__in=resting, key__in=watch.firing)
    for job_id, key, kind in jobs.values_list("pk", "key", "kind"):
        last = _last(resting[job_id], policy.idle_ms(kind), needed)
        if last is not None:
            again[key] = last
    return again


def _last(rests: Sequence[Rest | None], idle_ms: int, needed: int | None) -> Again | None:
    """The GPU with which so many of them are idle again; None where too many work, or so many are
    idle already.
    """
    count = min(needed or len(rests), len(rests))
    there = [rest for rest in rests if rest is not None]
    every = sorted(_again(rest, idle_ms) for rest in there)
    if count > len(every) or every[count - 1].at_ms == 0:
        return None
    return every[count - 1]._replace(is_gap=all(rest.is_gap for rest in there))


def _again(rest: Rest, idle_ms: int) -> Again:
    """Of one that is idle nothing is waited for."""
    at_ms = 0 if rest.is_idle else rest.counted_ms + idle_ms
    return Again(at_ms, rest.since_ms, rest.counted_ms)


def _resting(parts: Parts) -> dict[int, list[Rest | None]]:
    """By job of which a GPU rests and is not idle yet, of each GPU since when."""
    rests: dict[int, list[Rest | None]] = defaultdict(list)
    for job_id, lane in lanes(parts):
        rests[job_id].append(_rest(lane))
    return {
        job_id: every
        for job_id, every in rests.items()
        if any(each is not None and not each.is_idle for each in every)
    }


def lanes(parts: Parts) -> Iterator[tuple[int, list[Part]]]:
    """Of each GPU its job and what it did there, in order of time."""
    for (job_id, _), lane in groupby(parts.in_order(), key=attrgetter("job_id", "gpu_id")):
        yield job_id, list(lane)


def _rest(lane: Sequence[Part]) -> Rest | None:
    """Since when the GPU rests; None of one that works, or is not seen."""
    last = lane[-1]
    if last.condition != QUIET:
        return None
    since_ms = counted_ms = last.start_ms
    is_whole = True
    is_gap = bool(last.is_idle)
    for part in reversed(lane[:-1]):
        if last.is_idle or not (_rests(part) or part.condition == UNSEEN):
            is_gap = is_gap or part.condition == QUIET
            break
        is_whole = is_whole and _rests(part) and part.end_ms == since_ms
        if _rests(part):
            since_ms = part.start_ms
            counted_ms = since_ms if is_whole else counted_ms
    return Rest(since_ms, counted_ms, bool(last.is_idle), is_gap)


def _rests(part: Part) -> bool:
    return part.condition == QUIET and not part.is_idle
