"""Whether a page's figures stand beside those of the period before, as its address says."""

from django.http import HttpRequest

from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.period import Period
from fleetwatch.figures.posted import posted_until
from fleetwatch.lib.intervals import Interval

COMPARE = "cmp"
PREVIOUS = "prev"
NONE = "none"
COMPARISONS = {PREVIOUS: "Period before", NONE: "Nothing"}


def compares(request: HttpRequest) -> bool:
    """Whether it wants figures beside those of the period before."""
    return request.GET.get(COMPARE) != NONE


def period_before(request: HttpRequest, period: Period) -> Interval | None:
    """As long as what is over of the period and in the ledger, right before it; None where it wants
    none.
    """
    if not compares(request):
        return None
    over = period.so_far
    until = min(over.end, posted_until(period.now).on_average)
    length = (until if until > over.start else over.end) - over.start
    return Interval(over.start - length, over.start)


def compared_with(request: HttpRequest) -> dict[str, object]:
    """What the range picker shows of it; another choice is said on the page."""
    return {
        "comparison": chosen(request, COMPARE, COMPARISONS, default=PREVIOUS),
        "comparisons": COMPARISONS.items(),
    }
