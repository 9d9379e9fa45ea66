"""Whether a page's figures stand beside those of the period before, as its address says."""

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest

from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.period import Period
from fleetwatch.figures.posted import posted_until
from fleetwatch.figures.selectors import ledger_began
from fleetwatch.lib.intervals import Interval

COMPARE = "cmp"
PREVIOUS = "prev"
NONE = "none"
COMPARISONS = {PREVIOUS: "Period before", NONE: "Nothing"}


def compares(request: HttpRequest) -> bool:
    """Whether it wants figures beside those of the period before."""
    return request.GET.get(COMPARE) != NONE


def period_before(request: HttpRequest, period: Period) -> Interval | None:
    """The one before; None where it wants none."""
    return before(period) if compares(request) else None


def before(period: Period) -> Interval:
    """As long as what is over of the period and in the ledger, right before it."""
    over = period.so_far
    until = min(over.end, posted_until(period.now).on_average)
    length = (until if until > over.start else over.end) - over.start
    return Interval(over.start - length, over.start)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What of a period before is recorded: `whole` is all of it, None where that is not; `since`
    when its record begins then, None where it has none.
    """

    whole: Interval | None
    since: datetime | None


def as_recorded(earlier: Interval) -> Recorded:
    """Of a period before: one that is recorded in part is compared with nothing."""
    began = ledger_began()
    if began is None or earlier.start >= earlier.end:
        return Recorded(None, None)
    if began <= earlier.start:
        return Recorded(earlier, None)
    return Recorded(None, began if began < earlier.end else None)


def recorded_before(period: Period) -> Interval | None:
    """The one before; None where not all of it is recorded, or nothing of the period is over."""
    return as_recorded(before(period)).whole


def compared_with(request: HttpRequest) -> dict[str, object]:
    """What the range picker shows of it; another choice is said on the page."""
    return {
        "comparison": chosen(request, COMPARE, COMPARISONS, default=PREVIOUS),
        "comparisons": COMPARISONS.items(),
    }
