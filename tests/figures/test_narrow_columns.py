"""Columns come back as they were, in the fewest bytes that hold them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.figures.narrow_columns import packed, unpacked

WHOLE = st.integers(-(2**40), 2**55)
NAMES = ("gpu", "energy_j")


def columns(whole, floats):
    return {"gpu": np.array(whole, dtype=np.int64), "energy_j": np.array(floats, dtype=np.float64)}


@given(st.lists(st.tuples(WHOLE, st.floats(allow_infinity=False)), max_size=20))
def test_columns_come_back_as_they_were(rows):
    given_columns = columns([whole for whole, _ in rows], [each for _, each in rows])

    back = unpacked(packed(given_columns), NAMES)

    assert list(back) == list(NAMES)
    for name, values in given_columns.items():
        assert back[name].dtype == values.dtype
        np.testing.assert_array_equal(back[name], values)


@pytest.mark.parametrize(
    ("farthest", "width"), [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8)]
)
def test_a_number_takes_the_bytes_that_the_farthest_from_the_lowest_needs(farthest, width):
    content = packed({"gpu": np.array([10**12, 10**12 + farthest])})

    # rows, the column's head, two numbers
    assert len(content) == 4 + 9 + 2 * width
