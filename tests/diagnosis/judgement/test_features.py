"""Evidence over longer windows, made of cells: worked out by hand."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement import cell_figures
from fleetwatch.diagnosis.judgement.features import MEANS, Features
from fleetwatch.diagnosis.judgement.lanes import warm_up
from tests.diagnosis.factories import lanes


def at_the_end(found: Features, name: str) -> float:
    return float(found[name][0, -1])


def test_a_mean_weighs_cells_by_what_was_observed_of_them():
    found = Features(lanes(util_mean=[1.0, 0.4], seen_ms=[300_000, 150_000]), 2)

    assert at_the_end(found, "util") == pytest.approx((1.0 * 300 + 0.4 * 150) / 450)
    assert at_the_end(found, "coverage") == 0.75


def test_a_window_looks_back_over_its_own_length_alone():
    found = Features(lanes(util_mean=[1.0, 0.0, 0.0]), 2)

    assert found["util"][0].tolist() == [1.0, 0.5, 0.0]


def test_what_was_not_read_stays_unread():
    found = Features(lanes(util_mean=[1.0]), 6)

    assert all(np.isnan(found[name]).all() for name in MEANS if name != "util")
    assert not found.has("util", "sm").any()


def test_the_power_ratio_is_of_the_range_between_bare_idle_and_limit():
    assert at_the_end(Features(lanes(power_w=[250.0], power_max_w_max=[700.0]), 6), "pr") == 0.25
    assert at_the_end(Features(lanes(power_w=[250.0], power_max_w_max=[700.0]), 6), "pr_max") == 1.0


@pytest.mark.parametrize(("length", "largest"), [(1, 2.0), (2, 5.0), (3, 9.0), (6, 9.0)])
def test_an_extreme_is_of_the_windows_cells(length, largest):
    assert at_the_end(Features(lanes(util_max_max=[9.0, 5.0, 2.0]), length), "util_max") == largest


def test_the_time_between_pauses_counts_across_cells():
    # pauses begin at 100 s and 200 s of the first cell and at 20 s of the third: 100 s and 420 s
    # between them
    found = Features(
        lanes(
            long_low_s=[20, 0, 10], long_onsets=[2, 0, 1], long_first_onset_s=[100, np.nan, 20],
            long_last_onset_s=[200, np.nan, 20],
            long_interval_s=[100, 0, 0], long_interval_s2=[10_000, 0, 0],
        ), 3,
    )  # fmt: skip

    assert at_the_end(found, "long_n") == 3
    assert at_the_end(found, "long_frac") == pytest.approx(30 / 900)
    assert at_the_end(found, "long_per_s") == (100 + 420) / 2
    assert at_the_end(found, "long_cv") == pytest.approx(160 / 260)


def test_dips_are_counted_by_observed_minute():
    assert at_the_end(Features(lanes(dips=[30], seen_ms=[150_000]), 6), "dips_per_min") == 12


def test_gpus_that_move_together_correlate_and_those_that_do_not_have_no_figure():
    x, m = np.array([0.0, 1.0, 0.5]), np.array([0.1, 0.9, 0.5])
    sums = {
        name: [value]
        for name, value in zip(
            cell_figures.PEERS,
            (3, x.sum(), m.sum(), (x * x).sum(), (m * m).sum(), (x * m).sum()),
            strict=True,
        )
    }

    assert at_the_end(Features(lanes(**sums), 6), "corr") == pytest.approx(np.corrcoef(x, m)[0, 1])
    assert np.isnan(at_the_end(Features(lanes(util_mean=[1.0]), 6), "corr"))


def test_a_job_is_seen_as_a_whole_while_its_gpus_are_held():
    found = Features(
        lanes(
            jobs=[7, 7, 7, 8],
            util_mean=[[0.9, 0.9], [0.7, 0.7], [0.0, 0.0], [0.2, 0.2]],
            held=[[1, 1], [1, 1], [1, 0], [1, 1]],
        ),
        1,
    )

    assert found["job_gpus"].tolist() == [[3, 2], [3, 2], [3, 2], [1, 1]]
    assert found["job_util_median"][0].tolist() == pytest.approx([0.7, 0.8])
    assert found["job_util_min"][:, 0].tolist() == [0.0, 0.0, 0.0, 0.2]


def test_the_ledgers_states_are_shares_of_the_held_time():
    found = Features(lanes(util_mean=[1.0, 1.0], states={"idle": np.array([[1.0, 0.5]])}), 2)

    assert at_the_end(found, "ledger_idle") == 0.75


@pytest.mark.parametrize(
    ("life_s", "warm"), [(None, 2), (1499, 0), (1500, 1), (4499, 1), (4500, 2), (86_400, 2)]
)  # a tenth of 25 minutes reaches the middle of the first cell
def test_a_job_warms_up_for_a_tenth_of_its_life_and_ten_minutes_at_most(life_s, warm):
    assert warm_up(None if life_s is None else life_s * 1000) == warm


def quiet_s(**known) -> list[float]:
    """Of each cell by itself."""
    return Features(lanes(**known), 1)["quiet_s"][0].tolist()


def test_a_quiet_run_counts_from_when_the_job_began_and_not_from_what_was_before_it():
    """It begins 194 s before the end of the first cell, on a GPU that was quiet for an hour."""
    assert quiet_s(
        quiet_longest_s=[3700.0, 4000.0], quiet_so_far_s=[3700.0, 4000.0], ran_s=[194.0, 494.0]
    ) == [194.0, 494.0]


def test_a_quiet_run_counts_to_when_the_job_ended_and_not_to_the_end_of_the_cell():
    """Of the last cell two minutes are its own: no run has more of it."""
    ends = {"ran_s": [1000.0, 1300.0, 1420.0]}

    assert quiet_s(
        quiet_longest_s=[300.0, 600.0, 900.0], quiet_so_far_s=[300.0, 600.0, 900.0], **ends
    ) == [300.0, 600.0, 720.0]
    late = [0.0, 0.0, 180.0]
    own = quiet_s(quiet_longest_s=late, quiet_so_far_s=late, **ends)
    assert own == [0.0, 0.0, 120.0]


def test_of_a_quiet_run_that_was_not_read_nothing_is_known():
    assert np.isnan(quiet_s(util_mean=[0.0])[0])
