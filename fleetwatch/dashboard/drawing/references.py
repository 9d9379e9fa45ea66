"""What a job's finding is drawn beside: an hour that went well, of the job itself or, where it has
none, of the nearest other job that has one; and whose it is, in words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db.models import Max

from fleetwatch.dashboard.drawing.readings_band import is_read
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause import PART
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.diagnosis.findings.well_hours import (
    ALIKE_JOB,
    LOOKS_BACK,
    OWN,
    WellHour,
    well_hours,
)
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import is_visible
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.steps import StepSeries

UTIL = "util_mean"
MINUTE_S = 60
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class WellReading:
    """What was read in an hour that went well; `job` is None where the reader does not see whose
    that is.
    """

    hour: WellHour
    job: Job | None
    read: StepSeries

    @property
    def mean(self) -> float:
        """Utilisation, as a share."""
        values = [value for value in self.read.columns[UTIL] if value is not None]
        return sum(values) / len(values)

    @property
    def at_ms(self) -> int | None:
        """When it was; of a job that the reader does not see nothing leads to which it is."""
        return self.hour.start_ms if self.job else None

    @property
    def words(self) -> str:
        """Whose it is, as a page says it: of a job that has a finding about that time it is the
        GPU that went well.
        """
        if not self.hour.in_finding:
            comma = "" if self.hour.whose == OWN else ","
            return f"{self._whose}{comma} when it went well"
        return f"{_number(self.hour.gpu, is_told=self.job is not None)} of {self._whose}"

    @property
    def name(self) -> str:
        """The same as a line is called; whose it is the page says: a name is hostile text."""
        if self.hour.in_finding:
            whose = "this job" if self.hour.whose == OWN else "another job"
            return f"{_number(self.hour.gpu, is_told=self.hour.whose == OWN)} of {whose}"
        return "when well" if self.hour.is_own else "another job when well"

    @property
    def _whose(self) -> str:
        if self.hour.is_own:
            return "this job" if self.hour.whose == OWN else f"an earlier run, {self.hour.job.key}"
        model = self.hour.gpu.model
        on = f"on the same GPU model, {model.name}" if model else "on another GPU"
        if self.job is None:
            return f"another job {on}"
        name = (self.job.name or self.job.key)[:LONGEST_NAME]
        whose = f"{name} of {self.job.user}" if self.job.user else name
        where = f"on {model.name}" if self.hour.whose == ALIKE_JOB and model else on
        return f"{whose} {where}"


def _number(gpu: GPU, *, is_told: bool) -> str:
    return f"GPU {_index(gpu)}" if is_told else "a GPU"


def other_model(reading: WellReading, gpu: GPU) -> str:
    """ " on H100 SXM", the GPU model of what went well where that is another than this GPU's."""
    model = reading.hour.gpu.model
    return "" if model is None or model == gpu.model else f" on {model.name}"


def name_of(reading: WellReading, gpu: GPU, period: Period) -> str:
    """ "when well, 20 Nov 05:00", with the GPU model where that is another."""
    at = "" if reading.at_ms is None else f", {period.local(from_ms(reading.at_ms)):%-d %b %H:%M}"
    return f"{reading.name}{other_model(reading, gpu)}{at}"


@dataclass(frozen=True, slots=True)
class Reference:
    """What stands beside it in words, and how busy that was: None where it is drawn in full."""

    words: str
    mean: float | None = None
    at_ms: int | None = None


def well_reading(
    finding: Finding, gpu: GPU, *, columns: Sequence[str] = (UTIL,), step_s: int = MINUTE_S
) -> WellReading | None:
    """Of the nearest hour that went well what is still kept; None where there is none."""
    return _nearest(finding.its_job, gpu, finding.last_ms, _reader(columns, step_s))


def of_job_with_findings(job: Job, gpu: GPU) -> WellReading | None:
    """The same of a job that some finding is about, for one of its GPUs; None of others."""
    last_ms = Finding.objects.filter(job=job).aggregate(last_ms=Max("last_ms"))["last_ms"]
    return None if last_ms is None else _nearest(job, gpu, last_ms, _reader((UTIL,), MINUTE_S))


def _nearest(
    job: Job, gpu: GPU, last_ms: int, read: Callable[[WellHour], WellReading | None]
) -> WellReading | None:
    return next(filter(None, map(read, well_hours(job, gpu, last_ms=last_ms))), None)


def _reader(columns: Sequence[str], step_s: int) -> Callable[[WellHour], WellReading | None]:
    def reading(hour: WellHour) -> WellReading | None:
        read = telemetry.series(
            hour.gpu, hour.start_ms, hour.start_ms + HOUR_MS, columns=columns, step_s=step_s
        )
        if not is_read(read.columns[UTIL]):
            return None
        job = hour.job if hour.is_own or is_visible(hour.job) else None
        return WellReading(hour, job, read)

    return reading


def reference(finding: Finding, seen: Evidence) -> Reference | None:
    """What the chart of a window has beside it; None where nothing is kept to compare with."""
    if seen.beside and BY_CODE[finding.cause].beside:
        return Reference(f"GPU {_index(seen.beside)} of this job on {seen.beside.node.name}")
    reading = well_reading(finding, seen.gpu)
    return Reference(reading.words, reading.mean, reading.at_ms) if reading else None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """How busy the GPU of a finding was in the window that was judged, and one beside it."""

    own: float
    beside: float


def side_by_side(finding: Finding, seen: Evidence) -> SideBySide | None:
    """Of a GPU that its job does not use, and of one that it does; None of other causes, and where
    one of them was not read.
    """
    if seen.beside is None or BY_CODE[finding.cause].idle != PART:
        return None
    own = _busy(seen.gpu, seen)
    beside = _busiest(seen)
    return None if own is None or beside is None else SideBySide(own, beside)


def _busiest(seen: Evidence) -> float | None:
    """How busy the job's busiest GPU was, as the rule read it: the page has its table too."""
    return next((sign.value for sign in seen.signs if sign.feature == "job_util_max"), None)


def _busy(gpu: GPU, seen: Evidence) -> float | None:
    """Its mean utilisation in the window, as a share."""
    read = telemetry.series(gpu, seen.start_ms, seen.end_ms, columns=(UTIL,), step_s=MINUTE_S)
    values = [value for value in read.columns[UTIL] if value is not None]
    return sum(values) / len(values) if values else None


def no_reference(job: Job, seen: Evidence) -> str:
    """Why nothing stands beside the job."""
    what = "service" if job.kind == Job.Kind.SERVICE else "job"
    model = f"any {what} on {seen.gpu.model.name}" if seen.gpu.model else f"any {what} like it"
    return (
        "Nothing to compare with: neither this job, nor one of its name or its owner, nor"
        f" {model} has an hour in the last {LOOKS_BACK.days} days that was judged healthy and is"
        " still kept."
    )


def _index(gpu: GPU) -> str:
    return "?" if gpu.index is None else str(gpu.index)
