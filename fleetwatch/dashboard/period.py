"""What every page with a period needs: the period from the address, the organisation's
zone, now.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest
from django.utils import timezone

from fleetwatch.accounts.selectors import zone
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import Timeframe


@dataclass(frozen=True, slots=True)
class Period:
    """The period that a request asks for, in the organisation's zone."""

    timeframe: Timeframe
    zone: ZoneInfo
    now: datetime

    @property
    def interval(self) -> Interval:
        return self.timeframe.interval

    @property
    def so_far(self) -> Interval:
        """The period as far as it is over; all of one that is still to come."""
        interval = self.interval
        return (
            Interval(interval.start, min(interval.end, self.now))
            if interval.start < self.now
            else interval
        )

    @property
    def previous(self) -> Interval:
        """The period of the same length right before."""
        length = self.interval.end - self.interval.start
        return Interval(self.interval.start - length, self.interval.start)

    def local(self, moment: datetime) -> datetime:
        """The moment in the organisation's zone."""
        return moment.astimezone(self.zone)

    def context(self, page: str, **more: Any) -> dict[str, Any]:
        """The template's context: `page` is the rail's entry."""
        return {
            "page": page,
            "timeframe": self.timeframe,
            "zone": self.zone,
            "now": self.now,
            "presets": timeframes.PRESETS,
            **more,
        }


def read_period(
    request: HttpRequest,
    *,
    default: str = "7d",
    whole: Interval | None = None,
    is_page: bool = True,
) -> Period:
    """The request's period; one that can't be read is said on the page, and the default is shown.

    `whole`, where given, is what a request that names no period means instead of the default.
    What is no page can say nothing: it raises TimeframeError.
    """
    now = timezone.now()
    organisation_zone = zone()
    params = request.GET.dict()
    if whole is not None and not params.keys() & set(timeframes.NAMES):
        params = {"from": str(whole.start_ms), "to": str(whole.end_ms)}
    try:
        timeframe = timeframes.parse(params, now=now, zone=organisation_zone, default=default)
    except timeframes.TimeframeError as error:
        if not is_page:
            raise
        messages.error(request, str(error))
        timeframe = timeframes.parse({}, now=now, zone=organisation_zone, default=default)
    return Period(timeframe, organisation_zone, now)
