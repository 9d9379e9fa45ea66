import json
from dataclasses import asdict

import msgspec
import pytest

from fleetwatch.notify.message import Button, Message, one_line, sparkline
from tests.notify.factories import message


def test_a_message_survives_the_row():
    whole = message(
        buttons=(Button("Not waste", "not_waste", "http://fleet.example/incidents/7", "danger"),),
        spark=(0.0, None, 1.0),
        spark_label="GPU active, last 2 h",
        is_reply=True,
    )

    stored = json.loads(json.dumps(asdict(whole)))

    assert msgspec.convert(stored, Message) == whole


def test_an_unknown_severity_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="severity 'loud'"):
        message(severity="loud")


def test_an_unknown_action_or_style_is_a_mistake_of_the_caller():
    with pytest.raises(
        ValueError, match="action 'delete' is none of ack, snooze, unsnooze, not_waste"
    ):
        Button("Delete", "delete")
    with pytest.raises(ValueError, match="style 'loud' is none of primary, danger"):
        Button("Ack", "ack", style="loud")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_was_not_measured_is_none_in_a_spark(value):
    with pytest.raises(ValueError, match="None where nothing was measured"):
        message(spark=(0.5, value))


@pytest.mark.parametrize(
    ("shares", "drawn"),
    [
        ((), ""),
        ((0.0, 0.5, 1.0), "▁▅█"),
        ((0.07, 0.08), "▁▂"),
        ((0.9, 0.9), "▇▇"),
        ((None, 0.0, None), " ▁ "),
        ((-1.0, 2.0), "▁█"),
    ],
)
def test_a_sparkline_is_of_its_full_scale_with_gaps(shares, drawn):
    assert sparkline(shares) == drawn


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\r\nBcc: evil@example.com", "two Bcc: evil@example.com"),
        ("a\x00b\x1b[31mc", "ab[31mc"),
        ("right\u202eto left", "rightto left"),
        ("zero\u200bwidth", "zerowidth"),
        ("line separator", "line separator"),
        ("   spaces \t ", "spaces"),
        ("日本 ✔", "日本 ✔"),
    ],
)
def test_hostile_names_become_one_harmless_line(text, shown):
    assert one_line(text) == shown


def test_a_long_name_is_cut_with_an_ellipsis():
    assert one_line("x" * 11, 10) == "xxxxxxxxx…"
    assert one_line("x" * 10, 10) == "xxxxxxxxxx"
