"""Priced spans of causes: how Postgres packs them, and their lines, ranked and summed.

Only the lines that are shown become objects. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_totals import FIGURES, HIGH, LOW, WASTED, Caused, Saving
from fleetwatch.figures import pricing
from fleetwatch.figures.packed_spans import HEAD, Ints, numbered, sums
from fleetwatch.figures.priced_columns import Columns, Price, summed_by
from fleetwatch.figures.totals import ZERO

# as diagnosis_span() of the database packs it (sql/packed_cause.sql)
RECORD = np.dtype([*HEAD, ("confidence", ">i2"), ("ms", ">i4", (len(FIGURES),))])
MICRO = 1_000_000


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
        micro_usd = (ms[:, LOW] + ms[:, HIGH]) * self.spans.rates() * (MICRO / pricing.HOUR_MS)
        return np.rint(np.bincount(self.line, micro_usd, len(self))).astype(np.int64)

    def only(self, places: Ints) -> "Lines":
        """These lines, in that order."""
        number = np.full(len(self), -1, dtype=np.int64)
        number[places] = np.arange(len(places))
        line = number[self.line]
        chosen = line >= 0
        return Lines(self.spans.where(chosen), self.job[places], self.cause[places], line[chosen])

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
        lines = zip(
            self.job.tolist(), self.cause.tolist(), sure.tolist(), self._parts(), strict=True
        )
        return [
            Caused(job or None, self.spans.labels[cause], confidence, **_priced(parts, counted))
            for job, cause, confidence, parts in lines
        ]

    def _parts(self) -> list[list["_Part"]]:
        """Of each line its time under each price."""
        together = summed_by(self.spans, self.line)
        ms = np.stack([together.of(each) for each in self.spans.figures["ms"].T], axis=1)
        parts: list[list[_Part]] = [[] for _ in range(len(self))]
        for line, price, figures in zip(
            together.line.tolist(), together.price.tolist(), ms.tolist(), strict=True
        ):
            parts[line].append((self.spans.prices[price], figures))
        return parts

    def saving(self) -> Saving:
        """What all lines could save."""
        (low_ms, low_usd), (high_ms, high_usd) = (self._sum(figure) for figure in (LOW, HIGH))
        return Saving(low_ms, high_ms, low_usd, high_usd)

    def wasted_usd(self) -> Decimal:
        """Dollars of all that the lines wasted, whatever its tier."""
        return sum((self._sum(figure)[1] for figure in range(WASTED.start, WASTED.stop)), ZERO)

    def _sum(self, figure: int) -> tuple[int, Decimal]:
        prices = self.spans.prices
        ms = self.spans.figures["ms"][:, figure]
        by_price = sums(self.spans.price, ms, len(prices)).tolist()
        rates = (price.usd_per_gpu_hour for price in prices)
        return sum(by_price), pricing.price(zip(by_price, rates, strict=True))


def lines(spans: Columns[str], *, by_job: bool) -> Lines:
    """A line for each cause, or for each job and cause."""
    keys, line = numbered((spans.job if by_job else 0) * len(spans.labels) + spans.label)
    return Lines(spans, *np.divmod(keys, max(1, len(spans.labels))), line)


_Part = tuple[Price, list[int]]  # a rate, and by FIGURES the time under it


def _priced(parts: Sequence[_Part], counted: slice) -> dict[str, Any]:
    """Of Caused what is summed over prices."""
    usd_ms = [[pricing.usd_ms(ms, price.usd_per_gpu_hour) for ms in part] for price, part in parts]
    unpriced = [part for price, part in parts if price.usd_per_gpu_hour is None]
    return {
        "ms": [sum(figure) for figure in zip(*(part for _, part in parts), strict=True)],
        "usd_ms": [reduce(pricing.EXACT.add, figure) for figure in zip(*usd_ms, strict=True)],
        "unpriced_ms": sum(sum(part[counted]) for part in unpriced),
        "has_example_rates": any(price.is_example for price, _ in parts),
    }


# as findings.sql packs it
FINDING = np.dtype([("id", ">i8"), ("job", ">i8"), ("cause", ">i2")])


@dataclass(frozen=True, slots=True)
class Decided:
    """Findings as columns, each with what people decided of it: `group` is a place in a list of
    (status, owner's id or None).
    """

    pk: Ints
    job: Ints
    cause: Ints  # as numbered by who asked
    group: Ints
    groups: list[tuple[str, int | None]]


def decided(rows: Sequence[tuple[str, int | None, bytes]]) -> Decided:
    """The rows of findings.sql."""
    packed: NDArray[np.void] = np.frombuffer(b"".join([row[2] for row in rows]), dtype=FINDING)
    group = np.repeat(np.arange(len(rows)), [len(row[2]) // FINDING.itemsize for row in rows])
    pk, job, cause = (packed[name].astype(np.int64) for name in ("id", "job", "cause"))
    return Decided(pk, job, cause, group, [(row[0], row[1]) for row in rows])
