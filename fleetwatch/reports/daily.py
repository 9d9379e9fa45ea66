"""The days of a report's lines, for tools that read cost by the day: they sum to their line, to the
micro-dollar.
"""

from collections.abc import Iterable, Mapping, Sequence

from fleetwatch.figures import pricing
from fleetwatch.figures.cells import summed
from fleetwatch.figures.selectors import Look
from fleetwatch.figures.totals import Totals
from fleetwatch.reports.statement import Shape, price

Days = Mapping[int, Totals]  # by the number of the day: the month's first is 0


def days_by_key(seen: Look, group_by: str) -> dict[str, Days]:
    """By the key of each group its days with time; `seen` was read by day."""
    parts = seen.steps(group_by)
    lines = seen.lines(group_by, parts)
    return {
        lines[number][0]: {day: summed(cells) for day, cells in days.items()}
        for number, days in parts.items()
    }


def with_days(lines: Sequence[Shape], days: Iterable[Days]) -> list[Shape]:
    """The lines, each with its priced time, dollars and wasted dollars day by day."""
    return [line | {"days": _days(line, of)} for line, of in zip(lines, days, strict=True)]


def _days(line: Shape, days: Days) -> list[Shape]:
    priced = [(day, of) for day, of in sorted(days.items()) if of.priced_ms]
    costs = pricing.lines([of.cost_usd for _, of in priced], total=line["cost_usd"])
    wasted = pricing.lines([of.wasted_usd for _, of in priced], total=line["wasted_usd"])
    return [
        {
            "day": day,
            "priced_ms": of.priced_ms,
            "cost_usd": cost_usd,
            "wasted_usd": wasted_usd,
            "usd_per_gpu_hour": price(of),
        }
        for (day, of), cost_usd, wasted_usd in zip(priced, costs, wasted, strict=True)
    ]
