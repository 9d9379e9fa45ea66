"""Durations with nothing left off."""

import pytest

from fleetwatch.lib.durations import exact


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 s"),
        (20_000, "20 s"),
        (900_000, "15 min"),
        (5_440_000, "1 h 30 min 40 s"),
        (90_500, "1 min 30.5 s"),
        (2 * 86_400_000 + 60_000, "2 d 1 min"),
    ],
)
def test_no_part_of_a_duration_is_left_off_and_none_that_is_nothing_is_said(milliseconds, words):
    assert exact(milliseconds) == words
