"""Every chart by name: its figure, and the same rows as a table and as CSV."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import accumulate

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.visibility import sight, visible_teams
from fleetwatch.budgets import selectors as budgets
from fleetwatch.dashboard.drawing import (
    capacity_charts,
    figures,
    fleet_chart,
    machine_charts,
    spending,
)
from fleetwatch.dashboard.drawing.chart import (
    SPENT_BY,
    Cell,
    Chart,
    NoPeriodError,
    NoSuchChartError,
    Params,
    heads,
    text_of,
)
from fleetwatch.dashboard.drawing.figures import SHARE, Expected, Figure, Line
from fleetwatch.dashboard.drawing.machine_charts import METRICS, is_read
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import evidence, inbox, machine_findings
from fleetwatch.diagnosis.judgement import marks
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import pricing
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.selectors import idle_w_of
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.planning.selectors import SUBJECTS as OF_CAPACITY
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.steps import StepSeries


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


def _of_lines(
    title: str,
    starts: Sequence[datetime],
    lines: Sequence[Line],
    period: Period,
    y_format: str = SHARE,
    unit: str = "",
) -> Chart:
    """Lines over time, and a row for each start with what each line has there."""
    return Chart(
        title,
        figures.series(starts, lines, y_format=y_format, unit=unit),
        heads(period, [line.name for line in lines]),
        lambda: list(zip(map(text_of, starts), *(line.values for line in lines), strict=True)),
    )


def _local(starts_ms: Iterable[int], period: Period) -> list[datetime]:
    return [period.local(from_ms(at_ms)) for at_ms in starts_ms]


FINE_MS = 2 * HOUR_MS  # a window up to so long is drawn in ten seconds
AT_LEAST_MS = HOUR_MS  # drawn, so that a short window has something to be compared with
MARKED = {marks.PAUSE: "stalled", marks.SPINNING: "idle"}  # the token of each kind
CURVES = {
    "util_mean": ("utilisation", "accent"),
    "power_w": ("power, idle to limit", "ink"),
    "sm_active": ("SM active", "ink-3"),
    "tensor_active": ("tensor active", "ink-3"),
    "memory_used_bytes": ("memory used", "accent"),
    "sm_clock_hz": ("clock of its maximum", "good"),
}
WHOLE_OF = {"sm_clock_hz": "sm_clock_max_hz"}  # another column
BAND = ("util_min", "util_max")  # of the readings in a window
OF_A_WINDOW = (*CURVES, *WHOLE_OF.values(), *marks.COLUMNS, *BAND)
DASHED = ("tensor_active", "memory_used_bytes")


def _finding(params: Params, period: Period) -> Chart:
    """Of a job's finding its newest window, on the GPU that it affects most; of a node's or
    cluster's the period.
    """
    finding = _find(params.get("finding", ""))
    if finding.job_id is None:
        return _place(finding, period)
    if any(name in params for name in timeframes.NAMES):
        names = ", ".join(timeframes.NAMES)
        raise NoPeriodError(f"A job's finding is drawn in its newest window: leave out {names}.")
    seen = evidence.evidence(finding.its_job, finding.cause)
    if seen is None:
        raise NoSuchChartError(str(finding.pk))
    return _window(BY_CODE[finding.cause], seen, finding.its_job.start_ms or 0, period)


def _window(cause: Cause, seen: evidence.Evidence, earliest_ms: int, period: Period) -> Chart:
    """What was measured of the GPU, and what of it is marked."""
    series_of = _series_of(seen, earliest_ms)
    read = series_of(seen.gpu, columns=OF_A_WINDOW)
    lines = curves(read.columns, cause.curves, seen.gpu) + _beside(seen, cause, series_of)
    marked = marks.marks(read.start_ms, read.step_ms, read.columns, waiting_w=_waiting_w(seen.gpu))
    chart = _of_lines(
        f"{cause.title}, as it was measured", _local(read.start_ms, period), lines, period
    )
    kinds = [_kind(at_ms, marked) for at_ms in read.start_ms]
    return replace(
        chart,
        figure=_shaded(_banded(chart.figure, read), marked, period),
        columns=[*chart.columns, "Marked"],
        rows=lambda: [[*row, kind] for row, kind in zip(chart.rows(), kinds, strict=True)],
    )


def _banded(figure: Figure, read: StepSeries) -> Figure:
    """With the lowest and the highest reading of utilisation in each step, where these were read: a
    mean of 28 % is then seen as bursts.
    """
    low, high = (read.columns[name] for name in BAND)
    if not figure["data"] or not is_read(low) or not is_read(high):
        return figure
    lowest = Line("lowest reading", _shares(low, 0, 1))
    return figures.banded(figure, lowest, Line("lowest to highest reading", _shares(high, 0, 1)))


def _shaded(figure: Figure, marked: Sequence[marks.Mark], period: Period) -> Figure:
    spans = [
        (
            period.local(from_ms(mark.start_ms)),
            period.local(from_ms(mark.end_ms)),
            MARKED[mark.kind],
        )
        for mark in marked
    ]
    return figures.with_days(figures.shaded(figure, spans))


def _series_of(seen: evidence.Evidence, earliest_ms: int) -> Callable[..., StepSeries]:
    """What reads columns of a GPU over the window, drawn an hour long at least."""
    start_ms = max(min(seen.start_ms, seen.end_ms - AT_LEAST_MS), earliest_ms)
    step_s = max(10 if seen.end_ms - start_ms <= FINE_MS else 30, seen.gpu.node.window_s)
    return partial(telemetry.series, start_ms=start_ms, end_ms=seen.end_ms, step_s=step_s)


def _find(number: str) -> Finding:
    """The finding of that number. Raises NoSuchChartError."""
    is_number = number.isdecimal() and len(number) < 19
    finding = inbox.finding(int(number)) if is_number else None
    if finding is None:
        raise NoSuchChartError(number)
    return finding


def _kind(at_ms: int, marked: Sequence[marks.Mark]) -> str:
    """What the moment is marked as; "" where it is not."""
    return next((mark.kind for mark in marked if mark.start_ms <= at_ms < mark.end_ms), "")


def _beside(
    seen: evidence.Evidence, cause: Cause, series_of: Callable[..., StepSeries]
) -> list[Line]:
    """The line of another GPU to compare with, if any, named by its node where that is another."""
    gpu = seen.beside
    if gpu is None or cause.beside is None:
        return []
    columns = cause.beside.curves
    is_near = gpu.node_id == seen.gpu.node_id
    name = f"GPU {gpu.index}" if is_near else f"{gpu.node.name} GPU {gpu.index}"
    read = series_of(gpu, columns=[*columns, *WHOLE_OF.values()])
    lines = curves(read.columns, columns, gpu)
    return [replace(line, name=f"{line.name}, {name}", is_dashed=True) for line in lines[:1]]


def _place(finding: Finding, period: Period) -> Chart:
    """A node's or cluster's finding hour by hour: GPUs on the mean of each hour; of a queue also
    what jobs could have used of it.
    """
    cause = BY_CODE[finding.cause]
    hours = {to_ms(hour.start): hour for hour in machine_findings.hours(finding, period.interval)}
    starts_ms = _every_hour(hours)

    def gpus(name: str) -> list[float]:
        return [round(getattr(hours.get(at_ms), name, 0) / HOUR_MS, 3) for at_ms in starts_ms]

    lines = [Line(cause.machine.curve, gpus("gpu_ms"))]
    if finding.cluster:
        lines = [
            replace(lines[0], colour="ink-3"),
            Line("jobs could have used at most", gpus("high_ms")),
            Line("at least", gpus("low_ms"), is_dashed=True),
        ]
    starts = _local(starts_ms, period)
    return _of_lines(f"{cause.title}: {finding.subject}", starts, lines, period, ".3~g")


def _every_hour(hours: Collection[int]) -> range:
    """From the first to the last, and the one after, so that the last has its length."""
    return range(min(hours), max(hours) + 2 * HOUR_MS, HOUR_MS) if hours else range(0)


def _waiting_w(gpu: GPU) -> float | None:
    """What a GPU takes at most that waits in a kernel; None where its board is not known."""
    ends = _power_w(gpu)
    if ends is None:
        return None
    idle_w, limit_w = ends
    return idle_w + marks.POLICY.spin_power_max * (limit_w - idle_w)


def _power_w(gpu: GPU) -> tuple[float, float] | None:
    """What its board draws at idle and at its limit; None where one is not known."""
    idle_w = idle_w_of(gpu)
    limit_w = gpu.power_limit_w or (gpu.model.limit_w if gpu.model else None)
    return None if idle_w is None or limit_w is None else (idle_w, limit_w)


def curves(
    read: Mapping[str, Sequence[float | None]], columns: Iterable[str], gpu: GPU
) -> list[Line]:
    """What was read of the GPU, each as a share of its range."""
    lines = []
    for column in columns:
        between = _range(column, gpu, read)
        if between is not None and is_read(read[column]):
            name, token = CURVES[column]
            values = _shares(read[column], *between)
            lines.append(Line(name, values, token, is_dashed=column in DASHED))
    return lines


def _shares(values: Sequence[float | None], low: float, high: float) -> list[float | None]:
    return [None if value is None else round((value - low) / (high - low), 5) for value in values]


def _range(
    column: str, gpu: GPU, read: Mapping[str, Sequence[float | None]]
) -> tuple[float, float] | None:
    """Between which values the column is drawn, of power as the rules read it; None where that is
    not known.
    """
    if column in WHOLE_OF:
        whole = max((value or 0.0 for value in read[WHOLE_OF[column]]), default=0.0)
        return (0.0, whole) if whole else None
    if column == "memory_used_bytes":
        return (0.0, float(gpu.memory_total_bytes)) if gpu.memory_total_bytes else None
    if column != "power_w":
        return (0.0, 1.0)
    ends = _power_w(gpu)
    return ends if ends and ends[0] < ends[1] else None


def _budget(params: Params, period: Period) -> Chart:
    """The running month of a team (without one: of the fleet), whatever period is asked for."""
    team = _team(params.get("team", ""))
    month = budgets.running_month(period.now)
    line = budgets.line(team, period.now)
    spent = _spent(team, month, period) if line.spent_usd else []
    steps = _expected(line, period)
    return Chart(
        f"Dollars of the month, added up: {line.label}",
        figures.burn(
            [(at, round(float(usd), 2)) for at, usd in spent],
            _from_spent(steps, line, month, period),
            month=(period.local(month.whole.start), period.local(month.whole.end)),
            budget=None if line.budget_usd is None else float(line.budget_usd),
        ),
        (f"Until ({period.clock})", "Spent $", "Expected $", "Lower end $", "Upper end $"),
        partial(_burn_rows, spent, steps),
    )


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
    spent: Sequence[tuple[datetime, Decimal]], steps: Sequence[Expected]
) -> list[list[Cell]]:
    """By the end of each day what was spent, then what is expected."""
    return [
        *([text_of(at), float(pricing.usd(usd)), None, None, None] for at, usd in spent),
        *([text_of(at), None, *ends] for at, *ends in steps),
    ]


def _expected(line: budgets.BudgetLine, period: Period) -> list[Expected]:
    """What will have been spent by the end of each day to come, with its lower and upper end."""
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
    team: Team | None, month: budgets.Month, period: Period
) -> list[tuple[datetime, Decimal]]:
    """What was spent of the month by the end of each day, and by now."""
    days = budgets.days_so_far(team, period.now)
    moments = [month.whole.start, *(day.start for day in days[1:])]
    if month.so_far:
        moments.append(month.so_far.end)
    dollars = accumulate((day.totals.cost_usd for day in days), initial=Decimal(0))
    return list(zip(map(period.local, moments), dollars, strict=True))


@dataclass(frozen=True, slots=True)
class Kind:
    """How a chart is drawn, and what its address may name."""

    draw: Callable[[Params, Period], Chart]
    parameters: tuple[str, ...]


CHARTS = {
    "spend": Kind(spending.by_state, (*SPENT_BY, *PERIOD)),
    "costs": Kind(spending.by_group, ("group_by", "step", *SUBJECTS, *PERIOD)),
    "budget": Kind(_budget, ("team",)),
    "fleet": Kind(fleet_chart.draw, ("metric", "sort", "after", *SUBJECTS, *PERIOD)),
    "gpu": Kind(machine_charts.of_gpu, ("gpu", *PERIOD)),
    "node": Kind(machine_charts.of_node, ("node", *PERIOD)),
    "capacity": Kind(capacity_charts.over_time, (*OF_CAPACITY, *PERIOD)),
    "capacity-week": Kind(capacity_charts.by_hour_of_week, (*OF_CAPACITY, *PERIOD)),
    "job": Kind(machine_charts.of_job, ("job", "gpu", *PERIOD)),
    "finding": Kind(_finding, ("finding", *PERIOD)),
    **{
        name: Kind(partial(machine_charts.metric_of_gpu, metric), ("gpu", *PERIOD))
        for name, metric in METRICS.items()
    },
}
