"""Matchers and hours of the week as fields of a form, and back: rules and silences have both."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time

from fleetwatch.alerts import matchers
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.weekly_hours import WEEK, Hours
from fleetwatch.lib.refusal import RefusedFieldError

SPARE = 2  # empty rows below those that are filled in
NAMES = tuple(
    f"{part}-{number}"
    for number in range(matchers.MAX_MATCHERS + SPARE)
    for part in ("label", "is", "values")
)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
IS_NOT = "not"
# one value in quotation marks or without, up to its comma
_VALUE = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",\s][^,]*)|)\s*(?:,|$)')

Sent = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MatcherRow:
    """One matcher as text; `number` is the end of its fields' names."""

    number: int
    label: str = ""
    values: str = ""
    is_not: bool = False


def rows_of(scope: Sequence[Matcher]) -> list[MatcherRow]:
    """Each matcher's row, and empty ones for more."""
    filled = [
        MatcherRow(number, each.label, typed(each.values), each.is_not)
        for number, each in enumerate(scope)
    ]
    return _with_spare(filled)


def sent_rows(sent: Sent) -> list[MatcherRow]:
    """The rows as they were sent, without the empty ones between them."""
    filled = [row for row in _read_rows(sent) if row.label or row.values]
    return _with_spare(
        [MatcherRow(n, row.label, row.values, row.is_not) for n, row in enumerate(filled)]
    )


def is_scope_sent(sent: Sent) -> bool:
    """Whether the form had rows at all."""
    return "label-0" in sent


def read_scope(sent: Sent) -> tuple[Matcher, ...]:
    """The matchers of the rows; a comma stands between values, and one that is a part of a value
    in quotation marks. Raises RefusedFieldError.
    """
    scope = tuple(
        Matcher(row.label, _values(row), row.is_not)
        for row in _read_rows(sent)
        if row.label or row.values
    )
    matchers.checked(scope)
    return scope


def typed(values: Iterable[str]) -> str:
    """The values as people type them: with a comma between, in quotation marks where one has a
    comma or a quotation mark itself.
    """
    return ", ".join(_quoted(value) for value in values)


def _quoted(value: str) -> str:
    if not set(value) & set(',"'):
        return value
    doubled = value.replace('"', '""')
    return f'"{doubled}"'


def day_choices(hours: Hours | None) -> list[tuple[int, str, bool]]:
    """Each day of the week by number and name, and whether it is one of the hours'."""
    chosen = hours.days if hours else ()
    return [(day, DAYS[day], day in chosen) for day in WEEK]


def read_hours(sent: Sent, *, zone: str) -> Hours | None:
    """The hours of the week that the form names, in `zone` where it names none; None where it says
    nothing: always. Days alone are whole days, times alone every day's. Raises RefusedFieldError.
    """
    days = tuple(day for day in WEEK if sent.get(f"day-{day}") == "on")
    starts, ends = (_time(sent, name) for name in ("starts", "ends"))
    if not days and starts is None and ends is None:
        return None
    if (starts is None) != (ends is None):
        missing = "ends" if ends is None else "starts"
        raise RefusedFieldError("From when until when? One of the two is missing.", field=missing)
    whole = time(0)
    return Hours(starts or whole, ends or whole, sent.get("zone", "").strip() or zone, days or WEEK)


def _with_spare(filled: Iterable[MatcherRow]) -> list[MatcherRow]:
    rows = list(filled)
    return [*rows, *(MatcherRow(len(rows) + extra) for extra in range(SPARE))]


def _read_rows(sent: Sent) -> list[MatcherRow]:
    return [
        MatcherRow(
            number,
            sent.get(f"label-{number}", "").strip(),
            sent.get(f"values-{number}", "").strip(),
            sent.get(f"is-{number}") == IS_NOT,
        )
        for number in range(matchers.MAX_MATCHERS + SPARE)
    ]


def _values(row: MatcherRow) -> tuple[str, ...]:
    """Raises RefusedFieldError."""
    values = []
    place = 0
    while place < len(row.values):
        part = _VALUE.match(row.values, place)
        if part is None:
            raise RefusedFieldError(
                f"{row.label[:60]}: a quotation mark is not closed, or something stands behind it",
                field="matchers",
            )
        quoted, plain = part.groups()
        values.append((plain or "").strip() if quoted is None else quoted.replace('""', '"'))
        place = part.end()
    return tuple(value for value in values if value)


def _time(sent: Sent, name: str) -> time | None:
    """Raises RefusedFieldError."""
    value = sent.get(name, "").strip()
    if not value:
        return None
    try:
        moment = time.fromisoformat(value)
    except ValueError as error:
        raise RefusedFieldError("A time of day, please, like 22:00.", field=name) from error
    return moment.replace(second=0, microsecond=0, tzinfo=None)
