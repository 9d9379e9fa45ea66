"""What is said of an incident that stopped and is not over yet: both ways in which it goes on, and
when. Pure.
"""

from collections.abc import Callable

from fleetwatch.alerts.episodes import Episode

STOPPED = "It stopped"  # what that begins with

Clock = Callable[[int], str]  # a moment as people read it


def stopped(
    episode: Episode,
    *,
    being: str,
    clear_ms: int,
    again_ms: int | None,
    now_ms: int,
    clock: Clock,
) -> str:
    """`being`: what it was ("": no word for it); `clear_ms`: for how long it is clear before it is
    over; `again_ms`: when it is so again if nothing changes (None: not known).
    """
    what = f"{STOPPED}{being and f' being {being}'} at {clock(episode.until_ms)}"
    then = f"if that lasts, and fires on if it {f'is {being}' if being else 'begins'} again."
    clear_from_ms = episode.clear_from_ms
    if clear_from_ms is not None and clear_from_ms + clear_ms > now_ms:
        return f"{what}; it resolves at {clock(clear_from_ms + clear_ms)} {then}"
    if again_ms is None or again_ms <= now_ms:
        return f"{what}; it resolves {then}"
    over_ms = episode.until_ms + clear_ms
    earliest = clock(over_ms) if over_ms > now_ms else ""
    return f"{what} and is quiet since: {_again(being, clock(again_ms), earliest)}."


def _again(being: str, at: str, earliest: str) -> str:
    soonest = earliest and f", at {earliest} at the earliest"
    return f"{being or 'so'} again if still quiet at {at}, over if it works before{soonest}"
