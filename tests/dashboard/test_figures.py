"""Figures are plain dicts that plotly itself accepts; what is asserted is x, y and gaps."""

from datetime import UTC, datetime, timedelta

import plotly.graph_objects as go
import pytest

from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing import figures
from fleetwatch.dashboard.drawing.figures import BAR_SHARE, Bar, Line, Part

START = datetime(2026, 11, 20, tzinfo=UTC)
HOURS = [START, START + timedelta(hours=1), START + timedelta(hours=2)]


def bars(starts, *, hours=1):
    """Whole ones."""
    return [
        Bar(start, start + timedelta(hours=hours), hours * 3_600_000, hours * 3_600_000)
        for start in starts
    ]


def parts(**dollars):
    return [Part(words.BY_NAME[name].label, name, usd) for name, usd in dollars.items()]


def valid(figure):
    """The figure, if plotly takes it."""
    go.Figure({"data": figure["data"], "layout": figure["layout"]})
    return figure


def test_dollars_are_stacked_in_the_order_of_their_parts():
    figure = valid(
        figures.stacked_dollars(
            bars(HOURS),
            parts(useful=[4.0, 5.0, 6.0], idle=[1.0, 0.0, 2.0], free=[0, 0, 0]),
            step="hour",
        )
    )

    assert [trace["name"] for trace in figure["data"]] == ["Useful", "Idle"]
    assert figure["data"][0]["x"] == [
        "2026-11-20T00:00:00",
        "2026-11-20T01:00:00",
        "2026-11-20T02:00:00",
    ]
    assert figure["data"][1]["y"] == [1.0, 0.0, 2.0]
    assert figure["layout"]["barmode"] == "stack"


def test_many_hours_are_an_area():
    hours = [START + timedelta(hours=number) for number in range(63)]

    figure = valid(
        figures.stacked_dollars(bars(hours), parts(idle=[1.0] * 63, free=[1.0] * 63), step="hour")
    )

    assert {trace["stackgroup"] for trace in figure["data"]} == {"parts"}
    assert figure["data"][1]["fillpattern"]["shape"]


def test_a_day_is_a_bar_in_the_middle_of_its_day():
    days = [START + timedelta(days=number) for number in range(3)]

    figure = valid(
        figures.stacked_dollars(bars(days, hours=24), parts(useful=[1.0, 2.0, 3.0]), step="day")
    )

    assert figure["data"][0]["type"] == "bar"
    trace = figure["data"][0]
    assert figure["layout"]["xaxis"]["range"] == ["2026-11-20T00:00:00", "2026-11-23T00:00:00"]
    assert trace["offset"][0] * 2 + trace["width"][0] == 86_400_000


def test_a_bar_has_the_dollars_of_its_part_and_is_as_narrow_as_it_in_the_same_colour():
    quarter = START + timedelta(minutes=45)
    part = Bar(quarter, START + timedelta(hours=1), 3_600_000, 900_000, START)
    running = Bar(START + timedelta(hours=1), START + timedelta(minutes=90), 3_600_000, 1_800_000)

    figure = valid(figures.stacked_dollars([part, running], parts(useful=[1.0, 2.0]), step="hour"))

    trace = figure["data"][0]
    assert (trace["y"], trace["customdata"]) == ([1.0, 2.0], [1.0, 2.0])
    assert [width / BAR_SHARE for width in trace["width"]] == [900_000, 1_800_000]
    # the last quarter of its hour less the air at its end, and in the first half of its own
    ends = [offset + width for offset, width in zip(trace["offset"], trace["width"], strict=True)]
    assert ends[0] == 900_000 - 3_600_000 * (1 - BAR_SHARE) / 2
    assert trace["offset"][1] == 3_600_000 * (1 - BAR_SHARE) / 2
    assert "opacity" not in trace["marker"]
    assert trace["hovertext"] == [
        "15 min of Fri 20 Nov, 00:00: $1.00",
        "30 min of Fri 20 Nov, 01:00: $2.00",
    ]
    assert figure["layout"]["xaxis"]["range"] == ["2026-11-20T00:00:00", "2026-11-20T02:00:00"]


@pytest.mark.parametrize(
    ("begins", "step", "name"),
    [
        (START, "hour", "Fri 20 Nov, 00:00"),
        (START, "day", "Fri 20 Nov"),
        (START.replace(hour=5), "day", "the day from Fri 20 Nov, 05:00"),
        (START.replace(day=16), "week", "16 – 22 Nov"),
        (START.replace(day=30), "week", "30 Nov – 6 Dec"),
        (START.replace(day=1), "month", "November 2026"),
    ],
)
def test_a_step_is_named_with_its_end(begins, step, name):
    assert figures.step_name(begins, step) == name


def test_ticks_stand_where_hours_begin():
    starts = [START + timedelta(hours=number) for number in range(24)]
    before = START - timedelta(hours=1)
    part = Bar(START - timedelta(minutes=20), START, 3_600_000, 1_200_000, before)

    figure = valid(
        figures.stacked_dollars([part, *bars(starts)], parts(useful=[1.0] * 25), step="hour")
    )

    assert figure["layout"]["xaxis"]["tickvals"] == [
        f"2026-11-20T{hour:02}:00:00" for hour in range(0, 24, 4)
    ]


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0.004, "$,.4f"),
        (0.05, "$,.2f"),
        (0.5, "$,.2f"),
        (9.99, "$,.2f"),
        (10, "$,.0f"),
        (999, "$,.0f"),
        (1000, "$,.3~s"),
    ],
)
def test_a_money_axis_never_reads_milli(top, ticks):
    assert figures.money_ticks(top) == ticks


@pytest.mark.parametrize("state", ["free", "unobserved"])
def test_what_is_nobodys_is_hatched(state):
    trace = valid(
        figures.stacked_dollars(bars(HOURS), parts(**{state: [1.0, 1.0, 1.0]}), step="hour")
    )["data"][0]

    assert trace["marker"]["pattern"]["shape"]
    assert trace["meta"] == {"token": state}


def test_a_figure_without_dollars_has_no_trace():
    assert (
        valid(figures.stacked_dollars(bars(HOURS), parts(useful=[0.0, 0.0, 0.0]), step="hour"))[
            "data"
        ]
        == []
    )


def test_a_line_keeps_its_gaps():
    figure = valid(
        figures.series(HOURS, [Line("power", [612.5, None, 121.0])], y_format=".0f", unit=" W")
    )

    assert figure["data"][0]["y"] == [612.5, None, 121.0]
    assert figure["data"][0]["connectgaps"] is False


@pytest.mark.parametrize(
    ("step_h", "count", "written"),
    [
        (1, 8, "%H:%M"),
        (1, 24, "%H:%M"),
        (1, 36, "%a %H:%M"),  # a clock alone would read 00:00 twice
        (1, 62, "%a %H:%M"),  # a date alone would be three times Friday 20
        (24, 7, "%a %-d"),
        (24, 30, "%-d %b"),
    ],
)
def test_ticks_of_bars_read_differently(step_h, count, written):
    starts = [START + timedelta(hours=step_h * number) for number in range(count)]
    step = "hour" if step_h == 1 else "day"

    figure = figures.stacked_dollars(
        bars(starts, hours=step_h), parts(useful=[1.0] * count), step=step
    )

    axis = valid(figure)["layout"]["xaxis"]
    ticks = [datetime.fromisoformat(tick) for tick in axis["tickvals"]]
    assert (axis["tickformat"], axis["tickformatstops"]) == (written, [])
    assert len({tick.strftime(written) for tick in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("hours", "clock", "day"),
    [(12, "%H:%M", "%a %-d"), (24, "%a %H:%M", "%a %-d"), (24 * 30, "%a %H:%M", "%-d %b")],
)
def test_ticks_that_plotly_chooses_name_the_time_that_they_are_apart_by(hours, clock, day):
    figure = figures.series(
        [START, START + timedelta(hours=hours)], [Line("a", [1, 2])], y_format=".0f"
    )

    stops = valid(figure)["layout"]["xaxis"]["tickformatstops"]
    assert [stop["value"] for stop in stops] == ["%H:%M:%S", clock, day]
    assert [stop["dtickrange"] for stop in stops] == [
        [None, 59_999],
        [60_000, 86_399_999],
        [86_400_000, None],
    ]
