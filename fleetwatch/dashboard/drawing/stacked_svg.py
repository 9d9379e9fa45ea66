"""Stacked dollars over time (figures.stacked_dollars) as SVG, for whoever has no JavaScript.

Pure.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from fleetwatch.dashboard.drawing.figures import Figure
from fleetwatch.dashboard.drawing.svg import (
    LEFT,
    NAMES_IN_A_ROW,
    RIGHT,
    ROW_PX,
    anchor_of,
    names_of,
    picture_of,
    rect,
    text,
)
from fleetwatch.dashboard.numbers import usd

PLOT_PX = 220
TIMES = 5  # labels along the axis of time
GAP_PX = 1.0  # between bars


def is_stacked(figure: Figure) -> bool:
    """Whether it can be drawn so."""
    return figure["layout"].get("barmode") == "stack" and bool(figure["data"])


def stacked_svg(figure: Figure, tokens: str) -> str:
    """The figure's parts on each other; `tokens` are the declarations of its colours."""
    traces = figure["data"]
    rows = [traces[at : at + NAMES_IN_A_ROW] for at in range(0, len(traces), NAMES_IN_A_ROW)]
    bottom = len(rows) * ROW_PX + 10.0 + PLOT_PX
    levels = [trace for trace in traces if _is_level(trace)]
    parts = [trace for trace in traces if not _is_level(trace)]
    highest = _highest(parts, levels)
    drawn = (
        *_names(rows),
        *_grid(highest, bottom),
        *_bars(parts, highest, bottom),
        *(_across(level, highest, bottom) for level in levels),
        *_times(parts, bottom),
    )
    return picture_of(drawn, bottom + 26, tokens)


def _is_level(trace: Figure) -> bool:
    """Whether it is a line across all steps (figures.with_level), and no part of them."""
    return trace["type"] == "scatter" and "stackgroup" not in trace


def _names(rows: Sequence[Sequence[Figure]]) -> Iterator[str]:
    """What each colour is, in rows from the top."""
    for number, row in enumerate(rows, 1):
        yield f'<text x="{LEFT}" y="{number * ROW_PX - 4}">{names_of(row)}</text>'


def _highest(parts: Sequence[Figure], levels: Sequence[Figure]) -> float:
    """Dollars at the top of the axis."""
    sums = map(sum, zip(*(each["y"] for each in parts), strict=True))
    return max([*sums, *(dollars for level in levels for dollars in level["y"])]) or 1.0


def _bars(parts: Sequence[Figure], highest: float, bottom: float) -> Iterator[str]:
    """A column of parts for each step."""
    steps = zip(*(each["y"] for each in parts), strict=True)
    tokens = [each["meta"]["token"] for each in parts]
    for of_step, sides in zip(steps, pairwise(_edges(parts[0]["x"])), strict=True):
        heights = [PLOT_PX * dollars / highest for dollars in of_step]
        yield from _column(tokens, heights, sides, bottom)


def _across(level: Figure, highest: float, bottom: float) -> str:
    y = bottom - PLOT_PX * level["y"][0] / highest
    colour = f"--c:var(--{level['meta']['token']})"
    return f'<path class="dot" style="{colour}" d="M{LEFT} {y:.1f}H{RIGHT}"/>'


def _grid(highest: float, bottom: float) -> Iterator[str]:
    for value in (0.0, highest / 2, highest):
        y = bottom - PLOT_PX * value / highest
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
        yield text(usd(Decimal(value)), LEFT - 6, y + 4, "end")


def _column(
    tokens: Sequence[str], heights: Sequence[float], sides: tuple[float, float], bottom: float
) -> Iterator[str]:
    """The parts of one step, from below."""
    right = max(sides[1] - GAP_PX, sides[0])
    for token, height in zip(tokens, heights, strict=True):
        if height:
            yield rect(token, sides[0], right, bottom - height, bottom)
        bottom -= height


def _edges(starts: Sequence[str]) -> list[float]:
    """Where each step begins, in pixels, and where the last one ends."""
    moments = _moments(starts)
    span = moments[-1] - moments[0]
    return [LEFT + (RIGHT - LEFT) * ((moment - moments[0]) / span) for moment in moments]


def _moments(starts: Sequence[str]) -> list[datetime]:
    """The starts, and an end: as long after the last as that is after the one before."""
    moments = [datetime.fromisoformat(start) for start in starts]
    step = moments[-1] - moments[-2] if len(moments) > 1 else timedelta(hours=1)
    return [*moments, moments[-1] + step]


def _times(traces: Sequence[Figure], bottom: float) -> Iterator[str]:
    moments = _moments(traces[0]["x"])
    is_of_days = moments[-1] - moments[0] > timedelta(days=2)
    for number in range(TIMES):
        at = moments[0] + (moments[-1] - moments[0]) * number / (TIMES - 1)
        anchor = anchor_of(number, TIMES - 1)
        label = f"{at:%a %-d %b}" if is_of_days else f"{at:%a %H:%M}"
        yield text(label, LEFT + (RIGHT - LEFT) * number / (TIMES - 1), bottom + 18, anchor)
