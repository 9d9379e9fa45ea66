"""Where entries are cut: at every clock hour (UTC) and at the organisation's midnight; and clock
hours as spans. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms, from_ms, to_ms
from fleetwatch.lib.spans import Span, clip


def edges(start_ms: int, end_ms: int, zone: ZoneInfo) -> Ints:
    """The cuts between the two, and these, ascending."""
    midnights = []
    day = from_ms(start_ms).astimezone(zone).date()
    while (midnight := to_ms(datetime.combine(day, time(), tzinfo=zone))) < end_ms:
        if midnight > start_ms:
            midnights.append(midnight)
        day += timedelta(days=1)
    hours = np.arange(floor_hour_ms(start_ms) + HOUR_MS, end_ms, HOUR_MS, dtype=np.int64)
    return np.unique(
        np.concatenate([[start_ms, end_ms], hours, np.array(midnights, dtype=np.int64)])
    )


def cut_of(at_ms: int, zone: ZoneInfo) -> int:
    """Where the cut began that holds the moment."""
    hour_ms = floor_hour_ms(at_ms)
    return int(max(edge for edge in edges(hour_ms, hour_ms + HOUR_MS, zone) if edge <= at_ms))


def spans_of_hours(hours: Iterable[int], *, at_most: int) -> list[Span]:
    """Adjacent clock hours as half-open spans of at most that many hours each."""
    spans: list[Span] = []
    for hour in sorted(set(hours)):
        if spans and spans[-1][1] == hour and hour - spans[-1][0] < at_most * HOUR_MS:
            spans[-1] = (spans[-1][0], hour + HOUR_MS)
        else:
            spans.append((hour, hour + HOUR_MS))
    return spans


def hours_touching(spans: Sequence[Span], *, within: Span) -> set[int]:
    """The clock hours that the spans touch inside the given bounds."""
    return {
        hour
        for start, end in clip(spans, *within)
        for hour in range(floor_hour_ms(start), end, HOUR_MS)
    }


def passes(start_ms: int, end_ms: int, *, hours: int) -> Iterator[Span]:
    """[start_ms, end_ms) in spans of at most that many hours."""
    step = hours * HOUR_MS
    for low in range(start_ms, end_ms, step):
        yield low, min(low + step, end_ms)
