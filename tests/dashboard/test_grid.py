"""fleetwatch/dashboard/drawing/grid.py: the JSON of a map is that of its rows."""

import json

import msgspec
import numpy as np
import pytest

from fleetwatch.dashboard.drawing import grid, maps
from fleetwatch.dashboard.drawing.grid import Grid


def test_rows_are_the_values_of_their_numbers():
    cells = Grid(np.array([[0, 1, -1], [500, 1000, 123]]), maps.THOUSANDTHS)

    assert len(cells) == 2
    assert [*cells] == [[0.0, 0.001, None], [0.5, 1.0, 0.123]]


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([[0, 1, -1], [8, 2, 0]]),
        np.zeros((0, 3), dtype=np.int64),
        np.zeros((2, 0), dtype=np.int64),
    ],
)
@pytest.mark.parametrize("values", [maps.STATES, maps.THOUSANDTHS])
def test_the_json_says_the_same(numbers, values):
    cells = Grid(numbers, values)

    assert json.loads(msgspec.json.encode({"z": cells}, enc_hook=grid.encoded)) == {"z": [*cells]}


def test_what_else_json_does_not_know_is_refused():
    with pytest.raises(NotImplementedError):
        msgspec.json.encode({"z": object()}, enc_hook=grid.encoded)
