"""State bars, state bands and little bars as SVG, each in one string: a table has hundreds."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleetwatch.dashboard.drawing import bars


def state_bar(amounts: Mapping[str, Any], size: str = "") -> SafeString:
    """Amounts by state (milliseconds or dollars) as one horizontal bar."""
    segments = bars.state_bar(amounts)
    return state_band(segments, size, ", ".join(segment.title for segment in segments))


def state_band(
    segments: Sequence[bars.Segment], size: str = "thin", label: str = "States over time"
) -> SafeString:
    """States over time as one horizontal band."""
    drawn = "".join(
        f'<rect class="{each.state}" x="{each.x}" width="{each.width}" height="100%">'
        f"<title>{escape(each.title)}</title></rect>"
        for each in segments
    )
    svg = '<svg class="statebar {}" role="img" aria-label="{}">{}</svg>'
    return format_html(svg, size, label, SafeString(drawn))


def spark(shares: Sequence[float], label: str) -> SafeString:
    """Shares of the largest, 0 to 1, as little bars of 24 units at most; what is not nothing is
    seen.
    """
    heights = [max(round(24 * share, 1), 1) if share else 0 for share in shares]
    drawn = "".join(f"M{x} 24v-{high}h.8v{high}z" for x, high in enumerate(heights) if high)
    svg = (
        '<svg class="spark" viewBox="0 0 {} 24" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><path d="{}"/></svg>'
    )
    return format_html(svg, len(heights), label, drawn)
