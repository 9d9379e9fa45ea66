from decimal import Decimal

import numpy as np

from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing import bars
from fleetwatch.dashboard.drawing.bars import Segment, Stretches, band, state_bar
from fleetwatch.figures.cells import Cell, summed
from fleetwatch.figures.priced_columns import Price
from fleetwatch.figures.state_spans import Kind


def cells(*runs, end_ms, count):
    """The states of one GPU's cells from 0 on, of runs (start, end, milliseconds by state)."""
    order = list(words.NAMES)
    rows = [
        (0, start, end, order.index(state), ms, sum(told.values()))
        for start, end, told in runs
        for state, ms in told.items()
    ]
    told = Stretches(*np.array(rows).T)
    [found] = bars.cells(told, gpus=1, start_ms=0, end_ms=end_ms, count=count)
    return [None if place < 0 else order[place] for place in found]


def test_a_bar_is_filled_in_the_order_of_the_states():
    assert state_bar({"idle": 25, "useful": 75, "free": 0}) == [
        Segment("useful", "0.000%", "75.000%", "Useful 75 %"),
        Segment("idle", "75.000%", "25.000%", "Idle 25 %"),
    ]


def test_a_bar_of_nothing_is_empty():
    assert state_bar({"idle": 0}) == []


def test_a_cell_takes_the_state_that_holds_most_of_it():
    runs = [(0, 60, {"useful": 60}), (60, 100, {"idle": 40})]

    assert cells(*runs, end_ms=100, count=2) == ["useful", "idle"]


def test_a_cell_that_no_run_covers_stays_unknown():
    assert cells((0, 50, {"useful": 50}), end_ms=100, count=4) == ["useful", "useful", None, None]


def test_a_run_that_began_before_counts_only_inside():
    runs = [(-1000, 10, {"useful": 1010}), (10, 100, {"idle": 90})]

    assert cells(*runs, end_ms=100, count=1) == ["idle"]


def test_a_run_of_two_states_is_the_larger_one():
    assert cells((0, 100, {"useful": 40, "stalled": 60}), end_ms=100, count=2) == [
        "stalled",
        "stalled",
    ]


def test_of_states_with_as_much_the_first_stays():
    assert cells((0, 50, {"idle": 50}), (50, 100, {"useful": 50}), end_ms=100, count=1) == ["idle"]


def test_neighbours_of_one_state_are_one_segment_and_a_gap_stays_a_gap():
    useful, idle = (words.NAMES.index(state) for state in ("useful", "idle"))

    assert band([useful, useful, -1, idle]) == [
        Segment("useful", "0.000%", "50.000%", "Useful"),
        Segment("idle", "75.000%", "25.000%", "Idle"),
    ]


def test_what_a_service_waits_is_drawn_apart_from_what_is_waste():
    waiting = Cell(Kind("stalled", "potential", False), Price(None, None), 1_000, None, 0)
    stalled = Cell(Kind("stalled", "probable", False), Price(None, None), 3_000, None, 0)

    found = bars.state_bar(summed([waiting, stalled]).shown_states)

    assert [(segment.state, segment.width) for segment in found] == [
        ("stalled", "75.000%"),
        ("waiting", "25.000%"),
    ]
    assert found[1].title == "Waiting 25 %"


def test_what_was_spent_alone_has_no_bar_and_beside_a_budget_its_share():
    assert bars.spend_bar(Decimal(10), None, None) is None
    assert bars.spend_bar(Decimal(0), None, None) is None
    bar = bars.spend_bar(Decimal(10), Decimal(20), None)
    assert (bar.spent, bar.budget_x, bar.label) == (
        "49.020%",
        "98.039%",
        "$10.00 spent, budget $20.00",
    )


def test_a_bar_without_a_forecast_reaches_to_the_month_at_the_run_rate():
    bar = bars.spend_bar(Decimal(10), Decimal(20), None, at_run_rate_usd=Decimal(15))

    # on a scale of 20.40
    assert (bar.spent, bar.expected, bar.range) == ("49.020%", "24.510%", "0.000%")
    assert bar.label == "$10.00 spent, $15.00 at the month's end at the run rate, budget $20.00"
