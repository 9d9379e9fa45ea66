import pytest

from agent.json_parts import object_of, part, parts, texts, time_ms

ODD = {"object": {"a": 1}, "list": [{"b": 2}, None, "text", 3], "null": None, "number": 4}


def test_what_is_of_another_type_null_or_missing_is_nothing():
    names = ("object", "list", "null", "number", "missing")

    assert [part(ODD, name) for name in names] == [{"a": 1}, {}, {}, {}, {}]
    assert [parts(ODD, name) for name in names] == [[], [{"b": 2}], [], [], []]
    assert [texts(ODD, name) for name in names] == [[], ["text"], [], [], []]
    assert (part([], "a"), parts("a", "a"), texts(None, "a")) == ({}, [], [])


@pytest.mark.parametrize("text", ["", "[1]", "null", "{", b"\xff", "[" * 100_000])
def test_a_text_that_is_no_object_is_an_empty_one(text):
    assert object_of(text) == {}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.5Z", 1500),
        ("1970-01-01T00:00:01.266176036Z", 1266),
        ("1970-01-01T02:00:01+01:30", 1_801_000),
        ("1970-01-01T00:00:01-00:30", 1_801_000),
        ("0001-01-01T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-11-06", None),
        (None, None),
        (7, None),
    ],
)
def test_a_time_is_read_with_its_fraction_and_its_zone(text, ms):
    assert time_ms(text) == ms
