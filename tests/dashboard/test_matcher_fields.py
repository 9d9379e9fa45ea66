"""Matchers as people type them, and back."""

import pytest

from fleetwatch.alerts.matchers import Matcher
from fleetwatch.dashboard.forms.matcher_fields import read_scope, rows_of, typed
from fleetwatch.lib.refusal import RefusedFieldError


def read(text: str) -> tuple[str, ...]:
    [matcher, *_] = read_scope({"label-0": "name", "values-0": f"{text}, x"})
    return matcher.values[:-1]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a", ("a",)),
        ("a, b,c", ("a", "b", "c")),
        ("a,, b,", ("a", "b")),
        ('"a, b"', ("a, b",)),
        ('x, "lr=0.1,bs=8" , y', ("x", "lr=0.1,bs=8", "y")),
        ('"say ""hi"""', ('say "hi"',)),
        ('5" disk', ('5" disk',)),
        ("it's", ("it's",)),
        ('" a "', (" a ",)),
        (" ", ()),
    ],
)
def test_a_comma_stands_between_values_and_in_quotation_marks_within_one(text, values):
    assert read(text) == values


@pytest.mark.parametrize("text", ['"a, b', '"a" b, c'])
def test_a_quotation_mark_that_says_nothing_clear_is_refused(text):
    with pytest.raises(RefusedFieldError, match="quotation mark") as refused:
        read(text)

    assert refused.value.field == "matchers"


@pytest.mark.parametrize(
    "values", [("a", "b"), ("a, b", "c"), ('"', ","), ('say "hi"',), (",,", '""'), ("*", "x y")]
)
def test_what_is_shown_is_read_back_as_it_was(values):
    [row, *_] = rows_of([Matcher("name", values)])

    assert row.values == typed(values)
    assert read(row.values) == values
