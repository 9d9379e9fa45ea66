"""Priced spans of causes: how Postgres packs them, and their lines, ranked and summed.

Only the lines that are shown become objects. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_totals import WASTE, ZERO, Caused, Saving
from fleetwatch.figures.packed_spans import HEAD, Ints, numbered, sums
from fleetwatch.figures.priced_columns import Columns, Price, summed_by
from fleetwatch.figures.pricing import EXACT, HOUR_MS, divided, usd_ms

FIGURES = ("held", *WASTE, "low", "high")
WASTED, LOW, HIGH = slice(1, 1 + len(WASTE)), FIGURES.index("low"), FIGURES.index("high")
# as diagnosis_span() of the database packs it (sql/packed_cause.sql)
RECORD = np.dtype([*HEAD, ("confidence", ">i2"), ("ms", ">i4", (len(FIGURES),))])
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Lines:
    """Spans in lines of one cause (and job) each."""

    told: Columns[str]
    job: Ints  # of each line; 0 = of all jobs
    cause: Ints  # of each line
    line: Ints  # of each span

    def __len__(self) -> int:
        return len(self.cause)

    def sums(self, figure: int) -> Ints:
        """Of each line one of the FIGURES, in milliseconds."""
        return sums(self.line, self.told.figures["ms"][:, figure], len(self))

    def worth(self) -> Ints:
        """Of each line what it could save, low and high together, in whole micro-dollars: order is
        all that these decide.
        """
        ms = self.told.figures["ms"]
        micro_usd = (ms[:, LOW] + ms[:, HIGH]) * self.told.rates() * (MICRO / HOUR_MS)
        return np.rint(np.bincount(self.line, micro_usd, len(self))).astype(np.int64)

    def only(self, places: Ints) -> "Lines":
        """These lines, in that order."""
        number = np.full(len(self), -1, dtype=np.int64)
        number[places] = np.arange(len(places))
        line = number[self.line]
        chosen = line >= 0
        return Lines(self.told.where(chosen), self.job[places], self.cause[places], line[chosen])

    def caused(self) -> list[Caused]:
        """Each line with its figures: dollars are summed from whole milliseconds and exact
        rates.
        """
        together = summed_by(self.told, self.line)
        ms = np.stack([together.of(each) for each in self.told.figures["ms"].T], axis=1)
        parts: list[list[tuple[Price, list[int]]]] = [[] for _ in range(len(self))]
        for line, price, figures in zip(
            together.line.tolist(), together.price.tolist(), ms.tolist(), strict=True
        ):
            parts[line].append((self.told.prices[price], figures))
        sure = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(sure, self.line, self.told.figures["confidence"])
        lines = zip(self.job.tolist(), self.cause.tolist(), sure.tolist(), parts, strict=True)
        return [
            _caused(job or None, self.told.labels[cause], confidence, each)
            for job, cause, confidence, each in lines
        ]

    def saving(self) -> Saving:
        """What all lines could save."""
        (low_ms, low_usd), (high_ms, high_usd) = (self._sum(figure) for figure in (LOW, HIGH))
        return Saving(low_ms, high_ms, low_usd, high_usd)

    def wasted_usd(self) -> Decimal:
        """Dollars of all that the lines wasted, whatever its tier."""
        return sum((self._sum(figure)[1] for figure in range(WASTED.start, WASTED.stop)), ZERO)

    def _sum(self, figure: int) -> tuple[int, Decimal]:
        by_price = sums(
            self.told.price, self.told.figures["ms"][:, figure], len(self.told.prices)
        ).tolist()
        total = ZERO
        for price, ms in zip(self.told.prices, by_price, strict=True):
            total = EXACT.add(total, usd_ms(ms, price.usd_per_gpu_hour))
        return sum(by_price), divided(total)


def lines(told: Columns[str], *, by_job: bool) -> Lines:
    """A line for each cause, or for each job and cause."""
    keys, line = numbered((told.job if by_job else 0) * len(told.labels) + told.label)
    return Lines(told, *np.divmod(keys, max(1, len(told.labels))), line)


def _caused(
    job_id: int | None, cause: str, confidence: int, parts: Sequence[tuple[Price, list[int]]]
) -> Caused:
    ms, usd = [0] * len(FIGURES), [ZERO] * len(FIGURES)
    unpriced_ms, has_example_rates = 0, False
    for price, figures in parts:
        ms = [one + other for one, other in zip(ms, figures, strict=True)]
        more = [usd_ms(each, price.usd_per_gpu_hour) for each in figures]
        usd = [EXACT.add(one, other) for one, other in zip(usd, more, strict=True)]
        has_example_rates = has_example_rates or bool(price.is_example)
        if price.usd_per_gpu_hour is None:
            unpriced_ms += sum(figures[WASTED])
    return Caused(
        job_id,
        cause,
        confidence,
        ms[0],
        ms[WASTED],
        ms[LOW],
        ms[HIGH],
        usd[0],
        usd[WASTED],
        usd[LOW],
        usd[HIGH],
        unpriced_ms,
        has_example_rates,
    )


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
