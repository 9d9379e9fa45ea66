"""Whether dollars leak between a month's stored reports: statements and own lines beside the
fleet's cost, to the micro-dollar.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.models import MonthRun, Report, ReportPart
from fleetwatch.reports.monthly import FLEET, STATEMENT
from fleetwatch.reports.statement import NO_USD, Shape, summed


def faults(interval: Interval) -> Iterator[str]:
    """A sentence for each month of the interval whose newest finished reports do not sum to what
    the fleet's says.
    """
    done = ReportPart.objects.filter(
        kind=FLEET,
        run__state=MonthRun.State.DONE,
        run__start__lt=interval.end,
        run__end__gt=interval.start,
        report__isnull=False,
    )
    for part in (
        done.select_related("run", "report")
        .order_by("run__month", "-run_id")
        .distinct("run__month")
    ):
        if part.report is not None:
            yield from _faults(part.run, part.report)


def _faults(run: MonthRun, fleet: Report) -> Iterator[str]:
    content = fleet.content
    statements = Report.objects.filter(pk__in=run.parts.filter(kind=STATEMENT).values("report_id"))
    # one at a time: a month's lines are many
    sums = (_sum(each.content["lines"]) for each in statements.iterator(chunk_size=1))
    more = _sum(content["own_lines"]) + summed(sums) - (fleet.cost_usd or NO_USD)
    if more:
        yield (
            f"reports of {run.month}: statements and own lines have"
            f" {more:f} dollars more than the fleet"
        )
    beside = ("adjusted_usd", "not_delivered_usd", "invoiced_usd")
    unpaid = summed(content[name] for name in beside) - Decimal(content["paid_usd"])
    if unpaid:
        yield (f"reports of {run.month}: the lines have {unpaid:f} dollars more than what was paid")


def _sum(lines: Iterable[Shape]) -> Decimal:
    return summed(line["cost_usd"] for line in lines)
