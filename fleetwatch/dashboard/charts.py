"""Every chart by name: its figure, and the same rows as a table and as CSV."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import accumulate
from typing import Any

from fleetwatch.accounts.models import Team
from fleetwatch.budgets import selectors as budgets
from fleetwatch.dashboard import figures, maps, words
from fleetwatch.dashboard.figures import Bar, Burn, Figure, Line
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import evidence, inbox, machine_findings
from fleetwatch.diagnosis.judgement import marks
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Bucket, Scope
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.selectors import idle_w_of
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.steps import StepSeries

SPENT_BY = (*SUBJECTS, "gpu", "job")
LAG_MS = 180_000  # the ledger is behind by less, while agents send

Params = Mapping[str, str]
Cell = str | float | None
Step = tuple[datetime, float, float, float]  # until when, expected, its lower and upper end


class NoSuchChartError(LookupError):
    """There is no chart of that name, or not of that subject."""


class NoPeriodError(ValueError):
    """The chart is of a time of its own, and the address names another one."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: what is drawn, and the numbers it is drawn from (None = not known)."""

    title: str
    figure: Figure
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


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


def _spend(params: Params, period: Period) -> Chart:
    step = period.timeframe.step
    buckets = costs.dollars_over_time(period.interval, step, scope=_scope(params))
    drawn = spent_bars(buckets, step, period)
    bars = [bar for _, bar in drawn]
    dollars = _by_state([bucket for bucket, _ in drawn])
    names = [f"End ({period.zone})", *(f"{state.label} $" for state in words.SHOWN)]
    return Chart(
        f"Dollars per {step} by state",
        figures.dollars_by_state(bars, dollars, step=step),
        _heads(period, names),
        [
            [_text(bar.start), _text(bar.end), *usd]
            for bar, *usd in zip(bars, *dollars.values(), strict=True)
        ],
    )


def _by_state(buckets: Sequence[Bucket]) -> dict[str, list[float]]:
    """Dollars of each bucket, by state in its order."""
    costs_of = [bucket.totals.shown_cost for bucket in buckets]
    return {
        state.name: [round(float(cost[state.name]), 6) for cost in costs_of]
        for state in words.SHOWN
    }


def spent_bars(buckets: Sequence[Bucket], step: str, period: Period) -> list[tuple[Bucket, Bar]]:
    """The buckets of the period that have begun, each with where it is drawn: as far as it lies in
    the period and is over.
    """
    starts = [bucket.start for bucket in buckets]
    ends = [*starts[1:], boundaries.following(starts[-1], step, period.zone)]
    drawn: list[tuple[Bucket, Bar]] = []
    for bucket, whole_end in zip(buckets, ends, strict=True):
        bar = _bar(bucket, whole_end, period, drawn)
        drawn += [(bucket, bar)] if bar else []
    return drawn


def _bar(
    bucket: Bucket, whole_end: datetime, period: Period, before: Sequence[tuple[Bucket, Bar]]
) -> Bar | None:
    """Where it is drawn; None where nothing of it is known yet."""
    start = max(bucket.start, period.interval.start)
    end = min(whole_end, period.interval.end, period.now)
    if start >= end:
        return None
    known_ms = to_ms(end) - to_ms(start)
    if whole_end > period.now:
        known_ms = _known_ms(bucket, known_ms, before)
    whole_ms = to_ms(whole_end) - to_ms(bucket.start)
    bar = Bar(period.local(start), period.local(end), whole_ms, known_ms)
    return bar if known_ms else None


def _known_ms(running: Bucket, shown_ms: int, before: Sequence[tuple[Bucket, Bar]]) -> int:
    """Of how much of the step that goes on the ledger knows: it is behind by what agents and
    posting take, told by the GPUs before.
    """
    least_ms = max(0, shown_ms - LAG_MS)
    if not before or not before[-1][0].totals.capacity_ms:
        return shown_ms
    bucket, bar = before[-1]
    return max(
        least_ms,
        min(shown_ms, running.totals.capacity_ms * bar.known_ms // bucket.totals.capacity_ms),
    )


def _scope(params: Params) -> Scope:
    """The subject that the parameters name; a parameter that is missing or empty narrows
    nothing.
    """
    named: dict[str, Any] = {name: params[name] for name in SPENT_BY if params.get(name)}
    return Scope(**named)


def _fleet(params: Params, period: Period) -> Chart:
    metric = params.get("metric", "state")
    if metric not in maps.METRICS:
        raise NoSuchChartError(metric)
    heat = maps.heat_map(metric, period.so_far, period.zone)
    title = f"{maps.METRICS[metric].label} of every GPU"
    figure = figures.state_map(heat) if metric == "state" else figures.metric_map(heat)
    columns = ["GPU", *(_text(start) for start in heat.starts)]
    return Chart(title, figure, columns, _MapRows(heat, metric))


@dataclass(frozen=True, slots=True)
class _MapRows(Sequence[Sequence[Cell]]):
    """The map as a table, a row at a time: who draws it needs none of its hundred thousand cells
    twice.
    """

    heat: figures.HeatMap
    metric: str

    def __len__(self) -> int:
        return len(self.heat.labels)

    def __getitem__(self, place: Any) -> Any:
        cells = self.heat.cells[place]
        if self.metric == "state":
            cells = [None if cell is None else words.NAMES[int(cell)] for cell in cells]
        return [self.heat.labels[place], *cells]


@dataclass(frozen=True, slots=True)
class _Metric:
    """Columns of the frames drawn in one chart, with the labels and tokens of their lines."""

    title: str
    lines: tuple[tuple[str, str, str], ...]  # column, label, token
    y_format: str
    unit: str = ""
    scale: float = 1.0

    def chart(self, read: StepSeries, period: Period) -> Chart:
        """What was read of the columns."""
        lines = [
            Line(label, _scaled(read.columns[column], self.scale), token)
            for column, label, token in self.lines
            if _is_read(read.columns[column])
        ]
        names = [f"{self.title}: {line.name}{self.unit}" for line in lines]
        top = 1.0 if self.y_format == ".0%" else None
        starts = _local(read, period)
        figure = figures.series(starts, lines, y_format=self.y_format, unit=self.unit, top=top)
        return Chart(self.title, figure, _heads(period, names), _rows(starts, lines))


METRICS = {
    "gpu-util": _Metric(
        "Utilisation",
        (
            ("util_mean", "kernel running", "accent"),
            ("sm_active", "SM active", "ink"),
            ("tensor_active", "tensor active", "ink-3"),
        ),
        ".0%",
    ),
    "gpu-power": _Metric("Power", (("power_w", "board power", "accent"),), ".0f", " W"),
    "gpu-memory": _Metric(
        "Memory used", (("memory_used_bytes", "memory", "accent"),), ".0f", " GiB", 1 / 1024**3
    ),
    "gpu-temperature": _Metric(
        "Temperature",
        (("temperature_c", "GPU", "accent"), ("memory_temperature_c", "memory", "ink-3")),
        ".0f",
        " °C",
    ),
}


def _gpu_series(metric: _Metric, params: Params, period: Period) -> Chart:
    gpu = inventory.gpu(params.get("gpu", ""))
    if gpu is None:
        raise NoSuchChartError(params.get("gpu", ""))
    # a step shorter than a window would draw one window as several
    read = telemetry.series(
        gpu,
        period.so_far.start_ms,
        period.so_far.end_ms,
        columns=[column for column, *_ in metric.lines],
        step_s=max(period.timeframe.step_s, gpu.node.window_s),
    )
    return metric.chart(read, period)


def _local(read: StepSeries, period: Period) -> list[datetime]:
    """When its steps begin."""
    return [period.local(from_ms(at_ms)) for at_ms in read.start_ms]


def _is_read(values: Sequence[float | None]) -> bool:
    return any(value is not None for value in values)


def _heads(period: Period, names: Iterable[str]) -> list[str]:
    return [f"Start ({period.zone})", *names]


def _rows(starts: Sequence[datetime], lines: Sequence[Line]) -> list[list[Cell]]:
    """A row for each start, with what each line has there."""
    columns = [line.values for line in lines]
    return [[_text(start), *values] for start, *values in zip(starts, *columns, strict=True)]


def _scaled(values: Sequence[float | None], scale: float) -> list[float | None]:
    return [None if value is None else round(value * scale, 5) for value in values]


FINE_MS = 2 * 3_600_000  # a window up to so long is drawn in ten seconds
AT_LEAST_MS = 3_600_000  # drawn, so that a short window has something to be compared with
MARKED = {marks.PAUSE: ("pause", "stalled"), marks.SPINNING: ("spinning", "idle")}
CURVES = {
    "util_mean": ("utilisation", "accent"),
    "power_w": ("power, idle to limit", "ink"),
    "sm_active": ("SM active", "ink-3"),
    "tensor_active": ("tensor active", "ink-3"),
    "memory_used_bytes": ("memory used", "accent"),
    "sm_clock_hz": ("clock of its maximum", "good"),
}
WHOLE_OF = {"sm_clock_hz": "sm_clock_max_hz"}  # another column
DASHED = ("tensor_active", "memory_used_bytes")


def _finding(params: Params, period: Period) -> Chart:
    """Of a job's finding its newest window, on the GPU that it affects most; of a node's or
    cluster's the period.
    """
    finding = _find(params.get("finding", ""))
    if finding.job_id is None:
        return _place(finding, period)
    if any(name in params for name in PERIOD):
        names = ", ".join(PERIOD)
        raise NoPeriodError(f"A job's finding is drawn in its newest window: leave out {names}.")
    seen = evidence.evidence_of(finding)
    if seen is None:
        raise NoSuchChartError(str(finding.pk))
    return _window(BY_CODE[finding.cause], seen, finding.its_job.start_ms or 0, period)


def _window(cause: Cause, seen: evidence.Evidence, earliest_ms: int, period: Period) -> Chart:
    """What was measured of the GPU, and what of it is marked."""
    series_of = _series_of(seen, earliest_ms)
    read = series_of(seen.gpu, columns=[*CURVES, *WHOLE_OF.values(), *marks.COLUMNS])
    lines = curves(read.columns, cause.curves, seen.gpu) + _beside(seen, cause, series_of)
    starts = _local(read, period)
    marked = marks.marks(read.start_ms, read.step_ms, read.columns, waiting_w=_waiting_w(seen.gpu))
    return Chart(
        f"{cause.title}, as it was measured",
        _shaded(figures.series(starts, lines, y_format=".0%", top=1.0), marked, period),
        [*_heads(period, [line.name for line in lines]), "Marked"],
        [
            [*row, _marked(at_ms, marked)]
            for row, at_ms in zip(_rows(starts, lines), read.start_ms, strict=True)
        ],
    )


def _series_of(seen: evidence.Evidence, earliest_ms: int) -> Callable[..., StepSeries]:
    """What reads columns of a GPU over the window, drawn an hour long at least."""
    start_ms = max(min(seen.start_ms, seen.end_ms - AT_LEAST_MS), earliest_ms)
    step_s = max(10 if seen.end_ms - start_ms <= FINE_MS else 30, seen.gpu.node.window_s)
    return partial(telemetry.series, start_ms=start_ms, end_ms=seen.end_ms, step_s=step_s)


def _shaded(figure: Figure, marked: Sequence[marks.Mark], period: Period) -> Figure:
    spans = [
        (
            period.local(from_ms(mark.start_ms)),
            period.local(from_ms(mark.end_ms)),
            MARKED[mark.kind][1],
        )
        for mark in marked
    ]
    return figures.shaded(figure, spans)


def _find(number: str) -> Finding:
    """The finding of that number. Raises NoSuchChartError."""
    is_number = number.isdecimal() and len(number) < 19
    finding = inbox.finding(int(number)) if is_number else None
    if finding is None:
        raise NoSuchChartError(number)
    return finding


def _marked(at_ms: int, marked: Sequence[marks.Mark]) -> str:
    """What the moment is marked as; "" where it is not."""
    return next(
        (MARKED[mark.kind][0] for mark in marked if mark.start_ms <= at_ms < mark.end_ms), ""
    )


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
    """A node's or cluster's finding hour by hour: GPUs on the mean of each hour."""
    cause = BY_CODE[finding.cause]
    hours = {hour.start: hour for hour in machine_findings.hours(finding, period.interval)}
    starts = _hours(min(hours), max(hours)) if hours else []
    gpus = {
        name: [round(getattr(hours.get(at), name, 0) / HOUR_MS, 3) for at in starts]
        for name in ("gpu_ms", "high_ms", "low_ms")
    }
    lines = _place_lines(cause.machine.curve, gpus, is_queue=bool(finding.cluster))
    local = list(map(period.local, starts))
    return Chart(
        f"{cause.title}: {finding.subject}",
        figures.series(local, lines, y_format=".3~g"),
        _heads(period, [line.name for line in lines]),
        _rows(local, lines),
    )


def _place_lines(name: str, gpus: Mapping[str, Sequence[float]], *, is_queue: bool) -> list[Line]:
    """What was affected; of a queue also what jobs could have used of it."""
    if not is_queue:
        return [Line(name, gpus["gpu_ms"])]
    return [
        Line(name, gpus["gpu_ms"], "ink-3"),
        Line("jobs could have used at most", gpus["high_ms"]),
        Line("at least", gpus["low_ms"], is_dashed=True),
    ]


def _hours(first: datetime, last: datetime) -> list[datetime]:
    """Every hour from the first to the last, and the one after, so that the last has its length."""
    return [
        first + timedelta(hours=number)
        for number in range(int((last - first) / timedelta(hours=1)) + 2)
    ]


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
        if between is not None and _is_read(read[column]):
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
    return ends if ends is not None and ends[0] < ends[1] else None


def _budget(params: Params, period: Period) -> Chart:
    """The running month of a team (without one: of the fleet), whatever period is asked for."""
    team = _team(params.get("team", ""))
    month = budgets.running_month(period.now)
    line = budgets.line(team, period.now)
    spent = _spent(team, month, line, period)
    steps = _expected(line, period)
    burn = Burn(
        spent=[(at, round(float(usd), 2)) for at, usd in spent],
        expected=_from_spent(steps, line, month, period),
        month=(period.local(month.whole.start), period.local(month.whole.end)),
        budget=None if line.budget_usd is None else float(line.budget_usd),
    )
    return Chart(
        f"Dollars of the month, added up: {line.label}",
        figures.burn(burn),
        (f"Until ({period.zone})", "Spent $", "Expected $", "Lower end $", "Upper end $"),
        _burn_rows(spent, steps),
    )


def _team(slug: str) -> Team | None:
    """None: the whole fleet, which has no slug. Raises NoSuchChartError."""
    team = Team.objects.filter(slug=slug).first() if slug else None
    if slug and team is None:
        raise NoSuchChartError(slug)
    return team


def _from_spent(
    steps: list[Step], line: budgets.BudgetLine, month: budgets.Month, period: Period
) -> list[Step]:
    """What is expected begins where what was spent ends."""
    if not steps or not month.rest:
        return steps
    spent_usd = round(float(line.spent_usd), 2)
    return [(period.local(month.rest.start), spent_usd, spent_usd, spent_usd), *steps]


def _burn_rows(
    spent: Sequence[tuple[datetime, Decimal]], steps: Sequence[Step]
) -> list[list[Cell]]:
    """By the end of each day what was spent, then what is expected."""
    return [
        *([_text(at), float(pricing.usd(usd)), None, None, None] for at, usd in spent),
        *([_text(at), None, *ends] for at, *ends in steps),
    ]


def _expected(line: budgets.BudgetLine, period: Period) -> list[Step]:
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
    team: Team | None, month: budgets.Month, line: budgets.BudgetLine, period: Period
) -> list[tuple[datetime, Decimal]]:
    """What was spent of the month by the end of each day, and by now."""
    if not line.spent_usd:
        return []
    days = budgets.days_so_far(team, period.now)
    moments = [month.whole.start, *(day.start for day in days[1:])]
    if month.so_far:
        moments.append(month.so_far.end)
    dollars = accumulate((day.totals.cost_usd for day in days), initial=Decimal(0))
    return list(zip(map(period.local, moments), dollars, strict=True))


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


@dataclass(frozen=True, slots=True)
class Kind:
    """How a chart is drawn, and what its address may name."""

    draw: Callable[[Params, Period], Chart]
    parameters: tuple[str, ...]


CHARTS = {
    "spend": Kind(_spend, (*SPENT_BY, *PERIOD)),
    "budget": Kind(_budget, ("team",)),
    "fleet": Kind(_fleet, ("metric", *PERIOD)),
    "finding": Kind(_finding, ("finding", *PERIOD)),
    **{
        name: Kind(partial(_gpu_series, metric), ("gpu", *PERIOD))
        for name, metric in METRICS.items()
    },
}
