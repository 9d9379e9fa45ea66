"""Writes of realised savings: fixes that people told or FleetWatch noticed, measured by the runs
around them.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db import transaction

from fleetwatch.diagnosis.causes import BLIND, UNFIT
from fleetwatch.diagnosis.findings import realised
from fleetwatch.diagnosis.findings.realised import Outcome, Run
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

LOOKS_BACK = timedelta(days=90)
_RUNS = read_statement("diagnosis/sql/runs.sql")


class Series(NamedTuple):
    """What recurs: one user's job of that name on so many GPUs; `gpus` None for a service, each of
    whose days is a run.
    """

    user: str
    job_name: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """All runs by series, and the series of each job."""

    runs: Mapping[Series, list[Run]]
    series_of_job: Mapping[int, Series]


_Key = tuple[Series, str]  # and a cause


@transaction.atomic
def measure(now: datetime) -> dict[str, int]:
    """How many fixes were measured, and how many of them nobody had told of. Safe twice; from sums
    of days that are over.

    What a person tells goes before what is noticed; a finding that is called fixed no longer takes
    its fix with it.
    """
    seen = _seen(now)
    kept = {_key(fix): fix for fix in Fix.objects.all()}
    changes = _noted(kept) | _called_fixed(seen, kept)
    measured = [_measured(seen, key, at, finding) for key, (at, finding) in changes.items()]
    fixes = [fix for fix in measured if not _is_worn(fix, kept.get(_key(fix)))]
    fixes += _noticed(seen, changes.keys())
    Fix.objects.filter(pk__in=[kept[key].pk for key in kept.keys() - changes.keys()]).delete()
    _write(fixes)
    return {"fixes": len(fixes), "noticed": sum(fix.was_noticed for fix in fixes)}


def _write(fixes: Sequence[Fix]) -> None:
    """Over what was measured before of the same series and cause."""
    columns = {column.name for column in Fix._meta.concrete_fields if not column.primary_key}
    unique = [*Series._fields, "cause"]
    Fix.objects.bulk_create(
        fixes,
        update_conflicts=True,
        unique_fields=unique,
        update_fields=columns.difference(unique),
    )


def _key(fix: Fix) -> _Key:
    return Series(fix.user, fix.job_name, fix.gpus), fix.cause


def _seen(now: datetime) -> _Seen:
    runs: dict[Series, list[Run]] = defaultdict(list)
    series_of_job = {}
    today = now.astimezone(UTC).date()
    wanted = {"since": today - LOOKS_BACK, "today": today, "blind": list(BLIND)}
    for user, name, gpus, job_id, start_ms, end_ms, wasted_ms, by_cause in fetched(_RUNS, wanted):
        series = series_of_job[job_id] = Series(user, name, gpus)
        run = Run(start_ms, end_ms, wasted_ms, Counter(json.loads(by_cause)))
        runs[series].append(run)
    return _Seen(runs, series_of_job)


def _is_worn(fix: Fix, before: Fix | None) -> bool:
    """Whether too few runs are left to look at: then the figures of the last time stay."""
    if before is None or before.at != fix.at:
        return False
    return not fix.runs_before + fix.runs_after or (
        fix.outcome == Outcome.WAITING and before.outcome != Outcome.WAITING
    )


_Changes = dict[_Key, tuple[datetime, Finding | None]]


def _noted(kept: Mapping[_Key, Fix]) -> _Changes:
    """Those that were noticed before."""
    return {key: (fix.at, None) for key, fix in kept.items() if fix.was_noticed}


def _called_fixed(seen: _Seen, kept: Mapping[_Key, Fix]) -> _Changes:
    """Of each series and cause the last time that somebody called it fixed; the job that it was
    told of may be too old to be seen.
    """
    series_of_finding = {fix.finding_id: series for (series, _), fix in kept.items()}
    changes: _Changes = {}
    for finding in Finding.objects.filter(
        status=Finding.Status.FIXED, decided_at__isnull=False
    ).order_by("decided_at"):
        series = seen.series_of_job.get(finding.job_id or 0) or series_of_finding.get(finding.pk)
        if series and finding.decided_at:
            changes[series, finding.cause] = (finding.decided_at, finding)
    return changes


def _noticed(seen: _Seen, changed: Collection[_Key]) -> list[Fix]:
    """Fixes that nobody told of: a cause that took much of the time is gone, and the useful share
    rose.
    """
    fixes = []
    for series, runs in seen.runs.items():
        causes = {cause for run in runs for cause in run.by_cause if cause not in UNFIT}
        for cause in sorted(causes):
            at_ms = None if (series, cause) in changed else realised.changed_at(runs, cause)
            if at_ms is not None:
                fixes.append(_measured(seen, (series, cause), from_ms(at_ms), None))
    return [fix for fix in fixes if fix.outcome == Outcome.IMPROVED]


def _measured(seen: _Seen, key: _Key, at: datetime, finding: Finding | None) -> Fix:
    series, cause = key
    effect = realised.effect(seen.runs.get(series, ()), cause, to_ms(at))
    return Fix(
        **series._asdict(),
        cause=cause,
        finding=finding,
        at=at,
        was_noticed=finding is None,
        **asdict(effect),
    )
