"""Stacked dollars over time (figures.stacked_dollars) as SVG, for whoever has no JavaScript.

Pure.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from itertools import pairwise

from fleetwatch.dashboard.drawing.figures import Figure
from fleetwatch.dashboard.drawing.svg import LEFT, RIGHT, STYLE, WIDTH, anchor_of, rect, text
from fleetwatch.dashboard.numbers import usd

NAMES_IN_A_ROW = 6
ROW_PX = 18
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
    drawn = "".join((*_names(rows), *_bars(traces, bottom), *_times(traces, bottom)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 26}">'
        f"<style>:root{{{tokens}}}{STYLE}</style>{drawn}</svg>"
    )


def _names(rows: Sequence[Sequence[Figure]]) -> Iterator[str]:
    """What each colour is, in rows from the top."""
    for number, row in enumerate(rows, 1):
        names = "&#160; ".join(
            f'<tspan style="--c:var(--{each["meta"]["token"]})">■</tspan> {escape(each["name"])}'
            for each in row
        )
        yield f'<text x="{LEFT}" y="{number * ROW_PX - 4}">{names}</text>'


def _bars(traces: Sequence[Figure], bottom: float) -> Iterator[str]:
    """The grid, with dollars at it, and a column of parts for each step."""
    steps = list(zip(*(each["y"] for each in traces), strict=True))
    highest = max(map(sum, steps)) or 1.0
    yield from _grid(highest, bottom)
    tokens = [each["meta"]["token"] for each in traces]
    for parts, sides in zip(steps, pairwise(_edges(traces[0]["x"])), strict=True):
        heights = [PLOT_PX * dollars / highest for dollars in parts]
        yield from _column(tokens, heights, sides, bottom)


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
