"""Jobs as lists show them: figures of a period, and why a job wastes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard.job_orders import Signals, signals
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, UNDETERMINED, WELL_CODES, of_job
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures.selectors import Group
from fleetwatch.figures.totals import Totals
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.lib.intervals import Interval

WELL = "Nothing to change"
HEALTHY = 0.05  # of its observed time: no job wastes nothing at all


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job's figures in the period; `job` is None when its row is gone."""

    group: Group
    job: Job | None
    cause: Primary | None
    gpus: int | None  # None = not asked for
    signals: Signals
    lasted_ms: int | None  # since its start; None = that is not known

    @property
    def cause_title(self) -> str:
        """Why it wastes; "" where nothing was diagnosed, or hardly anything is wasted and nobody
        knows why.
        """
        if self.cause is None or self._is_healthy(self.cause):
            return ""
        if self.cause.cause not in BY_CODE:
            return self.cause.cause
        return of_job(self.cause.cause, "", self.group.totals.coverage).title

    @property
    def why(self) -> str:
        """The same for a list, where each line says something: a job that works, or that wastes
        hardly anything for a reason that nobody knows, has nothing to change.
        """
        if self.cause is None:
            return WELL if self._wastes_little else "Not diagnosed yet"
        is_well = self.cause.cause in WELL_CODES and self._wastes_little
        return WELL if is_well else self.cause_title or WELL

    @property
    def _wastes_little(self) -> bool:
        return wastes_little(self.group.totals)

    def _is_healthy(self, cause: Primary) -> bool:
        return cause.cause == UNDETERMINED and self._wastes_little


def wastes_little(totals: Totals) -> bool:
    """Whether a job that has them wastes so little that nobody need know why."""
    return (totals.wasted_share_of_observed or 0) < HEALTHY


def lines_of(
    groups: Sequence[Group], interval: Interval, gpus: Mapping[int, int] | None = None
) -> list[JobLine]:
    """The jobs of these groups, with their causes; `gpus`: on how many each is, by its id (None:
    on all that it has time on).
    """
    jobs = attribution.jobs_by_key((group.key for group in groups), before=interval.end)
    with_outcomes(jobs.values())
    causes = diagnosis.causes_of([job.pk for job in jobs.values()], interval)
    read = signals([job.pk for job in jobs.values()], interval)
    return [_line(group, jobs.get(group.key), causes, read, gpus, interval) for group in groups]


def _line(
    group: Group,
    job: Job | None,
    causes: Mapping[int, Primary],
    read: Mapping[int, Signals],
    gpus: Mapping[int, int] | None,
    interval: Interval,
) -> JobLine:
    if job is None:
        return JobLine(group, None, None, None, Signals(), None)
    lasted_ms = None
    if job.start_ms is not None:
        lasted_ms = (job.end_ms or interval.end_ms) - job.start_ms
    signal = read.get(job.pk, Signals())
    count = signal.gpus if gpus is None else gpus.get(job.pk)
    return JobLine(group, job, causes.get(job.pk), count, signal, lasted_ms)
