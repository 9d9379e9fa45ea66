"""What was booked in a month to correct closed months before it: lines of their own, never mixed
into the month's own cost.
"""

from collections import defaultdict
from decimal import Decimal

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import pricing
from fleetwatch.figures.selectors import without
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.reports.statement import NO_JOB, Shape, summed

# by team, corrected month, cause and state GPU time at each rate
Parts = dict[tuple[str, ...], list[tuple[int, Decimal | None]]]
_ADJUSTMENTS = read_statement("reports/sql/adjustments.sql")


def booked(month: Interval) -> list[Shape]:
    """One line per team (NO_JOB: nobody's), corrected month, cause and, of what no job held, state.

    Their signed dollars sum to those of all adjustments booked in the month, to the micro-dollar.
    """
    parts = sorted(_parts(month).items())
    amounts = pricing.lines([pricing.price(times) for _, times in parts])
    lines: list[Shape] = [
        {
            **dict(zip(("team", "corrects", "cause", "state"), key, strict=True)),
            "gpu_ms": sum(gpu_ms for gpu_ms, _ in times),
            "cost_usd": amount,
        }
        for (key, times), amount in zip(parts, amounts, strict=True)
    ]
    return [line for line in lines if line["gpu_ms"] or line["cost_usd"]]


def _parts(month: Interval) -> Parts:
    parts: Parts = defaultdict(list)
    rows = execute(_ADJUSTMENTS, {"start": month.start, "end": month.end, "zone": zone().key})
    for is_held, team, is_named, state, corrects, cause, rate, gpu_ms in rows:
        owner = (team or without("team", is_named=is_named)[0]) if is_held else NO_JOB
        parts[owner, corrects, cause, state].append((gpu_ms, rate))
    return parts


def with_adjustments(lines: list[Shape], cost_usd: Decimal) -> Shape:
    """The part of a report that tells them: the lines, their sum and what the month comes to with
    them.
    """
    total = summed(line["cost_usd"] for line in lines)
    return {
        "adjustments": lines,
        "adjustments_usd": total,
        "adjusted_usd": cost_usd + total,
    }
