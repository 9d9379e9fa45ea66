"""Writes of realised savings: fixes that people told or FleetWatch noticed, measured by the runs
around them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from fleetwatch.diagnosis.causes import BLIND, UNFIT
from fleetwatch.diagnosis.findings import realised
from fleetwatch.diagnosis.findings.realised import Effect, Outcome, Run
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.sql import read_statement

LOOKS_BACK = timedelta(days=90)
_RUNS = read_statement("diagnosis/sql/runs.sql")


@dataclass(frozen=True, slots=True)
class Series:
    """What recurs: one user's job of that name on so many GPUs; `gpus` None for a service, each of
    whose days is a run.
    """

    user: str
    job_name: str
    gpus: int | None


@dataclass(slots=True)
class _Measured:
    """One run while it is read: GPU time that telemetry tells of by cause, and what of all of it
    was wasted.
    """

    start_ms: int
    end_ms: int
    wasted_ms: int = 0
    by_cause: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def under(self, cause: str) -> Run:
        return Run(
            self.start_ms,
            self.end_ms,
            sum(self.by_cause.values()),
            self.wasted_ms,
            self.by_cause.get(cause, 0),
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """All runs by series, and the series of each job."""

    runs: Mapping[Series, list[_Measured]]
    series_of_job: Mapping[int, Series]

    def under(self, series: Series, cause: str) -> list[Run]:
        return [run.under(cause) for run in self.runs.get(series, ())]


_Key = tuple[Series, str]


@transaction.atomic
def measure(now: datetime) -> dict[str, int]:
    """How many fixes were measured, and how many of them nobody had told of. Safe twice; from sums
    of days that are over.

    What a person tells goes before what is noticed; a finding that is called fixed no longer takes
    its fix with it.
    """
    seen = _seen(now)
    kept = {(Series(fix.user, fix.job_name, fix.gpus), fix.cause): fix for fix in Fix.objects.all()}
    told = _told(seen, {fix.finding_id: key[0] for key, fix in kept.items()})
    known = told | {
        key: (fix.at, None) for key, fix in kept.items() if fix.was_noticed and key not in told
    }
    fixes = [
        _fix(key, at, finding, realised.effect(seen.under(*key), to_ms(at)))
        for key, (at, finding) in known.items()
    ]
    fixes = [
        fix
        for fix in fixes
        if not _is_worn(fix, kept.get((Series(fix.user, fix.job_name, fix.gpus), fix.cause)))
    ]
    fixes += _noticed(seen, known.keys())
    Fix.objects.filter(pk__in=[fix.pk for key, fix in kept.items() if key not in known]).delete()
    columns = [column.name for column in Fix._meta.concrete_fields if not column.primary_key]
    keys = ["user", "job_name", "gpus", "cause"]
    Fix.objects.bulk_create(
        fixes,
        update_conflicts=True,
        unique_fields=keys,
        update_fields=[name for name in columns if name not in keys],
    )
    return {"fixes": len(fixes), "noticed": sum(fix.was_noticed for fix in fixes)}


def _seen(now: datetime) -> _Seen:
    runs: dict[Series, dict[tuple[int, object], _Measured]] = defaultdict(dict)
    series_of_job = {}
    today = now.astimezone(UTC).date()
    with connection.cursor() as cursor:
        cursor.execute(_RUNS, {"since": today - LOOKS_BACK, "today": today})
        for (
            user,
            name,
            gpus,
            job_id,
            day,
            start_ms,
            end_ms,
            cause,
            held_ms,
            wasted_ms,
        ) in cursor.fetchall():
            series = series_of_job[job_id] = Series(user, name, gpus)
            run = runs[series].setdefault((job_id, day), _Measured(start_ms, end_ms))
            if cause not in BLIND:
                run.by_cause[cause] += held_ms
                run.wasted_ms += wasted_ms
    return _Seen({series: list(found.values()) for series, found in runs.items()}, series_of_job)


def _is_worn(fix: Fix, before: Fix | None) -> bool:
    """Whether too few runs are left to look at: then the figures of the last time stay."""
    if before is None or before.at != fix.at:
        return False
    return not fix.runs_before + fix.runs_after or (
        fix.outcome == Outcome.WAITING and before.outcome != Outcome.WAITING
    )


def _told(
    seen: _Seen, series_of_finding: Mapping[int | None, Series]
) -> dict[_Key, tuple[datetime, Finding | None]]:
    """Of each series and cause the last time that somebody called it fixed; the job that it was
    told of may be too old to be seen.
    """
    found: dict[_Key, tuple[datetime, Finding | None]] = {}
    for finding in Finding.objects.filter(
        status=Finding.Status.FIXED, decided_at__isnull=False
    ).order_by("decided_at"):
        if series := seen.series_of_job.get(finding.job_id or 0) or series_of_finding.get(
            finding.pk
        ):
            found[series, finding.cause] = (finding.decided_at, finding)  # type: ignore[assignment]
    return found


def _noticed(seen: _Seen, known: Collection[_Key]) -> list[Fix]:
    """Fixes that nobody told of: a cause that took much of the time is gone, and the useful share
    rose.
    """
    found = []
    for series, measured in seen.runs.items():
        causes = {cause for run in measured for cause in run.by_cause if cause not in UNFIT}
        for cause in sorted(causes):
            if (series, cause) in known or (
                at_ms := realised.changed_at(seen.under(series, cause))
            ) is None:
                continue
            effect = realised.effect(seen.under(series, cause), at_ms)
            if effect.outcome == Outcome.IMPROVED:
                found.append(_fix((series, cause), from_ms(at_ms), None, effect))
    return found


def _fix(key: _Key, at: datetime, finding: Finding | None, effect: Effect) -> Fix:
    series, cause = key
    return Fix(
        user=series.user, job_name=series.job_name, gpus=series.gpus, cause=cause, finding=finding,
        at=at, was_noticed=finding is None,
        outcome=effect.outcome, runs_before=effect.runs_before, runs_after=effect.runs_after,
        useful_before=effect.before,
        useful_after=effect.after, effect_low=effect.low, effect_high=effect.high,
        saved_low_ms=effect.saved_low_ms,
        saved_high_ms=effect.saved_high_ms,
    )  # fmt: skip
