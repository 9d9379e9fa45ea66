"""Stacked dollars over time (figures.stacked_dollars) as SVG, for whoever has no JavaScript.

Pure.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from itertools import pairwise

from fleetwatch.dashboard.drawing.figures import Figure
from fleetwatch.dashboard.drawing.svg import LEFT, RIGHT, STYLE, WIDTH, rect, text
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
    top = len(rows) * ROW_PX + 10.0
    bottom = top + PLOT_PX
    drawn = "".join((*_names(rows), *_bars(traces, top, bottom), *_times(traces, bottom)))
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


def _bars(traces: Sequence[Figure], top: float, bottom: float) -> Iterator[str]:
    """The grid, with dollars at it, and a column of parts for each step."""
    highest = max(map(sum, zip(*(each["y"] for each in traces), strict=True))) or 1.0
    for value in (0.0, highest / 2, highest):
        y = bottom - PLOT_PX * value / highest
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
        yield text(usd(Decimal(value)), LEFT - 6, y + 4, "end")
    for column, (left, right) in enumerate(pairwise(_edges(traces[0]["x"]))):
        base = bottom
        for each in traces:
            upper = base - PLOT_PX * each["y"][column] / highest
            if upper < base:
                yield rect(each["meta"]["token"], left, max(right - GAP_PX, left), upper, base)
            base = upper


def _edges(starts: Sequence[str]) -> list[float]:
    """Where each step begins, in pixels, and where the last one ends."""
    moments = _moments(starts)
    begin, span = moments[0], moments[-1] - moments[0]
    return [LEFT + (RIGHT - LEFT) * ((moment - begin) / span) for moment in moments]


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
        anchor = "start" if number == 0 else "end" if number == TIMES - 1 else "middle"
        label = f"{at:%a %-d %b}" if is_of_days else f"{at:%a %H:%M}"
        yield text(label, LEFT + (RIGHT - LEFT) * number / (TIMES - 1), bottom + 18, anchor)
