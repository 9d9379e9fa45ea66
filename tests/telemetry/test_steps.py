import numpy as np
import pytest

from fleetwatch.telemetry import steps

INTS = ("start_ms", "window_ms", "observed_ms")


def table(*windows, **columns):
    """Windows of (start_ms, window_ms, observed_ms)."""
    given = {
        name: np.array([window[place] for window in windows], dtype=np.int64)
        for place, name in enumerate(INTS)
    }
    return given | {name: np.array(values, dtype=np.float64) for name, values in columns.items()}


def stepped(windows, column, *, end_ms=60_000, step_ms=20_000, start_ms=0):
    return steps.stepped(
        windows, start_ms=start_ms, end_ms=end_ms, columns=[column], step_ms=step_ms
    ).columns[column]


def test_a_step_is_the_mean_weighted_by_observed_time():
    windows = table((0, 10_000, 10_000), (10_000, 10_000, 5_000), power_w=[300.0, 600.0])

    assert stepped(windows, "power_w") == [400.0, None, None]


def test_a_gap_is_none_and_never_bridged():
    windows = table((0, 10_000, 10_000), (40_000, 10_000, 10_000), power_w=[100.0, 300.0])

    assert stepped(windows, "power_w") == [100.0, None, 300.0]


def test_a_value_that_was_not_read_is_no_zero():
    windows = table(
        (0, 10_000, 10_000),
        (10_000, 10_000, 10_000),
        (20_000, 10_000, 10_000),
        power_w=[np.nan, 50.0, np.nan],
    )

    assert stepped(windows, "power_w") == [50.0, None, None]


def test_a_window_longer_than_a_step_fills_all_its_steps():
    windows = table((10_000, 40_000, 40_000), power_w=[70.0])

    assert stepped(windows, "power_w") == [70.0, 70.0, 70.0]


def test_energy_is_split_over_the_steps_and_sums_to_the_whole():
    windows = table((10_000, 40_000, 20_000), energy_j=[4_000.0])

    assert stepped(windows, "energy_j") == pytest.approx([1_000.0, 2_000.0, 1_000.0])


def test_a_maximum_stays_a_maximum_and_a_minimum_a_minimum():
    windows = table(
        (0, 10_000, 10_000), (10_000, 10_000, 1_000), util_max=[0.2, 1.0], util_min=[0.0, 0.1]
    )

    assert stepped(windows, "util_max") == [1.0, None, None]
    assert stepped(windows, "util_min") == [0.0, None, None]


def test_steps_are_aligned_to_the_epoch_and_cut_to_the_interval():
    windows = table((0, 10_000, 10_000), (30_000, 10_000, 10_000), power_w=[1.0, 2.0])

    series = steps.stepped(
        windows, start_ms=25_000, end_ms=45_000, columns=["power_w"], step_ms=20_000
    )

    assert series.start_ms == [20_000, 40_000]
    assert series.columns["power_w"] == [2.0, None]


def test_nothing_at_all_is_all_gaps():
    empty = table(power_w=[])

    assert stepped(empty, "power_w") == [None, None, None]
