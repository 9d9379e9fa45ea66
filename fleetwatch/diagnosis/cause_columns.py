"""Causes as columns, priced: what of which job's time each took, packed by Postgres and read as it
is; grouped, ranked and summed. Pure.

A month of a large fleet is hundreds of thousands of spans; only the lines that are shown become
objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.caused import WASTE, ZERO, Caused, Saving
from fleetwatch.figures.packed_spans import Bools, Ints, numbered, sums
from fleetwatch.figures.priced_columns import Price
from fleetwatch.figures.pricing import EXACT, HOUR_MS, divided

FIGURES = ("held", *WASTE, "low", "high")
WASTED, LOW, HIGH = slice(1, 1 + len(WASTE)), FIGURES.index("low"), FIGURES.index("high")
# as diagnosis_span() of the database packs it (sql/packed_cause.sql)
RECORD = np.dtype(
    [
        ("gpu", ">i8"),
        ("job", ">i8"),
        ("cause", ">i2"),
        ("confidence", ">i2"),
        ("ms", ">i4", (len(FIGURES),)),
    ]
)
MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Spans:
    """Columns of one length: what a cause took of a job's time on a GPU, in one day and era
    (between two changes of prices).
    """

    node: Ints
    era: Ints
    gpu: Ints
    job: Ints
    cause: Ints  # place in causes
    confidence: Ints
    ms: Ints  # spans x FIGURES
    causes: list[str]

    def where(self, chosen: Bools) -> "Spans":
        """Those of them."""
        columns = {
            name: getattr(self, name)[chosen]
            for name in ("node", "era", "gpu", "job", "cause", "confidence", "ms")
        }
        return replace(self, **columns)


def spans(rows: Sequence[tuple[int, int, str, bytes]]) -> Spans:
    """The rows of caused.sql."""
    packed = np.frombuffer(b"".join([row[3] for row in rows]), dtype=RECORD)
    lengths = np.array([len(row[3]) // RECORD.itemsize for row in rows], dtype=np.int64)
    places: dict[str, int] = {}
    # the names of all rows behind each other: a span's number is a place in its row's part
    names = [[places.setdefault(name, len(places)) for name in row[2].split(",")] for row in rows]
    first = np.cumsum([0, *(len(each) for each in names[:-1])], dtype=np.int64)[: len(rows)]
    known = np.array([place for each in names for place in each], dtype=np.int64)
    node, era = (
        np.repeat(np.array([row[place] for row in rows], dtype=np.int64), lengths)
        for place in range(2)
    )
    return Spans(
        node=node,
        era=era,
        gpu=packed["gpu"].astype(np.int64),
        job=packed["job"].astype(np.int64),
        cause=known[np.repeat(first, lengths) + packed["cause"] - 1],
        confidence=packed["confidence"].astype(np.int64),
        ms=packed["ms"].astype(np.int64),
        causes=list(places),
    )


def joined(first: Spans, second: Spans) -> Spans:
    """The spans of both."""
    causes = list(dict.fromkeys([*first.causes, *second.causes]))
    named = [
        np.array([causes.index(name) for name in each.causes], dtype=np.int64)[each.cause]
        for each in (first, second)
    ]
    columns = ("node", "era", "gpu", "job", "confidence", "ms")
    both = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in columns}
    return Spans(**both, cause=np.concatenate(named), causes=causes)


@dataclass(frozen=True, slots=True)
class Columns:
    """Priced spans."""

    job: Ints
    cause: Ints  # place in causes
    confidence: Ints
    ms: Ints  # spans x FIGURES
    price: Ints  # place in prices
    causes: list[str]
    prices: list[Price]

    def where(self, chosen: Bools) -> "Columns":
        """Those of them."""
        return replace(
            self,
            job=self.job[chosen],
            cause=self.cause[chosen],
            confidence=self.confidence[chosen],
            ms=self.ms[chosen],
            price=self.price[chosen],
        )


@dataclass(frozen=True, slots=True)
class Lines:
    """Spans in lines of one cause (and job) each."""

    told: Columns
    job: Ints  # of each line; 0 = of all jobs
    cause: Ints  # of each line
    line: Ints  # of each span

    def __len__(self) -> int:
        return len(self.cause)

    def sums(self, figure: int) -> Ints:
        """Of each line one of the FIGURES, in milliseconds."""
        return sums(self.line, self.told.ms[:, figure], len(self))

    def worth(self) -> Ints:
        """Of each line what it could save, low and high together, in whole micro-dollars: order is
        all that these decide.
        """
        rate = np.array([float(price.usd_per_gpu_hour or 0) for price in self.told.prices])[
            self.told.price
        ]
        usd = (self.told.ms[:, LOW] + self.told.ms[:, HIGH]) * rate * (MICRO / HOUR_MS)
        return np.rint(np.bincount(self.line, usd, len(self))).astype(np.int64)

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
        cells, place = numbered(self.line * len(self.told.prices) + self.told.price)
        ms = np.stack(
            [sums(place, self.told.ms[:, figure], len(cells)) for figure in range(len(FIGURES))],
            axis=1,
        )
        parts: list[list[tuple[Price, list[int]]]] = [[] for _ in range(len(self))]
        for cell, figures in zip(cells.tolist(), ms.tolist(), strict=True):
            number, price = divmod(cell, len(self.told.prices))
            parts[number].append((self.told.prices[price], figures))
        sure = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(sure, self.line, self.told.confidence)
        lines = zip(self.job.tolist(), self.cause.tolist(), sure.tolist(), parts, strict=True)
        return [
            _caused(job or None, self.told.causes[cause], confidence, each)
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
        by_price = sums(self.told.price, self.told.ms[:, figure], len(self.told.prices)).tolist()
        usd_ms = ZERO
        for price, ms in zip(self.told.prices, by_price, strict=True):
            usd_ms = EXACT.add(usd_ms, _usd_ms(ms, price))
        return sum(by_price), divided(usd_ms)


def lines(told: Columns, *, by_job: bool) -> Lines:
    """A line for each cause, or for each job and cause."""
    keys, line = numbered((told.job if by_job else 0) * len(told.causes) + told.cause)
    return Lines(told, *np.divmod(keys, max(1, len(told.causes))), line)


def _caused(
    job_id: int | None, cause: str, confidence: int, parts: Sequence[tuple[Price, list[int]]]
) -> Caused:
    ms, usd = [0] * len(FIGURES), [ZERO] * len(FIGURES)
    unpriced_ms, has_example_rates = 0, False
    for price, figures in parts:
        ms = [one + other for one, other in zip(ms, figures, strict=True)]
        usd = [
            EXACT.add(one, _usd_ms(other, price)) for one, other in zip(usd, figures, strict=True)
        ]
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


def _usd_ms(ms: int, price: Price) -> Decimal:
    return (
        ZERO
        if price.usd_per_gpu_hour is None
        else EXACT.multiply(Decimal(ms), price.usd_per_gpu_hour)
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
