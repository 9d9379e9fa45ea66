"""Panels (panels.py) as SVG, for whoever has no JavaScript. Pure."""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape, unescape
from itertools import groupby, pairwise

from fleetwatch.dashboard.drawing.figures import SHARE, Figure
from fleetwatch.dashboard.drawing.grid import SHADES, UNKNOWN
from fleetwatch.dashboard.numbers import usd

WIDTH = 900
LEFT = 60  # before it stand the labels of the axes
RIGHT = WIDTH - 8
PARTS = 4  # of the axis of time, each end with its label
LETTER_PX = 7.0
NAME_PX = 28  # of a name beside its letters
NAMES_IN_A_ROW = 6
ROW_PX = 18  # of names
TONES = 20  # of a map of shares: neighbours of one tone are one cell
CROSS_PX = 3.5  # from its middle to its ends
# `c` is a token's colour, put in where it is used
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:var(--ink-2)}"
    "path{fill:none;stroke:var(--c);stroke-width:1.5}.dot{stroke-dasharray:3 3}"
    ".cross{stroke-width:2}rect,.area,tspan{fill:var(--c);stroke:none}.area{opacity:.16}.mark{opacity:.22}"
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


def svg(figure: Figure, tokens: str) -> str:
    """The figure's panels under each other; `tokens` are the declarations of its colours."""
    layout = figure["layout"]
    axes = [name for name in layout if name.startswith("yaxis")]
    areas = [_area(figure, axis) for axis in axes]
    parts: list[str] = []
    for axis, area, title in zip(axes, areas, layout["annotations"], strict=True):
        if title["text"]:
            parts += [text(title["text"], LEFT, area.top - 6 - title["yshift"])]
        parts += _panel(figure, axis, area)
    parts += [part for area in areas[-1:] for part in _times(area)]
    return picture_of(parts, layout["height"], tokens, left=_beside(figure, axes))


def picture_of(parts: Iterable[str], height: float, tokens: str, *, left: float = 0) -> str:
    """The parts as one picture; `left` is the room that they need beside it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg"'
        f' viewBox="{-left:g} 0 {WIDTH + left:g} {height:g}">'
        f"<style>:root{{{tokens}}}{STYLE}</style>{''.join(parts)}</svg>"
    )


def _beside(figure: Figure, axes: Sequence[str]) -> float:
    """The room that the longest name of a row needs beyond that of the axes' labels."""
    names = [name for axis in axes for name in figure["layout"][axis].get("ticktext", ())]
    longest = max((len(unescape(name)) for name in names), default=0)
    return max(0.0, longest * LETTER_PX + 8 - LEFT)


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


def _is_map(trace: Figure) -> bool:
    return bool(trace["type"] == "heatmap")


def _panel(figure: Figure, axis: str, area: _Area) -> Iterator[str]:
    """Bands of states, or lines over their grid and the marks, with their names."""
    traces = _traces(figure, axis)
    shape = figure["layout"][axis]
    if _is_map(traces[0]):
        yield from _cells(traces[0], area)
        yield from _row_names(shape, area)
        yield from (cross for trace in traces[1:] for cross in _crosses(trace, area))
        return
    yield from _grid(shape, area)
    yield from _marks(figure, area)
    for before, trace in zip([traces[0], *traces], traces, strict=False):
        yield from _drawn(trace, before, area)
    named = [trace for trace in traces if trace["showlegend"]]
    if named:
        yield from _names(named, area, has_rows=not figure["layout"]["annotations"][0]["text"])


def _drawn(trace: Figure, before: Figure, area: _Area) -> Iterator[str]:
    """A line, or what lies between two, with the one before or by its corners; of a name without
    values nothing.
    """
    match trace.get("fill"):
        case None if trace["line"]["width"]:
            yield _line(trace, area)
        case "tonexty":
            yield _filled(trace, [_ends(trace, area) + _ends(before, area)[::-1]])
        case "toself":
            yield from (_filled(trace, runs) for runs in [_corners(trace, area)] if runs)


def _cells(trace: Figure, area: _Area) -> Iterator[str]:
    """Of states, or of shares from nothing to the most."""
    columns = len(trace["x"]) - 1
    cells = b64decode(trace["z"]["bdata"])
    colour = _colour_of(trace["meta"])
    xs = list(map(area.x, trace["x"]))
    for row, (top, bottom) in enumerate(pairwise(map(area.y, trace["y"]))):
        for first, last, cell in _same(colour, cells[row * columns : (row + 1) * columns]):
            yield rect_of(cell, xs[first], xs[last], top, bottom)


def _colour_of(meta: Figure) -> list[str]:
    """By the number of a cell."""
    if "steps" in meta:
        return [f"var(--{token})" for token in meta["steps"]]
    return [tone(meta["ramp"], number / SHADES) for number in range(SHADES + 1)]


def tone(token: str, share: float) -> str:
    """From nothing to the token's colour."""
    percent = round(share * TONES) * 100 // TONES
    return f"color-mix(in oklab,var(--{token}) {percent}%,var(--nothing))"


def _crosses(trace: Figure, area: _Area) -> Iterator[str]:
    for moment, value in zip(trace["x"], trace["y"], strict=True):
        (left, right), (top, bottom) = (
            (middle - CROSS_PX, middle + CROSS_PX) for middle in (area.x(moment), area.y(value))
        )
        lines = f"M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}M{left:.1f} {bottom:.1f}"
        yield f'<path class="cross" style="{_own(trace)}" d="{lines}L{right:.1f} {top:.1f}"/>'


def _row_names(axis: Figure, area: _Area) -> Iterator[str]:
    for name, middle in zip(axis["ticktext"], axis["tickvals"], strict=True):
        yield text(unescape(name), LEFT - 6, area.y(middle) + 4, "end")


def _same(colours: Sequence[str], cells: bytes) -> Iterator[tuple[int, int, str]]:
    """From where to where which colour is; nothing of what is not known."""
    first = 0
    for colour, same in groupby(cells, lambda cell: "" if cell == UNKNOWN else colours[cell]):
        last = first + len(list(same))
        if colour:
            yield first, last, colour
        first = last


def _marks(figure: Figure, area: _Area) -> Iterable[str]:
    """What is shaded, once: the figure has it for each of its axes."""
    return dict.fromkeys(_mark(mark, area) for mark in figure["layout"].get("shapes", ()))


def _mark(mark: Figure, area: _Area) -> str:
    ends = area.x(mark["x0"]), area.x(mark["x1"])
    if mark["type"] == "line":
        return rect(mark["name"], ends[0] - 1, ends[0] + 1, area.top, area.bottom)
    return rect(mark["name"], *ends, area.top, area.bottom, css="mark")


def rect(token: str, left: float, right: float, top: float, bottom: float, *, css: str = "") -> str:
    return rect_of(f"var(--{token})", left, right, top, bottom, css=css)


def rect_of(
    colour: str, left: float, right: float, top: float, bottom: float, *, css: str = ""
) -> str:
    return (
        f'<rect class="{css}" style="--c:{colour}" x="{left}" y="{top}"'
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
    if axis["tickformat"].startswith("$"):
        return usd(Decimal(value))
    return f"{round(value) if value >= 10 else round(value, 2):g}{axis['ticksuffix']}"


def _own(trace: Figure) -> str:
    """Its token's colour."""
    return f"--c:var(--{trace['meta']['token']})"


def _line(trace: Figure, area: _Area) -> str:
    css = "dot" if trace["line"].get("dash", "solid") != "solid" else ""
    runs = _steps(trace, area) if trace["line"].get("shape") == "hv" else [_ends(trace, area)]
    return f'<path class="{css}" style="{_own(trace)}" d="{_path(runs)}"/>'


def _filled(trace: Figure, runs: Iterable[Sequence[str]]) -> str:
    return f'<path class="area" style="{_own(trace)}" d="{_path(runs)}"/>'


def _path(runs: Iterable[Sequence[str]]) -> str:
    return "".join("M" + "L".join(run) for run in runs)


def _ends(trace: Figure, area: _Area) -> list[str]:
    """The points of a line that goes straight from one to the next."""
    points = zip(trace["x"], trace["y"], strict=True)
    return [f"{area.x(moment)} {area.y(value)}" for moment, value in points if value is not None]


def _corners(trace: Figure, area: _Area) -> list[list[str]]:
    """Of each polygon; a corner without a place ends one."""
    points = zip(trace["x"], trace["y"], strict=True)
    return [
        [f"{area.x(moment)} {area.y(value)}" for moment, value in run]
        for is_known, run in groupby(points, lambda point: point[1] is not None)
        if is_known
    ]


def _steps(trace: Figure, area: _Area) -> list[list[str]]:
    """Of each run of known values the points of its steps: each holds until the next start."""
    edges = [*map(area.x, trace["x"]), RIGHT]
    runs = []
    for is_known, run in groupby(enumerate(trace["y"]), lambda each: each[1] is not None):
        if is_known:
            steps = [(place, area.y(value)) for place, value in run]
            runs.append([f"{edges[at]} {y}" for place, y in steps for at in (place, place + 1)])
    return runs


def _names(traces: Sequence[Figure], area: _Area, *, has_rows: bool) -> Iterator[str]:
    """Above the panel: in one row beside or below its title, however close; without one in as many
    as they need.
    """
    size = NAMES_IN_A_ROW if has_rows else len(traces)
    rows = [traces[at : at + size] for at in range(0, len(traces), size)]
    for number, row in enumerate(reversed(rows)):
        y = area.top - 6 - number * ROW_PX
        width = sum(len(trace["name"]) * LETTER_PX + NAME_PX for trace in row)
        narrow = f' textLength="{RIGHT - LEFT}"' if width > RIGHT - LEFT else ""
        yield f'<text x="{RIGHT}" y="{y:g}" text-anchor="end"{narrow}>{names_of(row)}</text>'


def names_of(traces: Iterable[Figure]) -> str:
    """Each behind a field of its colour."""
    return "&#160; ".join(
        f'<tspan style="{_own(trace)}">■</tspan> {escape(trace["name"])}' for trace in traces
    )


def rows_of_names(traces: Sequence[Figure]) -> int:
    return -(-len([trace for trace in traces if trace["showlegend"]]) // NAMES_IN_A_ROW)


def _times(area: _Area) -> Iterator[str]:
    is_of_days = area.end - area.start > timedelta(days=PARTS)
    for part in range(PARTS + 1):
        at = area.start + (area.end - area.start) * part / PARTS
        anchor = anchor_of(part, PARTS)
        day = f"{at:%a %-d %b}"
        label = f"{day}, {at:%H:%M}" if part in (0, PARTS) else f"{at:%H:%M}"
        where = LEFT + (RIGHT - LEFT) * part / PARTS
        yield text(day if is_of_days else label, where, area.bottom + 18, anchor)


def anchor_of(place: int, last: int) -> str:
    """Of a label at one of the places from 0 to the last: none goes beyond the drawing's ends."""
    if place == 0:
        return "start"
    return "end" if place == last else "middle"


def text(content: str, x: float, y: float, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'
