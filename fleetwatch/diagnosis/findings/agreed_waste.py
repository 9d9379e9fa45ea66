"""What of the waste of groups people agreed is none, within hours of many."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import numpy as np

from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause_columns import Lines
from fleetwatch.diagnosis.findings.inbox import AGREED, agreed_by, as_they_stand
from fleetwatch.figures.group_names import lines_of
from fleetwatch.figures.packed_spans import Bools
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.intervals import HOUR_MS, Interval

FEW = 4  # intervals; of more one look at their hours costs less than a look at each
Part = tuple[str, Interval]  # a group's key, and whole hours


def agreed_within(parts: Sequence[Part], group_by: str, *, now: datetime) -> list[Decimal]:
    """Of each of these the dollars of what its jobs wasted (certain and probable) that people
    agreed is no waste.
    """
    several = {interval for _, interval in parts}
    if len(several) > FEW:
        return _by_hours(parts, group_by, now)
    agreed = {each: agreed_by((group_by,), each, now=now)[group_by] for each in several}
    return [agreed[interval].get(key, ZERO) for key, interval in parts]


def _by_hours(parts: Sequence[Part], group_by: str, now: datetime) -> list[Decimal]:
    start = min(interval.start for _, interval in parts)
    end = max(interval.end for _, interval in parts)
    every = selectors.findings(Interval(start, end), now=now, by=(group_by,), step="hour")
    agreed = as_they_stand(every, now).of_status(*AGREED)
    if not len(agreed):
        return [ZERO] * len(parts)
    lines = agreed.lines
    of_group = _spans_by_key(lines, group_by)
    hours = lines.spans.by["step"]
    start_ms = hours.ids[hours.at] * HOUR_MS + Interval(start, end).start_ms
    amounts = []
    for key, interval in parts:
        chosen = (start_ms >= interval.start_ms) & (start_ms < interval.end_ms)
        chosen &= of_group.get(key, False)
        amounts.append(lines.of_spans(chosen).whole().totals.wasted_usd if chosen.any() else ZERO)
    return amounts


def _spans_by_key(lines: Lines, group_by: str) -> dict[str, Bools]:
    """By each group's key which of the spans are its own."""
    keys = lines.spans.by[group_by]
    named = lines_of(group_by, keys, keys.ids.tolist())
    places = {named[pk][0]: place for place, pk in enumerate(keys.ids.tolist())}
    return {key: np.equal(keys.at, place) for key, place in places.items()}
