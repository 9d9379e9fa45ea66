"""Priced GPU time as columns, each span with its groups, and what spans of one group make together.

Pure.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetwatch.figures.packed_spans import Bools, Floats, Ints, Label, numbered, sums
from fleetwatch.figures.totals import Line

NO_KEY = 0  # the group of what no job held, and of GPUs of no known model: ids begin with 1


class Price(NamedTuple):
    """Dollars of a GPU-hour, and whether they are a shipped list price; None = no rate held."""

    usd_per_gpu_hour: Decimal | None
    is_example: bool | None


@dataclass(frozen=True, slots=True)
class Keys:
    """Groups, and of each span in which it is."""

    ids: Ints  # ascending; of users and owners numbers, n that of lines[n - 1]
    at: Ints  # position in ids
    lines: Sequence[Line] = ()

    def where(self, chosen: Bools) -> "Keys":
        return replace(self, at=self.at[chosen])


@dataclass(frozen=True, slots=True)
class Columns(Generic[Label]):
    """Spans with their prices and groups."""

    labels: Sequence[Label]
    label: Ints  # place in labels
    prices: Sequence[Price]
    price: Ints  # place in prices
    gpu: Ints  # ids; where it was not read by GPU, one may stand for others of its price
    job: Ints  # ids; NO_JOB = nobody, or nobody asked
    by: Mapping[str, Keys]
    figures: Mapping[str, NDArray[Any]]  # by name, a row for each span

    def where(self, chosen: Bools) -> "Columns[Label]":
        """Those spans alone; groups that have none of them stay."""
        return replace(
            self,
            label=self.label[chosen],
            price=self.price[chosen],
            gpu=self.gpu[chosen],
            job=self.job[chosen],
            by={name: keys.where(chosen) for name, keys in self.by.items()},
            figures={name: values[chosen] for name, values in self.figures.items()},
        )

    def labelled(self, test: Callable[[Label], bool]) -> Bools:
        """Of each span whether its label passes."""
        return np.array([test(label) for label in self.labels], dtype=bool)[self.label]

    def only(self, group_by: str, ids: Collection[int]) -> "Columns[Label]":
        """The spans of these groups alone."""
        keys = self.by[group_by]
        return self.where(np.isin(keys.ids, list(ids))[keys.at])

    def but(self, group_by: str, ids: Collection[int]) -> "Columns[Label]":
        """The spans of all other groups."""
        keys = self.by[group_by]
        return self.where(~np.isin(keys.ids, list(ids))[keys.at])

    def held(self, group_by: str) -> "Columns[Label]":
        """The spans that are of a group."""
        keys = self.by[group_by]
        return self.where((keys.ids != NO_KEY)[keys.at])

    def rates(self) -> Floats:
        """Dollars of a GPU-hour of each span, 0 where no rate held: for an order, not for sums."""
        return np.array([float(price.usd_per_gpu_hour or 0) for price in self.prices])[self.price]


@dataclass(frozen=True, slots=True)
class Sums:
    """Spans of one line, label and price together: what a figure is summed from."""

    line: Ints
    label: Ints
    price: Ints
    at: Ints  # of each span, its place in these

    def of(self, values: Ints) -> Ints:
        """The sums of one figure."""
        return sums(self.at, values, len(self.line))


def summed_by(columns: Columns[Any], line: Ints) -> Sums:
    """The spans by line (a number from 0 on), label and price."""
    shape = max(1, len(columns.labels)), max(1, len(columns.prices))
    codes, at = numbered((line * shape[0] + columns.label) * shape[1] + columns.price)
    rest, price = np.divmod(codes, shape[1])
    return Sums(*np.divmod(rest, shape[0]), price, at)
