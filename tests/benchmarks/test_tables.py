"""A benchmark's verdicts: met, met by far, or by how much not; and answers that differ are no
answers.
"""

import pytest

from benchmarks import questions
from benchmarks.tables import BenchError, Goal, Table


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (0.03, "moonshot"),
        (0.031, "must"),
        (0.1, "must"),
        (0.2, "missed by 2x"),
        (None, "not measured in this run"),
    ],
)
def test_less_is_better(measured, verdict):
    assert Goal("waste", measured, must=0.1, moonshot=0.03, unit="x VM").verdict() == verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(3.0, "moonshot"), (2.9, "must"), (1.5, "must"), (0.75, "missed by 2x")],
)
def test_more_is_better(measured, verdict):
    assert Goal("ingest", measured, must=1.5, moonshot=3, is_more_better=True).verdict() == verdict


def test_a_goal_without_a_moonshot_is_met_or_not():
    assert Goal("growth", 1.0, must=1.05, moonshot=None).verdict() == "must"


def test_a_table_as_markdown():
    table = Table(
        "Bytes",
        ["", "ours", "a|b"],
        [["value", 0.5, 12_345], ["none", None, "x"]],
        notes=("one note",),
    )

    assert table.markdown().splitlines() == [
        "### Bytes",
        "",
        "|  | ours | a\\|b |",
        "| --- | ---: | ---: |",
        "| value | 0.500 | 12,345 |",
        "| none | – | x |",
        "",
        "- one note",
    ]


def test_answers_may_differ_by_the_tolerance_and_no_more():
    assert questions.deviation("waste", {"a": 1.0}, {"a": 1.01}, tolerance=0.011) == pytest.approx(
        0.01
    )
    with pytest.raises(BenchError, match="differ by 0.02"):
        questions.deviation("waste", {"a": 1.0}, {"a": 1.02}, tolerance=0.011)


def test_what_one_answer_does_not_name_counts_as_zero_up_to_the_tolerance():
    assert questions.deviation("waste", {"a": 1.0, "b": 0.002}, {"a": 1.0}, tolerance=0.01) == 0
    with pytest.raises(BenchError, match="in one answer alone, such as \\['b'\\]"):
        questions.deviation("waste", {"a": 1.0, "b": 0.02}, {"a": 1.0}, tolerance=0.01)
