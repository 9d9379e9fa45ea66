"""What of the waste of groups people agreed is none, within hours of many."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

import numpy as np

from fleetwatch.diagnosis import cause_columns, selectors
from fleetwatch.diagnosis.cause_columns import Lines
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.causes import UNFIT, title
from fleetwatch.diagnosis.findings.inbox import AGREED, agreed_by, as_they_stand
from fleetwatch.figures import engine, pricing
from fleetwatch.figures.group_names import lines_of
from fleetwatch.figures.packed_spans import Ints, numbered
from fleetwatch.figures.priced_columns import Columns, Keys
from fleetwatch.figures.totals import ZERO, Group, Totals, less
from fleetwatch.lib.intervals import HOUR_MS, Interval

FEW = 4  # intervals; of more one look at their hours costs less than a look at each
Part = tuple[str, Interval]  # a group's key, and whole hours
# by a group's key and the number of an hour: dollars x milliseconds
ByHour = Mapping[str, Mapping[int, Decimal]]


@dataclass(frozen=True, slots=True)
class TeamWaste:
    """Of a team the dollars of what its jobs wasted that people agreed is no waste, and the known
    cause that wasted most of the rest (None: no cause did).
    """

    agreed_usd: Decimal
    largest: Group | None


def waste_of_teams(interval: Interval, *, now: datetime) -> dict[str, TeamWaste]:
    """By the team's key; what is potential is in neither."""
    every = _by_team(engine.read(CauseTime(), interval, by=("team",)))
    findings = as_they_stand(selectors.findings(interval, now=now, by=("team",)), now)
    of_agreed = findings.of_status(*AGREED).lines
    agreed = _by_team(of_agreed.spans) if len(of_agreed) else {}
    return {
        team: TeamWaste(
            sum((totals.wasted_usd for totals in agreed.get(team, {}).values()), ZERO),
            largest_but(causes, agreed.get(team, {})),
        )
        for team, causes in every.items()
    }


def largest_but(causes: Mapping[str, Totals], agreed: Mapping[str, Totals]) -> Group | None:
    """The known cause that wasted most dollars beside what of it is agreed, with what it wasted so;
    None where none did.
    """
    left = {
        code: less(totals, agreed[code]) if code in agreed else totals
        for code, totals in causes.items()
        if code not in UNFIT
    }
    wasting = [code for code, totals in left.items() if totals.wasted_usd > 0]
    if not wasting:
        return None
    most = max(wasting, key=lambda code: (left[code].wasted_usd, code))
    return Group(most, title(most), left[most])


def _by_team(spans: Columns[str]) -> dict[str, dict[str, Totals]]:
    """By the team's key what each cause took."""
    keys = spans.by["team"]
    named = lines_of("team", keys, keys.ids.tolist())
    return {key: _by_cause(spans.only("team", [pk])) for pk, (key, _) in named.items()}


def _by_cause(spans: Columns[str]) -> dict[str, Totals]:
    lines = cause_columns.lines(spans, by_job=False).caused()
    return {each.cause: each.totals for each in lines}


def agreed_within(parts: Sequence[Part], group_by: str, *, now: datetime) -> list[Decimal]:
    """Of each of these the dollars of what its jobs wasted (certain and probable) that people
    agreed is no waste.
    """
    several = {interval for _, interval in parts}
    if len(several) > FEW:
        return _by_hours(parts, group_by, now)
    agreed = {each: agreed_by((group_by,), each, now=now)[group_by] for each in several}
    return [agreed[interval].get(key, ZERO) for key, interval in parts]


def agreed_hours(interval: Interval, group_by: str, *, now: datetime) -> ByHour:
    """The same of each group's whole hours, numbered from the interval's start on."""
    every = selectors.findings(interval, now=now, by=(group_by,), step="hour")
    return _by_hour(as_they_stand(every, now).of_status(*AGREED).lines, group_by)


def explained_hours(interval: Interval, group_by: str) -> ByHour:
    """What of the waste of each group's whole hours diagnosis has said the cause of: of what waits
    for it nobody knows yet whether people agreed to that.
    """
    spans = engine.read(CauseTime(), interval, by=(group_by,), step="hour")
    return _by_hour(cause_columns.lines(spans, by_job=False), group_by)


def _by_hours(parts: Sequence[Part], group_by: str, now: datetime) -> list[Decimal]:
    whole = _hull([interval for _, interval in parts])
    hours = agreed_hours(whole, group_by, now=now)
    return [
        pricing.divided(_within(hours.get(key, {}), each, whole.start_ms)) for key, each in parts
    ]


def _hull(several: Sequence[Interval]) -> Interval:
    return Interval(min(each.start for each in several), max(each.end for each in several))


def _within(hours: Mapping[int, Decimal], interval: Interval, start_ms: int) -> Decimal:
    first = (interval.start_ms - start_ms) // HOUR_MS
    last = (interval.end_ms - start_ms) // HOUR_MS
    return sum((usd for hour, usd in hours.items() if first <= hour < last), ZERO)


def _by_hour(lines: Lines, group_by: str) -> ByHour:
    """What of the lines counts as wasted, all causes together."""
    if not len(lines):
        return {}
    groups = lines.spans.by[group_by]
    hours = lines.spans.by["step"]
    pairs, line = numbered(groups.at * len(hours.ids) + hours.at)
    places, hour = np.divmod(pairs, len(hours.ids))
    names = _names(group_by, groups, places)
    result: dict[str, dict[int, Decimal]] = defaultdict(dict)
    for name, number, usd_ms in zip(
        names, hours.ids[hour].tolist(), _headlines(lines, line), strict=True
    ):
        result[name][number] = usd_ms
    return result


def _headlines(lines: Lines, line: Ints) -> list[Decimal]:
    """Of the spans by line, numbered from 0 on, in dollars x milliseconds."""
    none = np.zeros(int(line.max()) + 1, dtype=np.int64)
    together = replace(lines, job=none, cause=none, line=line)
    return [each.headline_usd_ms for each in together.caused()]


def _names(group_by: str, groups: Keys, places: Ints) -> list[str]:
    """Of each place among the groups its key."""
    ids = groups.ids[places].tolist()
    named = lines_of(group_by, groups, sorted(set(ids)))
    return [named[pk][0] for pk in ids]
