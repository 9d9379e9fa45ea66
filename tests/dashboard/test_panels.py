"""fleetwatch/dashboard/drawing/panels.py: panels under each other, by one time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import plotly.graph_objects as go
import pytest

from fleetwatch.dashboard.drawing import panels
from fleetwatch.dashboard.drawing.figures import Line
from fleetwatch.dashboard.drawing.machine_charts import METRICS
from fleetwatch.dashboard.drawing.panels import Bands, Panel
from fleetwatch.telemetry.steps import StepSeries
from tests.dashboard.cells import cells_of

START = datetime(2026, 11, 20, tzinfo=UTC)
HOURS = [START + timedelta(hours=number) for number in range(3)]
PERIOD = HOURS[0], HOURS[2]
BANDS = Bands(["GPU 0", "GPU 1"], HOURS, np.array([[0, 5], [-1, 0]]))


def test_bands_and_panels_share_the_time_and_each_has_an_axis_of_its_own():
    power = Panel("Power", [Line("board", [500.0, None])], ".0f", " W")
    empty = Panel("Clock", [])
    util = Panel("Utilisation", [Line("kernel", [0.5, 0.0])])

    figure = panels.stacked(BANDS, HOURS[:2], [util, empty, power], period=PERIOD)

    layout = figure["layout"]
    go.Figure({"layout": layout})
    assert [trace["yaxis"] for trace in figure["data"]] == ["y", "y2", "y3"]
    assert cells_of(figure["data"][0]) == [[0, 5], [None, None], [None, 0]]
    assert figure["data"][2]["y"] == [500.0, None]
    assert [title["text"] for title in layout["annotations"]] == [
        "State with the most time",
        "Utilisation",
        "Power",
    ]
    # two rows of 16 px with a line of 2, two panels of 116, three titles of 26
    assert layout["height"] == 34 + 2 * 116 + 3 * 26 + 26
    assert layout["yaxis3"]["domain"][0] == 0
    assert layout["yaxis"]["domain"][1] == 1 - 26 / 344
    assert layout["xaxis"]["anchor"] == "y3"
    assert layout["xaxis"]["range"] == ["2026-11-20T00:00:00", "2026-11-20T02:00:00"]


def test_without_anything_there_is_nothing_to_draw():
    assert panels.stacked(None, HOURS[:2], [Panel("Clock", [])], period=PERIOD)["data"] == []


def test_a_band_lies_between_its_edges_and_many_names_have_a_row_of_their_own():
    lines = [Line("mean", [0.5, 0.2]), Line("when well", [0.9, 0.9])]
    edges = Line("lowest", [0.0, None]), Line("lowest to highest", [1.0, None])

    figure = panels.stacked(None, HOURS[:2], [Panel("Use", lines, band=edges)], period=PERIOD)

    low, high, between = figure["data"][2:]
    assert (low["y"], high["y"], between["fill"]) == ([0.0, None], [1.0, None], "toself")
    assert [trace["showlegend"] for trace in figure["data"]] == [True, True, False, False, True]
    assert figure["layout"]["height"] == 116 + 26 + 20 + 26


def test_a_band_is_a_polygon_for_each_run_of_known_readings():
    edges = Line("lowest", [0.0, None, 0.1, 0.2]), Line("highest", [1.0, None, 0.9, 0.8])

    starts = [HOURS[0] + timedelta(hours=number) for number in range(4)]
    *_, between = panels.stacked(
        None, starts, [Panel("Use", [Line("mean", [0.5] * 4)], band=edges)], period=PERIOD
    )["data"]

    x = [moment and int(moment[11:13]) for moment in between["x"]]
    assert x == [0, 1, 1, 0, None, 2, 3, 3, 3, 3, 3, 3, 2]
    assert between["y"] == [1.0, 1.0, 0.0, 0.0, None, 0.9, 0.9, 0.8, 0.8, 0.2, 0.2, 0.1, 0.1]


def test_names_that_need_more_rows_on_a_phone_say_how_much_that_is():
    """Columns of 42 + 4.3 px a letter in 250 px: three of "GPU 0", one of the longest name."""
    gpus = Panel("Use", [Line(f"GPU {number}", [0.5, 0.5]) for number in range(8)])
    long = Panel("Rest", [Line(name, [0.5, 0.5]) for name in ("power, idle to limit", "SM")])

    figure = panels.stacked(BANDS, HOURS[:2], [gpus, long], period=PERIOD)

    assert [title["name"] for title in figure["layout"]["annotations"]] == ["0", "40", "20"]


def test_a_note_stands_after_its_panels_title_and_has_a_line_of_its_own_on_a_phone():
    noted = Panel("Slowed", [Line("by heat", [0.0, 0.5])], note="no loss")

    figure = panels.stacked(None, HOURS[:2], [noted], period=PERIOD)

    [title] = figure["layout"]["annotations"]
    assert (title["text"], title["name"]) == ("Slowed · no loss", "18")


@pytest.mark.parametrize(
    ("highest", "top", "step"),
    [
        *[(63.2, 80, 20), (697.0, 800, 200), (47.0, 60, 20), (1.41, 1.5, 0.5), (80.0, 80, 20)],
        (3.2e-7, 4e-7, 1e-7),  # GB/s of an idle link
    ],
)
def test_an_axis_ends_at_a_round_number_that_has_a_label(highest, top, step):
    power = Panel("Power", [Line("board", [0.0, None, highest])], ".0f", " W")

    axis = panels.stacked(None, HOURS, [power], period=PERIOD)["layout"]["yaxis"]

    assert (axis["range"], axis["dtick"]) == ([0, top], step)


def test_an_axis_of_nothing_but_zeros_is_left_to_the_browser():
    power = Panel("Power", [Line("board", [0.0, None])], ".0f", " W")

    assert "range" not in panels.stacked(None, HOURS[:2], [power], period=PERIOD)["layout"]["yaxis"]


def test_a_note_stands_after_the_bands_title_and_has_a_line_of_its_own_on_a_phone():
    figure = panels.stacked(replace(BANDS, note="no readings"), HOURS, [], period=PERIOD)

    [title] = figure["layout"]["annotations"]
    assert (title["text"], title["name"]) == ("State with the most time · no readings", "18")


def test_a_label_that_is_longer_than_the_margin_gets_the_room_that_it_needs():
    layout = panels.stacked(
        BANDS, HOURS[:2], [Panel("PCIe", [Line("in", [990.0])], ".2~f", " MB/s")], period=PERIOD
    )["layout"]

    go.Figure({"layout": layout})
    assert layout["yaxis2"]["automargin"] == "left"


@pytest.mark.parametrize(
    ("highest_bytes_s", "unit", "value"),
    [
        (2.5e9, " GB/s", 2.5),
        (1e9, " GB/s", 1.0),
        (35e6, " MB/s", 35.0),
        (1200.0, " kB/s", 1.2),
        (5.0, " kB/s", 0.005),
        (0.0, " GB/s", 0.0),
    ],
)
def test_what_crosses_the_bus_is_drawn_in_a_unit_that_its_peak_has_one_of(
    highest_bytes_s, unit, value
):
    columns = {"pcie_rx_bytes_s": [0.0, highest_bytes_s, None], "pcie_tx_bytes_s": [0.0, 0.0, None]}

    panel = METRICS["gpu-pcie"].panel(StepSeries(10_000, [0, 10_000, 20_000], columns))

    assert panel.unit == unit
    assert list(panel.lines[0].values) == [0.0, value, None]
