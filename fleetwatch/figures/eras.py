"""Time cut where prices, or whose a job's time is, may change."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from fleetwatch.figures.packed_spans import Ints
from fleetwatch.figures.scopes import OWNED
from fleetwatch.figures.totals import OWNERS
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_MOMENTS = read_statement("figures/sql/moments.sql")


@dataclass(frozen=True, slots=True)
class Eras:
    """Time cut where prices (or whose a job's time is) may change: cuts of the ledger from
    `whole.start` to `whole.end`.
    """

    whole: Interval
    moments: list[datetime]
    moved: list[int | None]  # the node whose price may change at the moment; None = any
    starts: list[datetime]  # where each begins: the period does, and at each moment another

    def is_one(self, day: Interval) -> bool:
        """Whether nobody's price may change within the day."""
        at = bisect_right(self.starts, day.start)
        return at == len(self.starts) or self.starts[at] >= day.end

    def during(self, valid_from: datetime | None, valid_to: datetime | None) -> slice:
        """Those in which what is valid over that span holds."""
        first = 0 if valid_from is None else bisect_left(self.starts, valid_from)
        return slice(
            first, len(self.starts) if valid_to is None else bisect_left(self.starts, valid_to)
        )

    def zeros(self, count: int) -> Ints:
        """By era and place of so many things, the last place for what is none of them."""
        return np.zeros((len(self.starts), count + 1), dtype=np.int64)


def eras(whole: Interval, asked: set[str]) -> Eras:
    """The eras of cuts of the ledger; whose a job's time is matters where owners are asked for."""
    by_owner = bool(asked & {*OWNERS, *OWNED})
    rows = fetched(_MOMENTS, {"start": whole.start, "end": whole.end, "by_owner": by_owner})
    moments = [moment for moment, _ in rows]
    starts = [whole.start, *sorted(set(moments))]
    return Eras(whole, moments, [node_id for _, node_id in rows], starts)
