"""Rows -> Plotly figures, as plain dicts. Pure. Colours are names of tokens in `meta`; charts.js
puts the theme's in.

A missing value is None: a gap in the line, a hole in the map.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

from fleetwatch.dashboard.numbers import duration
from fleetwatch.lib.intervals import DAY_MS, MINUTE_MS, to_ms

Figure = dict[str, Any]
Corner = tuple[str | None, float | None]  # of a polygon: a moment and a value
Value = float | None
Dated = tuple[datetime, float]  # until when, dollars
Expected = tuple[datetime, float, float, float]  # until when, dollars, their lower and upper end

DAY = timedelta(days=1)
MILLISECOND = timedelta(milliseconds=1)
SHORTEST_DAY = timedelta(hours=23)
SHARE = ".0%"  # how an axis of shares is labelled
MAX_BARS = 62  # up to so many, an hour or a day is a bar: it is one figure, not a slope
MAX_TICKS = 6
DATE_PX = 16  # of a second line at each tick
LEAST_WIDTH = 0.25  # of its step, of a bar that is a smaller part of it
BAR_SHARE = 0.84  # of its hour or day; the rest is air


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a series chart; `colour` is a token."""

    name: str
    values: Sequence[Value]
    colour: str = "accent"
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A step (an hour, day, week or month), or what of it lies in a period: from when to when, how
    long the whole is, of how much the ledger knows, and when the whole begins (None = at `start`).
    """

    start: datetime
    end: datetime
    whole_ms: int
    known_ms: int
    whole_start: datetime | None = None

    @property
    def begins(self) -> datetime:
        return self.whole_start or self.start

    @property
    def shown_ms(self) -> int:
        return to_ms(self.end) - to_ms(self.start)  # of wall clocks a day with 25 h would have 24

    @property
    def is_part(self) -> bool:
        """Whether a minute of the step or more is not in the period, or not over."""
        return self.whole_ms - self.shown_ms >= MINUTE_MS

    @property
    def middle(self) -> datetime:
        """The middle of the whole step."""
        return self.begins + self.whole_ms // 2 * MILLISECOND


def money_ticks(top: float) -> str:
    """How an axis up to that many dollars is labelled: "$0.50" and never "$500m"."""
    if top >= 1000:
        return "$,.3~s"
    if top >= 10:
        return "$,.0f"
    return "$,.2f" if top >= 0.05 else "$,.4f"


@dataclass(frozen=True, slots=True)
class Part:
    """What of the bars is one state's, or one group's, in a token's colour."""

    label: str
    token: str
    dollars: Sequence[float]
    link: str = ""  # where a click leads


def stacked_dollars(bars: Sequence[Bar], parts: Sequence[Part], *, step: str) -> Figure:
    """Stacked dollars per step, the parts in their order from below: bars, or an area where they
    would be too many.

    A bar is as high as the dollars that lie in the period, over its step; narrower where the period
    has a part of the step alone. An area is as high as the dollars of a whole step: it is read as a
    rate.
    """
    is_area = len(bars) > MAX_BARS
    shape = LINES if is_area else _place(bars, step)
    traces = [
        shape | _dollars(part, bars, is_area=is_area) | _pattern(part.token, is_area=is_area)
        for part in parts
        if any(part.dollars)
    ]
    layout = _stacked(bars, traces) | {"meta": {"y": f"dollars per {step}"}}
    if bars and traces and not is_area:
        layout["xaxis"] |= _axis_of_bars(bars, step)
        _add_totals(traces, bars, step)
    return {"data": traces, "layout": layout}


def with_level(figure: Figure, name: str, usd: float) -> Figure:
    """The figure with a dashed line across at these dollars."""
    every = [moment for trace in figure["data"] for moment in trace["x"]]
    ends = figure["layout"]["xaxis"].get("range") or [min(every), max(every)]
    level = {
        **{"type": "scatter", "mode": "lines", "name": name, "x": ends, "y": [usd, usd]},
        "line": {"width": 1.5, "dash": "dash"},
        "meta": {"token": "ink-3"},
        "hovertemplate": f"{name}: ${usd:,.2f}<extra></extra>",
    }
    return figure | {"data": [*figure["data"], level]}


def _add_totals(traces: Sequence[Figure], bars: Sequence[Bar], step: str) -> None:
    """Under what is pointed at each bar's name and sum, which the last part tells."""
    sums = [sum(dollars) for dollars in zip(*(each["y"] for each in traces), strict=True)]
    traces[-1]["hovertext"] = [
        f"{bar_name(bar, step)}: ${usd:,.2f}" for bar, usd in zip(bars, sums, strict=True)
    ]
    traces[-1]["hovertemplate"] += "<br><b>%{hovertext}</b>"


def bar_name(bar: Bar, step: str) -> str:
    """The step in words, and how much of it the period has: "2 h of Fri 20 Nov"."""
    if not bar.is_part:
        return step_name(bar.begins, step)
    return f"{duration(bar.shown_ms)} of {step_name(bar.begins, step)}"


def step_name(begins: datetime, step: str) -> str:
    """The step that begins then, in words, with its last day."""
    last = begins + timedelta(days=6)
    match step:
        case "hour":
            return f"{begins:%a %-d %b, %H:%M}"
        case "week":
            month = "" if begins.month == last.month else f"{begins: %b}"
            return f"{begins:%-d}{month} – {last:%-d %b}"
        case "month":
            return f"{begins:%B %Y}"
    return f"{begins:%a %-d %b}" if begins.hour == 0 else f"the day from {begins:%a %-d %b, %H:%M}"


def _axis_of_bars(bars: Sequence[Bar], step: str) -> Figure:
    ticked = _ticked(bars) if step == "hour" else bars[:: -(-len(bars) // MAX_TICKS)]
    ticks = [bar.begins if step == "hour" else bar.middle for bar in ticked]
    end = bars[-1].begins + bars[-1].whole_ms * MILLISECOND
    named = {"ticktext": [step_name(bar.begins, step) for bar in ticked]}
    return {
        "range": [iso(bars[0].begins), iso(end)],
        "tickvals": list(map(iso, ticks)),
        "tickformat": _ticks(ticks),
        "tickformatstops": [],  # they would win, by a distance that Plotly takes for that of ticks
        **(named if step in ("week", "month") else {}),
    }


def _stacked(bars: Sequence[Bar], traces: Sequence[Figure]) -> Figure:
    """The layout of traces that stand on each other."""
    stacks = zip(*(trace["y"] for trace in traces), strict=True)
    y_format = money_ticks(max(map(sum, stacks), default=0.0))
    starts = [bar.start for bar in bars]
    return layout_over(starts, y_format=y_format, hover="x unified") | {"barmode": "stack"}


def _place(bars: Sequence[Bar], step: str) -> Figure:
    """A bar stands over its step, not around its beginning; of a part of one it is as narrow. A
    colour of its own it has not: that is the state's.
    """
    widths = [max(bar.shown_ms, bar.whole_ms * LEAST_WIDTH) * BAR_SHARE for bar in bars]
    offsets = [_offset(bar, width) for bar, width in zip(bars, widths, strict=True)]
    return {"type": "bar", "width": widths, "offset": offsets, "xhoverformat": _hover(bars, step)}


def _offset(bar: Bar, width: float) -> float:
    """From where the bar's time begins to where it is drawn from: over the middle of that time, and
    within its step.
    """
    begun_ms = (bar.start - bar.begins) // MILLISECOND
    air = bar.whole_ms * (1 - BAR_SHARE) / 2
    left = begun_ms + (bar.shown_ms - width) / 2
    return max(air, min(left, bar.whole_ms - air - width)) - begun_ms


def _hover(bars: Sequence[Bar], step: str) -> str:
    """How a bar is named: a day by its date where it begins at midnight as it is shown."""
    is_of_days = step != "hour" and not any(bar.begins.hour for bar in bars)
    return _HOVER["day" if is_of_days else "hour"]


def _dollars(part: Part, bars: Sequence[Bar], *, is_area: bool) -> Figure:
    """Of one part; of an area as in a whole step."""
    rates = [
        round(usd * bar.whole_ms / bar.known_ms, 6)
        for usd, bar in zip(part.dollars, bars, strict=True)
    ]
    return {
        "name": part.label,
        "x": [iso(bar.start) for bar in bars],
        "y": rates if is_area else part.dollars,
        "customdata": part.dollars,
        "meta": {"token": part.token} | ({"link": part.link} if part.link else {}),
        "hovertemplate": "%{customdata:$,.2f}",
    }


def _pattern(token: str, *, is_area: bool) -> Figure:
    """Free and unobserved are hatched: they are nobody's work and nobody's waste."""
    shape = {"free": "/", "unobserved": "\\"}.get(token, "")
    pattern = {"shape": shape} | ({"size": 5, "solidity": 0.35} if shape else {})
    if is_area:
        return {"stackgroup": "parts", "line": {"width": 0}, "fillpattern": pattern}
    return {"marker": {"pattern": pattern}}


def _ticked(bars: Sequence[Bar]) -> list[Bar]:
    """A few hours; the first one of several where all of it is there."""
    whole = [bar for bar in bars if len(bars) < 3 or bar is not bars[0] or not bar.is_part]
    return whole[:: -(-len(whole) // MAX_TICKS)]


SCALE = {"thickness": 10, "outlinewidth": 0, "nticks": 4, "title": {"text": "GPUs"}}
# named, however little room there is
EVERY_ROW = {
    "autorange": "reversed",
    "showgrid": False,
    "automargin": True,
    "tickmode": "array",
}


def clock_map(
    days: Sequence[str], hours: Sequence[str], cells: Sequence[Sequence[Value]]
) -> Figure:
    """Weekday × hour of the clock, from grey (the least) to the accent (the most)."""
    values = [cell for row in cells for cell in row if cell is not None]
    low = min(values, default=0.0)
    trace = {
        "type": "heatmap",
        "x": list(hours),
        "y": list(days),
        "z": cells,
        "meta": {"ramp": "accent"},
        "showscale": True,
        "colorbar": SCALE,
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "zmin": low,
        "zmax": max(values, default=0.0) or 1.0,
        "hovertemplate": "%{y} %{x}<br>%{z:,.1f} GPUs<extra></extra>",
    }
    layout = layout_over((), y_format="", hover="closest")
    layout["xaxis"] = {"type": "category", "showgrid": False, "nticks": 8, "fixedrange": True}
    layout["yaxis"] |= EVERY_ROW | {"tickvals": list(days)}
    return {"data": [trace], "layout": layout | {"dragmode": False}}


def series(
    starts: Sequence[datetime],
    lines: Sequence[Line],
    *,
    y_format: str,
    unit: str = "",
) -> Figure:
    """Lines over time; a None is a gap that nothing bridges. The axis of shares ends at all."""
    traces = curves(starts, lines, y_format=y_format, unit=unit)
    layout = layout_over(starts, y_format=y_format, hover="x unified", suffix=unit)
    layout["yaxis"] |= {"rangemode": "tozero"} | ({"range": [0, 1.0]} if y_format == SHARE else {})
    return {"data": traces, "layout": _with_legend(layout) if len(lines) > 1 else layout}


def curves(
    starts: Sequence[datetime], lines: Sequence[Line], *, y_format: str, unit: str = ""
) -> list[Figure]:
    """A trace for each line, which holds each value until the next start."""
    x = [iso(start) for start in starts]
    return [
        LINES
        | {
            "name": line.name,
            "x": x,
            "y": list(line.values),
            "connectgaps": False,
            "line": {"width": 1.5, "dash": "dot" if line.is_dashed else "solid", "shape": "hv"},
            "meta": {"token": line.colour},
            "hovertemplate": f"%{{y:{y_format}}}{unit}",
        }
        for line in lines
    ]


def shaded(figure: Figure, spans: Sequence[tuple[datetime, datetime, str]]) -> Figure:
    """The figure with these spans of time shaded behind its lines, each in its token's colour (a
    shape's `name`): within each axis, so that nothing seems to lie above it.
    """
    rects = ({"type": "rect"} | _within(*span) for span in spans)
    return _with_shapes(figure, rects)


def marked(figure: Figure, moment: datetime, token: str) -> Figure:
    """The figure with a line across it at that moment, in its token's colour."""
    mark = {"type": "line", "line": {"width": 2}} | _within(moment, moment, token)
    return _with_shapes(figure, [mark])


def _within(start: datetime, end: datetime, token: str) -> Figure:
    return {"x0": iso(start), "x1": iso(end), "name": token}


def _with_shapes(figure: Figure, several: Iterable[Figure]) -> Figure:
    """With each of them in each of its axes, after those that it has."""
    layout = figure["layout"]
    axes = [name.removeprefix("yaxis") for name in layout if name.startswith("yaxis")]
    shapes = [
        each | {"xref": "x", "yref": f"y{axis} domain", "y0": 0, "y1": 1}
        for each in several
        for axis in axes
    ]
    return figure | {"layout": layout | {"shapes": [*layout.get("shapes", ()), *shapes]}}


def band(starts: Sequence[datetime], low: Line, high: Line) -> list[Figure]:
    """Two lines that are known at the same time, unseen but for the pointer, and what lies between
    them, named by the upper one.

    That is drawn as polygons: between lines with gaps (`tonexty`) Plotly joins what a gap parts.
    """
    lower, upper = curves(starts, (low, high), y_format=SHARE)
    edge = {"line": lower["line"] | {"width": 0}}
    corners = _polygons(lower, upper)[:-1]
    area = {
        "x": [moment for moment, _ in corners],
        "y": [value for _, value in corners],
        **{"fill": "toself", "hoverinfo": "skip", "showlegend": True},
    }
    hidden = edge | {"showlegend": False}
    return [lower | hidden, upper | hidden, _without_words(upper) | edge | area]


def _without_words(trace: Figure) -> Figure:
    return {name: value for name, value in trace.items() if name != "hovertemplate"}


def _polygons(lower: Figure, upper: Figure) -> list[Corner]:
    """Round each run of known values, forth along the one line and back along the other; a corner
    without a place ends each.
    """
    corners: list[Corner] = []
    for is_known, run in groupby(enumerate(upper["y"]), lambda each: each[1] is not None):
        if is_known:
            places = [at for at, _ in run]
            corners += [*_along(upper, places), *reversed(_along(lower, places)), (None, None)]
    return corners


def _along(line: Figure, places: Sequence[int]) -> list[Corner]:
    """The line's steps: a value holds until the next start, the last one no time."""
    ends = [*line["x"][1:], line["x"][-1]]
    return [(moment, line["y"][at]) for at in places for moment in (line["x"][at], ends[at])]


def with_days(figure: Figure) -> Figure:
    """The figure with the time and the date at each tick of its time axis."""
    layout = figure["layout"]
    xaxis = layout["xaxis"] | {
        "tickformatstops": [],
        "tickformat": "%H:%M<br>%a %-d %b",
        "nticks": 6,
    }
    margin = layout["margin"] | {"b": layout["margin"]["b"] + DATE_PX}
    taller = {"height": layout["height"] + DATE_PX} if "height" in layout else {}
    return figure | {"layout": layout | {"xaxis": xaxis, "margin": margin} | taller}


def burn(
    spent: Sequence[tuple[datetime, float]],
    expected: Sequence[Expected],
    *,
    month: tuple[datetime, datetime],
    budget: float | None,
    at_run_rate: Sequence[Dated] = (),
) -> Figure:
    """Dollars of a month, added up: what was spent by each moment as a line, what is expected from
    there on as a dashed one in its band, or the run rate as one without, the budget across.
    """
    traces = _expected(expected) if expected else []
    traces += _at_run_rate(at_run_rate)
    if spent:
        moments, usd = zip(*spent, strict=True)
        traces.append(_sum("Spent", moments, usd, {"width": 2}))
    if budget is not None:
        across = _sum("Budget", month, [budget] * 2, {"width": 1.5, "dash": "dash"})
        traces.append(across | {"meta": {"token": "bad"}})
    return {"data": traces, "layout": _month_layout(month, traces)}


def _month_layout(month: tuple[datetime, datetime], traces: Sequence[Figure]) -> Figure:
    top = max((max(trace["y"]) for trace in traces), default=0.0)
    layout = _with_legend(layout_over(month, y_format=money_ticks(top), hover="x unified"))
    layout["xaxis"] |= {
        "range": list(map(iso, month)),
        "hoverformat": _HOVER["day"],
        "tickformat": "%-d %b",
    }
    layout["yaxis"] |= {"rangemode": "tozero"}
    return layout


def _at_run_rate(points: Sequence[Dated]) -> list[Figure]:
    if not points:
        return []
    moments, usd = zip(*points, strict=True)
    return [_sum("At the run rate", moments, usd, {"width": 2, "dash": "dot"})]


def _expected(steps: Sequence[Expected]) -> list[Figure]:
    moments, middle, low, high = zip(*steps, strict=True)
    edge: Figure = {"width": 0}
    return [
        _sum("Lower end", moments, low, edge) | {"showlegend": False},
        _sum("8 of 10 cases", moments, high, edge) | {"fill": "tonexty"},
        _sum("Expected", moments, middle, {"width": 2, "dash": "dot"}),
    ]


def _sum(name: str, moments: Sequence[datetime], usd: Sequence[float], line: Figure) -> Figure:
    """Dollars by these moments, as a line drawn so."""
    return LINES | {
        "name": name,
        "x": [iso(moment) for moment in moments],
        "y": list(usd),
        "line": line,
        "meta": {"token": "accent"},
        "hovertemplate": "%{y:$,.2f}",
    }


LINES: Figure = {"type": "scatter", "mode": "lines"}
# how a hover names a bar: by where its hour or day begins
_HOVER = {"hour": "%a %-d %b, %H:%M", "day": "%a %-d %b"}


def iso(moment: datetime) -> str:
    """Wall clock of the moment's own zone: Plotly knows no zones, so the caller converts."""
    return moment.isoformat()[:19]


def _with_legend(layout: Figure) -> Figure:
    return layout | {"showlegend": True, "margin": layout["margin"] | {"t": 34}}


def _ticks(ticks: Sequence[datetime]) -> str:
    """How these ticks are written so that no two read the same, in one line."""
    if len(ticks) > 1 and all(later - tick >= SHORTEST_DAY for tick, later in pairwise(ticks)):
        return _day_ticks(ticks)
    return "%H:%M" if _span(ticks) < DAY else "%a %H:%M"


def _day_ticks(starts: Sequence[datetime]) -> str:
    return "%a %-d" if _span(starts) <= 14 * DAY else "%-d %b"


def _span(starts: Sequence[datetime]) -> timedelta:
    return starts[-1] - starts[0] if starts else timedelta(0)


def _stops(starts: Sequence[datetime]) -> list[Figure]:
    """How ticks that Plotly chooses are written, by how far they are apart (milliseconds)."""
    clock = "%H:%M" if _is_one_day(starts) else "%a %H:%M"
    return [
        {"dtickrange": [None, MINUTE_MS - 1], "value": "%H:%M:%S"},
        {"dtickrange": [MINUTE_MS, DAY_MS - 1], "value": clock},
        {"dtickrange": [DAY_MS, None], "value": _day_ticks(starts)},
    ]


def with_day(layout: Figure, starts: Sequence[datetime]) -> Figure:
    """The layout with the day below the first tick, where all of them are of one: its page may be
    of a longer period.
    """
    stops = [stop | {"value": f"{stop['value']}\n%a %-d %b"} for stop in _stops(starts)]
    margin = layout["margin"] | {"b": 40}
    dated = layout | {"margin": margin, "xaxis": layout["xaxis"] | {"tickformatstops": stops}}
    return dated if _is_one_day(starts) else layout


def _is_one_day(starts: Sequence[datetime]) -> bool:
    return not starts or starts[0].date() == starts[-1].date()


def layout_over(
    starts: Sequence[datetime], *, y_format: str, hover: str, suffix: str = ""
) -> Figure:
    return {
        "margin": {"l": 46, "r": 8, "t": 8, "b": 26},
        "hovermode": hover,
        "showlegend": False,
        "dragmode": "zoom",
        "xaxis": {
            "type": "date",
            "showgrid": False,
            "automargin": False,
            "nticks": 8,
            "tickformatstops": _stops(starts),
            "hoverformat": _HOVER["hour"],
        },
        "yaxis": {
            "tickformat": y_format,
            "ticksuffix": suffix,
            "nticks": 5,
            "fixedrange": True,
            "zeroline": False,
            "automargin": "left",  # for labels that are longer than the margin, "1,000 MB/s"
        },
        "legend": {"orientation": "h", "y": 1.04, "yanchor": "bottom", "x": 0},
    }
