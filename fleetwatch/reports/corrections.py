"""What was booked in a month to correct closed months before it: lines of their own, never mixed
into the month's own cost.
"""

from collections import defaultdict
from decimal import Decimal
from typing import Any

from django.db import connection

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import pricing
from fleetwatch.figures.selectors import without
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement
from fleetwatch.reports.statement import NO_JOB

Shape = dict[str, Any]
_ADJUSTMENTS = read_statement("reports/sql/adjustments.sql")


def booked(month: Interval) -> list[Shape]:
    """One line per team (NO_JOB: nobody's), corrected month, cause and, of what no job held, state.

    Their signed dollars sum to those of all adjustments booked in the month, to the micro-dollar.
    """
    parts: dict[tuple[str, str, str, str], list[tuple[int, Decimal | None]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_ADJUSTMENTS, {"start": month.start, "end": month.end, "zone": zone().key})
        for (
            is_held,
            team,
            is_named,
            state,
            corrects,
            cause,
            usd_per_gpu_hour,
            gpu_ms,
        ) in cursor.fetchall():
            key = (
                (team or without("team", is_named=is_named)[0]) if is_held else NO_JOB,
                corrects,
                cause,
                state,
            )
            parts[key].append((gpu_ms, usd_per_gpu_hour))
    keys = sorted(parts)
    amounts = pricing.lines([pricing.price(parts[key]) for key in keys])
    lines = [
        _line(key, sum(ms for ms, _ in parts[key]), amount)
        for key, amount in zip(keys, amounts, strict=True)
    ]
    return [line for line in lines if line["gpu_ms"] or Decimal(line["cost_usd"])]


def with_adjustments(lines: list[Shape], cost_usd: Decimal) -> Shape:
    """The part of a report that tells them: the lines, their sum and what the month comes to with
    them.
    """
    total = sum((Decimal(line["cost_usd"]) for line in lines), Decimal("0.000000"))
    return {
        "adjustments": lines,
        "adjustments_usd": f"{total:f}",
        "adjusted_usd": f"{cost_usd + total:f}",
    }


def _line(key: tuple[str, str, str, str], gpu_ms: int, amount: Decimal) -> Shape:
    team, corrects, cause, state = key
    return {
        "team": team,
        "corrects": corrects,
        "cause": cause,
        "state": state,
        "gpu_ms": gpu_ms,
        "cost_usd": f"{amount:f}",
    }
