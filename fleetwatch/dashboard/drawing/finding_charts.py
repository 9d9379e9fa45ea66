"""What a finding rests on: a job's on the GPU that it affects most, a machine's or queue's hour by
hour.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice

from fleetwatch.dashboard.drawing import figures, idle_chart, panels
from fleetwatch.dashboard.drawing.chart import (
    Chart,
    NoPeriodError,
    NoSuchChartError,
    Params,
    heads,
    text_of,
)
from fleetwatch.dashboard.drawing.figures import SHARE, Figure, Line
from fleetwatch.dashboard.drawing.panels import Panel
from fleetwatch.dashboard.drawing.readings_band import BAND, is_read, readings_band
from fleetwatch.dashboard.drawing.references import UTIL, name_of, well_reading
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import evidence, gpu_windows, inbox, machine_findings
from fleetwatch.diagnosis.findings.machine_findings import Hour
from fleetwatch.diagnosis.judgement import marks
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.selectors import idle_w_of
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.steps import StepSeries


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
        lambda: heads(period, [line.name for line in lines]),
        lambda: list(zip(map(text_of, starts), *(line.values for line in lines), strict=True)),
    )


def _local(starts_ms: Iterable[int], period: Period) -> list[datetime]:
    return [period.local(from_ms(at_ms)) for at_ms in starts_ms]


Lines = Mapping[str, Line]  # by column

# a run up to so long is drawn in steps of so many seconds; a longer one in COARSE_S. Of more than
# some 360 steps what swings from one to the next is a block of ink; two hours are still told apart
STEPS = (
    (2 * HOUR_MS, 10),
    (3 * HOUR_MS, 30),
    (12 * HOUR_MS, 120),
    (30 * HOUR_MS, 300),
    (90 * HOUR_MS, 900),
)
COARSE_S = 1800
LOOKS_MS = HOUR_MS // 4  # diagnosis looks at what goes on each five minutes
BEFORE_MS = HOUR_MS  # drawn of what came before, where nobody knows when the run began
LONGEST_MS = 168 * HOUR_MS  # of a longer run its last week until what was judged is drawn
JUDGED = "judged"
# the token and the name of each kind
SHADED = {JUDGED: "accent", marks.PAUSE: "stalled", marks.IDLE: "idle", marks.SPINNING: "idle"}
KEYS = {
    JUDGED: "judged period",
    marks.PAUSE: "pause",
    marks.IDLE: "idle",
    marks.SPINNING: "spinning at near-idle power",
}
ZEROS = "util_zero_fraction"
CURVES = {
    UTIL: ("utilisation", "accent"),
    "power_w": ("power, idle to limit", "ink"),
    "sm_active": ("SM active", "ink-3"),
    "tensor_active": ("tensor active", "ink-3"),
    "memory_used_bytes": ("memory used", "accent"),
    "sm_clock_hz": ("clock of its maximum", "good"),
    ZEROS: ("readings at zero", "stalled"),
}
WHOLE_OF = {"sm_clock_hz": "sm_clock_max_hz"}  # another column
OF_A_WINDOW = (*CURVES, *WHOLE_OF.values(), *marks.COLUMNS, *BAND)
OF_REFERENCE = {"power_w": "power"}  # drawn of what went well, beside utilisation
STUB = 4  # an hour that is a smaller part of what is drawn can't be seen
DASHED = ("tensor_active", "memory_used_bytes")


# of hours: the line, the column, the token, and whether it is dashed; the first is the cause's
OF_NODE = (("", "gpu_ms", "accent", False),)
OF_QUEUE = (
    ("", "gpu_ms", "ink-3", False),
    ("jobs could have used at most", "high_ms", "accent", False),
    ("at least", "low_ms", "accent", True),
)


def of_finding(params: Params, period: Period) -> Chart:
    """Of a job's finding its run, on the GPU that it affects most, with the newest window that was
    judged; of a node's or cluster's the period.
    """
    finding = _find(params.get("finding", ""))
    if finding.job_id is None:
        return _place(finding, period)
    if any(name in params for name in timeframes.NAMES):
        names = ", ".join(timeframes.NAMES)
        raise NoPeriodError(f"A job's finding is drawn over its run: leave out {names}.")
    seen = evidence.evidence(finding.its_job, finding.cause)
    if seen is None:
        raise NoSuchChartError(str(finding.pk))
    cause = BY_CODE[finding.cause]
    if shown := idle_chart.contrast(finding, seen):
        return idle_chart.draw(f"{cause.title}: utilisation", shown, period)
    return _window(finding, seen, period)


def _window(finding: Finding, seen: evidence.Evidence, period: Period) -> Chart:
    """What was measured of the GPU, and what of it is marked."""
    cause = BY_CODE[finding.cause]
    series_of = _series_of(finding, seen)
    read = series_of(seen.gpu, columns=OF_A_WINDOW)
    other = _beside(seen, cause, series_of) or _when_well(finding, cause, seen.gpu, read, period)
    marked = _marked(cause, seen, read)
    shades = [*_judged(seen, read), *marked]
    drawn = curves_of(read.columns, (*cause.curves, ZEROS), seen.gpu)
    rows = _panels(drawn, other, read, _keys(shades, read))
    chart = _of_panels(f"{cause.title}, as it was measured", rows, read, period)
    return _with_kinds(replace(chart, figure=_shaded(chart.figure, shades, period)), read, marked)


def _marked(cause: Cause, seen: evidence.Evidence, read: StepSeries) -> list[marks.Mark]:
    """What of it pauses or spins: of a GPU that does nothing it is no pause, it is idle; of a
    rhythm the pauses that its signs count.
    """
    if cause.has_rhythm:
        return [
            marks.Mark(pause.start_ms, pause.end_ms, marks.PAUSE)
            for pause in gpu_windows.long_pauses(seen)
        ]
    waiting_w = _waiting_w(seen.gpu)
    marked = marks.marks(read.start_ms, read.step_ms, read.columns, waiting_w=waiting_w)
    if not cause.idle:
        return marked
    return [replace(mark, kind=marks.IDLE) if mark.kind == marks.PAUSE else mark for mark in marked]


def _panels(drawn: Lines, other: Lines, read: StepSeries, keys: Sequence[Line]) -> list[Panel]:
    """Utilisation in the band of its readings, how many of these were zero, if any, and all else;
    each with the line of another GPU or hour to compare with.
    """
    columns = [column for column in {**drawn, **other} if column not in (UTIL, ZEROS)]
    rest = _lines(columns, drawn, other)
    alone = f"{rest[0].name[0].upper()}{rest[0].name[1:]}" if len(rest) == 1 else ""
    zeros = [line for line in _lines([ZEROS], drawn) if any(line.values)]
    return [
        Panel("Utilisation", _lines([UTIL], drawn, other), band=readings_band(read), keys=keys),
        Panel("Readings at zero", zeros, is_named=False),
        Panel(alone or "Other readings", rest),
    ]


def _judged(seen: evidence.Evidence, read: StepSeries) -> list[marks.Mark]:
    """The window that was judged, where more is drawn than that."""
    if read.start_ms[0] >= seen.start_ms:
        return []
    return [marks.Mark(seen.start_ms, seen.end_ms, JUDGED)]


def _keys(shades: Sequence[marks.Mark], read: StepSeries) -> list[Line]:
    """The names of what is shaded, in their colours."""
    kinds = {mark.kind for mark in shades}
    nothing = [None] * len(read.start_ms)
    return [Line(KEYS[kind], nothing, SHADED[kind]) for kind in SHADED if kind in kinds]


def _lines(columns: Iterable[str], *several: Lines) -> list[Line]:
    return [lines[column] for column in columns for lines in several if column in lines]


def _of_panels(title: str, rows: Sequence[Panel], read: StepSeries, period: Period) -> Chart:
    """Under each other, and a row for each start with what each line has there."""
    starts = _local(read.start_ms, period)
    lines = [line for panel in rows for line in panel.lines]
    ends = starts[0], period.local(from_ms(read.start_ms[-1] + read.step_ms))
    figure = panels.stacked(None, starts, rows, period=ends)
    return replace(_of_lines(title, starts, lines, period), figure=figure)


def _with_kinds(chart: Chart, read: StepSeries, marked: Sequence[marks.Mark]) -> Chart:
    """With what each row is marked as."""
    kinds = [_kind(at_ms, at_ms + read.step_ms, marked) for at_ms in read.start_ms]
    return replace(
        chart,
        columns=lambda: [*chart.columns(), "Marked"],
        rows=lambda: [[*row, kind] for row, kind in zip(chart.rows(), kinds, strict=True)],
    )


def _when_well(finding: Finding, cause: Cause, gpu: GPU, read: StepSeries, period: Period) -> Lines:
    """Utilisation, and power where the cause is seen by it, in the nearest hour that went well,
    from the first step on.
    """
    columns = [column for column in OF_REFERENCE if column in cause.curves]
    reading = well_reading(finding, gpu, columns=[UTIL, *columns], step_s=read.step_ms // 1000)
    if reading is None:
        return {}
    name = name_of(reading, gpu, period)
    well = curves_of(reading.read.columns, (UTIL, *columns), reading.hour.gpu)
    return {
        column: Line(
            name if column == UTIL else f"{OF_REFERENCE[column]} {name}",
            _over(line.values, len(read.start_ms)),
            "good",
            is_dashed=True,
        )
        for column, line in well.items()
    }


def _over(values: Sequence[float | None], steps: int) -> list[float | None]:
    """An hour's values over so many steps; its mean all along where it would be a stub."""
    if steps > STUB * len(values):
        mean = round(_mean(values), 5)
        return [mean] * steps
    return [*values[:steps], *[None] * (steps - len(values))]


def _shaded(figure: Figure, marked: Sequence[marks.Mark], period: Period) -> Figure:
    spans = [
        (
            period.local(from_ms(mark.start_ms)),
            period.local(from_ms(mark.end_ms)),
            SHADED[mark.kind],
        )
        for mark in marked
    ]
    return figures.with_days(figures.shaded(figure, spans))


def _series_of(finding: Finding, seen: evidence.Evidence) -> Callable[..., StepSeries]:
    """What reads columns of a GPU over what is drawn."""
    start_ms, end_ms = drawn(finding, seen)
    steps = (step_s for most_ms, step_s in STEPS if end_ms - start_ms <= most_ms)
    step_s = max(next(steps, COARSE_S), seen.gpu.node.window_s)
    return partial(telemetry.series, start_ms=start_ms, end_ms=end_ms, step_s=step_s)


def drawn(finding: Finding, seen: evidence.Evidence) -> Span:
    """All of the job's run, so far: what it did before is what its trouble is seen by. Of a rhythm
    what was judged: hours of it are a block.
    """
    if BY_CODE[finding.cause].has_rhythm:
        return seen.start_ms, seen.end_ms
    job = finding.its_job
    known_ms = seen.gpu.node.last_ms or seen.end_ms
    end_ms = max(seen.end_ms, min(job.end_ms or known_ms, known_ms))
    before_ms = min(seen.start_ms, finding.first_ms) - BEFORE_MS
    start_ms = min(job.start_ms or before_ms, seen.start_ms)
    if end_ms - start_ms <= LONGEST_MS:
        return start_ms, end_ms
    return max(start_ms, seen.end_ms - LONGEST_MS), seen.end_ms


def _find(number: str) -> Finding:
    """The finding of that number. Raises NoSuchChartError."""
    is_number = number.isdecimal() and len(number) < 19
    finding = inbox.finding(int(number)) if is_number else None
    if finding is None:
        raise NoSuchChartError(number)
    return finding


def _kind(start_ms: int, end_ms: int, marked: Sequence[marks.Mark]) -> str:
    """What of [start_ms, end_ms) is marked, as what; "" where nothing is."""
    within = (mark for mark in marked if mark.start_ms < end_ms and mark.end_ms > start_ms)
    return next((mark.kind for mark in within), "")


def _beside(seen: evidence.Evidence, cause: Cause, series_of: Callable[..., StepSeries]) -> Lines:
    """The line of another GPU to compare with, if any, named by its node where that is another."""
    gpu = seen.beside
    if gpu is None or cause.beside is None:
        return {}
    columns = cause.beside.curves
    is_near = gpu.node_id == seen.gpu.node_id
    name = f"GPU {gpu.index}" if is_near else f"{gpu.node.name} GPU {gpu.index}"
    read = series_of(gpu, columns=[*columns, *WHOLE_OF.values()])
    lines = curves_of(read.columns, columns, gpu)
    return {
        column: replace(line, name=f"{line.name}, {name}", is_dashed=True)
        for column, line in islice(lines.items(), 1)
    }


def flat_signs(cause: Cause, seen: evidence.Evidence) -> list[tuple[str, float]]:
    """What else was read of an idle GPU in the window that was judged, and its mean as a share."""
    columns = [column for column in cause.curves if column != UTIL]
    read = telemetry.series(
        seen.gpu,
        seen.start_ms,
        seen.end_ms,
        columns=[*columns, *WHOLE_OF.values()],
        step_s=seen.gpu.node.window_s,
    )
    lines = curves_of(read.columns, columns, seen.gpu).values()
    return [(line.name, _mean(line.values)) for line in lines]


def _mean(values: Iterable[float | None]) -> float:
    read = [value for value in values if value is not None]
    return sum(read) / len(read)


def _place(finding: Finding, period: Period) -> Chart:
    """A node's or cluster's finding hour by hour: GPUs on the mean of each hour; of a queue also
    what jobs could have used of it.
    """
    hours = {to_ms(hour.start): hour for hour in machine_findings.hours(finding, period.interval)}
    known_ms = _known_ms(finding, period)
    starts_ms = _every_hour(hours)
    ends_ms = [min(at_ms, max(known_ms, at_ms - HOUR_MS)) for at_ms in starts_ms]
    goes_on = max(starts_ms, default=0) >= min(known_ms, period.interval.end_ms)
    lines = _lines_of_place(finding, hours, known_ms, goes_on=goes_on)
    starts = _local(ends_ms, period)
    chart = _of_lines(
        f"{BY_CODE[finding.cause].title}: {finding.subject}", starts, lines, period, ".3~g"
    )
    figure = chart.figure | {"layout": figures.with_day(chart.figure["layout"], starts)}
    # the last one is where the hour before it ends
    return replace(chart, figure=figure, rows=lambda: chart.rows()[:-1])


def _lines_of_place(
    finding: Finding, hours: Mapping[int, Hour], known_ms: int, *, goes_on: bool
) -> list[Line]:
    curve = BY_CODE[finding.cause].machine.curve
    return [
        Line(name or curve, _means(column, hours, known_ms, goes_on=goes_on), colour, is_dashed)
        for name, column, colour, is_dashed in (OF_QUEUE if finding.cluster else OF_NODE)
    ]


def _means(column: str, hours: Mapping[int, Hour], known_ms: int, *, goes_on: bool) -> list[float]:
    """GPUs on the mean of each hour, of one that goes on so far, and then none; what goes on ends
    where it is known to, and does not fall.
    """
    means = [
        round(getattr(hours.get(at_ms), column, 0) / _elapsed_ms(at_ms, known_ms), 3)
        for at_ms in _every_hour(hours)
    ]
    return [*means[:-1], means[-2]] if goes_on else means


def _known_ms(finding: Finding, period: Period) -> int:
    """Until when it is known how it stands: what the node sent last, of a queue now; of what goes
    on, when diagnosis looked at it last.
    """
    now_ms = to_ms(period.now)
    last_ms = finding.node.last_ms if finding.node else None
    looked_ms = finding.last_ms if now_ms - finding.last_ms < LOOKS_MS else now_ms
    return min(looked_ms, now_ms if last_ms is None else last_ms)


def _elapsed_ms(start_ms: int, known_ms: int) -> int:
    """How much of the hour is known: all of it unless it goes on."""
    elapsed_ms = known_ms - start_ms
    return elapsed_ms if 0 < elapsed_ms < HOUR_MS else HOUR_MS


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


def curves_of(
    read: Mapping[str, Sequence[float | None]], columns: Iterable[str], gpu: GPU
) -> dict[str, Line]:
    """By column what was read of the GPU, each as a share of its range."""
    lines = {}
    for column in columns:
        between = _range(column, gpu, read)
        if between is not None and is_read(read[column]):
            name, token = CURVES[column]
            values = _shares(read[column], *between)
            lines[column] = Line(name, values, token, is_dashed=column in DASHED)
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
