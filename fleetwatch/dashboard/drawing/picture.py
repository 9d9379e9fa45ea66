"""Any chart's figure as SVG, for whoever has no JavaScript. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from fleetwatch.dashboard.drawing.figures import Figure, iso
from fleetwatch.dashboard.drawing.stacked_svg import is_stacked, stacked_svg
from fleetwatch.dashboard.drawing.svg import (
    LEFT,
    RIGHT,
    ROW_PX,
    WIDTH,
    anchor_of,
    picture_of,
    rect_of,
    rows_of_names,
    svg,
    text,
    tone,
)

MOST_GPUS = 200  # of a map: of more it would be a megabyte, and its table is one click away
PLOT_PX = 220  # of lines
EDGE_PX = 10  # above what is drawn
AXIS_PX = 26
CLOCK_PX = 22  # of a day in a map of the week
EMPTY_PX = 60
DAY_NAME_PX = 90  # beside such a map
HOURS_APART = 4  # labels below it


def picture(figure: Figure, tokens: str) -> str:
    """The figure; `tokens` are the declarations of its colours. Words where nothing is to be drawn,
    or too much.
    """
    traces = figure["data"]
    if not any(trace["x"] for trace in traces):
        return _words("Nothing is known of this period.", tokens)
    if "annotations" in figure["layout"]:
        return svg(figure, tokens)
    if is_stacked(figure):
        return stacked_svg(figure, tokens)
    if isinstance(traces[0].get("z"), list):
        return _of_the_week(traces[0], tokens)
    rows = traces[0]["meta"].get("names", ())
    if (gpus := len([name for name in rows if name])) > MOST_GPUS:
        return _words(f"{gpus:,} GPUs are too many for a picture: the table has them.", tokens)
    return svg(_as_panel(figure), tokens)


def _words(words: str, tokens: str) -> str:
    return picture_of([text(words, WIDTH / 2, EMPTY_PX / 2, "middle")], EMPTY_PX, tokens)


def _as_panel(figure: Figure) -> Figure:
    """A figure with one axis as the only one of several panels, with its names above it."""
    layout = figure["layout"]
    own = {"yaxis": "y", "showlegend": layout["showlegend"]}
    traces = [own | trace for trace in figure["data"]]
    above = EDGE_PX + rows_of_names(traces) * ROW_PX
    is_map = traces[0]["type"] == "heatmap"
    plot_px = above + (traces[0]["y"][-1] if is_map else PLOT_PX)
    yaxis = layout["yaxis"] | {"domain": (0, 1 - above / plot_px)}
    shown = layout | {
        "height": plot_px + AXIS_PX,
        "margin": {"b": AXIS_PX},
        "xaxis": {"range": layout["xaxis"].get("range") or _ends(traces)},
        "yaxis": yaxis,
        "annotations": [{"text": "", "yshift": 0}],
    }
    return {"data": traces, "layout": shown}


def _ends(traces: Sequence[Figure]) -> list[str]:
    """The first and the last moment; an hour where there is but one."""
    moments = [moment for trace in traces for moment in trace["x"]]
    first = min(moments)
    last = max(moments)
    hour = iso(datetime.fromisoformat(first) + timedelta(hours=1))
    return [first, hour if first == last else last]


def _of_the_week(trace: Figure, tokens: str) -> str:
    """Weekday × hour of the clock (figures.clock_map), and what its colours mean."""
    cell_px = (RIGHT - LEFT) / len(trace["x"])
    bottom = EDGE_PX + ROW_PX + CLOCK_PX * len(trace["y"])
    parts = [*_scale(trace), *_hours(trace, cell_px, bottom), *_days(trace, cell_px)]
    return picture_of(parts, bottom + AXIS_PX, tokens, left=DAY_NAME_PX - LEFT)


def _days(trace: Figure, cell_px: float) -> Iterator[str]:
    low = trace["zmin"]
    range_of_all = (trace["zmax"] - low) or 1.0
    for row, (day, values) in enumerate(zip(trace["y"], trace["z"], strict=True)):
        top = EDGE_PX + ROW_PX + CLOCK_PX * row
        yield text(day, LEFT - 6, top + CLOCK_PX / 2 + 4, "end")
        for hour, value in enumerate(values):
            if value is not None:
                colour = tone(trace["meta"]["ramp"], (value - low) / range_of_all)
                left = round(LEFT + cell_px * hour, 1)
                yield rect_of(colour, left, left + cell_px - 1, top, top + CLOCK_PX - 1)


def _hours(trace: Figure, cell_px: float, bottom: float) -> Iterator[str]:
    for at in range(0, len(trace["x"]), HOURS_APART):
        anchor = anchor_of(at, len(trace["x"]))
        yield text(trace["x"][at], LEFT + cell_px * at, bottom + 18, anchor)


def _scale(trace: Figure) -> Iterator[str]:
    """From the least to the most, in GPUs."""
    ends = f"{trace['zmin']:,.1f} GPUs (grey) to {trace['zmax']:,.1f} (the strongest colour)"
    yield text(ends, RIGHT, EDGE_PX + 4, "end")
