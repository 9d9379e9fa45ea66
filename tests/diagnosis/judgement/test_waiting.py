"""Free GPU time beside a queue: what jobs that wait could have used, worked out by hand."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement.waiting import spread, waited, whole_nodes

CELL = 300_000
NAN = float("nan")


def told(free, pending, whole=None):
    """Sums over cells and GPUs of (free, low, high), in cells of one GPU; `free` as shares of
    cells.
    """
    free_ms = np.array(free, dtype=float) * CELL
    is_whole = np.zeros(free_ms.shape, dtype=bool) if whole is None else np.array(whole, dtype=bool)
    found = waited(free_ms, is_whole, np.array(pending, dtype=float))
    return tuple(int(part.sum()) / CELL for part in (found.free_ms, found.low_ms, found.high_ms))


def test_single_free_gpus_may_have_been_used_and_whole_nodes_would_have():
    assert told([[1, 1], [1, 1]], [8, 8]) == (4, 0, 4)
    assert told([[1, 1], [1, 1]], [8, 8], whole=[[1, 1], [1, 1]]) == (4, 4, 4)


def test_no_more_is_used_than_jobs_wait_for():
    assert told([[1, 1], [1, 1]], [1, 1]) == (4, 0, 2)
    assert told([[1, 1], [1, 1], [1, 1]], [2, 2], whole=[[1, 1], [0, 0], [0, 0]]) == (6, 2, 4)


@pytest.mark.parametrize("pending", [[NAN, NAN, NAN], [0, 0, 0], [4, 0, 4], [4, NAN, 4]])
def test_what_was_not_told_or_does_not_wait_ten_minutes_is_nothing(pending):
    assert told([[1, 1, 1]], pending) == (0, 0, 0)


def test_a_gpu_that_is_free_for_five_minutes_alone_is_the_schedulers_ordinary_gap():
    assert told([[0, 1, 0]], [4, 4, 4]) == (0, 0, 0)
    assert told([[0, 1, 0.5]], [4, 4, 4]) == (1.5, 0, 1.5)


def test_one_gpu_is_never_used_more_than_it_was_free():
    free = np.array([[CELL, CELL], [CELL // 2, CELL]], dtype=float)
    found = waited(free, np.array([[True, True], [False, False]]), np.array([1.25, 1.25]))

    assert (found.low_ms <= found.high_ms).all()
    assert (found.high_ms <= found.free_ms).all()
    assert found.high_ms.sum(axis=1).tolist() == [2 * CELL, CELL // 2]


def shares(spans, *, rows=1, count=3):
    """Rows x cells, in cells, of spans (row, start, end, share), in cells too."""
    row, start, end, share = np.array(spans, dtype=float).reshape(-1, 4).T
    size = (rows, count)
    return (spread(row.astype(int), start * CELL, end * CELL, share, size) / CELL).tolist()


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [0, 0, 0]),
        ([(0, 0, 3, 1)], [1, 1, 1]),
        ([(0, 0.25, 0.5, 1)], [0.25, 0, 0]),
        ([(0, 0.5, 2.25, 1)], [0.5, 1, 0.25]),
        ([(0, 0.5, 2, 0.5)], [0.25, 0.5, 0]),
        ([(0, 0, 0.5, 1), (0, 0.5, 1, 1), (0, 2, 3, 1)], [1, 0, 1]),
    ],
)
def test_a_span_takes_of_each_five_minutes_what_lies_in_them(spans, expected):
    assert shares(spans) == [expected]


def test_spans_are_of_their_row():
    assert shares([(0, 0, 1, 1), (1, 1, 3, 0.5)], rows=2) == [[1, 0, 0], [0, 0.5, 0.5]]


def test_a_node_is_free_altogether_where_each_of_its_gpus_is():
    free_ms = np.array([[1, 1], [1, 0.9], [1, 0]]) * CELL

    whole = whole_nodes(free_ms, [1, 1, 2])

    assert whole.tolist() == [[True, False], [True, False], [True, False]]
