"""Figures of lanes: kept once, laid out for those lanes and cells, and those names, that somebody
asks for. Pure numpy.

A rule asks for a few figures of the newest cells: most of what a fleet's hours have is never laid
out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask

NOWHERE = -1  # the place of what nobody read: the last value of every name


@dataclass(frozen=True, slots=True)
class Figures(Mapping[str, Floats]):
    """By name lanes x cells of float64, NaN = not read; `place` is where each stands among the
    values of `kept`, NOWHERE = it was not read.

    `rows` is where a name's values stand in `kept`: one row each, of which the last value is NaN.
    What has no row nobody read.
    """

    kept: NDArray[Any]
    rows: Mapping[str, int | None]
    place: Ints
    # what nobody read is one array under many names
    _by_row: dict[int | None, Floats] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Floats:
        """The figure, not to be written to. Raises KeyError for a name that is none."""
        row = self.rows[name]
        if row not in self._by_row:
            self._by_row[row] = (
                np.full(self.place.shape, np.nan)
                if row is None
                else np.take(self.kept[row], self.place).astype(np.float64)
            )
        return self._by_row[row]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, kept: NDArray[Any], names: Sequence[str], place: Ints) -> "Figures":
        """Of each of the names a row of `kept`."""
        is_read = (~np.isnan(kept).all(axis=1)).tolist()
        rows = {name: row if is_read[row] else None for row, name in enumerate(names)}
        return cls(kept, rows, place)

    def at(self, lanes: Ints, cells: Ints) -> "Figures":
        """The figures of other lanes and cells, by their places here."""
        return Figures(self.kept, self.rows, self.place[lanes, cells])

    def since(self, cell: int) -> "Figures":
        """The cells from that one on."""
        return Figures(self.kept, self.rows, self.place[:, cell:])

    def without(self, cells: Mask) -> "Figures":
        """As if those lanes x cells had not been read."""
        return Figures(self.kept, self.rows, np.where(cells, NOWHERE, self.place))


def of(arrays: Mapping[str, Floats]) -> Figures:
    """Figures that are arrays of lanes x cells, one at least."""
    shape = next(iter(arrays.values())).shape
    block = np.stack([values.ravel() for values in arrays.values()])
    kept = np.pad(block, [(0, 0), (0, 1)], constant_values=np.nan)
    return Figures.of(kept, list(arrays), np.arange(block.shape[1]).reshape(shape))
