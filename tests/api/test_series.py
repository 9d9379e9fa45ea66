"""Windows to points: weighted means, extremes, gaps that stay gaps."""

import numpy as np
import pytest

from fleetwatch.api.series import fold, points, to_json

NAN = float("nan")


def drawn(starts, values, *, observed=None, length=10, step=20, last=60, how="mean"):
    start = np.array(starts, dtype=np.int64)
    seen = np.array(observed or [length] * len(starts), dtype=np.int64)
    found = points(start, start + length, seen, np.array(values, dtype=float), first_ms=0, last_ms=last, step_ms=step, how=how)
    return to_json(found)


def test_a_step_is_the_mean_of_its_windows_and_a_gap_is_null():
    assert drawn([0, 10, 50], [0.2, 0.4, 1.0]) == [pytest.approx(0.3), None, 1.0]


def test_zero_is_a_value_and_not_a_gap():
    assert drawn([0], [0.0]) == [0.0, None, None]


def test_what_was_not_read_counts_in_no_mean():
    assert drawn([0, 10], [NAN, 0.4]) == [0.4, None, None]


def test_a_window_weighs_what_it_observed():
    assert drawn([0, 10], [0.0, 1.0], observed=[9, 1])[0] == pytest.approx(0.1)


def test_a_window_that_observed_nothing_is_a_gap():
    assert drawn([0], [0.5], observed=[0]) == [None, None, None]


def test_a_long_window_fills_every_step_it_covers():
    assert drawn([0], [0.7], length=60) == [pytest.approx(0.7)] * 3


def test_a_window_over_a_border_counts_on_both_sides_by_its_part():
    # [15, 25) at 1.0 and [0, 15) split as [0,10) at 0.0
    assert drawn([0, 15], [0.0, 1.0]) == [pytest.approx(5 / 15), 1.0, None]


def test_a_window_before_the_start_counts_with_the_part_inside():
    assert drawn([-5], [1.0]) == [1.0, None, None]


def test_maxima_and_minima_are_not_averaged():
    assert drawn([0, 10], [0.2, 0.9], how="max") == [0.9, None, None]
    assert drawn([0, 10], [0.2, 0.9], how="min") == [0.2, None, None]
    assert [fold(name) for name in ("util_max", "power_min_w", "sm_clock_max_hz", "util_mean")] == ["max", "min", "max", "mean"]


def test_no_windows_are_all_gaps():
    assert drawn([], []) == [None, None, None]
