"""Files of mapping rules: what is read, and what is said of what can't be."""

from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.costs.mapping import mapping_csv
from fleetwatch.costs.mapping.mapping_csv import FORM
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.lib.csv_files.csv_rows import RefusedError, refuse

BERLIN = ZoneInfo("Europe/Berlin")
HEADER = "user,account,label,team,project,cost_centre,priority,valid_from,valid_to,note\n"


def read(content, zone):
    rows, found = mapping_csv.read(content, zone)
    refuse(found)
    return rows


def faults(text):
    with pytest.raises(RefusedError) as refused:
        read(text if isinstance(text, bytes) else text.encode(), BERLIN)
    return [(fault.line, fault.field) for fault in refused.value.faults]


def test_each_line_is_a_rule():
    text = (
        HEADER
        + "ann,,project=vision-*,vision,Apollo,4711,7,2026-11-01,2026-12-01T00:00+01:00,agreed\n,ml-*,,nlp,,,,Beginning,,\n"
    )

    rows = read(text.encode(), BERLIN)

    assert rows == [
        (
            2,
            Terms(
                asks=Conditions(user="ann", label="project", label_value="vision-*"),
                gives=Gives("vision", "Apollo", "4711"),
                priority=7,
                valid_from=datetime(2026, 10, 31, 23, tzinfo=UTC),
                valid_to=datetime(2026, 11, 30, 23, tzinfo=UTC),
            ),
        ),
        (3, Terms(Conditions(account="ml-*"), Gives("nlp"), BEGINNING, None, 100)),
    ]
    assert [terms.note for _, terms in rows] == ["agreed", ""]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (",,,nlp,,,,beginning,,", "user"),
        ("ann,,,,,,,beginning,,", "team"),
        ("ann,,=x,nlp,,,,beginning,,", "label"),
        ("ann,,,(none),,,,beginning,,", "team"),
        ("ann,,,nlp,,,0,beginning,,", "priority"),
        ("ann,,,nlp,,,1001,beginning,,", "priority"),
        ("ann,,,nlp,,,high,beginning,,", "priority"),
        ("ann,,,nlp,,,²,beginning,,", "priority"),
        ("ann,,,nlp,,,,,,", "valid_from"),
        ("ann,,,nlp,,,,soon,,", "valid_from"),
        ("ann,,,nlp,,,,2026-11-01,2026-02-30,", "valid_to"),
        ("ann\x07,,,nlp,,,,beginning,,", "user"),
        ("ann,,,nlp,,,,beginning,," + "x" * 301, "note"),
        ("a" * 129 + ",,,nlp,,,,beginning,,", "user"),
    ],
)
def test_what_can_be_no_rule_is_told_by_line_and_column(line, field):
    assert faults(HEADER + "bob,,,nlp,,,1,beginning,,\n" + line + "\n") == [(3, field)]


def test_every_fault_is_told_at_once():
    assert faults(HEADER + ",,,nlp,,,,beginning,,\nann,,,nlp,,,,soon,,\n") == [
        (2, "user"),
        (3, "valid_from"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", [(1, "")]),
        ("user,team\nann,nlp\n", [(1, "valid_from")]),
        ("user,team,valid_from,colour\n", [(1, "colour")]),
        ("team,valid_from\n", [(1, "")]),
        (HEADER, [(1, "")]),
        (b"x" * (FORM.max_bytes + 1), [(1, "")]),
        (b"user,team,valid_from\n\xff,nlp,beginning\n", [(2, "")]),
        (
            "user,team,valid_from\n" + "ann,nlp,beginning\n" * (FORM.max_rows + 1),
            [(FORM.max_rows + 2, "")],
        ),
    ],
)
def test_a_file_of_the_wrong_form_is_refused_as_a_whole(text, told):
    assert faults(text) == told


@given(st.text(max_size=200))
def test_no_text_does_more_than_be_refused(text):
    for content in (text, ",".join(FORM.columns) + "\n" + text):
        with suppress(RefusedError):
            read(content.encode("utf-8", "surrogatepass"), BERLIN)
