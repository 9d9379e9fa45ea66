"""The columns drawn in numpy are those that an agent makes of the same readings, to the
last digit.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.readings import GPUInfo, Reading
from agent.window import PERCENTILES, close_window
from fleetwatch.demo.utilisation import utilisation

GPU = GPUInfo("GPU-1")
NAMES = (
    "util_mean", "util_min", "util_max", "util_p5", "util_p10", "util_p50", "util_p90",
    "util_zero_fraction", "util_low_fraction", "util_high_fraction", "util_dips",
    "util_longest_low_s", "util_cycle_s", "util_cycle_cv",
)  # fmt: skip
SIX = 6
SHARES = dict(PERCENTILES)


def _by_agent(percents: list[list[int]]) -> dict[str, float]:
    """The window [0 s, n - 2 s) of readings from -1 s on, each with the six samples before it."""
    readings = []
    for second, samples in enumerate(percents, start=-1):
        stamps = [
            ((second * SIX - 5 + place) * 1_000_000 // SIX, percent / 100)
            for place, percent in enumerate(samples)
        ]
        readings.append(
            Reading(at_ms=10_000 + second * 1000, util=samples[-1] / 100, util_samples=stamps)
        )
    return close_window(
        readings,
        gpu=GPU,
        start_ms=10_000,
        end_ms=10_000 + (len(percents) - 2) * 1000,
        interval_ms=1000,
    ).columns


LEVELS = st.sampled_from([0, 3, 9, 10, 29, 30, 31, 50, 69, 70, 71, 89, 90, 97, 100])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(LEVELS, min_size=SIX, max_size=SIX), min_size=12, max_size=12))
def test_windows_have_the_shape_that_an_agent_would_see(percents):
    expected = _by_agent(percents)
    samples = np.array(percents[2:], dtype=np.uint8).reshape(1, -1)

    drawn = utilisation(samples, np.array([np.mean(percents[0]) / 100]))

    ordered = np.sort(samples[0]) / 100
    for name in NAMES:
        found = drawn[name][0]
        # where exactly that many samples are smaller, the microseconds of their stamps decide
        if name in SHARES:
            place = round(SHARES[name] * len(ordered))
            assert expected[name] in (ordered[place - 1], ordered[place])
            assert found == ordered[place - 1]
        elif name in expected:
            assert found == pytest.approx(expected[name], abs=2e-3), name
        else:
            assert np.isnan(found), name


def test_each_row_is_a_window_of_its_own():
    busy, low = [100] * 60, [0] * 60
    saw = ([100] * 6 + [0] * 4) * 6

    drawn = utilisation(np.array([busy, low, saw], dtype=np.uint8), np.array([1.0, 1.0, 0.0]))

    assert drawn["util_mean"].tolist() == [1.0, 0.0, 0.6]
    assert drawn["util_dips"].tolist() == [0, 1, 6]
    assert drawn["util_longest_low_s"].tolist() == [0.0, 10.0, pytest.approx(4 / 6)]
    assert drawn["util_cycle_s"][2] == pytest.approx(10 / 6)
    assert drawn["util_cycle_cv"][2] == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(drawn["util_cycle_s"][:2]).all()
