"""The period a page or an API call asks for: `?from=now-7d&to=now`, shareable and readable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.lib.refusal import RefusedFieldError

# name -> (from, to, label); the order is the order of the chips
PRESETS: dict[str, tuple[str, str, str]] = {
    "1h": ("now-1h", "now", "Last hour"),
    "6h": ("now-6h", "now", "Last 6 hours"),
    "24h": ("now-24h", "now", "Last 24 hours"),
    "7d": ("now-7d", "now", "Last 7 days"),
    "30d": ("now-30d", "now", "Last 30 days"),
    "MTD": ("now/M", "now", "Month to date"),
    "last-month": ("now-1M/M", "now/M", "Last month"),
}
NAMES = ("from", "to", "range")  # of the parameters
ZONE = "tz"  # of pages: in which zone times are shown
MAX_POINTS = 400  # a chart shows no more; a finer step would be drawn into the same pixels
MAX_DAYS = 1100  # three years and a bit: a longer request is a typing error
# GPUs did not report before, and calendars end: time zones can't be applied to their last days
EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
SERIES_STEPS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_RELATIVE = re.compile(r"^now(?:([+-])(\d{1,6})([smhdwM]))?(?:/([hdM]))?$")
_MILLISECONDS = re.compile(r"^\d{12,14}$")


class TimeframeError(RefusedFieldError):
    """A period that can't be read; `field` names the parameter."""


@dataclass(frozen=True, slots=True)
class Timeframe:
    """A period as asked for.

    `preset` is "" for a free one; `start` and `end` are the parameters that made it.
    """

    interval: Interval
    label: str
    preset: str
    step: str  # "hour" or "day": the finest of the two with at most 400 points
    step_s: int  # for series: the finest round step with at most 400 points
    start: str
    end: str
    tz: str = ""  # the zone that the address names; "" for none

    @property
    def query(self) -> str:
        """The period as URL parameters, without a leading question mark."""
        ends = {"from": self.start, "to": self.end}
        return urlencode(ends | {"tz": self.tz} if self.tz else ends)

    @property
    def relative(self) -> tuple[str, str]:
        """The ends as they move with the clock; "" for one that is a moment."""
        start, end = (text if text.startswith("now") else "" for text in (self.start, self.end))
        return (start, end)

    @property
    def pinned(self) -> tuple[str, str]:
        """The ends as moments: what moves with the clock stands where it is, to the second."""
        return (
            _pinned(self.start, self.interval.start),
            _pinned(self.end, self.interval.end),
        )


def parse(
    params: Mapping[str, str],
    *,
    now: datetime,
    zone: ZoneInfo,
    clock: ZoneInfo | None = None,
    default: str = "7d",
) -> Timeframe:
    """The period that `from` and `to` (or `range`, a preset's name) ask for.

    Each end is `now`, `now-7d` (s m h d w M), `now/M` (the start of this month; h and d
    too), ISO 8601 or milliseconds since the epoch. Days and months are those of `zone`. A missing
    `from` means the default's length, a missing `to` now. `clock` is the zone that the reader's
    times are in: of ISO that names none, and of the label; without it such ISO is UTC, and the
    label is of `zone`.

    Raises TimeframeError.
    """
    start_text, end_text = _ends(params, default)
    reads = partial(_moment, now=now, zone=zone, clock=clock or UTC)
    start = reads(start_text, "from")
    end = reads(end_text, "to")
    if start >= end:
        raise TimeframeError(
            f"The period starts at {start_text} and ends at {end_text}: the start has to be"
            " earlier.",
            field="from",
        )
    _check_length(start, end)
    interval = Interval(start, end)
    preset = _preset(start_text, end_text)
    return Timeframe(
        interval=interval,
        label=PRESETS[preset][2] if preset else in_words(start, end, clock or zone),
        preset=preset,
        step="hour" if interval.outward_to_hours().duration_ms <= MAX_POINTS * 3_600_000 else "day",
        step_s=_step_s(interval),
        start=start_text,
        end=end_text,
        tz=params.get(ZONE, ""),
    )


def _step_s(interval: Interval) -> int:
    """The finest round step with at most MAX_POINTS points."""
    fits = (step for step in SERIES_STEPS_S if interval.duration_ms <= step * 1000 * MAX_POINTS)
    return next(fits, SERIES_STEPS_S[-1])


def _pinned(text: str, moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if text.startswith("now") else text


def _check_length(start: datetime, end: datetime) -> None:
    if end - start > timedelta(days=MAX_DAYS):
        raise TimeframeError(
            f"The period is {(end - start).days} days long; at most {MAX_DAYS} days can be shown at"
            " once.",
            field="from",
        )
    if start < EARLIEST or end > LATEST:
        raise TimeframeError(f"A period lies between {EARLIEST:%Y} and {LATEST:%Y}.", field="from")


def _preset(start_text: str, end_text: str) -> str:
    """The name of the preset with these ends; "" where there is none."""
    ends = (start_text, end_text)
    return next((name for name, (*both, _) in PRESETS.items() if tuple(both) == ends), "")


def _ends(params: Mapping[str, str], default: str) -> tuple[str, str]:
    """The two texts to read, from `range`, `from` and `to`, or the default preset."""
    name = params.get("range", "").strip()
    if name and name not in PRESETS:
        raise TimeframeError(
            f"There is no range {name!r}; there are {', '.join(PRESETS)}.", field="range"
        )
    if name and (params.get("from") or params.get("to")):
        raise TimeframeError(
            "`range` is a whole period: leave out `from` and `to`, or it.", field="range"
        )
    first, last, _ = PRESETS[name or default]
    # an unescaped + arrives as a space: 2026-11-01T00:00+01:00
    start = params.get("from", "").strip().replace(" ", "+")
    end = params.get("to", "").strip().replace(" ", "+")
    if not start and end and not name:
        raise TimeframeError("`to` needs a `from`.", field="from")
    return (start or first, end or ("now" if start else last))


def _moment(text: str, field: str, *, now: datetime, zone: ZoneInfo, clock: tzinfo) -> datetime:
    relative = _RELATIVE.match(text)
    try:
        if relative:
            return _relative(relative, now=now, zone=zone)
        if _MILLISECONDS.match(text):
            return from_ms(int(text))
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=clock)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise TimeframeError(
            f"{field}: can't read {text!r}. Use now-7d, 2026-11-01T00:00Z or milliseconds since the"
            " epoch.",
            field=field,
        ) from None


def _relative(parts: re.Match[str], *, now: datetime, zone: ZoneInfo) -> datetime:
    sign, amount, unit, floor = parts.groups()
    moment = now.astimezone(UTC)
    steps = int(f"{sign}{amount}") if unit else 0
    if unit == "M":
        moment = _add_months(moment.astimezone(zone), steps).astimezone(UTC)
    elif unit:
        moment += timedelta(seconds=_UNIT_S[unit] * steps)
    return _floor(moment.astimezone(zone), floor).astimezone(UTC) if floor else moment


def _add_months(moment: datetime, months: int) -> datetime:
    """The same wall clock `months` later; the 31st becomes a shorter month's last day."""
    years, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    for day in range(moment.day, 27, -1):
        try:
            return moment.replace(year=years, month=month + 1, day=day)
        except ValueError:
            continue
    return moment.replace(year=years, month=month + 1)


def _floor(moment: datetime, unit: str) -> datetime:
    """The start of the hour, day or month on `moment`'s own clock."""
    if unit == "h":
        # on the UTC clock: on the wall clock an hour can start twice
        return moment - timedelta(
            minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond
        )
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return day.replace(day=1) if unit == "M" else day


def in_words(start: datetime, end: datetime, zone: ZoneInfo) -> str:
    """What lies between, for people: whole days of the zone by the first and the last of them
    ("1–26 Nov 2026"), else moments: "25 Nov 2026, 09:10 – 12:00".
    """
    first = start.astimezone(zone)
    after = end.astimezone(zone)
    if first.time() == after.time() == datetime.min.time():
        return _days_in_words(first, after - timedelta(days=1))
    if first.date() == after.date():
        return f"{first:%-d %b %Y, %H:%M} – {after:%H:%M}"
    return f"{first:%-d %b{_year_of(first, after)}, %H:%M} – {after:%-d %b %Y, %H:%M}"


def _days_in_words(first: datetime, last: datetime) -> str:
    if first.date() == last.date():
        return f"{last:%-d %b %Y}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first:%-d}–{last:%-d %b %Y}"
    return f"{first:%-d %b{_year_of(first, last)}} – {last:%-d %b %Y}"


def _year_of(first: datetime, last: datetime) -> str:
    """Of the first moment, as strftime has it, where the last one is of another year."""
    return "" if first.year == last.year else " %Y"
