"""What `check_ledger` recomputes of diagnosis.

Causes are what the ledger calls wasted, no saving exceeds it, no capacity is won that was not
there, nothing is called well that wastes, sums are their causes'.
"""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from fleetwatch.diagnosis import sums
from fleetwatch.diagnosis.causes import OF_STATES, SAYS_NO_WASTE
from fleetwatch.diagnosis.judgement.verdicts import WASTEFUL
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, read_statement

RULES = {
    "causes": "causes sum to idle, stalled and underused",
    "saving": "no saving exceeds what was wasted",
    "well": f"what is called {', '.join(SAYS_NO_WASTE)} wastes at most {WASTEFUL:.0%}",
    "capacity": "no more capacity is won than was free, unavailable or orphaned",
}
_UNEXPLAINED = read_statement("diagnosis/sql/unexplained.sql")


def faults(interval: Interval) -> Iterator[str]:
    """A line for each hour or day that does not balance; hours that wait to be diagnosed are not
    looked at.
    """
    wanted: dict[str, Any] = {
        "start": interval.start,
        "end": interval.end,
        "well": list(SAYS_NO_WASTE),
        "whole": list(OF_STATES),
        "most": round(WASTEFUL * 100),
    }
    for name, hour, rule, off_ms in execute(_UNEXPLAINED, wanted):
        yield f"{RULES[rule]}: {name} at {hour.astimezone(UTC):%Y-%m-%d %H:%M} is {off_ms} ms off"
    for name, day, lines in sums.wrong_days(interval):
        yield f"sums of causes are those of their hours: {name} on {day} differs in {lines} lines"
