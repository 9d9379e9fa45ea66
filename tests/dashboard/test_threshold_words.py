from dataclasses import fields

import pytest

from fleetwatch.dashboard.threshold_words import LABELS, of_minutes, read, read_minutes, written
from fleetwatch.ledger.policy import Policy


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (900, "s", "15 min"),
        (5400, "s", "1 h 30 min"),
        (90.5, "s", "1 min 30.5 s"),
        (0, "s", "0 s"),
        (0.005, "ratio", "0.5 %"),
        (1.3, "ratio", "130 %"),
        (314_572_800, "bytes", "300 MiB"),
        (52_428_800, "bytes/s", "50 MiB/s"),
        (40, "W", "40 W"),
        (3, "windows", "3 windows"),
    ],
)
def test_a_threshold_is_written_as_people_do_and_read_back(value, unit, text):
    assert written(value, unit) == text
    assert read(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("900", "s", 900),
        ("1h", "s", 3600),
        ("60m", "s", 3600),
        ("0.02", "ratio", 0.02),
        ("70 %", "ratio", 0.7),
        ("1", "ratio", 1),
        ("10", "ratio", None),  # 10 % or ten times
        ("1 GiB", "bytes", 1024**3),
        ("soon", "s", None),
        ("15 MiB", "s", None),
        ("15 min later", "s", None),
        ("", "s", None),
    ],
)
def test_a_bare_number_is_in_the_unit_that_is_stored(text, unit, value):
    assert read(text, unit) == value


@pytest.mark.parametrize(
    ("text", "minutes", "written_again"),
    [("90", 90, "1 h 30 min"), ("1 d", 1440, "1 d"), ("0", 0, "0"), ("soon", None, "")],
)
def test_minutes_are_meant_where_none_are_named(text, minutes, written_again):
    assert read_minutes(text) == minutes
    assert minutes is None or of_minutes(minutes) == written_again


def test_each_threshold_has_a_name():
    assert set(LABELS) == {threshold.name for threshold in fields(Policy)}
