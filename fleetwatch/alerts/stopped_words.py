"""What is said of an incident that stopped and is not over yet: both ways in which it goes on, and
when. Pure.
"""

from collections.abc import Callable

from fleetwatch.alerts.episodes import Again, Episode
from fleetwatch.notify.message import one_line

STOPPED = "It stopped"  # what that begins with
QUIET = "has been quiet since"  # what it says of what rests again
GAP = "No data from"  # what begins of what rests behind a gap in its data
OPENS_AGAIN = "; a new incident opens after"  # of what rests again: what an end promises
LONGEST_NOTE = 200  # Incident.note

Clock = Callable[[int], str]  # a moment as people read it


def stopped(
    episode: Episode,
    *,
    being: str,
    clear_ms: int,
    again: Again | None,
    now_ms: int,
    clock: Clock,
) -> str:
    """`being`: what it was ("": no word for it); `clear_ms`: for how long it is clear before it is
    over; `again`: when it is so again if nothing changes (None: not known).
    """
    what = f"{STOPPED}{being and f' being {being}'} at {clock(episode.until_ms)}"
    over_ms = (episode.clear_from_ms or 0) + clear_ms
    if over_ms <= now_ms and again is not None:
        over = "" if again.is_gap else _over(episode.until_ms + clear_ms, now_ms, clock)
        then = _again(being, again, over, now_ms, clock)
        return _resting(what, then, episode, again, clock)
    return f"{what}; it resolves{_at(over_ms, now_ms, clock)} {_then(being)}"


def _resting(what: str, then: str, episode: Episode, again: Again, clock: Clock) -> str:
    """Where moments of other days make it too long, it does not say from when on is counted."""
    whole = f"{_rests(what, episode, again, clock)}: {then}."
    if len(whole) > LONGEST_NOTE:
        short = again._replace(counted_ms=again.since_ms)
        whole = f"{_rests(what, episode, short, clock)}: {then}."
    return one_line(whole, LONGEST_NOTE)


def _again(being: str, again: Again, over: str, now_ms: int, clock: Clock) -> str:
    """When it is so again; by then its time may not be judged yet."""
    word = being or "so"
    if again.at_ms > now_ms:
        return f"{word} again if still quiet at {clock(again.at_ms)}{over}"
    return f"{word} again from {clock(again.at_ms)} on, once that time is judged"


def _then(being: str) -> str:
    return f"if that lasts, and fires on if it {f'is {being}' if being else 'begins'} again."


def _over(over_ms: int, now_ms: int, clock: Clock) -> str:
    at = _at(over_ms, now_ms, clock)
    return f", over if it works before{at and f',{at} at the earliest'}"


def _at(moment_ms: int, now_ms: int, clock: Clock) -> str:
    """When that is, after a space; "" where it is over."""
    return f" at {clock(moment_ms)}" if moment_ms > now_ms else ""


def _rests(what: str, episode: Episode, again: Again, clock: Clock) -> str:
    """That it stopped and rests; where nobody saw it otherwise, that data is missing."""
    if again.is_gap:
        return f"{GAP} {clock(episode.until_ms)} to {clock(again.since_ms)}, quiet since"
    return f"{what} and {_quiet(again, clock)}"


def _quiet(again: Again, clock: Clock) -> str:
    """Since when it rests, and from when on that is counted where data is missing before."""
    since = f"{QUIET} {clock(again.since_ms)}"
    if again.counted_ms == again.since_ms:
        return since
    return f"{since} (counted from {clock(again.counted_ms)} on, no data before)"
