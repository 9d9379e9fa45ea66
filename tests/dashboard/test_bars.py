from fleetwatch.dashboard.bars import Segment, Stretch, band, cells, state_bar


def test_a_bar_is_filled_in_the_order_of_the_states():
    assert state_bar({"idle": 25, "useful": 75, "free": 0}) == [
        Segment("useful", "0.000%", "75.000%", "Useful 75 %"),
        Segment("idle", "75.000%", "25.000%", "Idle 25 %"),
    ]


def test_a_bar_of_nothing_is_empty():
    assert state_bar({"idle": 0}) == []


def test_a_cell_takes_the_state_that_holds_most_of_it():
    runs = [Stretch(0, 60, {"useful": 60}), Stretch(60, 100, {"idle": 40})]

    assert cells(runs, start_ms=0, end_ms=100, count=2) == ["useful", "idle"]


def test_a_cell_that_no_run_covers_stays_unknown():
    assert cells([Stretch(0, 50, {"useful": 50})], start_ms=0, end_ms=100, count=4) == ["useful", "useful", None, None]


def test_a_run_that_began_before_counts_only_inside():
    runs = [Stretch(-1000, 10, {"useful": 1010}), Stretch(10, 100, {"idle": 90})]

    assert cells(runs, start_ms=0, end_ms=100, count=1) == ["idle"]


def test_a_run_of_two_states_is_the_larger_one():
    assert cells([Stretch(0, 100, {"useful": 40, "stalled": 60})], start_ms=0, end_ms=100, count=2) == ["stalled", "stalled"]


def test_neighbours_of_one_state_are_one_segment_and_a_gap_stays_a_gap():
    assert band(["useful", "useful", None, "idle"]) == [
        Segment("useful", "0.000%", "50.000%", "Useful"),
        Segment("idle", "75.000%", "25.000%", "Idle"),
    ]
