"""fleetwatch/dashboard/drawing/svg.py: panels as a picture."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest

from fleetwatch.dashboard.drawing import figures, panels
from fleetwatch.dashboard.drawing.figures import Bar, Line, Part
from fleetwatch.dashboard.drawing.panels import Bands, Panel
from fleetwatch.dashboard.drawing.stacked_svg import is_stacked, stacked_svg
from fleetwatch.dashboard.drawing.svg import svg
from tests.dashboard import fleet

START = datetime(2026, 11, 20, tzinfo=UTC)
HOURS = [START + timedelta(hours=number) for number in range(5)]
PERIOD = HOURS[0], HOURS[4]  # an hour is 208 px wide, from 60 to 892
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*rows: Panel, bands: Bands | None = None, marks=()) -> ElementTree.Element:
    figure = panels.stacked(bands, HOURS[:4], rows, period=PERIOD)
    return ElementTree.fromstring(svg(figures.shaded(figure, marks), "--ink:#000;"))


def paths(picture: ElementTree.Element) -> list[str]:
    """Of lines and what lies between them, without the grid."""
    return [path.get("d") for path in picture.iter(f"{SVG}path") if path.get("class") != "grid"]


def texts(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def test_a_value_holds_until_the_next_start_and_what_is_not_known_is_a_gap():
    picture = drawn(Panel("Use", [Line("kernel", [0.5, 1.0, None, 0.0])]))

    # a panel of 116 px below a title of 26
    assert paths(picture) == [
        "M60.0 84.0L268.0 84.0L268.0 26.0L476.0 26.0M684.0 142.0L892 142.0",
    ]
    # one line is what the title says
    assert texts(picture)[:4] == ["Use", "0%", "50%", "100%"]
    assert "■" not in "".join(texts(picture))


def test_a_band_is_closed_where_its_readings_end():
    edges = Line("lowest", [0.0, 0.5, None, None]), Line("highest", [1.0, 1.0, None, None])
    picture = drawn(Panel("Use", [Line("mean", [None] * 4)], band=edges))

    _, between = paths(picture)
    # two names have a row of 20 px of their own
    there = "M60.0 46.0L268.0 46.0L268.0 46.0L476.0 46.0"
    assert between == f"{there}L476.0 104.0L268.0 104.0L268.0 162.0L60.0 162.0"


def test_states_and_marks_are_where_they_were_in_their_colours():
    bands = Bands(["<GPU 0>"], HOURS[:3], np.array([[0, -1]]))
    use = Panel("Use", [Line("kernel", [0.5] * 4)])
    picture = drawn(use, bands=bands, marks=[(HOURS[1], HOURS[2], "stalled")])

    state, mark = picture.iter(f"{SVG}rect")
    assert (state.get("style"), state.get("x"), state.get("width")) == (
        "--c:var(--useful)", "60.0", "208.0",
    )  # fmt: skip
    assert (mark.get("style"), mark.get("x"), mark.get("width"), mark.get("height")) == (
        "--c:var(--stalled)", "268.0", "208.0", "116.0",
    )  # fmt: skip
    assert "<GPU 0>" in texts(picture)


def test_an_axis_ends_with_a_round_value_in_its_unit():
    lines = [Line(name, [700.0, 350.0, 0, 0]) for name in ('"<b>&', "limit")]
    picture = drawn(Panel("Power", lines, ".0f", " W"))

    assert texts(picture)[1:5] == ["0 W", "400 W", "800 W", '■ "<b>&\xa0 ■ limit']
    assert drawn() is not None


@pytest.mark.django_db
def test_a_chart_of_panels_is_a_picture_in_the_theme_that_was_chosen(admin, client):
    fleet.make(nodes=1, gpus=1, hours=6)
    address = "/charts/gpu?gpu=GPU-node-001-0&from=now-6h&to=now&as=svg"

    as_the_browser_has_it = admin.get(address)
    client.cookies["theme"] = "dark"
    dark = client.get(address).content.decode()

    assert as_the_browser_has_it["Content-Type"] == "image/svg+xml"
    assert "'unsafe-inline'" in as_the_browser_has_it["Content-Security-Policy"]  # of its style
    assert "unsafe-inline" not in admin.get(f"{address[:-3]}table")["Content-Security-Policy"]
    assert ":root{color-scheme:light dark;--paper:" in as_the_browser_has_it.content.decode()
    assert ":root{color-scheme:dark;--paper:" in dark
    assert re.search(r"--useful: light-dark\(#\w+, #\w+\);", dark)
    page = client.get("/gpus/GPU-node-001-0").content.decode()
    assert re.search(r'<img[^>]*src="/charts/gpu\?[^"]*&amp;as=svg"', page)
    client.logout()
    assert client.get(address).status_code == 302


def test_dollars_stand_on_each_other_in_their_colours_beside_their_names():
    bars = [Bar(start, start + timedelta(hours=1), 3_600_000, 3_600_000) for start in HOURS[:2]]
    parts = [Part("Useful", "useful", [3.0, 1.0]), Part("<Idle>", "idle", [1.0, 0.0])]
    figure = figures.stacked_dollars(bars, parts, step="hour")

    picture = ElementTree.fromstring(stacked_svg(figure, "--ink:#000;"))

    assert is_stacked(figure)
    # 220 px are $4 above y = 248; an hour is 416 px wide
    assert [
        (rect.get("style"), *(float(rect.get(side)) for side in ("x", "y", "width", "height")))
        for rect in picture.iter(f"{SVG}rect")
    ] == [
        ("--c:var(--useful)", 60.0, 83.0, 415.0, 165.0),
        ("--c:var(--idle)", 60.0, 28.0, 415.0, 55.0),
        ("--c:var(--useful)", 476.0, 193.0, 415.0, 55.0),
    ]
    assert texts(picture)[:4] == ["■ Useful\xa0 ■ <Idle>", "$0.00", "$2.00", "$4.00"]


def test_without_dollars_there_is_nothing_to_draw():
    assert not is_stacked(figures.stacked_dollars([], [], step="hour"))
