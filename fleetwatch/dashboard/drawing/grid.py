"""Cells of a large map: a number for each, which says which of a few values it shows. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Value = float | None


class Grid(Sequence[Sequence[Value]]):
    """Rows of values, made when they are asked for: the map's hundred thousand cells are drawn from
    their JSON.

    `numbers` (rows x columns) says which of the values each cell shows; -1 is the last one.
    """

    def __init__(self, numbers: NDArray[np.int64], values: Sequence[Value]) -> None:
        self.numbers = numbers
        self.values = values

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: Any) -> Any:
        return [self.values[number] for number in self.numbers[place].tolist()]

    def json(self) -> msgspec.Raw:
        """The rows as JSON: each of the few values is written once."""
        texts = np.array(msgspec.json.encode(self.values).decode()[1:-1].split(","), dtype=object)
        return msgspec.Raw(
            (
                "[" + ",".join([f"[{','.join(row)}]" for row in texts[self.numbers].tolist()]) + "]"
            ).encode()
        )


def encoded(value: Any) -> msgspec.Raw:
    """The JSON of a grid within a figure.

    Raises NotImplementedError for what else JSON does not know.
    """
    if isinstance(value, Grid):
        return value.json()
    raise NotImplementedError(type(value))
