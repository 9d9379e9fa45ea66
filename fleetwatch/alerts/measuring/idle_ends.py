"""What ended the idle time of jobs that fire, where they rest again or are over: when they worked,
and since when they do not.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.alerts.breach import Watch, lasted
from fleetwatch.alerts.episodes import End, Level, Span, extend
from fleetwatch.alerts.measuring.idle_again import lanes
from fleetwatch.alerts.measuring.job_lanes import ALLOCATION_ENDED, Part, Parts
from fleetwatch.alerts.stopped_words import OPENS_AGAIN, Clock
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.lib.intervals import MINUTE_MS, from_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

WORKS = tuple(CONDITIONS.index(name) for name in ("active", "spinning"))
ACTIVE_AGAIN = "its GPU is active again"  # of a job with one
LONGEST_REASON = 200  # Incident.resolution
MAX_TIMES = 2  # that are named one by one


def idle_ends(parts: Parts, watch: Watch, zone: ZoneInfo) -> dict[str, str]:
    """By job that fires what to say when it is over; not there where its GPUs work."""
    words = {
        key: _words(of, key, watch, _clock(watch, zone))
        for key, of in _firing_lanes(parts, watch).items()
    }
    return {key: text for key, text in words.items() if text}


def worked_before(
    ends: Mapping[str, End], parts: Parts, watch: Watch, zone: ZoneInfo
) -> dict[str, End]:
    """The ends of jobs; of one that fires and worked before its allocation ended with when it did:
    that ended its idle time.
    """
    clock = _clock(watch, zone)
    every = dict(ends)
    for key, of in _firing_lanes(parts, watch).items():
        times = _times(of, watch.firing[key].until_ms)
        end = ends.get(key)
        if times and end is not None and end.reason == ALLOCATION_ENDED:
            text = f"{_worked(times, clock)}; {ALLOCATION_ENDED} at {clock(end.at_ms)}"
            every[key] = End(end.at_ms, one_line(text, LONGEST_REASON))
    return every


def _firing_lanes(parts: Parts, watch: Watch) -> dict[str, list[list[Part]]]:
    """By job that fires what each of its GPUs did."""
    if not watch.firing:
        return {}
    keys = dict(Job.objects.filter(key__in=watch.firing).values_list("pk", "key"))
    of_job: dict[str, list[list[Part]]] = defaultdict(list)
    for job_id, lane in lanes(parts.where(np.isin(parts.job_id, list(keys)))):
        of_job[keys[job_id]].append(lane)
    return of_job


def _clock(watch: Watch, zone: ZoneInfo) -> Clock:
    now = from_ms(watch.end_ms)
    return lambda at_ms: wording.moment(from_ms(at_ms), zone, now=now)


def _words(of: Sequence[Sequence[Part]], key: str, watch: Watch, clock: Clock) -> str:
    """`of`: the job's GPUs."""
    if any(lane[-1].condition in WORKS for lane in of):
        return ACTIVE_AGAIN if len(of) == 1 else ""
    times = _times(of, watch.firing[key].until_ms)
    if not times:
        return ""
    since_ms = times[-1].end_ms
    quiet = f"and was quiet again from {clock(since_ms)}"
    return one_line(
        f"{_worked(times, clock)}, {quiet}{_again(of, since_ms, watch)}", LONGEST_REASON
    )


def _again(of: Sequence[Sequence[Part]], since_ms: int, watch: Watch) -> str:
    """What follows from that. What rests again may be one idle time with what was before, until it
    rests for so long that it is another one.
    """
    is_idle = any(lane[-1].is_idle for lane in of)
    if is_idle and watch.end_ms - since_ms >= watch.settings.minutes * MINUTE_MS:
        return "; idle again since, by which it was known to be over"
    return f"{OPENS_AGAIN} {lasted(watch.settings.minutes)} of that"


def _times(of: Sequence[Sequence[Part]], since_ms: int) -> list[Span]:
    """When any of the GPUs worked."""
    worked = [
        (part.start_ms, part.end_ms)
        for lane in of
        for part in lane
        if part.condition in WORKS and part.start_ms >= since_ms
    ]
    times: list[Span] = []
    for start_ms, end_ms in sorted(worked):
        begin_ms = max(start_ms, times[-1].end_ms) if times else start_ms
        if begin_ms < end_ms:
            extend(times, Span(begin_ms, end_ms, Level.CLEAR))
    return times


def _worked(times: Sequence[Span], clock: Clock) -> str:
    if len(times) > MAX_TIMES:
        whole = wording.brief(sum(each.duration_ms for each in times))
        return f"it worked {len(times)} times from {clock(times[0].start_ms)} on, {whole} in all"
    every = (f"at {clock(each.start_ms)} for {wording.brief(each.duration_ms)}" for each in times)
    return f"it worked {' and '.join(every)}"
