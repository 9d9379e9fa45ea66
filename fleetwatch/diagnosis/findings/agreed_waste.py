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
    whole = _hull([interval for _, interval in parts])
    every = selectors.findings(whole, now=now, by=(group_by,), step="hour")
    lines = as_they_stand(every, now).of_status(*AGREED).lines
    of_group = _spans_by_key(lines, group_by)
    hours = lines.spans.by["step"]
    start_ms = whole.start_ms + hours.ids[hours.at] * HOUR_MS
    within = ((start_ms >= each.start_ms) & (start_ms < each.end_ms) for _, each in parts)
    chosen = (
        of_group.get(key, False) & hours_of
        for (key, _), hours_of in zip(parts, within, strict=True)
    )
    return [_wasted_usd(lines, each) for each in chosen]


def _hull(several: Sequence[Interval]) -> Interval:
    return Interval(min(each.start for each in several), max(each.end for each in several))


def _wasted_usd(lines: Lines, chosen: Bools) -> Decimal:
    return lines.of_spans(chosen).whole().totals.wasted_usd if chosen.any() else ZERO


def _spans_by_key(lines: Lines, group_by: str) -> dict[str, Bools]:
    """By each group's key which of the spans are its own."""
    keys = lines.spans.by[group_by]
    named = lines_of(group_by, keys, keys.ids.tolist())
    places = {named[pk][0]: place for place, pk in enumerate(keys.ids.tolist())}
    return {key: np.equal(keys.at, place) for key, place in places.items()}
