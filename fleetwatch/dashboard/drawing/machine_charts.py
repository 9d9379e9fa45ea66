"""What was measured of a GPU (of all its time, or of a job's), or of a node's GPUs and its host,
under the states of that time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import isnan

import numpy as np

from fleetwatch.costs.mapping.attribution import seen_spans
from fleetwatch.dashboard.broken_marks import broken_marks
from fleetwatch.dashboard.drawing import figures, panels
from fleetwatch.dashboard.drawing.chart import Chart, NoSuchChartError, Params, heads, text_of
from fleetwatch.dashboard.drawing.figures import SHARE, Line
from fleetwatch.dashboard.drawing.grid import Floats, Ints
from fleetwatch.dashboard.drawing.panels import Bands, Panel
from fleetwatch.dashboard.drawing.readings_band import is_read
from fleetwatch.dashboard.drawing.references import name_of, of_job_with_findings
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.selectors import BAND_CELLS, physical_gpus, states
from fleetwatch.dashboard.words import NAMES
from fleetwatch.diagnosis.causes.throttled import CLOCK, THROTTLED
from fleetwatch.diagnosis.slowed_cells import slowed_spans
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import held_spans
from fleetwatch.jobs.selectors import job as job_of_key
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.lib.memory_sizes import GB
from fleetwatch.lib.spans import Span, clip, union
from fleetwatch.telemetry import frames, matrices
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.heat_cells import CELL_MS
from fleetwatch.telemetry.steps import StepSeries

MOST_POINTS = 400
MOST_LINES = 16  # of a node; its other GPUs are on their pages
# of app.css; neighbours differ in hue and lightness, and none is grey
COLOURS = (
    *("group-1", "group-3", "group-4", "ink"),
    *("group-6", "group-2", "group-8", "group-5"),
)
MARKED = "marked"  # the parameter: a state, whose time is shaded
WITHIN = "within"  # from when to when: start-end in milliseconds
MAX_DIGITS = 16  # of such a number
UNAVAILABLE = "unavailable"  # the state that a fault begins
HOST_DAYS = 7  # of a longer period the host's samples are too many to be read for a page
HOST = {"cpu_ratio": "CPU busy", "iowait_ratio": "waiting for disks"}
OF_NODE = {
    "util": "Utilisation",
    "memory": "Memory used, of its total",
    "power": "Power, of its limit",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """Columns of the frames drawn on one axis, with the labels and tokens of their lines."""

    title: str
    lines: tuple[tuple[str, str, str], ...]  # column, label, token
    y_format: str = SHARE
    unit: str = ""
    whole: float = 1.0  # what of a column is one unit
    smaller: tuple[tuple[str, float], ...] = ()  # units for less than one of that, largest first

    def panel(self, read: StepSeries) -> Panel:
        """What was read of the columns, in the largest unit of which the highest value has one."""
        columns = [(read.columns[column], label, token) for column, label, token in self.lines]
        shown = [column for column in columns if is_read(column[0])]
        unit, whole = self._unit_of([values for values, *_ in shown])
        lines = [Line(label, _in_units(values, whole), token) for values, label, token in shown]
        return Panel(self.title, lines, self.y_format, unit)

    def _unit_of(self, columns: Sequence[Sequence[float | None]]) -> tuple[str, float]:
        highest = max((v for values in columns for v in values if v is not None), default=0.0)
        units = ((self.unit, self.whole), *self.smaller)
        return next((unit for unit in units if highest >= unit[1]), units[-1 if highest else 0])


METRICS = {
    "gpu-util": Metric(
        "Utilisation",
        (
            ("util_mean", "kernel running", "accent"),
            ("sm_active", "SM active", "ink"),
            ("tensor_active", "tensor active", "group-3"),
            ("dram_active", "DRAM active", "group-6"),
        ),
    ),
    "gpu-power": Metric("Power", (("power_w", "board power", "accent"),), ".0f", " W"),
    "gpu-memory": Metric(
        "Memory used", (("memory_used_bytes", "memory", "accent"),), ".2~f", " GB", GB
    ),
    "gpu-temperature": Metric(
        "Temperature",
        (("temperature_c", "GPU", "accent"), ("memory_temperature_c", "memory", "ink-3")),
        ".0f",
        " °C",
    ),
    "gpu-pcie": Metric(
        "PCIe",
        (("pcie_rx_bytes_s", "to the GPU", "accent"), ("pcie_tx_bytes_s", "from it", "ink-3")),
        ".2~f",
        " GB/s",
        1e9,
        ((" MB/s", 1e6), (" kB/s", 1e3)),
    ),
    "gpu-clock": Metric(
        "Clock",
        (("sm_clock_hz", "SM clock", "accent"), ("sm_clock_max_hz", "its maximum", "ink-3")),
        ".2~f",
        " GHz",
        1e9,
    ),
}


def metric_of_gpu(metric: Metric, params: Params, period: Period) -> Chart:
    """One metric alone, the time of a state shaded that is asked for. Raises NoSuchChartError where
    there is no such GPU.
    """
    shown = _gpu(params)
    read = _read(shown, [metric], period)
    panel = metric.panel(read)
    starts = _local(read.start_ms, period)
    marked = _marked_spans([shown], params, period)
    fault_ms = _fault_ms(params, period)
    keys = _keys(marked, params, len(starts)) + _fault_key(fault_ms, len(starts))
    lines = [*panel.lines, *keys]
    figure = figures.series(starts, lines, y_format=panel.y_format, unit=panel.unit)
    chart = _chart(metric.title, figure, starts, [panel], period)
    chart = _broken_from(chart, fault_ms, period)
    return _shaded(chart, marked, period, params[MARKED]) if marked else chart


def _fault_key(fault_ms: int | None, count: int) -> list[Line]:
    """The name of the line that marks the fault, if there is one."""
    return [] if fault_ms is None else [Line("fault", [None] * count, "bad")]


def _broken_from(chart: Chart, fault_ms: int | None, period: Period) -> Chart:
    """With a line across it as the GPU broke; as it is where it did not."""
    if fault_ms is None:
        return chart
    moment = period.local(from_ms(fault_ms))
    return replace(chart, figure=figures.marked(chart.figure, moment, "bad"))


def _fault_ms(params: Params, period: Period) -> int | None:
    """When what is shaded began, of a GPU that can't work; None where that is not in the period."""
    if params.get(MARKED) != UNAVAILABLE or WITHIN not in params:
        return None
    start_ms, _ = _asked_span(params[WITHIN], period.so_far)
    return start_ms if period.so_far.start_ms < start_ms < period.so_far.end_ms else None


def _marked_spans(gpus: Sequence[GPU], params: Params, period: Period) -> list[Span]:
    """When most of each part of the period, as far as it is asked for, was that state of all of
    them; none of no state.
    """
    state = params.get(MARKED, "")
    if state not in NAMES:
        return []
    spans = _spans_in(NAMES.index(state), gpus, period.so_far)
    first_ms, last_ms = _asked_span(params.get(WITHIN, ""), period.so_far)
    cut = ((max(start, first_ms), min(end, last_ms)) for start, end in spans)
    return [(start, end) for start, end in cut if start < end]


def _spans_in(state: int, gpus: Sequence[GPU], interval: Interval) -> Sequence[Span]:
    """When most of each part of the interval was the state, by its place in NAMES, of all."""
    shown = states([gpu.pk for gpu in gpus], interval, BAND_CELLS)
    edges = np.linspace(interval.start_ms, interval.end_ms, BAND_CELLS + 1).round().astype(int)
    cells = np.flatnonzero((shown == state).all(axis=0))
    return union((int(edges[place]), int(edges[place + 1])) for place in cells)


def _asked_span(text: str, whole: Interval) -> Span:
    """ "start-end" in milliseconds; all of it where that is not said."""
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) <= MAX_DIGITS for part in parts):
        return whole.start_ms, whole.end_ms
    return int(parts[0]), int(parts[1])


def _keys(marked: Sequence[Span], params: Params, count: int) -> list[Line]:
    """The name of what is shaded, if anything is."""
    state = params.get(MARKED, "")
    return [Line(f"mostly {state}", [None] * count, state)] if marked else []


SLOWED_BY = Metric(
    "Slowed, share of the time",
    (
        ("throttle_thermal_ratio", "by heat", "idle"),
        ("throttle_power_ratio", "by power", "stalled"),
    ),
)
OF_GPU = [*METRICS.values(), SLOWED_BY]
NO_LOSS = "at its power limit, clock kept up: no loss"


def of_gpu(params: Params, period: Period) -> Chart:
    """All of them under its states; shaded is the time in which heat or power slowed it. Raises
    NoSuchChartError where there is no such GPU.
    """
    shown = _gpu(params)
    read = _read(shown, OF_GPU, period)
    own = states(inventory.gpus_of(shown.uuid), period.so_far, BAND_CELLS)
    # -1, where it was elsewhere, is less than every state
    bands = _bands([""], own.max(axis=0, keepdims=True), period)
    bands = replace(bands, note=_not_read(shown, read, period))
    slowed = slowed_spans(shown.pk, period.so_far.start_ms, period.so_far.end_ms)
    rows = [metric.panel(read) for metric in OF_GPU]
    if not slowed and is_at_power_limit(read):
        rows[-1] = replace(rows[-1], note=NO_LOSS)
    chart = _stacked(f"GPU {shown.uuid}", bands, _local(read.start_ms, period), rows, period)
    return _shaded(chart, slowed, period)


def _not_read(gpu: GPU, read: StepSeries, period: Period) -> str:
    """That there are no readings, and why where that is known; "" where there are some."""
    if any(map(is_read, read.columns.values())):
        return ""
    for mark in broken_marks():
        if mark.gpu.pk == gpu.pk and not mark.works:
            since = period.local(from_ms(mark.since_ms))
            return f"no readings: {mark.wrong} {since:%-d %b %H:%M}"
    return "no readings in this period"


def is_at_power_limit(read: StepSeries) -> bool:
    """Whether its driver often said that power slowed it, while its clock was hardly lower: at full
    load that is how it works, and loses nothing.
    """
    by_power = read.columns["throttle_power_ratio"]
    powers = [power for power in by_power if power is not None]
    clocks = zip(
        by_power, read.columns["sm_clock_hz"], read.columns["sm_clock_max_hz"], strict=True
    )
    ratios = [
        clock / highest
        for power, clock, highest in clocks
        if power is not None and power >= THROTTLED and clock is not None and highest
    ]
    if not ratios or sum(powers) < THROTTLED * len(powers):
        return False
    return sum(ratios) >= CLOCK * len(ratios)


OF_SLOWED = [
    *(METRICS[name] for name in ("gpu-clock", "gpu-temperature", "gpu-power")),
    SLOWED_BY,
    METRICS["gpu-util"],
]


def of_slowed_gpu(params: Params, period: Period) -> Chart:
    """What tells that heat or power holds it back: the clock beside its maximum, temperatures,
    power, and the share of the time; shaded is the time that was judged so. Raises NoSuchChartError
    where there is no such GPU.
    """
    shown = _gpu(params)
    read = _read(shown, OF_SLOWED, period)
    starts = _local(read.start_ms, period)
    rows = [metric.panel(read) for metric in OF_SLOWED]
    slowed = slowed_spans(shown.pk, period.so_far.start_ms, period.so_far.end_ms)
    return _shaded(_stacked(f"GPU {shown.uuid}", None, starts, rows, period), slowed, period)


def _shaded(chart: Chart, spans: Sequence[Span], period: Period, colour: str = "others") -> Chart:
    """With the time shaded that was judged slowed, or that was in a state."""
    shades = [
        (period.local(from_ms(start_ms)), period.local(from_ms(end_ms)), colour)
        for start_ms, end_ms in spans
    ]
    return replace(chart, figure=figures.shaded(chart.figure, shades))


def of_gpus(params: Params, period: Period) -> Chart:
    """Utilisation of several GPUs, a line each, by means of five minutes or longer, the time shaded
    that was a state of all of them. Raises NoSuchChartError where there is none of them.
    """
    asked = params.get("gpu", "").split(",")[:MOST_LINES]
    gpus = [gpu for gpu in map(inventory.gpu, asked) if gpu is not None]
    if not gpus:
        raise NoSuchChartError(params.get("gpu", ""))
    steps = cell_steps(period.so_far)
    panel = Panel(OF_NODE["util"], _each_seen(gpus, steps))
    starts = _local(steps, period)
    marked = _marked_spans(gpus, params, period)
    lines = [*panel.lines, *_keys(marked, params, len(starts))]
    figure = figures.series(starts, lines, y_format=panel.y_format)
    chart = _chart(panel.title, figure, starts, [panel], period)
    return _shaded(chart, marked, period, params[MARKED]) if marked else chart


def _each_seen(gpus: Sequence[GPU], steps: range) -> list[Line]:
    """A line for each, every other one dashed: two that are alike are both seen."""
    names = [f"{gpu.node.name} GPU {_number(gpu)}" for gpu in gpus]
    values = matrices.cells("util", [gpu.pk for gpu in gpus], interval_of(steps), len(steps))
    lines = _lines(names, values)
    return [replace(line, is_dashed=place % 2 == 1) for place, line in enumerate(lines)]


def _number(gpu: GPU) -> str:
    return gpu.uuid[:12] if gpu.index is None else str(gpu.index)


OF_JOB = [METRICS[name] for name in ("gpu-util", "gpu-memory", "gpu-power")]
# of one that heat or power slowed also what tells that
OF_SLOWED_JOB = [METRICS["gpu-clock"], METRICS["gpu-temperature"], SLOWED_BY]


def of_job(params: Params, period: Period) -> Chart:
    """One of its GPUs while the job held it, under the states of that time, and where findings are
    about the job how busy a GPU was in the nearest hour that went well; of one that was slowed
    meanwhile also its clock and heat, that time shaded. Raises NoSuchChartError where it never did,
    also for a job of whose time the reader sees a part alone.
    """
    job, shown, held = _held(params)
    slowed = _slowed_meanwhile(shown, held, period)
    metrics = [*OF_JOB, *(OF_SLOWED_JOB if slowed else ())]
    read = _only_within(held, _read(shown, metrics, period))
    bands = _bands([""], states([shown.pk], period.so_far, BAND_CELLS, job=job), period)
    index = "?" if shown.index is None else shown.index
    rows = [metric.panel(read) for metric in metrics]
    rows[0] = _beside_it(rows[0], job, shown, period)
    starts = _local(read.start_ms, period)
    chart = _stacked(f"{shown.node.name} GPU {index}", bands, starts, rows, period)
    return _shaded(chart, slowed, period)


def _slowed_meanwhile(shown: GPU, held: Sequence[Span], period: Period) -> list[Span]:
    """When it was slowed in these spans of the period."""
    every = slowed_spans(shown.pk, period.so_far.start_ms, period.so_far.end_ms)
    return [span for start_ms, end_ms in held for span in clip(every, start_ms, end_ms)]


def _beside_it(panel: Panel, job: Job, shown: GPU, period: Period) -> Panel:
    """With the mean of the hour that went well, all along."""
    reading = of_job_with_findings(job, shown)
    if reading is None or not panel.lines:
        return panel
    level = [round(reading.mean, 5)] * len(panel.lines[0].values)
    line = Line(name_of(reading, shown, period), level, "good", is_dashed=True)
    return replace(panel, lines=[*panel.lines, line])


def _held(params: Params) -> tuple[Job, GPU, Sequence[Span]]:
    """The job, one of its GPUs, and when it held that. Raises NoSuchChartError."""
    job = job_of_key(params.get("job", ""))
    shown = _gpu(params)
    if job is None or seen_spans(job) is not None:
        raise NoSuchChartError(params.get("job", ""))
    held = held_spans(job, shown.pk)
    if not held:
        raise NoSuchChartError(shown.uuid)
    return job, shown, held


def _only_within(spans: Sequence[Span], read: StepSeries) -> StepSeries:
    """With what lies wholly in the spans; None elsewhere."""
    are_own = [is_within(spans, at_ms, at_ms + read.step_ms) for at_ms in read.start_ms]
    columns = {
        column: [value if is_own else None for value, is_own in zip(values, are_own, strict=True)]
        for column, values in read.columns.items()
    }
    return replace(read, columns=columns)


def is_within(spans: Sequence[Span], start_ms: int, end_ms: int) -> bool:
    """Whether one of the spans has all of [start_ms, end_ms)."""
    return any(first_ms <= start_ms and end_ms <= last_ms for first_ms, last_ms in spans)


def _gpu(params: Params) -> GPU:
    gpu = inventory.gpu(params.get("gpu", ""))
    if gpu is None:
        raise NoSuchChartError(params.get("gpu", ""))
    return gpu


def _read(gpu: GPU, metrics: Iterable[Metric], period: Period) -> StepSeries:
    # a step shorter than a window would draw one window as several
    step_s = max(period.timeframe.step_s, gpu.node.window_s)
    columns = [column for metric in metrics for column, *_ in metric.lines]
    so_far = period.so_far
    return telemetry.series(gpu, so_far.start_ms, so_far.end_ms, columns=columns, step_s=step_s)


def of_node(params: Params, period: Period) -> Chart:
    """Its GPUs by means of five minutes or longer, and its host, under their states. Raises
    NoSuchChartError where there is no such node.
    """
    shown = Node.objects.filter(name=params.get("node", "")).first()
    if shown is None:
        raise NoSuchChartError(params.get("node", ""))
    gpus = physical_gpus(shown)[:MOST_LINES]
    steps = cell_steps(period.so_far)
    names = [f"GPU {_number(gpu)}" for gpu in gpus]
    ids = [gpu.pk for gpu in gpus]
    rows = [*_gpu_panels(names, ids, steps), Panel("Host", _host_lines(shown, steps))]
    bands = _bands(names, states(ids, period.so_far, BAND_CELLS), period)
    return _stacked(shown.name, bands, _local(steps, period), rows, period)


def _gpu_panels(names: Sequence[str], ids: Sequence[int], steps: range) -> list[Panel]:
    """A line for each GPU in each."""
    interval = interval_of(steps)
    return [
        Panel(
            title,
            _lines(names, matrices.cells(metric, ids, interval, len(steps))),
            is_named=metric == "util",  # the same ones in all
        )
        for metric, title in OF_NODE.items()
    ]


def cell_steps(interval: Interval) -> range:
    """When steps of whole cells begin, so that no curve has too many points."""
    cells = -(-interval.duration_ms // (CELL_MS * MOST_POINTS))
    step_ms = CELL_MS * max(1, cells)
    first_ms = interval.start_ms - interval.start_ms % step_ms
    return range(first_ms, interval.end_ms, step_ms)


def interval_of(steps: range) -> Interval:
    return Interval(from_ms(steps[0]), from_ms(steps[-1] + steps.step))


def _lines(names: Sequence[str], values: Floats) -> list[Line]:
    """Of each GPU with a value."""
    return [
        Line(name, known(row), COLOURS[place % len(COLOURS)])
        for place, (name, row) in enumerate(zip(names, values, strict=True))
        if not np.isnan(row).all()
    ]


def _host_lines(node: Node, steps: range) -> list[Line]:
    interval = interval_of(steps)
    if interval.duration_ms > HOST_DAYS * 86_400_000:
        return []
    samples = frames.host(node.pk, interval.start_ms, interval.end_ms, list(HOST))
    at = np.clip((samples.start_ms - steps.start) // steps.step, 0, len(steps) - 1)
    return [
        Line(label, known(_means(at, samples.columns[column], len(steps))), token)
        for (column, label), token in zip(HOST.items(), ("accent", "ink-3"), strict=True)
        if column in samples.columns and len(at)
    ]


def _means(at: Ints, values: Floats, count: int) -> Floats:
    """Of each step; NaN where nothing was read."""
    is_known = ~np.isnan(values)
    counts = np.bincount(at[is_known], minlength=count)
    sums = np.bincount(at[is_known], values[is_known], count)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def known(values: Floats) -> list[float | None]:
    """To four digits; None for NaN."""
    return [None if isnan(value) else round(value, 4) for value in values.tolist()]


def _bands(names: Sequence[str], shown: Ints, period: Period) -> Bands:
    interval = period.so_far
    cell = (interval.end - interval.start) / BAND_CELLS
    edges = [period.local(interval.start + cell * place) for place in range(BAND_CELLS + 1)]
    return Bands(names, edges, shown)


def _stacked(
    title: str,
    bands: Bands | None,
    starts: Sequence[datetime],
    rows: Sequence[Panel],
    period: Period,
) -> Chart:
    ends = period.local(period.so_far.start), period.local(period.so_far.end)
    return _chart(title, panels.stacked(bands, starts, rows, period=ends), starts, rows, period)


def _chart(
    title: str,
    figure: figures.Figure,
    starts: Sequence[datetime],
    rows: Sequence[Panel],
    period: Period,
) -> Chart:
    """With a row for each start, and what each line has there."""
    lines = [(panel, line) for panel in rows for line in panel.lines]
    return Chart(
        title,
        figure,
        lambda: heads(period, [f"{panel.title}: {line.name}{panel.unit}" for panel, line in lines]),
        lambda: list(zip(map(text_of, starts), *(line.values for _, line in lines), strict=True)),
    )


def _local(starts_ms: Iterable[int], period: Period) -> list[datetime]:
    return [period.local(from_ms(at_ms)) for at_ms in starts_ms]


def _in_units(values: Sequence[float | None], whole: float) -> list[float | None]:
    return [None if value is None else round(value / whole, 5) for value in values]
