import json
from dataclasses import asdict

import msgspec
import pytest

from fleetwatch.notify.message import Message, one_line
from tests.notify.factories import message


def test_a_message_survives_the_row():
    stored = json.loads(json.dumps(asdict(message())))

    assert msgspec.convert(stored, Message) == message()


def test_an_unknown_severity_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="severity 'loud'"):
        message(severity="loud")


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
