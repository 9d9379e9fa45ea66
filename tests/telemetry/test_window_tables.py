"""fleetwatch/telemetry/window_tables.py: rows of several parts put together, beside what sorting
them one by one says.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.telemetry import window_tables
from fleetwatch.telemetry.codec import repeated
from fleetwatch.telemetry.window_tables import KEYS, end_to_end, float_column

Row = tuple[int, int, int, int, int]  # GPU, start, boot, sequence, value


def table(rows, column="a"):
    gpu, start, boot, sequence, value = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    lengths = repeated(np.full(1, 10), len(gpu))
    ints = {
        "gpu_id": gpu,
        "start_ms": start,
        "boot_start_ms": boot,
        "sequence": sequence,
        "window_ms": lengths,
        "observed_ms": lengths,
    }
    return ints | {column: value.astype(np.float64)}


def told(found, *names):
    return list(zip(*(found[name].tolist() for name in (*KEYS, *names)), strict=True))


# few different numbers, so that parts overlap, repeat each other and follow each other in turns
row_lists = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(0, 6),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 9),
    ),
    max_size=8,
)


@given(st.lists(st.tuples(row_lists, st.booleans(), st.integers(0, 2)), min_size=1, max_size=4))
def test_all_parts_are_there_sorted_and_of_equal_keys_the_earliest(drawn):
    parts = [
        [
            (gpu, start + later * 10, *rest)
            for gpu, start, *rest in (sorted(rows) if ordered else rows)
        ]
        for rows, ordered, later in drawn
    ]
    first = {}
    for row in (row for rows in parts for row in rows):
        first.setdefault(row[:4], float(row[4]))

    found = window_tables.joined([table(rows) for rows in parts])

    assert told(found, "a") == [(*key, value) for key, value in sorted(first.items())]


def test_a_column_that_a_part_does_not_have_is_missing_in_its_rows():
    found = window_tables.joined([table([(1, 20, 0, 0, 5)], "b"), table([(1, 10, 0, 0, 4)])])

    assert np.nan_to_num(found["a"], nan=-1).tolist() == [4, -1]
    assert np.nan_to_num(found["b"], nan=-1).tolist() == [-1, 5]


def test_one_value_all_over_takes_no_memory_and_another_one_is_seen():
    same = window_tables.joined([table([(1, 10, 0, 0, 4)]), table([(1, 20, 0, 0, 4)])])
    other = table([(1, 30, 0, 0, 4)]) | {"window_ms": repeated(np.full(1, 20), 1)}
    different = window_tables.joined([same, other])

    assert (same["window_ms"].strides, same["window_ms"].tolist()) == ((0,), [10, 10])
    assert different["window_ms"].tolist() == [10, 10, 20]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], [0]),
        ([(1, 10, 0, 0, 0), (1, 20, 0, 0, 0), (3, 10, 0, 0, 0)], [0, 2, 3]),
        ([(1, 10, 0, 0, 0), (1, 10, 1, 0, 0)], None),
        ([(1, 20, 0, 0, 0), (1, 10, 0, 0, 0)], None),
        ([(2, 10, 0, 0, 0), (1, 20, 0, 0, 0)], None),
        ([(1, 10, 0, 0, 0), (2, 20, 0, 0, 0), (1, 30, 0, 0, 0)], None),
    ],
)
def test_where_each_gpus_rows_begin(rows, expected):
    found = window_tables.edges(table(rows))

    assert (None if found is None else found.tolist()) == expected


@given(st.integers(-5, 60), st.integers(-5, 60))
def test_rows_that_cover_a_moment_of_the_interval(low, high):
    windows = table([(1, start, 0, 0, 0) for start in range(0, 50, 10)])

    found = window_tables.overlapping(windows, low, high)

    assert found["start_ms"].tolist() == [
        start for start in range(0, 50, 10) if start < high and start + 10 > low
    ]


def test_a_column_that_nobody_read_takes_no_memory():
    starts = np.arange(3, dtype=np.int64)

    unread = float_column({"gpu_id": starts, "start_ms": starts}, "sm_active")

    assert np.isnan(unread).tolist() == [True] * 3
    assert unread.strides == (0,)
    assert np.isnan(end_to_end([{"start_ms": starts, "a": unread}] * 2)["a"]).tolist() == [True] * 6
