import numpy as np
import pytest

from fleetwatch.telemetry import heat_cells
from fleetwatch.telemetry.heat_cells import CELL_MS, MISSING

NAN = np.nan


def table(*rows, **columns):
    """Rows of (gpu_id, start_ms, observed_ms[, sequence]) with 10 s windows, and float columns."""
    sequence = [row[3] if len(row) > 3 else number for number, row in enumerate(rows)]
    ints = {
        "gpu_id": [row[0] for row in rows],
        "start_ms": [row[1] for row in rows],
        "observed_ms": [row[2] for row in rows],
        "sequence": sequence,
        "boot_start_ms": [0] * len(rows),
        "window_ms": [10_000] * len(rows),
    }
    return {name: np.array(values, dtype=np.int64) for name, values in ints.items()} | {
        name: np.array(values, dtype=np.float64) for name, values in columns.items()
    }


def made(windows, *, count=2, memory=None):
    return heat_cells.bytes_of(windows, start_ms=0, count=count, memory_bytes=memory or {})


def test_a_cell_is_the_mean_weighted_by_observed_time():
    gpu_ids, by_metric = made(table((7, 0, 10_000), (7, 10_000, 5_000), util_mean=[1.0, 0.4]))

    # (1.0 * 10 + 0.4 * 5) / 15 = 0.8; 0.8 * 250 = 200
    assert gpu_ids == [7]
    assert by_metric["util"].tolist() == [[200, MISSING]]


def test_what_was_not_read_is_missing_and_zero_is_zero():
    _, by_metric = made(
        table((7, 0, 10_000), (8, 0, 10_000), (9, 0, 0), util_mean=[0.0, NAN, 0.5]), count=1
    )

    assert by_metric["util"].tolist() == [[0], [MISSING], [MISSING]]


def test_activity_is_the_first_signal_that_was_read():
    windows = table((7, 0, 1), (7, CELL_MS, 1), util_mean=[NAN, 0.2], sm_active=[0.6, 0.9])

    assert made(windows)[1]["util"].tolist() == [[150, 50]]


def test_power_is_in_steps_of_eight_watts_up_to_two_thousand():
    _, by_metric = made(table((7, 0, 1), (7, CELL_MS, 1), power_w=[612.5, 5_000.0]))

    assert by_metric["power"].tolist() == [[77, 250]]


def test_memory_is_by_the_gpus_total_and_missing_where_that_is_not_known():
    windows = table((7, 0, 1), (8, 0, 1), memory_used_bytes=[40.0, 40.0])

    assert made(windows, count=1, memory={7: 80, 8: None})[1]["memory"].tolist() == [
        [125],
        [MISSING],
    ]


@pytest.mark.parametrize(
    ("util", "observed", "sequence", "winner"),
    [
        ([0.1, NAN], [1_000, 10_000], [1, 2], 0.1),
        ([0.1, 0.2], [9_000, 8_999], [1, 2], 0.1),
        ([0.1, 0.2], [9_000, 9_000], [1, 2], 0.2),
        ([0.1, 0.2], [9_000, 9_000], [2, 1], 0.1),
    ],
)
def test_of_two_windows_of_one_time_one_wins(util, observed, sequence, winner):
    windows = table(
        (7, 0, observed[0], sequence[0]), (7, 0, observed[1], sequence[1]), util_mean=util
    )

    assert heat_cells.winners(windows)["util_mean"].tolist() == [winner]


def test_longer_steps_are_the_mean_of_their_observed_cells():
    values = np.array([[0.2, 0.4, NAN, NAN, 0.6, 0.8]])

    steps = heat_cells.stretched(values, first_ms=0, start_ms=0, end_ms=6 * CELL_MS, count=3)

    assert steps[0, 0] == pytest.approx(0.3)
    assert np.isnan(steps[0, 1])
    assert steps[0, 2] == pytest.approx(0.7)


def test_shorter_steps_repeat_the_cell_around_them():
    values = np.array([[0.2, 0.4]])

    steps = heat_cells.stretched(values, first_ms=0, start_ms=60_000, end_ms=600_000, count=9)

    assert steps[0].tolist() == pytest.approx([0.2] * 4 + [0.4] * 5)


@pytest.mark.parametrize("count", [1, 2, 4, 6, 12])
def test_steps_side_by_side_are_the_means_of_their_cells(count):
    values = np.random.default_rng(1).random((3, 12))
    values[values < 0.4] = NAN

    steps = heat_cells.stretched(values, first_ms=0, start_ms=0, end_ms=12 * CELL_MS, count=count)

    with np.errstate(invalid="ignore"):
        parts = values.reshape(3, count, -1)
        np.testing.assert_allclose(steps, np.nansum(parts, axis=2) / (~np.isnan(parts)).sum(axis=2))


@pytest.mark.parametrize("per_step", [1, 2, 3, 12, 288])
def test_steps_of_bytes_are_the_rounded_means_of_what_was_observed(per_step):
    cells = np.random.default_rng(2).integers(0, 251, (5, 288)).astype(np.uint8)
    cells[cells > 150] = MISSING
    cells[0] = MISSING
    values = np.where(cells == MISSING, NAN, cells.astype(float))
    end_ms = 288 * CELL_MS

    steps = heat_cells.stretched_bytes(cells, per_step=per_step)

    means = heat_cells.stretched(
        values, first_ms=0, start_ms=0, end_ms=end_ms, count=288 // per_step
    )
    np.testing.assert_array_equal(steps == MISSING, np.isnan(means))
    known = ~np.isnan(means)
    assert np.abs(steps[known] - means[known]).max() <= 0.5


def test_steps_of_a_whole_day_hold_the_sum_of_its_busy_cells():
    cells = np.full((2, 2 * 288), 250, dtype=np.uint8)
    cells[1, ::2] = MISSING

    assert heat_cells.stretched_bytes(cells, per_step=288).tolist() == [[250, 250]] * 2
