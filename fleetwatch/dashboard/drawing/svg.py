"""Panels (panels.py) as SVG, for whoever has no JavaScript. Pure."""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape, unescape
from itertools import groupby, pairwise

from fleetwatch.dashboard.drawing.figures import SHARE, Figure
from fleetwatch.dashboard.drawing.grid import UNKNOWN

WIDTH = 900
LEFT = 60  # before it stand the labels of the axes
RIGHT = WIDTH - 8
PARTS = 4  # of the axis of time, each end with its label
# `c` is a token's colour, put in where it is used
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:var(--ink-2)}"
    "path{fill:none;stroke:var(--c);stroke-width:1.5}.dot{stroke-dasharray:3 3}"
    "rect,.area,tspan{fill:var(--c);stroke:none}.area{opacity:.16}.mark{opacity:.22}"
    "tspan:not([style]){fill:inherit}.grid{--c:var(--line);stroke-width:1}"
)


@dataclass(frozen=True, slots=True)
class _Area:
    """Where a panel lies in pixels, between which values and when."""

    top: float
    bottom: float
    low: float
    high: float
    start: datetime
    end: datetime

    def x(self, moment: str) -> float:
        share = (datetime.fromisoformat(moment) - self.start) / (self.end - self.start)
        return round(LEFT + min(max(share, 0.0), 1.0) * (RIGHT - LEFT), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.bottom - share * (self.bottom - self.top), 1)


def is_of_panels(figure: Figure) -> bool:
    """Whether it can be drawn so."""
    return "annotations" in figure["layout"]


def svg(figure: Figure, tokens: str) -> str:
    """The figure's panels under each other; `tokens` are the declarations of its colours."""
    layout = figure["layout"]
    axes = [name for name in layout if name.startswith("yaxis")]
    areas = [_area(figure, axis) for axis in axes]
    parts: list[str] = []
    for axis, area, title in zip(axes, areas, layout["annotations"], strict=True):
        parts += [text(title["text"], LEFT, area.top - 6 - title["yshift"])]
        parts += _panel(figure, axis, area)
    parts += [part for area in areas[-1:] for part in _times(area)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {layout["height"]}">'
        f"<style>:root{{{tokens}}}{STYLE}</style>{''.join(parts)}</svg>"
    )


def _area(figure: Figure, axis: str) -> _Area:
    layout = figure["layout"]
    plot_px = layout["height"] - layout["margin"]["b"]
    bottom, top = (round(plot_px * (1 - share), 1) for share in layout[axis]["domain"])
    low, high = layout[axis].get("range") or (0.0, _highest(_traces(figure, axis)))
    start, end = map(datetime.fromisoformat, layout["xaxis"]["range"])
    return _Area(top, bottom, low, high, start, end)


def _traces(figure: Figure, axis: str) -> list[Figure]:
    return [trace for trace in figure["data"] if trace["yaxis"] == axis.replace("axis", "")]


def _highest(traces: Sequence[Figure]) -> float:
    return max((value for trace in traces for value in trace["y"] if value), default=1.0)


def _panel(figure: Figure, axis: str, area: _Area) -> Iterator[str]:
    """Bands of states, or lines over their grid and the marks, with their names."""
    traces = _traces(figure, axis)
    shape = figure["layout"][axis]
    if traces[0]["type"] == "heatmap":
        yield from _states(traces[0], area)
        yield from _row_names(shape, area)
        return
    yield from _grid(shape, area)
    yield from _marks(figure, area)
    for place, trace in enumerate(traces):
        if "fill" in trace:
            yield _between(traces[place - 2], traces[place - 1], area)
        elif trace["line"]["width"]:
            yield _line(trace, area)
    named = [trace for trace in traces if trace["showlegend"]]
    if named:
        yield _names(named, area)


def _states(trace: Figure, area: _Area) -> Iterator[str]:
    columns = len(trace["x"]) - 1
    cells = b64decode(trace["z"]["bdata"])
    for row, ends in enumerate(pairwise(map(area.y, trace["y"]))):
        for first, last, cell in _same(cells[row * columns : (row + 1) * columns]):
            sides = area.x(trace["x"][first]), area.x(trace["x"][last])
            yield rect(trace["meta"]["steps"][cell], *sides, *ends)


def _row_names(axis: Figure, area: _Area) -> Iterator[str]:
    for name, middle in zip(axis["ticktext"], axis["tickvals"], strict=True):
        yield text(unescape(name), LEFT - 6, area.y(middle) + 4, "end")


def _same(cells: bytes) -> Iterator[tuple[int, int, int]]:
    """From where to where which cell is; nothing of what is not known."""
    first = 0
    for cell, same in groupby(cells):
        last = first + len(list(same))
        if cell != UNKNOWN:
            yield first, last, cell
        first = last


def _marks(figure: Figure, area: _Area) -> Iterable[str]:
    """What is shaded, once: the figure has it for each of its axes."""
    return dict.fromkeys(_mark(mark, area) for mark in figure["layout"].get("shapes", ()))


def _mark(mark: Figure, area: _Area) -> str:
    ends = area.x(mark["x0"]), area.x(mark["x1"])
    return rect(mark["name"], *ends, area.top, area.bottom, css="mark")


def rect(token: str, left: float, right: float, top: float, bottom: float, *, css: str = "") -> str:
    return (
        f'<rect class="{css}" style="--c:var(--{token})" x="{left}" y="{top}"'
        f' width="{right - left:.1f}" height="{bottom - top:.1f}"/>'
    )


def _grid(axis: Figure, area: _Area) -> Iterator[str]:
    for value in (area.low, (area.low + area.high) / 2, area.high):
        y = area.y(value)
        yield f'<path class="grid" d="M{LEFT} {y}H{RIGHT}"/>'
        yield text(_tick(value, axis), LEFT - 6, y + 4, "end")


def _tick(value: float, axis: Figure) -> str:
    if axis["tickformat"] == SHARE:
        return f"{value:.0%}"
    return f"{round(value) if value >= 10 else round(value, 2):g}{axis['ticksuffix']}"


def _line(trace: Figure, area: _Area) -> str:
    runs = "".join("M" + "L".join(run) for run in _steps(trace, area))
    css = "dot" if trace["line"]["dash"] == "dot" else ""
    return f'<path class="{css}" style="--c:var(--{trace["meta"]["token"]})" d="{runs}"/>'


def _between(below: Figure, trace: Figure, area: _Area) -> str:
    """What lies between two lines that are known at the same time."""
    edges = zip(_steps(trace, area), _steps(below, area), strict=True)
    runs = "".join("M" + "L".join([*upper, *reversed(lower)]) for upper, lower in edges)
    return f'<path class="area" style="--c:var(--{trace["meta"]["token"]})" d="{runs}"/>'


def _steps(trace: Figure, area: _Area) -> list[list[str]]:
    """Of each run of known values the points of its steps: each holds until the next start."""
    edges = [*map(area.x, trace["x"]), RIGHT]
    runs = []
    for is_known, run in groupby(enumerate(trace["y"]), lambda each: each[1] is not None):
        if is_known:
            steps = [(place, area.y(value)) for place, value in run]
            runs.append([f"{edges[at]} {y}" for place, y in steps for at in (place, place + 1)])
    return runs


def _names(traces: Sequence[Figure], area: _Area) -> str:
    names = [
        f'<tspan style="--c:var(--{trace["meta"]["token"]})">■</tspan> {escape(trace["name"])}'
        for trace in traces
    ]
    return f'<text x="{RIGHT}" y="{area.top - 6}" text-anchor="end">{"&#160; ".join(names)}</text>'


def _times(area: _Area) -> Iterator[str]:
    for part in range(PARTS + 1):
        at = area.start + (area.end - area.start) * part / PARTS
        anchor = anchor_of(part, PARTS)
        label = f"{at:%a %-d %b, %H:%M}" if part in (0, PARTS) else f"{at:%H:%M}"
        yield text(label, LEFT + (RIGHT - LEFT) * part / PARTS, area.bottom + 18, anchor)


def anchor_of(place: int, last: int) -> str:
    """Of a label at one of the places from 0 to the last: none goes beyond the drawing's ends."""
    if place == 0:
        return "start"
    return "end" if place == last else "middle"


def text(content: str, x: float, y: float, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'
