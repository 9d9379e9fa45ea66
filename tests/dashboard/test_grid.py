"""fleetwatch/dashboard/drawing/grid.py and heat_map.py: cells as bytes, rows in groups with a line
between.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import plotly.graph_objects as go
import pytest

from fleetwatch.dashboard.drawing import grid, heat_map
from fleetwatch.dashboard.drawing.heat_map import Rows, placed
from fleetwatch.ledger.policy import SHOWN_STATES
from tests.dashboard.cells import cells_of

START = datetime(2026, 11, 20, tzinfo=UTC)
EDGES = [START + timedelta(hours=number) for number in range(4)]
TWO_NODES = Rows(
    [("node-<b>1", 2), ("node-2", 1)],
    ["1 · 0", "1 · 1", "2 · 0"],
    ["/gpus/a", "/gpus/b", "/gpus/c"],
)


def test_states_are_their_places_and_what_nobody_knows_is_none():
    assert grid.of_places(np.array([[0, 10, -1]])).tolist() == [[0, 10, 255]]


@pytest.mark.parametrize(("most", "shades"), [(1.0, [0, 125, 250, 255]), (2.0, [0, 62, 125, 255])])
def test_a_metric_is_in_shades_of_the_most(most, shades):
    assert grid.of_shares(np.array([[0.0, 0.5, 1.0, np.nan]]), most).tolist() == [shades]


def test_without_anything_the_most_is_no_division():
    assert grid.of_shares(np.array([[0.0, np.nan]]), 0.0).tolist() == [[0, 255]]


def test_a_line_stands_between_nodes_and_leads_nowhere():
    cells = grid.of_places(np.array([[0, 5, -1], [1, 1, 1], [10, 0, 0]]))

    figure = heat_map.state_map(TWO_NODES, EDGES, cells)

    go.Figure({"layout": figure["layout"]})
    trace = figure["data"][0]
    assert cells_of(trace) == [[0, 5, None], [1, 1, 1], [None] * 3, [10, 0, 0]]
    # rows of 16 px, a line of 2
    assert trace["y"] == [0, 16, 32, 34, 50]
    assert trace["meta"]["links"] == ["/gpus/a", "/gpus/b", "", "/gpus/c"]
    assert (trace["meta"]["first_ms"], trace["meta"]["step_ms"]) == (1_795_132_800_000, 3_600_000)
    assert trace["meta"]["steps"] == list(SHOWN_STATES)
    assert (trace["zmin"], trace["zmax"]) == (-0.5, 10.5)
    axis = figure["layout"]["yaxis"]
    assert axis["range"] == [50, 0]
    assert (axis["tickvals"], axis["ticktext"]) == ([16.0, 42.0], ["node-&lt;b&gt;1", "node-2"])


def test_a_metrics_map_goes_from_nothing_to_the_most():
    cells = grid.of_shares(np.full((3, 3), 0.5), 0.5)

    trace = heat_map.metric_map(TWO_NODES, EDGES, cells)["data"][0]

    assert cells_of(trace)[0] == [250, 250, 250]
    assert (trace["zmin"], trace["zmax"], trace["meta"]["ramp"]) == (0, 250, "accent")


@pytest.mark.parametrize(
    ("groups", "height"),
    [
        ([("a", 24)], 24 * 16),
        ([("a", 25)], 25 * 12),
        ([("a", 8)] * 125, 125 * 16 + 124 * 2),  # 1,000 GPUs: two pixels each
        ([("a", 1)] * 1000, 1000 * 14 + 999 * 2),  # a node's name needs as much
    ],
)
def test_rows_are_as_high_as_so_many_allow_and_names_of_nodes_fit(groups, height):
    assert placed(groups).height == height
