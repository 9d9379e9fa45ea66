"""What a cause will cost if nothing changes: told of recurring jobs alone, for others only what
is past. It is one rate wherever it stands, whatever period a reader looks at.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from fleetwatch.diagnosis import cause_columns
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import Caused, Saving, total
from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.findings.step_savings import of_findings
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import engine
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import DAY_MS, Interval, ms_in, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

LOOKS_BACK = timedelta(days=14)
TIMES = 3  # runs of one owner and name with the cause, within LOOKS_BACK
AHEAD = timedelta(days=30)

_RUNS = read_statement("diagnosis/sql/recent_runs.sql")
_RECURRING = read_statement("diagnosis/sql/recurring.sql")


@dataclass(frozen=True, slots=True)
class Projection:
    """What could be recovered in the next 30 days, if runs go on as in the last two weeks;
    `accepted` of these runs somebody has promised to mend; `of_others` without them, None where
    they are all of them.
    """

    runs: int
    saving: Saving
    accepted: int = 0
    of_others: Saving | None = None


def projection(job_id: int | None, cause: str, *, now: datetime) -> Projection | None:
    """Of one job (None: of none) and cause; None of what does not recur."""
    return None if job_id is None else projections([(job_id, cause)], now=now).get((job_id, cause))


def projections(keys: Collection[Key], *, now: datetime) -> dict[Key, Projection]:
    """Of these jobs and causes. One that does not recur is left out: TIMES runs of the same owner
    and name lost time to the cause in the last two weeks.
    """
    past = Interval(now - LOOKS_BACK, now)
    runs = _runs([job_id for job_id, _ in keys], past)
    if not runs:
        return {}
    lost = _lost(set(chain.from_iterable(runs.values())), past)
    recorded = _recorded_part(past)
    several = {(job, cause): _of_runs(lost, runs.get(job, ()), cause) for job, cause in keys}
    recurs = {key: own for key, own in several.items() if len(own) >= TIMES}
    accepted = _accepted(chain.from_iterable(recurs.values())) if recurs else ()
    return {key: _projection(own, recorded, accepted) for key, own in recurs.items()}


def _projection(
    own: Sequence[Caused], recorded: Interval, accepted: Collection[tuple[int | None, str]]
) -> Projection:
    others = [run for run in own if (run.job_id, run.cause) not in accepted]
    return Projection(
        len(own),
        ahead(total(own).saving, recorded),
        len(own) - len(others),
        ahead(total(others).saving, recorded) if others else None,
    )


def _accepted(several: Iterable[Caused]) -> set[tuple[int | None, str]]:
    """Of these runs and causes those that somebody accepted."""
    jobs = {each.job_id for each in several if each.job_id is not None}
    rows = Finding.objects.filter(job__in=jobs, status=Finding.Status.ACCEPTED)
    return set(rows.values_list("job_id", "cause"))


def recurring(keys: Collection[Key], *, now: datetime) -> set[Key]:
    """Of these jobs and causes those that recur, whatever period is looked at."""
    if not keys:
        return set()
    job_ids, causes = (list(each) for each in zip(*keys, strict=True))
    since_ms = to_ms(now - LOOKS_BACK)
    wanted = {"job_ids": job_ids, "causes": causes, "since_ms": since_ms, "times": TIMES}
    return set(fetched(_RECURRING, wanted))


def _runs(job_ids: Collection[int], past: Interval) -> dict[int, list[int]]:
    """By job the ids of the runs of its owner and name that were not over before the period, of
    those with enough of them.
    """
    wanted = {"job_ids": list(job_ids), "since_ms": past.start_ms}
    return {job_id: several for job_id, several in fetched(_RUNS, wanted) if len(several) >= TIMES}


def _of_runs(lost: Mapping[Key, Caused], runs: Iterable[int], cause: str) -> list[Caused]:
    """What the cause took of those of the runs that lost time to it."""
    return [lost[run, cause] for run in runs if (run, cause) in lost]


def _lost(job_ids: Collection[int], past: Interval) -> dict[Key, Caused]:
    """What each cause took of these jobs, as far as the reader sees them."""
    spans = engine.read(CauseTime(), past, scope=Scope(jobs=tuple(job_ids)))
    lines = of_findings(cause_columns.lines(spans, by_job=True)).caused()
    return {(line.job_id, line.cause): line for line in lines if line.job_id is not None}


def _recorded_part(interval: Interval) -> Interval:
    """What of it there are figures of, as far as one knows."""
    began = costs.ledger_began()
    if began and interval.start < began < interval.end:
        return Interval(began, interval.end)
    return interval


def ahead(past: Saving, recorded: Interval) -> Saving:
    """Of what was lost in the part of LOOKS_BACK that was recorded: as much a day, for 30 days; of
    less than a day as if it were one.
    """
    ahead_ms = ms_in(AHEAD)
    past_ms = max(ms_in(recorded.end - recorded.start), DAY_MS)
    return Saving(
        past.low_ms * ahead_ms // past_ms,
        past.high_ms * ahead_ms // past_ms,
        past.low_usd * ahead_ms / past_ms,
        past.high_usd * ahead_ms / past_ms,
    )
