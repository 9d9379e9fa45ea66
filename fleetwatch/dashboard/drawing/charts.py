"""Every chart by name: its figure, and the same rows as a table and as CSV."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import accumulate

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.visibility import sight, visible_teams
from fleetwatch.budgets import selectors as budgets
from fleetwatch.dashboard.compared_period import COMPARE
from fleetwatch.dashboard.drawing import (
    capacity_charts,
    figures,
    finding_charts,
    fleet_chart,
    machine_charts,
    spending,
)
from fleetwatch.dashboard.drawing.chart import (
    SPENT_BY,
    Cell,
    Chart,
    NoSuchChartError,
    Params,
    text_of,
)
from fleetwatch.dashboard.drawing.figures import Dated, Expected
from fleetwatch.dashboard.drawing.machine_charts import MARKED, METRICS, WITHIN
from fleetwatch.dashboard.parameters import CAUSE, PERIOD, SUBJECTS
from fleetwatch.dashboard.period import Period
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.lib.intervals import from_ms
from fleetwatch.planning.selectors import SUBJECTS as OF_CAPACITY


def parameters(name: str) -> tuple[str, ...]:
    """What the chart takes of an address; nothing of one that there is not."""
    return CHARTS[name].parameters if name in CHARTS else ()


def build(name: str, params: Params, period: Period) -> Chart:
    """The chart `name` of the subject that the parameters name, over the period.

    Raises NoSuchChartError, NoPeriodError.
    """
    if name not in CHARTS:
        raise NoSuchChartError(name)
    return CHARTS[name].draw(params, period)


def _budget_heads(
    period: Period, steps: Sequence[Expected], at_run_rate: Sequence[Dated]
) -> Sequence[str]:
    """Without what is expected where nothing is."""
    expected = ("Expected $", "Lower end $", "Upper end $") if steps else ()
    return (
        f"Until ({period.clock})",
        "Spent $",
        *expected,
        *(("At the run rate $",) if at_run_rate else ()),
    )


def _at_run_rate(line: budgets.BudgetLine, month: budgets.Month, period: Period) -> list[Dated]:
    """From what was spent to the month's end, where there is no forecast; nothing beside a stored
    statement.
    """
    if line.at_run_rate_usd is None or not month.rest:
        return []
    return [
        (period.local(month.rest.start), round(float(line.spent_usd), 2)),
        (period.local(month.rest.end), round(float(line.at_run_rate_usd), 2)),
    ]


def _budget(params: Params, period: Period) -> Chart:
    """The running month of a team (without one: of the fleet), whatever period is asked for."""
    team = _team(params.get("team", ""))
    month = budgets.running_month(period.now)
    line = _line(team, period, params)
    spent = _spent(team, month, period, params) if line.spent_usd else []
    steps = _expected(line, period, params)
    at_run_rate = _at_run_rate(line, month, period)
    return Chart(
        f"Dollars of the month, added up: {line.label}",
        figures.burn(
            _in_cents(spent),
            _from_spent(steps, line, month, period),
            month=(period.local(month.whole.start), period.local(month.whole.end)),
            budget=None if line.budget_usd is None else float(line.budget_usd),
            at_run_rate=at_run_rate,
        ),
        partial(_budget_heads, period, steps, at_run_rate),
        partial(_burn_rows, spent, steps, at_run_rate),
        own=month.whole,
    )


def _line(team: Team | None, period: Period, params: Params) -> budgets.BudgetLine:
    """Without a forecast with its run rate, but beside a stored statement (`until`)."""
    read = budgets.line if "until" in params else budgets.line_or_run_rate
    return read(team, period.now)


def _in_cents(spent: Sequence[tuple[datetime, Decimal]]) -> list[Dated]:
    return [(at, round(float(usd), 2)) for at, usd in spent]


def _as_told(
    spent: list[tuple[datetime, Decimal]], params: Params
) -> list[tuple[datetime, Decimal]]:
    """What was spent, of a stored statement as far as it goes (`until`)."""
    if "until" not in params:
        return spent
    until = _moment(params["until"])
    return [(at, usd) for at, usd in spent if at <= until]


def _moment(milliseconds: str) -> datetime:
    """Where a stored statement's month ends, so that its chart ends there. Raises NoSuchChartError
    for no time.
    """
    try:
        return from_ms(int(milliseconds))
    except (ValueError, OverflowError):
        raise NoSuchChartError(milliseconds) from None


def _team(slug: str) -> Team | None:
    """None: the whole fleet, which has no slug. Raises NoSuchChartError also for one that the
    reader sees not.
    """
    team = visible_teams().filter(slug=slug).first() if slug else None
    if team is None and (slug or sight() is not None):
        raise NoSuchChartError(slug)
    return team


def _from_spent(
    steps: list[Expected], line: budgets.BudgetLine, month: budgets.Month, period: Period
) -> list[Expected]:
    """What is expected begins where what was spent ends."""
    if not steps or not month.rest:
        return steps
    spent_usd = round(float(line.spent_usd), 2)
    return [(period.local(month.rest.start), spent_usd, spent_usd, spent_usd), *steps]


def _burn_rows(
    spent: Sequence[tuple[datetime, Decimal]],
    steps: Sequence[Expected],
    at_run_rate: Sequence[Dated],
) -> list[list[Cell]]:
    """By the end of each day what was spent, then what is expected, or comes at the run rate."""
    expected: list[Cell] = [None] * (3 if steps else 1 if at_run_rate else 0)
    return [
        *([text_of(at), float(pricing.usd(usd)), *expected] for at, usd in spent),
        *([text_of(at), None, *ends] for at, *ends in steps),
        *([text_of(at), None, usd] for at, usd in at_run_rate[1:]),
    ]


def _expected(line: budgets.BudgetLine, period: Period, params: Params) -> list[Expected]:
    """What will have been spent by the end of each day to come, with its lower and upper end;
    nothing beside a stored statement (`until`).
    """
    if "until" in params:
        return []
    return [
        (
            period.local(step.until),
            round(step.expected_usd, 2),
            round(step.low_usd, 2),
            round(step.high_usd, 2),
        )
        for step in (line.end.steps if line.end else ())
    ]


def _spent(
    team: Team | None, month: budgets.Month, period: Period, params: Params
) -> list[tuple[datetime, Decimal]]:
    """What was spent of the month by the end of each day, and by now; from the day on that the
    ledger began, before which nothing is known and not nothing was spent.
    """
    days = budgets.days_so_far(team, period.now)
    moments = [month.whole.start, *(day.start for day in days[1:])]
    if month.so_far:
        moments.append(month.so_far.end)
    dollars = accumulate((day.totals.cost_usd for day in days), initial=Decimal(0))
    began = costs.ledger_began()
    unknown = sum(moment <= began for moment in moments) - 1 if began else 0
    spent = list(zip(map(period.local, moments), dollars, strict=True))[max(0, unknown) :]
    return _as_told(spent, params)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a chart is drawn, and what its address may name."""

    draw: Callable[[Params, Period], Chart]
    parameters: tuple[str, ...]


CHARTS = {
    "spend": Kind(spending.by_state, (*SPENT_BY, *PERIOD)),
    "wasted": Kind(spending.wasted, (*SUBJECTS, CAUSE, *PERIOD, COMPARE)),
    "costs": Kind(spending.by_group, ("group_by", "step", *SUBJECTS, *PERIOD)),
    "budget": Kind(_budget, ("team", "until")),
    "fleet": Kind(fleet_chart.draw, ("metric", "sort", "only", "after", *SUBJECTS, *PERIOD)),
    "gpu": Kind(machine_charts.of_gpu, ("gpu", *PERIOD)),
    "gpu-slowed": Kind(machine_charts.of_slowed_gpu, ("gpu", *PERIOD)),
    "gpus-util": Kind(machine_charts.of_gpus, ("gpu", MARKED, WITHIN, *PERIOD)),
    "node": Kind(machine_charts.of_node, ("node", *PERIOD)),
    "capacity": Kind(capacity_charts.over_time, (*OF_CAPACITY, *PERIOD)),
    "capacity-week": Kind(capacity_charts.by_hour_of_week, (*OF_CAPACITY, *PERIOD)),
    "job": Kind(machine_charts.of_job, ("job", "gpu", *PERIOD)),
    "finding": Kind(finding_charts.of_finding, ("finding", *PERIOD)),
    **{
        name: Kind(partial(machine_charts.metric_of_gpu, metric), ("gpu", MARKED, WITHIN, *PERIOD))
        for name, metric in METRICS.items()
    },
}
