"""Maps of things x time: rows in groups with a line between these, cells as bytes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import numpy as np

from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing import grid
from fleetwatch.dashboard.drawing.clock_steps import texts_of
from fleetwatch.dashboard.drawing.figures import Figure, iso, layout_over
from fleetwatch.dashboard.drawing.grid import Ints, Numbers
from fleetwatch.lib.intervals import to_ms

LABEL_PX = 14  # what the name of a group needs
LINE_PX = 2  # between groups
# how high a row is where there are so many at most
ROW_PX = ((24, 16), (64, 12), (160, 8), (400, 4))
LEAST_PX = 2
SPACED_PX = 6  # where rows are as high on the mean, a line stands between any two
AXIS_PX = 26
MARK_PX = 10
LONGEST_NAME = 22  # of a group beside the map


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a map from top to bottom: `groups` says how many of them each group has; links lead
    to what a row is of; those of the numbers in `marked` end with a cross.
    """

    groups: Sequence[tuple[str, int]]
    names: Sequence[str]
    links: Sequence[str] = ()
    marked: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows and the lines between groups in pixels: `edges` is one more than there are of both, `at`
    is the number of a row and -1 for a line, `middles` are those of the groups.
    """

    edges: list[int]
    at: list[int]
    middles: list[float]

    @property
    def height(self) -> int:
        return self.edges[-1]


def placed(groups: Sequence[tuple[str, int]]) -> Placed:
    """Every row as high as so many allow, and a group no less high than its name."""
    row_px = _row_px(sum(count for _, count in groups))
    place = Placed([0], [], [])
    rows = 0
    for name, count in groups:
        if place.at:
            place.edges.append(place.height + LINE_PX)
            place.at.append(-1)
        top = place.height
        own_px = max(row_px, -(-LABEL_PX // count)) if name else row_px
        place.edges.extend(range(top + own_px, top + own_px * count + 1, own_px))
        place.at.extend(range(rows, rows + count))
        place.middles.append((top + place.height) / 2)
        rows += count
    return place


def _row_px(count: int) -> int:
    return next((px for most, px in ROW_PX if count <= most), LEAST_PX)


def state_map(rows: Rows, edges: Sequence[datetime], cells: Numbers) -> Figure:
    """In the states' colours; a cell is the place of its state in words.SHOWN."""
    return _map(rows, edges, cells, _COLOURED)


def metric_map(rows: Rows, edges: Sequence[datetime], cells: Numbers) -> Figure:
    """In shades from nothing (grey) to the most (the accent): the states' own colours stay
    theirs.
    """
    return _map(rows, edges, cells, _SHADED)


def bands(
    names: Sequence[str], edges: Sequence[datetime], states: Ints
) -> tuple[Figure, Figure, int]:
    """Rows of states to be put above curves: their trace, its axis, and their height in pixels."""
    rows = Rows([(name, 1) for name in names], names)
    place = placed(rows.groups)
    trace = _trace(place, edges, grid.of_places(states)) | _COLOURED
    return trace | {"hovertemplate": "%{text}<extra></extra>"}, _axis(rows, place), place.height


def plain(name: str) -> str:
    """A name as Plotly shows it letter by letter: its texts may hold tags. Cut where it is long."""
    is_long = len(name) > LONGEST_NAME
    return escape(f"{name[:LONGEST_NAME]}…" if is_long else name, quote=False)


# how a map's cells are coloured (charts.js)
_COLOURED: Figure = {
    "zmin": -0.5,
    "zmax": len(words.NAMES) - 0.5,
    "meta": {"steps": list(words.NAMES), "labels": [state.label for state in words.SHOWN]},
}
_SHADED: Figure = {"zmin": 0, "zmax": grid.SHADES, "meta": {"ramp": "accent"}}


def _map(rows: Rows, edges: Sequence[datetime], cells: Numbers, coloured: Figure) -> Figure:
    place = placed(rows.groups)
    trace = _trace(place, edges, cells) | coloured
    trace |= {"hoverinfo": "none", "meta": coloured["meta"] | _meta(rows, place, edges)}
    layout = layout_over((edges[0], edges[-1]), y_format="", hover="closest")
    layout["xaxis"] |= {"side": "top", "range": [iso(edges[0]), iso(edges[-1])]}
    layout["yaxis"] |= _axis(rows, place)
    layout["margin"] |= {"t": AXIS_PX, "b": 4}
    layout["height"] = place.height + AXIS_PX + 4
    marks = [_marks(rows, place, edges)] if rows.marked else []
    return {"data": [trace, *marks], "layout": layout}


def _trace(place: Placed, edges: Sequence[datetime], cells: Numbers) -> Figure:
    """Lines between groups are rows that nobody knows."""
    with_lines = np.full((len(place.at), cells.shape[1]), grid.UNKNOWN, dtype=np.uint8)
    with_lines[np.array(place.at) >= 0] = cells
    return {
        "type": "heatmap",
        "x": texts_of(edges),
        "y": place.edges,
        "z": grid.packed(with_lines),
        "showscale": False,
        "hoverongaps": False,
        "ygap": 1 if place.height >= SPACED_PX * len(place.at) else 0,
    }


def _marks(rows: Rows, place: Placed, edges: Sequence[datetime]) -> Figure:
    """A cross over the end of each marked row, which the pointer passes by."""
    tops = {at: (place.edges[n], place.edges[n + 1]) for n, at in enumerate(place.at)}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [iso(edges[-1])] * len(rows.marked),
        "y": [sum(tops[at]) / 2 for at in rows.marked],
        "marker": {"symbol": "x", "size": MARK_PX},
        "line": {"width": 0},
        "meta": {"token": "bad"},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _meta(rows: Rows, place: Placed, edges: Sequence[datetime]) -> Figure:
    """What the pointer is at, and where a click leads: of a line between groups nothing."""
    return {
        "names": ["" if at < 0 else rows.names[at] for at in place.at],
        "links": ["" if at < 0 else rows.links[at] for at in place.at],
        "first_ms": to_ms(edges[0]),
        "step_ms": to_ms(edges[1]) - to_ms(edges[0]),
    }


def _axis(rows: Rows, place: Placed) -> Figure:
    """Named by groups, from top to bottom."""
    return {
        "range": [place.height, 0],
        "tickvals": place.middles,
        "ticktext": [plain(name) for name, _ in rows.groups],
        "showgrid": False,
        "automargin": True,
        "ticks": "outside" if any(name for name, _ in rows.groups) else "",
    }
