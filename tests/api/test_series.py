"""Windows to points: weighted means, extremes, gaps that stay gaps."""

import numpy as np
import pytest

from fleetwatch.api.series import fold, points, to_json
from tests.telemetry.factories import HOUR_START_MS, make_node, store

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


@pytest.mark.django_db
def test_the_series_of_a_gpu_has_its_windows_and_its_gaps(api):
    node = make_node("gpu-07")
    starts = [HOUR_START_MS, HOUR_START_MS + 10_000, HOUR_START_MS + 40_000]
    store(node, starts=starts, columns={"util_mean": [0.2, 0.4, 1.0], "power_w": [100.0, None, 300.0]})

    query = "from=2026-11-20T10:00:00Z&to=2026-11-20T10:01:00Z&metrics=util_mean,power_w,sm_active&step_s=20"
    answer = api.get(f"/api/v1/gpus/GPU-gpu-07-0/series?{query}").json()

    assert answer["start_ms"] == [HOUR_START_MS, HOUR_START_MS + 20_000, HOUR_START_MS + 40_000]
    assert answer["step_s"] == 20
    assert answer["values"] == {
        "util_mean": [pytest.approx(0.3), None, 1.0],
        "power_w": [100.0, None, 300.0],
        "sm_active": [None, None, None],
    }


@pytest.mark.django_db
def test_a_window_that_was_sent_again_by_another_boot_counts_once(api):
    node = make_node("gpu-07")
    store(node, starts=[HOUR_START_MS], columns={"util_mean": [0.2]})
    store(node, starts=[HOUR_START_MS], columns={"util_mean": [0.8]}, boot_id="boot-b", sequence=2)

    answer = api.get("/api/v1/gpus/GPU-gpu-07-0/series?from=2026-11-20T10:00Z&to=2026-11-20T10:01Z&metrics=util_mean&step_s=60").json()

    assert answer["values"] == {"util_mean": [pytest.approx(0.8)]}
