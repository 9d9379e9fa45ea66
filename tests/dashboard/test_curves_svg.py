"""Small drawings inside of pages: a curve of a few points."""

import pytest

from fleetwatch.dashboard.drawing.curve_svg import Value, curve


def test_a_curve_begins_at_zero_and_labels_that_would_touch_are_left_out():
    drawn = curve(
        [Value(0, 0.0, "0"), Value(1, 10.0, "10 s"), Value(4, 20.0, "20 s"), Value(8, 40.0, "40 s")]
    )

    # 34 px at each side of 460, and 30 above and below 120 of 180
    assert [(point.x, point.y) for point in drawn.points] == [
        (34, 150), (83, 120), (230, 90), (426, 30),
    ]  # fmt: skip
    assert [point.label for point in drawn.points] == ["", "10 s", "20 s", "40 s"]
    assert drawn.path == "M34.0 150.0L83.0 120.0L230.0 90.0L426.0 30.0"
    assert drawn.words == "0: 0, 1: 10 s, 4: 20 s, 8: 40 s"


def test_what_is_at_least_so_much_is_an_open_point_at_the_end_of_a_line_apart():
    drawn = curve(
        [
            Value(0, 0.0, "0"),
            Value(1, 10.0, "10 s"),
            Value(4, 20.0, "20 s", is_least=True),
            Value(8, 40.0, "40 s", is_least=True),
        ]
    )

    assert [point.is_open for point in drawn.points] == [False, False, True, True]
    assert drawn.path == "M34.0 150.0L83.0 120.0"
    assert drawn.open_path == "M83.0 120.0L230.0 90.0L426.0 30.0"
    assert drawn.words == "0: 0, 1: 10 s, 4: at least 20 s, 8: at least 40 s"


def test_a_limit_lies_where_its_amount_does_and_places_are_said_by_their_words():
    values = [
        Value(0, 0.0, "0", "1 Oct"),
        Value(1, 10.0, "$10", "1 Oct"),
        Value(8, 20.0, "$20", "8 Oct"),
    ]

    drawn = curve(values, limit=(40.0, "budget $40"))

    # of 120 px 40 are the whole, and 20 half of it
    assert (drawn.limit.y, drawn.limit.label) == (30, "budget $40")
    assert [(point.y, point.place) for point in drawn.points] == [
        (150, ""), (120, "1 Oct"), (90, "8 Oct"),
    ]  # fmt: skip


def test_of_labels_that_would_touch_the_later_one_stays():
    """Steps of 49 px; a label of ten characters takes 75 and a gap, one of six 45 and a gap."""
    labels = ["", "8 min", "19 min", "1 h 43 min", "7 h 55 min", "15 h 48 min", "1 d", "1 d 6 h"]
    drawn = curve([Value(place, 0.0, label) for place, label in enumerate(labels)])

    shown = [point.label for point in drawn.points]
    assert shown == ["", "8 min", "", "1 h 43 min", "", "15 h 48 min", "", "1 d 6 h"]


def test_a_curve_of_nothing_lies_on_its_axis():
    drawn = curve([Value(0, 0.0, "0"), Value(1, 0.0, "0"), Value(2, 0.0, "0")])

    assert {point.y for point in drawn.points} == {150.0}


@pytest.mark.parametrize(("spent", "dy"), [(85, -25), (50, -7), (100, -7)])
def test_a_label_that_would_touch_the_limit_stands_above_it(spent, dy):
    """The limit of 100 is 120 pixels high, and a label about 24: 85 lies 18 below the limit."""
    drawn = curve([Value(0, 0, ""), Value(1, spent, f"${spent}")], limit=(100, "budget $100"))

    assert drawn.points[-1].dy == dy


def test_a_label_beside_that_of_the_limit_stands_below_its_point():
    values = [Value(0, 0, ""), Value(1, 95, "$95"), Value(4, 96, "$96")]

    drawn = curve(values, limit=(100, "budget $100"))

    assert [round(point.dy, 1) for point in drawn.points[1:]] == [17, -11.8]
