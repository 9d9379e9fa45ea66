"""When jobs were not idle between the times in which they were: pauses that were too short to end
that, in which they worked, and gaps of which there is no data.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import lasted
from fleetwatch.alerts.measuring.idle_again import UNSEEN, lanes
from fleetwatch.alerts.measuring.idle_ends import WORKS
from fleetwatch.alerts.measuring.idle_facts import IdleGPU
from fleetwatch.alerts.measuring.job_lanes import Lane, Part, parts_of
from fleetwatch.alerts.stopped_words import Clock
from fleetwatch.lib.intervals import DAY_MS, MINUTE_MS, from_ms
from fleetwatch.lib.spans import Span, clip, length_ms, union
from fleetwatch.notify import wording

MAX_NAMED = 2  # that are named one by one


class Pause(NamedTuple):
    """[start_ms, end_ms) in which some of the GPUs were not idle: for how much of it one of them
    worked, and of how much there is no data. What is left of it they rested.
    """

    start_ms: int
    end_ms: int
    worked_ms: int
    unseen_ms: int

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms

    @property
    def is_gap(self) -> bool:
        """Whether it is one for lack of data: nobody saw work in it."""
        return bool(self.unseen_ms) and not self.worked_ms


def paused_in_words(
    idle: Mapping[int, Sequence[IdleGPU]], job_ids: Mapping[int, int], clear_minutes: float
) -> dict[int, str]:
    """Of each episode (its place) whose GPUs were not idle all the time from when on they are, what
    they did in between.
    """
    paused = {place: gpus for place, gpus in idle.items() if _has_pauses(gpus)}
    lanes_of = _lanes_of(paused, job_ids) if paused else {}
    every = {place: pauses(lanes_of, job_ids[place], gpus) for place, gpus in paused.items()}
    return {
        place: pause_words(
            of_job,
            clear_minutes=clear_minutes,
            clock=_clock(max(gpu.until_ms for gpu in paused[place])),
        )
        for place, of_job in every.items()
        if of_job  # none where the ledger was written again meanwhile
    }


def _has_pauses(gpus: Iterable[IdleGPU]) -> bool:
    return any(gpu.idle_ms < gpu.until_ms - gpu.since_ms for gpu in gpus)


def _lanes_of(
    paused: Mapping[int, Sequence[IdleGPU]], job_ids: Mapping[int, int]
) -> dict[Lane, list[Part]]:
    """What the jobs' GPUs did meanwhile: those that idle since one day are read together, so that
    beside one that does so for weeks no other is read as far back.
    """
    since_ms = _since_ms(paused, job_ids)
    end_ms = max(gpu.until_ms for gpus in paused.values() for gpu in gpus)
    by_day: dict[int, list[int]] = defaultdict(list)
    for job_id, first_ms in since_ms.items():
        by_day[first_ms // DAY_MS].append(job_id)
    return {
        (job_id, lane[0].gpu_id): lane
        for jobs in by_day.values()
        for job_id, lane in lanes(
            parts_of(np.array(jobs), min(since_ms[each] for each in jobs), end_ms)
        )
    }


def _since_ms(
    paused: Mapping[int, Sequence[IdleGPU]], job_ids: Mapping[int, int]
) -> dict[int, int]:
    """Of each job since when the first of its GPUs idles, in the first of its episodes."""
    since_ms: dict[int, int] = {}
    for place, gpus in paused.items():
        first_ms = min(gpu.since_ms for gpu in gpus)
        since_ms[job_ids[place]] = min(first_ms, since_ms.get(job_ids[place], first_ms))
    return since_ms


def _clock(now_ms: int) -> Clock:
    """Moments as people read them then."""
    now = from_ms(now_ms)
    return lambda at_ms: wording.moment(from_ms(at_ms), zone(), now=now)


def pauses(
    lanes_of: Mapping[Lane, Sequence[Part]], job_id: int, gpus: Iterable[IdleGPU]
) -> list[Pause]:
    """Those of these GPUs of the job, in order of time; of GPUs that pause at once it is one."""
    several = [
        _within(lanes_of.get((job_id, gpu.gpu_id), ()), gpu.since_ms, gpu.until_ms) for gpu in gpus
    ]
    every = [part for lane in several for part in lane]
    worked = _spans(every, lambda part: part.condition in WORKS)
    seen = _spans(every, lambda part: part.condition != UNSEEN and not part.is_idle)
    between = union(span for lane in several for span in _between(lane))
    return [
        Pause(
            start,
            end,
            length_ms(clip(worked, start, end)),
            end - start - length_ms(clip(seen, start, end)),
        )
        for start, end in between
    ]


def _within(lane: Iterable[Part], start_ms: int, end_ms: int) -> list[Part]:
    """What of it lies between these moments."""
    cut = (
        part._replace(start_ms=max(part.start_ms, start_ms), end_ms=min(part.end_ms, end_ms))
        for part in lane
    )
    return [part for part in cut if part.start_ms < part.end_ms]


def _between(lane: Iterable[Part]) -> list[Span]:
    """What lies between the times in which the GPU was idle."""
    idle = _spans(lane, lambda part: bool(part.is_idle))
    return [(before[1], after[0]) for before, after in pairwise(idle)]


def _spans(parts: Iterable[Part], is_wanted: Callable[[Part], bool]) -> list[Span]:
    """The times of those that are wanted."""
    return union((part.start_ms, part.end_ms) for part in parts if is_wanted(part))


def pause_words(every: Sequence[Pause], *, clear_minutes: float, clock: Clock) -> str:
    """ "all but 5 m: paused for less than 15 minutes at 09:40 UTC (worked for 5 m)". A rule ends
    nothing that pauses for less than `clear_minutes`.
    """
    gaps = [each for each in every if each.is_gap]
    others = [each for each in every if not each.is_gap]
    what = [_paused(others, clear_minutes, clock)] if others else []
    what += [_unseen(gaps, clock)] if gaps else []
    return f"all but {wording.brief(_whole(every))}: {'; '.join(what)}"


def _paused(every: Sequence[Pause], clear_minutes: float, clock: Clock) -> str:
    longest_ms = max(each.duration_ms for each in every)
    is_short = longest_ms < clear_minutes * MINUTE_MS
    under = f" for less than {lasted(clear_minutes)}" if is_short else ""
    if len(every) <= MAX_NAMED:
        named = (f"at {clock(each.start_ms)} ({_did([each])})" for each in every)
        return f"paused{under} {' and '.join(named)}"
    when = f"from {clock(every[0].start_ms)} to {clock(every[-1].end_ms)}"
    each_of = f"{under} each" if under else ""
    return f"paused {len(every)} times{each_of}, {when} ({_did(every)})"


def _did(every: Sequence[Pause]) -> str:
    """ "worked for 2 m of 11 m, no data for 3 m"."""
    whole_ms = _whole(every)
    worked_ms = sum(each.worked_ms for each in every)
    unseen_ms = sum(each.unseen_ms for each in every)
    worked = f"worked for {_part(worked_ms, whole_ms)}" if worked_ms else ""
    unseen = f"no data for {wording.brief(unseen_ms)}" if unseen_ms else ""
    rested = "" if worked or unseen else f"rested for {wording.brief(whole_ms)}"
    return ", ".join(filter(None, (worked, unseen, rested)))


def _unseen(gaps: Sequence[Pause], clock: Clock) -> str:
    if len(gaps) <= MAX_NAMED:
        named = (
            f"at {clock(each.start_ms)} for {_part(each.unseen_ms, each.duration_ms)}"
            for each in gaps
        )
        return f"no data {' and '.join(named)}"
    unseen = _part(sum(each.unseen_ms for each in gaps), _whole(gaps))
    return f"no data {len(gaps)} times from {clock(gaps[0].start_ms)} on, {unseen} in all"


def _part(part_ms: int, whole_ms: int) -> str:
    """ "2 m of 11 m", and "5 m" of what is all of it."""
    part = wording.brief(part_ms)
    return part if part_ms == whole_ms else f"{part} of {wording.brief(whole_ms)}"


def _whole(every: Iterable[Pause]) -> int:
    return sum(each.duration_ms for each in every)
