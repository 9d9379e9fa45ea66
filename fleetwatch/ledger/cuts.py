"""Where entries are cut: at every clock hour (UTC) and at the organisation's midnight. Pure."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.ledger.observations import Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms


def edges(start_ms: int, end_ms: int, zone: ZoneInfo) -> Ints:
    """The cuts in [start_ms, end_ms], both being whole clock hours, ascending."""
    midnights = []
    day = from_ms(start_ms).astimezone(zone).date()
    while (midnight := to_ms(datetime.combine(day, time(), tzinfo=zone))) < end_ms:
        if midnight > start_ms:
            midnights.append(midnight)
        day += timedelta(days=1)
    return np.union1d(
        np.arange(start_ms, end_ms + 1, HOUR_MS, dtype=np.int64),
        np.array(midnights, dtype=np.int64),
    )


def cut_of(at_ms: int, zone: ZoneInfo) -> int:
    """Where the cut began that holds the moment."""
    hour_ms = at_ms // HOUR_MS * HOUR_MS
    return int(max(edge for edge in edges(hour_ms, hour_ms + HOUR_MS, zone) if edge <= at_ms))
