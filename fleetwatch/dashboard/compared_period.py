"""Whether a page's figures stand beside those of the period before, as its address says."""

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


def recorded_before(period: Period) -> Interval | None:
    """The same; None where not all of it is recorded, or nothing of the period is over."""
    earlier = before(period)
    began = ledger_began()
    is_recorded = began is not None and began <= earlier.start < earlier.end
    return earlier if is_recorded else None


def compared_with(request: HttpRequest) -> dict[str, object]:
    """What the range picker shows of it; another choice is said on the page."""
    return {
        "comparison": chosen(request, COMPARE, COMPARISONS, default=PREVIOUS),
        "comparisons": COMPARISONS.items(),
    }
