"""For how long a person could have answered: time without the quiet hours. Pure."""

from datetime import datetime, timedelta

from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.intervals import EPOCH

PIECE = timedelta(minutes=5)
INSTANT = timedelta(microseconds=1)
LONGEST = timedelta(days=7)  # longer ago is no more than that


def awake_for(quiet: Hours | None, since: datetime, now: datetime) -> timedelta:
    """How long it is since then, quiet hours (None: there are none) left out; never too much: of a
    piece at whose beginning or end they hold nothing counts.
    """
    if quiet is None:
        return max(now - since, timedelta())
    start = max(since, now - LONGEST)
    awake = timedelta()
    while start < now:
        end = min(_next_mark(start), now)
        if not quiet.hold(start) and not quiet.hold(end - INSTANT):
            awake += end - start
        start = end
    return awake


def _next_mark(moment: datetime) -> datetime:
    """The end of the piece of the clock that it lies in; quiet hours begin and end at such."""
    return moment + PIECE - (moment - EPOCH) % PIECE
