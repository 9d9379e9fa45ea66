"""Jobs as lists show them: figures of a period, and why a job wastes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard.fault_ends import ended_by_fault
from fleetwatch.dashboard.job_orders import Signals, signals
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, FAILURES, UNDETERMINED, WELL_CODES, of_job
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures.selectors import Group
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.lib.intervals import Interval

WELL = "Nothing to change"
YOUNG = "Too young to tell"
SHORT = "Too short to tell"
UNDIAGNOSED = "Not diagnosed yet"
FAULT_ENDED = f"{BY_CODE[FAILURES[0]].title}: it ended the job"
UNJUDGED = (YOUNG, SHORT, UNDIAGNOSED)
BRIEF_MS = 1_800_000  # less than a rule's window
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
    inside_ms: int | None = None  # of that in the period
    is_fault_ended: bool = False  # it ended as a GPU that it held failed

    @property
    def cause_title(self) -> str:
        """Why it wastes; "" where nothing was diagnosed, or hardly anything is wasted and nobody
        knows why.
        """
        if self.cause is None or self._is_healthy(self.cause):
            return ""
        if self.cause.cause not in BY_CODE:
            return self.cause.cause
        kind = self.job.kind if self.job else ""
        return of_job(self.cause.cause, kind, self.group.totals.coverage).title

    @property
    def why(self) -> str:
        """The verdict, as lists and runs say it: of one that a fault ended that, where its own
        use of its GPUs says nothing worse.
        """
        is_silent = self.of_its_use in (WELL, *UNJUDGED)
        return FAULT_ENDED if self.is_fault_ended and is_silent else self.of_its_use

    @property
    def of_its_use(self) -> str:
        """The verdict of how it used its GPUs: a job that works, or that wastes hardly anything for
        a reason that nobody knows, has nothing to change.
        """
        if self._is_brief and (self.cause is None or self.cause.cause == UNDETERMINED):
            return self._of_brief
        if self.cause is None:
            return WELL if self._wastes_little else UNDIAGNOSED
        is_well = self.cause.cause in WELL_CODES and self._wastes_little
        return WELL if is_well else self.cause_title or WELL

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to change."""
        return self.why == WELL

    @property
    def is_judged(self) -> bool:
        """Whether enough of it was seen to say why it wastes, or that it does not."""
        return self.why not in UNJUDGED

    @property
    def underused_usd(self) -> Decimal | None:
        """Dollars of underused time, which is no part of what was wasted; None where that is no
        more than it wasted, or than a healthy job's share of its cost.
        """
        totals = self.group.totals
        usd = totals.cost_by_state["underused"]
        least_usd = max(totals.wasted_usd, totals.cost_usd * Decimal(HEALTHY))
        return usd if usd > least_usd else None

    @property
    def is_longer(self) -> bool:
        """Whether it ran outside of the period too: its dollars are of a part of it."""
        return self.inside_ms is not None and self.inside_ms != self.lasted_ms

    @property
    def _is_brief(self) -> bool:
        return self.lasted_ms is not None and self.lasted_ms < BRIEF_MS

    @property
    def _of_brief(self) -> str:
        """Of what is not known after so little time."""
        if self.job is not None and self.job.end_ms is None:
            return YOUNG
        return WELL if self._wastes_little else SHORT

    @property
    def _wastes_little(self) -> bool:
        return (self.group.totals.wasted_share_of_observed or 0) < HEALTHY

    def _is_healthy(self, cause: Primary) -> bool:
        return cause.cause == UNDETERMINED and self._wastes_little


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
    lines = [_line(group, jobs.get(group.key), causes, read, gpus, interval) for group in groups]
    return with_faults(lines)


def with_faults(lines: Sequence[JobLine]) -> list[JobLine]:
    """The same, and which of the jobs a fault ended."""
    ended = ended_by_fault(line.job for line in lines if line.job)
    return [
        replace(line, is_fault_ended=line.job is not None and line.job.pk in ended)
        for line in lines
    ]


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
    signal = read.get(job.pk, Signals())
    count = signal.gpus if gpus is None else gpus.get(job.pk)
    return JobLine(group, job, causes.get(job.pk), count, signal, *lasted(job, interval))


def lasted(job: Job, interval: Interval) -> tuple[int | None, int | None]:
    """Milliseconds since its start, and of these in the period; None where that is not known."""
    if job.start_ms is None:
        return None, None
    end_ms = job.end_ms or interval.end_ms
    inside_ms = min(end_ms, interval.end_ms) - max(job.start_ms, interval.start_ms)
    return end_ms - job.start_ms, max(inside_ms, 0)
