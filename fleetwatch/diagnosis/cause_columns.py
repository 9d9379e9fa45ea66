"""Priced spans of causes: how Postgres packs them, and their lines, ranked and summed.

Only the lines that are shown become objects. Pure.
"""

from dataclasses import dataclass, replace
from decimal import localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_totals import FIGURES, HIGH, LOW, WASTED, Caused, nothing
from fleetwatch.figures import pricing
from fleetwatch.figures.packed_spans import HEAD, Bools, Ints, numbered, sums
from fleetwatch.figures.priced_columns import Columns, summed_by
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.intervals import HOUR_MS

# as diagnosis_span() of the database packs it (sql/packed_cause.sql)
RECORD = np.dtype([*HEAD, ("confidence", ">i2"), ("ms", ">i4", (len(FIGURES),))])
MICRO = 1_000_000
NO_ID = -1  # no group has it


@dataclass(frozen=True, slots=True)
class Lines:
    """Spans in lines of one cause (and job) each."""

    spans: Columns[str]
    job: Ints  # of each line; 0 = of all jobs
    cause: Ints  # of each line
    line: Ints  # of each span

    def __len__(self) -> int:
        return len(self.cause)

    def sums(self, figure: int) -> Ints:
        """Of each line one of the FIGURES, in milliseconds."""
        return sums(self.line, self.spans.figures["ms"][:, figure], len(self))

    def worth(self) -> Ints:
        """Of each line what it could save, low and high together, in whole micro-dollars: order is
        all that these decide.
        """
        ms = self.spans.figures["ms"]
        micro_usd = (ms[:, LOW] + ms[:, HIGH]) * self.spans.rates() * (MICRO / HOUR_MS)
        return np.rint(np.bincount(self.line, micro_usd, len(self))).astype(np.int64)

    def only(self, places: Ints) -> "Lines":
        """These lines, in that order."""
        number = np.full(len(self), -1, dtype=np.int64)
        number[places] = np.arange(len(places))
        line = number[self.line]
        chosen = line >= 0
        return Lines(self.spans.where(chosen), self.job[places], self.cause[places], line[chosen])

    def of_spans(self, chosen: Bools) -> "Lines":
        """The same lines with these spans alone."""
        return replace(self, spans=self.spans.where(chosen), line=self.line[chosen])

    def by_group(self, name: str) -> "Lines":
        """All causes together: a line of no job for each of these groups that has spans, in order
        of its id.
        """
        groups, line = numbered(self.spans.by[name].at)
        none = np.zeros_like(groups)
        return replace(self, job=none, cause=none, line=line)

    def of_groups(self, name: str, ids: Ints) -> tuple[Ints, "Lines"]:
        """All causes together: a line of no job for each of these groups (ids, ascending) that has
        spans, and a last one for all others, where they have some; and which places in `ids` they
        are of, that of all others being behind the last.
        """
        keys = self.spans.by[name]
        place = np.searchsorted(ids, keys.ids)
        is_asked = np.append(ids, NO_ID)[place] == keys.ids
        places, line = numbered(np.where(is_asked, place, len(ids))[keys.at])
        none = np.zeros_like(places)
        return places, replace(self, job=none, cause=none, line=line)

    def gpus(self) -> Ints:
        """Of each line how many GPUs it has time of."""
        gpus, gpu = numbered(self.spans.gpu)
        pairs, _ = numbered(self.line * len(gpus) + gpu)
        return np.bincount(pairs // max(1, len(gpus)), minlength=len(self))

    def caused(self, *, counted: slice = WASTED) -> list[Caused]:
        """Each line with its figures: dollars are summed from whole milliseconds and exact
        rates. Of the `counted` figures time without a rate is told.
        """
        sure = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(sure, self.line, self.spans.figures["confidence"])
        columns = (self.job, self.cause, sure, *self._sums(counted))
        return [
            Caused(job or None, self.spans.labels[cause], *figures)
            for job, cause, *figures in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _sums(self, counted: slice) -> list[NDArray[Any]]:
        """Of each line what Caused has of its milliseconds and prices."""
        starts, price, ms = self._by_price()
        rates = [each.usd_per_gpu_hour for each in self.spans.prices]
        is_unpriced = np.array([rate is None for rate in rates], dtype=bool)
        is_example = np.array([each.is_example for each in self.spans.prices], dtype=bool)
        usd = np.array([rate or ZERO for rate in rates], dtype=object)
        with localcontext(pricing.EXACT):
            return [
                np.add.reduceat(ms, starts),
                np.add.reduceat(ms.astype(object) * usd[price, None], starts),
                np.add.reduceat(ms[:, counted].sum(axis=1) * is_unpriced[price], starts),
                np.logical_or.reduceat(is_example[price], starts),
            ]

    def _by_price(self) -> tuple[Ints, Ints, Ints]:
        """Lines by price, those of a line together: where each line begins, the place of the price,
        and FIGURES in milliseconds.
        """
        sums = summed_by(self.spans, self.line)
        ms = np.stack([sums.of(figure) for figure in self.spans.figures["ms"].T], axis=1)
        return np.searchsorted(sums.line, np.arange(len(self))), sums.price, ms

    def whole(self) -> Caused:
        """All lines as one, of no job and cause."""
        none = np.zeros(1, dtype=np.int64)
        together = replace(self, job=none, cause=none, line=np.zeros_like(self.line))
        return replace(together.caused()[0], cause="") if len(self) else nothing(None, "")


def lines(spans: Columns[str], *, by_job: bool) -> Lines:
    """A line for each cause, or for each job and cause."""
    keys, line = numbered((spans.job if by_job else 0) * len(spans.labels) + spans.label)
    return Lines(spans, *np.divmod(keys, max(1, len(spans.labels))), line)
