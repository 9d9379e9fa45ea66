"""Mapping rules by themselves: what can be one, and which is asked first."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetwatch.costs.mapping.rule_terms import (
    Conditions,
    Gives,
    MappingError,
    Terms,
    check,
    like,
    place,
    read_label,
)
from fleetwatch.costs.rates.subjects import BEGINNING

TO_NLP = Gives(team="nlp")


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(
            (1, Conditions(user="*")),
            (2, Conditions(user="ann", account="a")),
            id="the smaller priority",
        ),
        pytest.param(
            (9, Conditions(user="*", account="*")),
            (9, Conditions(user="ann")),
            id="more conditions",
        ),
        pytest.param(
            (9, Conditions(user="ann")),
            (9, Conditions(user="ann-marie*")),
            id="exact before pattern",
        ),
        pytest.param(
            (9, Conditions(account="ml-vision-*")),
            (9, Conditions(account="ml-*")),
            id="more characters given",
        ),
        pytest.param((9, Conditions(user="ann")), (9, Conditions(user="bob")), id="the older one"),
        pytest.param(
            (9, Conditions(label="a", label_value="x")),
            (9, Conditions(user="bob*")),
            id="a label's value counts, its name does not",
        ),
    ],
)
def test_which_rule_is_asked_first(first, then):
    assert place(*first, 1) < place(*then, 2)


@pytest.mark.parametrize(
    ("pattern", "sql"),
    [("ann", "ann"), ("ml-*", "ml-%"), ("100%_a\\b", "100\\%\\_a\\\\b"), ("*", "%"), ("", "")],
)
def test_only_the_star_is_special_in_a_pattern(pattern, sql):
    assert like(pattern) == sql


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("", ("", "")),
        ("project=vision-*", ("project", "vision-*")),
        ("gpu", ("gpu", "*")),
        ("a=b=c", ("a", "b=c")),
    ],
)
def test_a_label_is_written_as_key_and_value(text, label):
    assert read_label(text) == label


@pytest.mark.parametrize(
    ("asks", "gives", "changed", "field"),
    [
        pytest.param(Conditions(), TO_NLP, {}, "user", id="asks nothing"),
        pytest.param(Conditions(label="x"), TO_NLP, {}, "user", id="a label without a value"),
        pytest.param(Conditions(user="ann"), Gives(), {}, "team", id="gives nothing"),
        pytest.param(Conditions(user="a" * 129), TO_NLP, {}, "user", id="too long"),
        pytest.param(Conditions(account="a\x00b"), TO_NLP, {}, "account", id="a zero byte"),
        pytest.param(
            Conditions(label="x", label_value="a\nb"), TO_NLP, {}, "label", id="a line break"
        ),
        pytest.param(
            Conditions(user="ann"), Gives(project="x" * 101), {}, "project", id="a long name"
        ),
        pytest.param(
            Conditions(user="ann"), Gives(team="(none)"), {}, "team", id="a reserved name"
        ),
        pytest.param(Conditions(user="ann"), TO_NLP, {"priority": 0}, "priority", id="priority 0"),
        pytest.param(
            Conditions(user="ann"), TO_NLP, {"priority": 1001}, "priority", id="priority 1001"
        ),
        pytest.param(Conditions(user="ann"), TO_NLP, {"note": "x" * 301}, "note", id="a long note"),
    ],
)
def test_what_can_be_no_rule_is_told_by_its_field(asks, gives, changed, field):
    with pytest.raises(MappingError) as refused:
        check(Terms(asks, gives, BEGINNING, **changed))

    assert refused.value.field == field


def test_a_rule_says_itself_in_words():
    assert (
        Conditions(user="ann", label="project", label_value="v-*").words
        == "user ann, label project=v-*"
    )
    assert Gives(team="nlp", cost_centre="4711").words == "team nlp, cost centre 4711"
    asks, gives = Conditions(user="a" * 128), Gives(project="x" * 100)
    check(Terms(asks, gives, BEGINNING, priority=1, note="x" * 300))


def test_a_note_makes_no_two_rules_of_one_and_all_else_does():
    terms = Terms(Conditions(user="ann"), TO_NLP, BEGINNING)

    assert replace(terms, note="agreed") == terms
    for name, value in {
        "asks": Conditions(user="bob"),
        "gives": Gives(team="cv"),
        "valid_from": BEGINNING + timedelta(hours=1),
        "valid_to": BEGINNING + timedelta(hours=1),
        "priority": 99,
    }.items():
        assert replace(terms, **{name: value}) != terms
