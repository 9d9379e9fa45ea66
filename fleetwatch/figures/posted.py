"""Until when the ledger has the fleet's time: periods that reach to now are compared as far as
that.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from fleetwatch.figures.fleet_now import CURRENT_RUN_MS
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.lib.sql import execute, read_statement

HOUR = timedelta(hours=1)

_POSTED_UNTIL = read_statement("figures/sql/posted_until.sql")


class PostedUntil(NamedTuple):
    """Until when every node is posted, and until when nodes are on average: they are posted one
    after the other.
    """

    every_node: datetime
    on_average: datetime


def summed_until(interval: Interval, now: datetime) -> datetime | None:
    """Until when every node is posted, where a sum of the interval is of no more than that; None
    where it is of all of it.
    """
    if interval.end_ms <= to_ms(now) - CURRENT_RUN_MS:
        return None
    until = posted_until(now).every_node
    return until if interval.start < until < interval.end else None


def posted_hour(now: datetime) -> Interval:
    """The last hour that every node has whole: what pages call "the last hour"."""
    until = posted_until(now).every_node
    return Interval(until - HOUR, until)


def posted_until(now: datetime) -> PostedUntil:
    """Now where no node was posted in the last ten minutes: nothing says that more is to come."""
    now_ms = to_ms(now)
    wanted = {"now_ms": now_ms, "since_ms": now_ms - CURRENT_RUN_MS}
    [(every_ms, mean_ms)] = execute(_POSTED_UNTIL, wanted)
    if every_ms is None:
        return PostedUntil(now, now)
    return PostedUntil(from_ms(every_ms), from_ms(mean_ms))
