"""What every page with a period needs: the period from the address, the zones, now.

Days and months are cut in the organisation's zone, whoever looks: figures are of its days. `tz`
says in which zone times are shown, and from and to are read that name none.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.contrib import messages
from django.http import HttpRequest
from django.utils import timezone

from fleetwatch.accounts.selectors import zone
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import ZONE, Timeframe, TimeframeError

LONGEST_NAME = 60  # of a zone that there is not, as it is told back


@dataclass(frozen=True, slots=True)
class Period:
    """The period that a request asks for: `zone` is the organisation's, `clock` the one that times
    are shown in. One `of_a_thing` was not asked for: it is the time of what the page is about.
    """

    timeframe: Timeframe
    zone: ZoneInfo
    clock: ZoneInfo
    now: datetime
    of_a_thing: bool = False

    @property
    def interval(self) -> Interval:
        return self.timeframe.interval

    @property
    def minute(self) -> datetime:
        """The minute that has begun, where periods end that reach to now."""
        return floor_minute(self.now)

    @property
    def so_far(self) -> Interval:
        """The period as far as it is over; all of one that is still to come."""
        interval = self.interval
        return (
            Interval(interval.start, min(interval.end, self.now))
            if interval.start < self.now
            else interval
        )

    def local(self, moment: datetime) -> datetime:
        """The moment in the zone that times are shown in."""
        return moment.astimezone(self.clock)

    def within(self, interval: Interval | None) -> "Period":
        """What of the period lies in the interval; the period where that is all, or nothing."""
        if interval is None:
            return self
        start = max(self.interval.start, interval.start)
        end = min(self.interval.end, interval.end)
        if start >= end or Interval(start, end) == self.interval:
            return self
        params = _params_of(Interval(start, end)) | {ZONE: self.timeframe.tz}
        frame = timeframes.parse(params, now=self.now, zone=self.zone, clock=self.clock)
        return replace(self, timeframe=frame)

    def context(self, page: str, **more: Any) -> dict[str, Any]:
        """The template's context: `page` is the rail's entry."""
        return {
            "page": page,
            "timeframe": self.timeframe,
            "zone": self.clock,
            "days_zone": self.zone,
            "of_a_thing": self.of_a_thing,
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
    of_a_thing = whole is not None and not params.keys() & set(timeframes.NAMES)
    if whole is not None and of_a_thing:
        params |= _params_of(whole)
    clock = _clock(request, params, is_page=is_page) or organisation_zone
    try:
        frame = _frame(params, now, organisation_zone, clock, default)
    except TimeframeError as error:
        if not is_page:
            raise
        only_zone = {ZONE: params[ZONE]} if ZONE in params else {}
        frame = _frame(only_zone, now, organisation_zone, clock, default)
        messages.error(request, f"{error} Shown instead: {frame.label}.")
    return Period(frame, organisation_zone, clock, now, of_a_thing)


def _frame(
    params: dict[str, str], now: datetime, zone: ZoneInfo, clock: ZoneInfo, default: str
) -> Timeframe:
    """As of the minute that has begun, so that pages opened within it show the same figures; what
    began within it as of now. Raises TimeframeError.
    """
    read = partial(timeframes.parse, params, zone=zone, clock=clock, default=default)
    try:
        return read(now=floor_minute(now))
    except TimeframeError:
        return read(now=now)


def floor_minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _params_of(interval: Interval) -> dict[str, str]:
    return {"from": str(interval.start_ms), "to": str(interval.end_ms)}


def _clock(request: HttpRequest, params: dict[str, str], *, is_page: bool) -> ZoneInfo | None:
    """The zone that the parameters name, None where they name none; one that there is not is said
    on the page, and taken out of them.
    """
    name = params.get(ZONE, "").strip()
    if name in _zone_names():
        params[ZONE] = name
        return ZoneInfo(name)
    params.pop(ZONE, None)
    if name:
        sentence = f"There is no time zone {name[:LONGEST_NAME]!r}: names are like Europe/Berlin."
        if not is_page:
            raise TimeframeError(sentence, field=ZONE)
        messages.error(request, sentence)
    return None


@cache  # of the machine's files
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())
