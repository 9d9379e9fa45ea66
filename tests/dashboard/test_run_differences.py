"""fleetwatch/dashboard/run_differences.py: a run beside another one."""

from dataclasses import replace
from decimal import Decimal

import pytest

from fleetwatch.dashboard.run_differences import Run, cells, like, names

HOUR_MS = 3_600_000
THIS = Run(
    gpus=8,
    models="H100 SXM",
    nodes="node-001",
    limit_ms=24 * HOUR_MS,
    lasted_ms=10 * HOUR_MS,
    is_whole=True,
    wasted_share=Decimal("0.40"),
    cause="Waits for its input",
    is_judged=True,
    cost_usd=Decimal(100),
)


def marked(**fields: object) -> dict[str, str]:
    """What is marked of an earlier run that is so otherwise and wasted nothing."""
    return {
        cell.column: cell.difference
        for cell in cells(replace(THIS, **{"wasted_share": Decimal(0), **fields}), THIS)
        if cell.difference
    }


@pytest.mark.parametrize(
    ("fields", "marks"),
    [
        ({}, {}),
        ({"gpus": 4}, {"GPUs": "−4"}),
        ({"gpus": 10}, {"GPUs": "+2"}),
        ({"models": "A100 SXM"}, {"On": "differs"}),
        ({"models": ""}, {}),
        ({"nodes": "node-007"}, {}),
        ({"limit_ms": 12 * HOUR_MS}, {"Time limit": "−50 %"}),
        ({"limit_ms": None}, {}),
        ({"cause": "Idle: still held"}, {"Likely cause": "differs"}),
        ({"cause": ""}, {}),
        ({"cause": "Too young to tell", "is_judged": False}, {}),
        ({"lasted_ms": 20 * HOUR_MS, "cost_usd": Decimal(200)}, {}),
    ],
)
def test_what_may_explain_its_waste_is_marked_and_what_is_not_known_is_not(fields, marks):
    assert marked(**fields) == {**marks, "Wasted": "−40 points"}


@pytest.mark.parametrize(
    ("share", "marks"),
    [
        ("0.35", {"GPUs": "−4", "Wasted": "−5 points"}),
        ("0.36", {}),
        (None, {}),
    ],
)
def test_of_a_run_that_wasted_as_much_nothing_that_it_was_given_explains_anything(share, marks):
    assert marked(gpus=4, wasted_share=share and Decimal(share)) == marks


def test_how_many_earlier_runs_have_the_same_verdict_is_said_of_those_that_were_judged():
    young = replace(THIS, cause="Too young to tell", is_judged=False)
    idle = replace(THIS, cause="Idle: still held")

    same = "earlier runs had the same verdict: Waits for its input"
    assert like([THIS, THIS], THIS) == f"2 of 2 {same}"
    assert like([THIS, idle, young], THIS) == f"1 of 2 {same}"
    assert like([idle], THIS) == "None of 1 earlier run had the same verdict: Waits for its input"
    assert like([young], THIS) == like([THIS], young) == like([THIS], None) == ""


def test_of_a_run_that_goes_on_time_and_cost_are_those_so_far():
    this = replace(THIS, is_whole=False, lasted_ms=HOUR_MS)

    shown = {cell.column: (cell.text, cell.difference, cell.note) for cell in cells(this, None)}

    assert shown["Lasted"] == ("1 h", "", "so far")
    assert shown["Cost"] == ("$100", "", "so far")


def test_of_a_run_of_which_a_part_was_recorded_time_and_cost_say_which():
    earlier = replace(THIS, recorded_ms=HOUR_MS)

    shown = {cell.column: (cell.text, cell.note) for cell in cells(earlier, THIS)}

    assert shown["Lasted"] == ("10 h", "1 h of it recorded")
    assert shown["Cost"] == ("$100", "of 1 h")


def test_what_is_not_known_is_a_dash():
    blank = Run(0, "", "", None, None, False, None, "", False, Decimal(0))

    shown = [cell.text for cell in cells(blank, THIS)]

    assert shown == ["0", "–", "–", "–", "–", "–", "$0.00"]


@pytest.mark.parametrize(
    ("nodes", "text"), [([], ""), (["a"], "a"), (["a", "b", "c"], "a and 2 more")]
)
def test_of_several_nodes_the_first_is_named(nodes, text):
    assert names(nodes) == text
