"""Bands of states above curves, each with an own axis, over one time with one crosshair. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil, floor, log10

from fleetwatch.dashboard.drawing import heat_map
from fleetwatch.dashboard.drawing.figures import SHARE, Figure, Line, band, curves, iso, layout_over
from fleetwatch.dashboard.drawing.grid import Ints

TITLE_PX = 26  # above each panel: what it is, and the names of its lines
TITLE_LINE_PX = 18  # of it a line of words
NAMES_PX = 20  # more for a row of names, where lines have any
PHONE_PX = 250  # of a row of names on a phone; elsewhere one has room for all
MARK_PX = 42  # beside a name there
LETTER_PX = 4.3
PANEL_PX = 116
AXIS_PX = 26
TICKS = 4  # above 0 on an axis, at most


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one unit."""

    title: str
    lines: Sequence[Line]
    y_format: str = SHARE
    unit: str = ""
    is_named: bool = True  # its lines have their names above it
    band: tuple[Line, Line] | None = None  # what lies between them is shaded
    keys: Sequence[Line] = ()  # of what is shaded behind it: names without values
    note: str = ""  # after its title; on a phone below it
    height: int = PANEL_PX


@dataclass(frozen=True, slots=True)
class Bands:
    """Rows of states in equal cells: places in words.SHOWN, -1 = not known."""

    names: Sequence[str]
    edges: Sequence[datetime]  # one more than a row has cells
    states: Ints  # rows x cells
    note: str = ""  # after their title; on a phone below it


@dataclass(frozen=True, slots=True)
class _Slot:
    """What takes so many pixels of the height: a panel, or the bands."""

    traces: Sequence[Figure]
    axis: Figure
    title: str
    height: int
    above: int = TITLE_PX
    narrow_px: int = 0  # more above it where a figure is narrow: charts.js moves panels apart


def stacked(
    bands: Bands | None,
    starts: Sequence[datetime],
    panels: Sequence[Panel],
    *,
    period: tuple[datetime, datetime],
) -> Figure:
    """Bands, then panels, from top to bottom over the period; panels without lines are left out.
    Without anything the figure has no data.
    """
    slots = _slots(bands, starts, panels)
    plot_px = sum(slot.above + slot.height for slot in slots)
    figure: Figure = {"data": [], "layout": _layout(period, plot_px)}
    axis = figure["layout"].pop("yaxis")
    bottom_px = plot_px
    for slot, name in zip(slots, _names(len(slots)), strict=True):
        bottom_px -= slot.above + slot.height
        _add(figure, slot, name, axis, (bottom_px / plot_px, (bottom_px + slot.height) / plot_px))
    return figure


def _add(figure: Figure, slot: _Slot, name: str, axis: Figure, span: tuple[float, float]) -> None:
    """The slot over this part of the height, with its title and legend, by an axis so named."""
    layout = figure["layout"]
    layout[f"yaxis{name}"] = axis | slot.axis | {"domain": span}
    layout[f"legend{name}"] = _LEGEND | {"y": span[1]}
    top_px = slot.above - TITLE_PX + TITLE_LINE_PX
    title = {"text": slot.title, "y": span[1], "yshift": top_px}
    layout["annotations"].append(_TITLE | title | {"name": str(slot.narrow_px)})
    layout["xaxis"]["anchor"] = f"y{name}"  # the last one: time is written below it
    own = {"yaxis": f"y{name}", "legend": f"legend{name}"}
    figure["data"] += [trace | own for trace in slot.traces]


def _slots(bands: Bands | None, starts: Sequence[datetime], panels: Sequence[Panel]) -> list[_Slot]:
    """Those that show anything."""
    slots = [_of_bands(bands)] if bands and bands.names else []
    return slots + [_of_panel(starts, panel) for panel in panels if panel.lines]


def _names(count: int) -> list[str]:
    """How Plotly tells axes apart: y, y2, y3."""
    return ["", *(str(number) for number in range(2, count + 1))][:count]


_LEGEND: Figure = {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom"}
_TITLE: Figure = {
    **{"xref": "paper", "yref": "paper", "x": 0, "xanchor": "left", "yanchor": "top"},
    "showarrow": False,
    "align": "left",
}


def _of_bands(bands: Bands) -> _Slot:
    trace, axis, height = heat_map.bands(bands.names, bands.edges, bands.states)
    title = " · ".join(filter(None, ("State with the most time", bands.note)))
    more_px = TITLE_LINE_PX * bool(bands.note)
    return _Slot([trace | {"showlegend": False}], axis, title, height, narrow_px=more_px)


def _of_panel(starts: Sequence[datetime], panel: Panel) -> _Slot:
    traces = _traces(starts, panel)
    top = {"range": [0, 1.0]} if panel.y_format == SHARE else _round_range(panel.lines)
    axis = {"tickformat": panel.y_format, "ticksuffix": panel.unit, "rangemode": "tozero", **top}
    names = [trace["name"] for trace in traces if trace["showlegend"]]
    above = TITLE_PX + NAMES_PX * bool(names)
    more_px = NAMES_PX * _more_rows(names) + TITLE_LINE_PX * bool(panel.note)
    title = " · ".join(filter(None, (panel.title, panel.note)))
    return _Slot(traces, axis, title, panel.height, above, more_px)


def _round_range(lines: Sequence[Line]) -> Figure:
    """From 0 to a round number above all values, which a label says; nothing where all are 0."""
    highest = max((value for line in lines for value in line.values if value), default=0.0)
    if highest <= 0:
        return {}
    tenth = 10.0 ** floor(log10(highest / TICKS))
    step = next(size * tenth for size in (1, 2, 5, 10) if size * tenth * TICKS >= highest)
    # what floats add, not decimals: traffic of an idle link is far below a millionth
    top = float(f"{ceil(highest / step) * step:.6g}")
    return {"range": [0, top], "tick0": 0, "dtick": step}


def _traces(starts: Sequence[datetime], panel: Panel) -> list[Figure]:
    """The panel's lines, with their names where these say more than its title."""
    several = len(panel.lines) > 1 or panel.band is not None or bool(panel.keys)
    is_named = panel.is_named and several
    drawn = {"y_format": panel.y_format, "unit": panel.unit}
    lines = curves(starts, panel.lines, **drawn)
    # a key has no values: filled as its spans are, its name has a field of their colour
    keys = [
        trace | {"fill": "toself", "line": trace["line"] | {"width": 0}}
        for trace in curves(starts, panel.keys, **drawn)
    ]
    traces = [trace | {"showlegend": is_named} for trace in [*lines, *keys]]
    return traces + (band(starts, *panel.band) if panel.band else [])


def _more_rows(names: Sequence[str]) -> int:
    """How many more rows the names take on a phone, in columns as wide as the longest."""
    if not names:
        return 0
    column_px = MARK_PX + LETTER_PX * max(map(len, names))
    in_a_row = max(1, int(PHONE_PX / column_px))
    return -(-len(names) // in_a_row) - 1


def _layout(period: tuple[datetime, datetime], plot_px: int) -> Figure:
    layout = layout_over(period, y_format="", hover="x unified")
    return layout | {
        "height": plot_px + AXIS_PX,
        "margin": layout["margin"] | {"t": 0, "b": AXIS_PX, "l": 56},
        "xaxis": layout["xaxis"] | {"range": list(map(iso, period)), "showspikes": True},
        "hoversubplots": "axis",
        "showlegend": True,
        "annotations": [],
    }
