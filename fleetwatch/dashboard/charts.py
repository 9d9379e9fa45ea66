"""Every chart by name: its figure, and the same rows as a table and as CSV."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Any

from fleetwatch.accounts.models import Team
from fleetwatch.budgets import selectors as budgets
from fleetwatch.dashboard import figures, maps, words
from fleetwatch.dashboard.figures import Bar, Burn, Figure, Line
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import evidence, machine_findings
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

SPENT_BY = (*SUBJECTS, "gpu", "job")
# what the address of each may name; those of a GPU's series are METRICS
PARAMETERS = {
    "spend": (*SPENT_BY, *PERIOD),
    "budget": ("team",),
    "fleet": ("metric", *PERIOD),
    "finding": ("finding", *PERIOD),
}

LAG_MS = 180_000  # the ledger is behind by less, while agents send

Params = Mapping[str, str]
Cell = str | float | None


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
    if name in METRICS:
        return ("gpu", *PERIOD)
    return PARAMETERS.get(name, ())


def build(name: str, params: Params, period: Period) -> Chart:
    """The chart `name` of the subject that the parameters name, over the period.

    Raises NoSuchChartError, NoPeriodError.
    """
    if name not in CHARTS:
        raise NoSuchChartError(name)
    return CHARTS[name](params, period)


def _spend(params: Params, period: Period) -> Chart:
    step = period.timeframe.step
    buckets = costs.dollars_over_time(period.interval, step, scope=_scope(params))
    drawn = spent_bars(buckets, step, period)
    bars = [bar for _, bar in drawn]
    shown = [bucket.totals.shown_cost for bucket, _ in drawn]
    dollars = {
        state.name: [round(float(cost[state.name]), 6) for cost in shown] for state in words.SHOWN
    }
    rows: list[list[Cell]] = [
        [_text(bar.start), _text(bar.end), *(values[index] for values in dollars.values())]
        for index, bar in enumerate(bars)
    ]
    columns = [
        f"Start ({period.zone})",
        f"End ({period.zone})",
        *(f"{state.label} $" for state in words.SHOWN),
    ]
    return Chart(
        f"Dollars per {step} by state",
        figures.dollars_by_state(bars, dollars, step=step),
        columns,
        rows,
    )


def spent_bars(buckets: Sequence[Bucket], step: str, period: Period) -> list[tuple[Bucket, Bar]]:
    """The buckets of the period that have begun, each with where it is drawn: as far as it lies in
    the period and is over.
    """
    starts = [bucket.start for bucket in buckets]
    over = min(period.interval.end, period.now)
    found: list[tuple[Bucket, Bar]] = []
    for bucket, following in zip(
        buckets, [*starts[1:], boundaries.following(starts[-1], step, period.zone)], strict=True
    ):
        start, end = max(bucket.start, period.interval.start), min(following, over)
        if start >= end:
            continue
        shown_ms = to_ms(end) - to_ms(start)
        known_ms = shown_ms if following <= period.now else _known_ms(bucket, shown_ms, found)
        if known_ms:
            bar = Bar(
                start.astimezone(period.zone),
                end.astimezone(period.zone),
                to_ms(following) - to_ms(bucket.start),
                known_ms,
            )
            found.append((bucket, bar))
    return found


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
        named = (
            [None if cell is None else words.NAMES[int(cell)] for cell in cells]
            if self.metric == "state"
            else cells
        )
        return [self.heat.labels[place], *named]


@dataclass(frozen=True, slots=True)
class _Metric:
    """Columns of the frames drawn in one chart, with the labels and tokens of their lines."""

    title: str
    lines: tuple[tuple[str, str, str], ...]  # column, label, token
    y_format: str
    unit: str = ""
    scale: float = 1.0


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
    step_s = max(period.timeframe.step_s, gpu.node.window_s)
    columns = [column for column, _, _ in metric.lines]
    found = telemetry.series(
        gpu, period.so_far.start_ms, period.so_far.end_ms, columns=columns, step_s=step_s
    )
    lines = [
        Line(label, _scaled(found.columns[column], metric.scale), token)
        for column, label, token in metric.lines
        if any(value is not None for value in found.columns[column])
    ]
    starts = [from_ms(start_ms).astimezone(period.zone) for start_ms in found.start_ms]
    rows = [
        [_text(start), *(line.values[index] for line in lines)]
        for index, start in enumerate(starts)
    ]
    heads = [
        f"Start ({period.zone})",
        *(f"{metric.title}: {line.name}{metric.unit}" for line in lines),
    ]
    top = 1.0 if metric.y_format == ".0%" else None
    return Chart(
        metric.title,
        figures.series(starts, lines, y_format=metric.y_format, unit=metric.unit, top=top),
        heads,
        rows,
    )


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
    number = params.get("finding", "")
    found = (
        Finding.objects.select_related("job", "node").filter(pk=number).first()
        if number.isdecimal() and len(number) < 19
        else None
    )
    if found is not None and found.job_id is None:
        return _place(found, period)
    if found is not None and any(name in params for name in PERIOD):
        names = ", ".join(PERIOD)
        raise NoPeriodError(f"A job's finding is drawn in its newest window: leave out {names}.")
    seen = evidence.evidence_of(found) if found else None
    if found is None or seen is None:
        raise NoSuchChartError(number)
    start_ms = max(min(seen.start_ms, seen.end_ms - AT_LEAST_MS), found.its_job.start_ms or 0)
    step_s = max(10 if seen.end_ms - start_ms <= FINE_MS else 30, seen.gpu.node.window_s)
    cause = BY_CODE[found.cause]
    told = telemetry.series(
        seen.gpu,
        start_ms,
        seen.end_ms,
        columns=[*CURVES, *WHOLE_OF.values(), *marks.COLUMNS],
        step_s=step_s,
    )
    lines = curves(told.columns, cause.curves, seen.gpu)
    if seen.beside and cause.beside:
        columns = cause.beside.curves
        other = telemetry.series(
            seen.beside,
            start_ms,
            seen.end_ms,
            columns=[*columns, *WHOLE_OF.values()],
            step_s=step_s,
        )
        beside = curves(other.columns, columns, seen.beside)
        lines += [
            replace(line, name=f"{line.name}, {_beside(seen)}", is_dashed=True)
            for line in beside[:1]
        ]
    starts = [_local(at_ms, period) for at_ms in told.start_ms]
    marked = marks.marks(told.start_ms, step_s * 1000, told.columns, waiting_w=_waiting_w(seen.gpu))
    shades = [
        (_local(mark.start_ms, period), _local(mark.end_ms, period), MARKED[mark.kind][1])
        for mark in marked
    ]
    words = [
        next((MARKED[mark.kind][0] for mark in marked if mark.start_ms <= ms < mark.end_ms), "")
        for ms in told.start_ms
    ]
    rows = [
        [_text(start), *(line.values[index] for line in lines), words[index]]
        for index, start in enumerate(starts)
    ]
    figure = figures.shaded(figures.series(starts, lines, y_format=".0%", top=1.0), shades)
    heads = [f"Start ({period.zone})", *(line.name for line in lines), "Marked"]
    return Chart(f"{cause.title}, as it was measured", figure, heads, rows)


def _place(found: Finding, period: Period) -> Chart:
    """A node's or cluster's finding hour by hour: GPUs on the mean of each hour."""
    cause = BY_CODE[found.cause]
    hours = machine_findings.hours(found, period.interval)
    by_start = {hour.start: hour for hour in hours}
    starts = _hours(hours[0].start, hours[-1].start) if hours else []
    gpus = {
        name: [
            round(getattr(by_start[at], name) / HOUR_MS, 3) if at in by_start else 0.0
            for at in starts
        ]
        for name in ("gpu_ms", "low_ms", "high_ms")
    }
    lines = [Line(cause.machine.curve, gpus["gpu_ms"], "ink-3" if found.cluster else "accent")]
    if found.cluster:
        lines += [Line("jobs could have used at most", gpus["high_ms"], "accent")]
        lines += [Line("at least", gpus["low_ms"], "accent", is_dashed=True)]
    local = [start.astimezone(period.zone) for start in starts]
    rows = [
        [_text(start), *(line.values[index] for line in lines)] for index, start in enumerate(local)
    ]
    figure = figures.series(local, lines, y_format=".3~g")
    return Chart(
        f"{cause.title}: {found.subject}",
        figure,
        [f"Start ({period.zone})", *(line.name for line in lines)],
        rows,
    )


def _hours(first: datetime, last: datetime) -> list[datetime]:
    """Every hour from the first to the last, and the one after, so that the last has its length."""
    return [
        first + timedelta(hours=number)
        for number in range(int((last - first) / timedelta(hours=1)) + 2)
    ]


def _local(at_ms: int, period: Period) -> datetime:
    return from_ms(at_ms).astimezone(period.zone)


def _waiting_w(gpu: GPU) -> float | None:
    """What a GPU takes at most that waits in a kernel; None where its board is not known."""
    idle_w, limit_w = idle_w_of(gpu), _limit_w(gpu)
    return (
        None
        if idle_w is None or limit_w is None
        else idle_w + marks.POLICY.spin_power_max * (limit_w - idle_w)
    )


def _limit_w(gpu: GPU) -> float | None:
    return gpu.power_limit_w or (gpu.model.limit_w if gpu.model else None)


def curves(
    told: Mapping[str, Sequence[float | None]], columns: Iterable[str], gpu: GPU
) -> list[Line]:
    """What was read of the GPU, each as a share of its range."""
    return [
        Line(
            CURVES[column][0],
            _shares(told[column], *between),
            CURVES[column][1],
            is_dashed=column in DASHED,
        )
        for column in columns
        if any(value is not None for value in told[column])
        and (between := _range(column, gpu, told))
    ]


def _beside(seen: evidence.Evidence) -> str:
    """The other GPU, by its node where that is another one."""
    gpu = seen.beside
    return (
        ""
        if gpu is None
        else (
            f"GPU {gpu.index}"
            if gpu.node_id == seen.gpu.node_id
            else f"{gpu.node.name} GPU {gpu.index}"
        )
    )


def _shares(values: Sequence[float | None], low: float, high: float) -> list[float | None]:
    return [None if value is None else round((value - low) / (high - low), 5) for value in values]


def _range(
    column: str, gpu: GPU, told: Mapping[str, Sequence[float | None]]
) -> tuple[float, float] | None:
    """Between which values the column is drawn, of power as the rules read it; None where that is
    not known.
    """
    if column in WHOLE_OF:
        whole = max((value or 0.0 for value in told[WHOLE_OF[column]]), default=0.0)
        return (0.0, whole) if whole else None
    if column == "memory_used_bytes":
        return (0.0, float(gpu.memory_total_bytes)) if gpu.memory_total_bytes else None
    if column != "power_w":
        return (0.0, 1.0)
    idle_w, limit_w = idle_w_of(gpu), _limit_w(gpu)
    return (
        (idle_w, limit_w)
        if idle_w is not None and limit_w is not None and idle_w < limit_w
        else None
    )


def _budget(params: Params, period: Period) -> Chart:
    """The running month of a team (without one: of the fleet), whatever period is asked for."""
    slug = params.get("team", "")
    team = Team.objects.filter(slug=slug).first() if slug else None
    if slug and team is None:
        raise NoSuchChartError(slug)
    month, line, zone = (
        budgets.running_month(period.now),
        budgets.line(team, period.now),
        period.zone,
    )
    days = budgets.days_so_far(team, period.now)
    ends = [*(day.start for day in days[1:]), *([month.so_far.end] if month.so_far else [])]
    dollars = list(accumulate(day.totals.cost_usd for day in days))
    spent = (
        [(month.whole.start, Decimal(0)), *zip(ends, dollars, strict=True)]
        if line.spent_usd
        else []
    )
    steps = [] if line.end is None else list(line.end.steps)
    rows: list[list[Cell]] = [
        [_text(at.astimezone(zone)), float(pricing.usd(usd)), None, None, None] for at, usd in spent
    ]
    rows += [
        [
            _text(s.until.astimezone(zone)),
            None,
            *(round(usd, 2) for usd in (s.expected_usd, s.low_usd, s.high_usd)),
        ]
        for s in steps
    ]
    known = float(line.spent_usd)
    # what is expected begins where what was spent ends
    joint = [(month.rest.start, known)] if steps and month.rest else []
    burn = Burn(
        spent=[(at.astimezone(zone), round(float(usd), 2)) for at, usd in spent],
        expected=[
            (at.astimezone(zone), round(usd, 2))
            for at, usd in [*joint, *((s.until, s.expected_usd) for s in steps)]
        ],
        low=[round(usd, 2) for usd in [*(usd for _, usd in joint), *(s.low_usd for s in steps)]],
        high=[round(usd, 2) for usd in [*(usd for _, usd in joint), *(s.high_usd for s in steps)]],
        month=(month.whole.start.astimezone(zone), month.whole.end.astimezone(zone)),
        budget=None if line.budget_usd is None else float(line.budget_usd),
    )
    columns = (f"Until ({zone})", "Spent $", "Expected $", "Lower end $", "Upper end $")
    return Chart(f"Dollars of the month, added up: {line.label}", figures.burn(burn), columns, rows)


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00")


def _series_of(metric: _Metric) -> Callable[[Params, Period], Chart]:
    return lambda params, period: _gpu_series(metric, params, period)


CHARTS: dict[str, Callable[[Params, Period], Chart]] = {
    "spend": _spend,
    "budget": _budget,
    "fleet": _fleet,
    "finding": _finding,
    **{name: _series_of(metric) for name, metric in METRICS.items()},
}


def as_json(chart: Chart) -> dict[str, Any]:
    """What charts.js draws."""
    return {"title": chart.title, **chart.figure}
