"""Evidence in words: measures with units, rules read from their detectors, stretches marked on
curves, a service's need.
"""

import math
from datetime import UTC, datetime

import pytest

from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import measures, rules_in_words
from fleetwatch.diagnosis.judgement.demand import Demand, demand
from fleetwatch.diagnosis.judgement.marks import Mark, marks

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("feature", "value", "text"),
    [
        ("util", 0.414, "41 %"),
        ("ten", 0.004, "0.4 %"),
        ("rx", 4.2e9, "4.2 GB/s"),
        ("nvl", 35e6, "35 MB/s"),
        ("cyc_s", 2.54, "2.5 s"),
        ("longest_low_s", 4020.0, "67 min"),
        ("processes", 0.0, "0"),
        ("util", math.nan, "not read"),
        ("util", None, "not read"),
    ],
)
def test_a_value_has_its_unit(feature, value, text):
    assert measures.shown(feature, value) == text


def test_a_bound_says_which_side_is_meant():
    assert measures.bound("util", 0.85, is_lower_bound=False) == "below 85 %"
    assert measures.bound("job_util_min", 0.6, is_lower_bound=True) == "at least 60 %"
    assert measures.measure("job_util_min").label == "utilisation, mean, lowest of the job's GPUs"


def test_every_sign_of_every_detector_has_a_name_for_people():
    for code in BY_CODE:
        for words in rules_in_words.rules(code):
            for sign in (*words.needs, *words.surer):
                assert "_" not in sign, f"{code}: {sign}"


def test_a_rule_in_words_has_the_bounds_of_its_detector():
    [rule] = rules_in_words.rules("throttled")

    assert rule.windows == "30 min"
    assert rule.needs[1] == "SM clock of its maximum: below 85 %"


def test_pauses_and_spinning_are_joined_and_what_was_not_read_is_neither():
    starts = [0, 10, 20, 30, 40, 50]
    columns = {
        "util_mean": [0.05, 0.0, 0.9, None, 1.0, 1.0],
        "util_low_fraction": [0.9, 1.0, 0.89, None, 0.0, 0.49],
        "spin_fraction": [0.0, None, 0.0, None, 0.5, 0.0],
    }

    assert marks(starts, 10, columns) == [Mark(0, 20, "pause"), Mark(40, 50, "spinning")]


def test_without_the_drivers_samples_the_mean_marks_a_pause():
    assert marks([0, 10], 10, {"util_mean": [0.09, 0.10]}) == [Mark(0, 10, "pause")]


def test_what_nobody_told_of_spinning_is_marked_by_power_where_the_board_is_known():
    columns = {
        "util_mean": [0.95, 0.94, 1.0, 1.0, None],
        "power_w": [196.0, 100.0, 197.0, 100.0, 100.0],
        "dram_active": [None, 0, 0, 0.02, 0],
    }

    # a fifth of the way from 70 W to 700 W
    assert marks([0, 10, 20, 30, 40], 10, columns, waiting_w=196.0) == [Mark(0, 10, "spinning")]
    assert marks([0, 10, 20, 30, 40], 10, columns) == []
    told = columns | {"spin_fraction": [0.4, None, None, 0.6, None]}
    assert marks([0, 10, 20, 30, 40], 10, told, waiting_w=196.0) == [Mark(30, 40, "spinning")]


def test_a_service_needs_enough_gpus_for_all_but_its_rarest_minutes():
    # 100 minutes on 4 GPUs: 94 of them 0.35 in sum (half a GPU at 0.7), 4 of them 1.4 (two), 2 of
    # them 2.8 (four)
    sums = [0.35] * 94 + [1.4] * 4 + [2.8] * 2
    by_gpu = [[one / 4 for one in sums]] * 4

    assert demand(by_gpu) == Demand(held=4, needed=2, careful=4)


def test_a_minute_that_one_gpu_did_not_see_says_nothing_of_the_need():
    assert demand([[0.1] * 29 + [None]]) is None
    assert demand([[0.1] * 30]) == Demand(1, 1, 1)
    assert demand([]) is None
