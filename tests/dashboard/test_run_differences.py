"""fleetwatch/dashboard/run_differences.py: a run beside another one."""

from dataclasses import replace
from decimal import Decimal

import pytest

from fleetwatch.dashboard.run_differences import Run, cells, names

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
    cost_usd=Decimal(100),
)


def marked(**fields: object) -> dict[str, str]:
    """What is marked of an earlier run that is so otherwise."""
    return {
        cell.column: cell.difference
        for cell in cells(replace(THIS, **fields), THIS)
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
        ({"lasted_ms": 8 * HOUR_MS}, {"Lasted": "−20 %"}),
        ({"lasted_ms": 8 * HOUR_MS + 1}, {}),
        ({"lasted_ms": 20 * HOUR_MS}, {"Lasted": "+100 %"}),
        ({"lasted_ms": None}, {}),
        ({"wasted_share": Decimal("0.35")}, {"Wasted": "−5 points"}),
        ({"wasted_share": Decimal("0.36")}, {}),
        ({"wasted_share": None}, {}),
        ({"cause": "Idle: still held"}, {"Likely cause": "differs"}),
        ({"cause": ""}, {}),
        ({"cost_usd": Decimal(119)}, {}),
        ({"cost_usd": Decimal(120)}, {"Cost": "+20 %"}),
        ({"is_whole": False, "lasted_ms": HOUR_MS, "cost_usd": Decimal(1)}, {}),
    ],
)
def test_what_differs_is_marked_and_what_is_not_known_or_not_over_is_not(fields, marks):
    assert marked(**fields) == marks


def test_a_run_that_goes_on_is_compared_with_nothing_that_will_grow():
    this = replace(THIS, is_whole=False, lasted_ms=HOUR_MS)

    shown = {cell.column: (cell.text, cell.difference, cell.note) for cell in cells(this, None)}
    earlier = {cell.column: cell.difference for cell in cells(replace(THIS, gpus=4), this)}

    assert shown["Lasted"] == ("1 h", "", "so far")
    assert shown["Cost"] == ("$100", "", "so far")
    assert {column for column, difference in earlier.items() if difference} == {"GPUs"}


def test_what_is_not_known_is_a_dash():
    blank = Run(0, "", "", None, None, False, None, "", Decimal(0))

    shown = [cell.text for cell in cells(blank, THIS)]

    assert shown == ["0", "–", "–", "–", "–", "–", "$0.00"]


@pytest.mark.parametrize(
    ("nodes", "text"), [([], ""), (["a"], "a"), (["a", "b", "c"], "a and 2 more")]
)
def test_of_several_nodes_the_first_is_named(nodes, text):
    assert names(nodes) == text
