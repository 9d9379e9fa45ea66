"""Priced GPU time as columns, each span with its groups; and the cells that spans of one group make
together. Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from fleetwatch.figures.cells import Cell
from fleetwatch.figures.packed_spans import Bools, Floats, Ints, numbered, sums

NO_KEY = 0  # the group of what no job held, and of GPUs of no known model: ids begin with 1


class Price(NamedTuple):
    """Dollars of a GPU-hour, and whether they are a shipped list price; None = no rate held."""

    usd_per_gpu_hour: Decimal | None
    is_example: bool | None


class Owner(NamedTuple):
    """A team, or the name of a project or cost centre; where a job has neither, whether it names
    anybody.
    """

    team_id: int | None
    text: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class Keys:
    """Groups, and of each span in which it is."""

    ids: Ints  # ascending; of users and owners numbers, n that of names[n - 1]
    at: Ints  # position in ids
    names: Sequence[str | Owner] = ()

    def where(self, chosen: Bools) -> "Keys":
        return replace(self, at=self.at[chosen])


@dataclass(frozen=True, slots=True)
class Columns:
    """Spans: which of `common` each is (cells without figures), its groups by what they group by,
    and its figures.
    """

    common: list[Cell]
    row: Ints  # position in common
    by: Mapping[str, Keys]
    gpu_ms: Ints
    energy_j: Floats  # NaN = not read
    energy_ms: Ints

    def where(self, chosen: Bools) -> "Columns":
        """Those spans alone; groups that have none of them stay."""
        return Columns(
            self.common,
            self.row[chosen],
            {name: keys.where(chosen) for name, keys in self.by.items()},
            self.gpu_ms[chosen],
            self.energy_j[chosen],
            self.energy_ms[chosen],
        )

    def only(self, group_by: str, ids: Collection[int]) -> "Columns":
        """The spans of these groups alone."""
        keys = self.by[group_by]
        return self.where(np.isin(keys.ids, list(ids))[keys.at])

    def held(self, group_by: str) -> "Columns":
        """The spans that are of a group."""
        keys = self.by[group_by]
        return self.where((keys.ids != NO_KEY)[keys.at])


def everything(told: Columns) -> list[Cell]:
    """All spans, those with all in common as one cell."""
    return [
        cell
        for cells in lines(told, np.zeros(len(told.row), dtype=np.int64)).values()
        for cell in cells
    ]


def lines(told: Columns, line: Ints) -> dict[int, list[Cell]]:
    """The spans of each line (a number from 0 on), those with all in common as one cell."""
    codes, place = numbered(line * len(told.common) + told.row)
    was_read = ~np.isnan(told.energy_j)
    gpu_ms, energy_ms = (
        sums(place, told.gpu_ms, len(codes)),
        sums(place, told.energy_ms, len(codes)),
    )
    energy_j = np.bincount(place[was_read], weights=told.energy_j[was_read], minlength=len(codes))
    read = np.bincount(place[was_read], minlength=len(codes))
    found: dict[int, list[Cell]] = {}
    for code, ms, joules, count, read_ms in zip(
        *(each.tolist() for each in (codes, gpu_ms, energy_j, read, energy_ms)), strict=True
    ):
        number, row = divmod(code, len(told.common))
        cell = told.common[row]._replace(
            gpu_ms=ms, energy_j=joules if count else None, energy_ms=read_ms
        )
        found.setdefault(number, []).append(cell)
    return found
