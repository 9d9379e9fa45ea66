"""Of a job that holds GPUs without work: how busy one of them was since before it went idle, beside
a GPU that works.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import numpy as np

from fleetwatch.accounts.visibility import sight
from fleetwatch.dashboard.drawing import figures, panels
from fleetwatch.dashboard.drawing.chart import Chart, heads, text_of
from fleetwatch.dashboard.drawing.figures import Line
from fleetwatch.dashboard.drawing.grid import Floats
from fleetwatch.dashboard.drawing.machine_charts import (
    cell_steps,
    interval_of,
    is_within,
    known,
)
from fleetwatch.dashboard.drawing.panels import Panel
from fleetwatch.dashboard.drawing.readings_band import BAND, is_read, readings_band
from fleetwatch.dashboard.drawing.references import other_model, well_reading
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause import EMPTY, HELD
from fleetwatch.diagnosis.causes import BY_CODE, WELL_CODES
from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.slowed_cells import spread
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.selectors import held_spans, holdings_of
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour, from_ms, to_ms
from fleetwatch.lib.spans import Span, union
from fleetwatch.telemetry import matrices
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.steps import StepSeries

AT_LEAST_MS = 6 * HOUR_MS  # before a job went idle, as far as it held GPUs then
OF_IDLE = 3  # or so many times as long as it was idle
WORKS = 0.3  # mean utilisation of a GPU that an idle one is compared with, at least
WORKED = 0.1  # mean utilisation before it went idle, at least
CHART_PX = 228
BAND_MS = 168 * HOUR_MS  # of its readings: a longer time is too much to read for a page


@dataclass(frozen=True, slots=True)
class Reference:
    """A GPU that works: what it is called, its utilisation by step, as a share, and whose it is,
    where its name does not say that.
    """

    name: str
    values: Floats
    words: str = ""

    @property
    def mean(self) -> float:
        return float(np.nanmean(self.values))


@dataclass(frozen=True, slots=True)
class Contrast:
    """Utilisation of an idle job's GPU by steps of five minutes or more, NaN = not read; `idle` are
    the spans that the finding counts of it.
    """

    gpu: GPU
    steps: range
    values: Floats
    idle: Sequence[Span]
    beside: Reference | None
    readings: StepSeries | None = None  # the lowest and the highest of each step

    @property
    def highest(self) -> float | None:
        """The highest reading in the idle spans; None where none was read."""
        if self.readings is None:
            return None
        highest = zip(self.readings.start_ms, self.readings.columns[BAND[1]], strict=True)
        return max(
            (value for at_ms, value in highest if value is not None and self._is_idle(at_ms)),
            default=None,
        )

    @property
    def before(self) -> float | None:
        """Its mean before the first idle span; None where nothing was read of that."""
        return self._mean([at_ms + self.steps.step <= self.idle[0][0] for at_ms in self.steps])

    @property
    def during(self) -> float | None:
        """Its mean in the idle spans; None where nothing was read of them."""
        return self._mean([self._is_idle(at_ms) for at_ms in self.steps])

    @property
    def went_idle(self) -> bool:
        """Whether it worked before: a job that never did went nowhere."""
        before = self.before or 0.0
        return before >= WORKED and before > 2 * (self.during or 0.0)

    @property
    def compared_from_ms(self) -> int | None:
        """From when on the GPU beside it is something to compare with; None where it is all
        along.
        """
        if self.beside is None:
            return None
        own, beside = (_read(each)[0] for each in (self.values, self.beside.values))
        return None if beside <= own else self.steps[beside]

    @property
    def compared_until_ms(self) -> int | None:
        """Until when the GPU beside it is something to compare with; None where it is all along."""
        if self.beside is None:
            return None
        own, beside = (_read(each)[-1] for each in (self.values, self.beside.values))
        return None if beside >= own else self.steps[beside] + self.steps.step

    def _is_idle(self, at_ms: int) -> bool:
        return any(start_ms <= at_ms < end_ms for start_ms, end_ms in self.idle)

    def _mean(self, where: list[bool]) -> float | None:
        read = self.values[np.array(where) & ~np.isnan(self.values)]
        return float(read.mean()) if len(read) else None


def contrast(finding: Finding, seen: Evidence) -> Contrast | None:
    """What is drawn of an idle job's finding; None of other causes, and where no curve is kept."""
    if BY_CODE[finding.cause].idle not in (HELD, EMPTY):
        return None
    idle = _idle_spans(finding, seen.gpu)
    if not idle:
        return None
    steps = cell_steps(_drawn(finding, idle))
    others = _neighbours(finding, seen.gpu)
    whole, *rest = _utilisation([seen.gpu, *others], steps)
    # what another job did before is not its own
    own = _within(held_spans(finding.its_job, seen.gpu.pk), steps, whole)
    if np.isnan(own).all():
        return None
    beside = _at_work(others, rest, steps) or _when_well(finding, seen.gpu, len(steps))
    return Contrast(seen.gpu, steps, own, idle, beside, _readings(seen.gpu, steps, own))


def _read(values: Floats) -> list[int]:
    """The places of the steps that were read."""
    return np.flatnonzero(~np.isnan(values)).tolist()


def _utilisation(gpus: Sequence[GPU], steps: range) -> Floats:
    """GPUs x steps."""
    return matrices.cells("util", [gpu.pk for gpu in gpus], interval_of(steps), len(steps))


def _idle_spans(finding: Finding, gpu: GPU) -> list[Span]:
    rows = CauseEntry.objects.filter(
        job=finding.job,
        gpu=gpu,
        cause=finding.cause,
        start__gte=floor_hour(from_ms(finding.first_ms)),
        start__lt=from_ms(finding.last_ms),
    ).values_list("start", "cells")
    every = (part for start, cells in rows for part in spread(to_ms(start), cells, 0))
    return union((start_ms, end_ms) for start_ms, end_ms, _ in every)


def _drawn(finding: Finding, idle: Sequence[Span]) -> Interval:
    """From some time before it went idle, but not before the job began."""
    start_ms = idle[0][0]
    end_ms = idle[-1][1]
    before_ms = max(AT_LEAST_MS, OF_IDLE * (end_ms - start_ms))
    began_ms = finding.its_job.start_ms or start_ms
    return Interval(from_ms(max(start_ms - before_ms, min(began_ms, start_ms))), from_ms(end_ms))


def _within(held: Sequence[Span], steps: range, values: Floats) -> Floats:
    """Of the steps all of which lies in one of the spans."""
    is_held = [is_within(held, at_ms, at_ms + steps.step) for at_ms in steps]
    return np.where(is_held, values, np.nan)


def _readings(gpu: GPU, steps: range, own: Floats) -> StepSeries | None:
    """The lowest and the highest reading of each step that is the job's, of a long time of its
    last week; None where none is kept.
    """
    interval = interval_of(steps)
    start_ms = max(interval.start_ms, interval.end_ms - BAND_MS)
    read = telemetry.series(gpu, start_ms, interval.end_ms, columns=BAND, step_s=steps.step // 1000)
    place_of = {at_ms: place for place, at_ms in enumerate(read.start_ms)}
    own_steps = zip(steps, ~np.isnan(own), strict=True)
    places = [place_of.get(at_ms) if is_own else None for at_ms, is_own in own_steps]
    columns = {
        name: [None if place is None else values[place] for place in places]
        for name, values in read.columns.items()
    }
    return StepSeries(steps.step, list(steps), columns) if is_read(columns[BAND[1]]) else None


def _neighbours(finding: Finding, gpu: GPU) -> list[GPU]:
    """The node's other GPUs that the job does not hold; none to whom not everything is shown."""
    if sight() is not None:
        return []
    others = GPU.objects.filter(node=gpu.node_id, parent=None).exclude(pk=gpu.pk)
    return list(others.exclude(allocations__job=finding.job).order_by("index", "pk"))


def _while_held(gpus: Sequence[GPU], values: Sequence[Floats], steps: range) -> list[Floats]:
    """Of each GPU the steps while jobs held it: one that is free is nothing to compare with."""
    interval = interval_of(steps)
    nodes = holdings_of(list({gpu.node_id for gpu in gpus}), interval.start_ms, interval.end_ms)
    held: dict[int, list[Span]] = defaultdict(list)
    for each in chain.from_iterable(nodes.values()):
        held[each.gpu_id] += each.spans
    return [
        _within(union(held[gpu.pk]), steps, of_gpu)
        for gpu, of_gpu in zip(gpus, values, strict=True)
    ]


def _while_well(gpus: Sequence[GPU], values: Sequence[Floats], steps: range) -> list[Floats]:
    """Of each GPU the steps before the first five minutes that a cause explains: from then on it is
    nothing to compare with.
    """
    interval = interval_of(steps)
    rows = CauseEntry.objects.filter(
        gpu__in=gpus, start__gte=floor_hour(interval.start), start__lt=interval.end
    )
    explained = rows.exclude(cause__in=WELL_CODES).values_list("gpu_id", "start", "cells")
    first_ms: dict[int, int] = {}
    for gpu_id, start, cells in explained:
        for start_ms, end_ms, _ in spread(to_ms(start), cells, 0):
            if end_ms > interval.start_ms:
                first_ms[gpu_id] = min(start_ms, first_ms.get(gpu_id, start_ms))
    ends_ms = np.array(steps) + steps.step
    return [
        np.where(ends_ms <= first_ms.get(gpu.pk, interval.end_ms), of_gpu, np.nan)
        for gpu, of_gpu in zip(gpus, values, strict=True)
    ]


def _at_work(gpus: Sequence[GPU], values: Sequence[Floats], steps: range) -> Reference | None:
    """The one that did most work in all, if any worked: a short while says little."""
    held = _while_held(gpus, values, steps)
    read = [
        Reference(f"GPU {gpu.index} beside it", of_gpu)
        for gpu, of_gpu in zip(gpus, _while_well(gpus, held, steps), strict=True)
        if gpu.index is not None and not np.isnan(of_gpu).all()
    ]
    at_work = (each for each in read if each.mean >= WORKS)
    return max(at_work, key=lambda each: float(np.nansum(each.values)), default=None)


def _when_well(finding: Finding, gpu: GPU, count: int) -> Reference | None:
    """The mean of the nearest hour that went well."""
    reading = well_reading(finding, gpu)
    if reading is None:
        return None
    name = f"{reading.name}{other_model(reading, gpu)}"
    return Reference(name, np.full(count, reading.mean), reading.words)


def draw(title: str, shown: Contrast, period: Period) -> Chart:
    """The GPU's line in the band of its readings, and what one that works does; shaded is the idle
    time, where not all is.
    """
    starts = [period.local(from_ms(at_ms)) for at_ms in shown.steps]
    end = period.local(from_ms(shown.steps[-1] + shown.steps.step))
    panel = _panel(shown)
    figure = panels.stacked(None, starts, [panel], period=(starts[0], end))
    shaded = figures.shaded(figure, _shades(shown, period))
    lines = [*panel.lines, *(panel.band or ())]
    return Chart(
        title,
        figures.with_days(shaded),
        lambda: heads(period, [line.name for line in lines]),
        lambda: list(zip(map(text_of, starts), *(line.values for line in lines), strict=True)),
    )


def _panel(shown: Contrast) -> Panel:
    """With a key for what is shaded, if anything is."""
    own = Line(f"GPU {_index(shown.gpu)}, this job", known(shown.values))
    idle = Line("idle, counted here", [None] * len(shown.steps), "idle")
    keys = [idle] if shown.went_idle else []
    lines = [own]
    if beside := shown.beside:
        lines.append(Line(beside.name, known(beside.values), "useful", is_dashed=True))
    band = readings_band(shown.readings) if shown.readings else None
    return Panel("Utilisation", lines, band=band, keys=keys, height=CHART_PX)


def _shades(shown: Contrast, period: Period) -> list[tuple[datetime, datetime, str]]:
    """The idle spans; none where it never worked: shaded all over says nothing."""
    if not shown.went_idle:
        return []
    return [
        (period.local(from_ms(start_ms)), period.local(from_ms(end_ms)), "idle")
        for start_ms, end_ms in shown.idle
    ]


def _index(gpu: GPU) -> str:
    return "?" if gpu.index is None else str(gpu.index)
