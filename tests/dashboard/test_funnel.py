"""From paid for to useful, by hand."""

from dataclasses import replace
from decimal import Decimal

from fleetwatch.dashboard.funnel import funnel
from fleetwatch.figures.totals import nothing

HOURS = {
    "useful": 40, "underused": 10, "stalled": 5, "idle": 10, "starting": 5, "orphaned": 2,
    "free": 8, "unavailable": 5, "unobserved": 15,
}  # fmt: skip


def of(hours, **fields):
    """Totals of so many GPU-hours by state at $2 each."""
    return replace(
        nothing(),
        capacity_ms=sum(hours.values()) * 3_600_000,
        states={state: each * 3_600_000 for state, each in hours.items()},
        cost_usd=Decimal(2 * sum(hours.values())),
        cost_by_state={state: Decimal(2 * each) for state, each in hours.items()},
        **fields,
    )


def test_each_step_is_what_is_left_of_the_one_before():
    steps = [(step.label, step.gpu_ms / 3_600_000, step.cost_usd) for step in funnel(of(HOURS))]

    assert steps == [
        ("Capacity", 100, 200),
        ("Observed", 85, 170),
        ("Available", 80, 160),
        ("Allocated", 70, 140),
        ("Active", 50, 100),
        ("Useful", 40, 80),
    ]


def test_what_only_utilisation_vouches_for_is_active_and_not_useful():
    totals = of(HOURS, busy_only_ms=30 * 3_600_000, busy_only_usd=Decimal(60))

    *_, active, useful = funnel(totals)

    assert (active.cost_usd, useful.cost_usd, useful.width) == (100, 20, "10.00%")


def test_a_period_without_gpu_time_has_no_steps():
    assert funnel(nothing()) == []
