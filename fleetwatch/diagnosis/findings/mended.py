"""Which findings a later change of the same job settled: what they could save is saved since."""

from collections.abc import Collection, Mapping

from django.db.models import Count

from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.diagnosis.models import Fix
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms

COLUMNS = ("user", "name", "size", "end_ms")
# user, name and number of GPUs of a job (of a service None: it is no one run), cause
Change = tuple[str, str, int | None, str]


def mended(keys: Collection[Key]) -> set[Key]:
    """Of these jobs and causes those of jobs that ended before a change of the same user's job of
    that name and size, which was measured to improve it.
    """
    changes = _changes() if keys else {}
    if not changes:
        return set()
    ended = _ended({job_id for job_id, _ in keys}, changes)
    return {
        (job_id, cause)
        for job_id, cause in keys
        if job_id in ended and _is_settled(cause, *ended[job_id], changes)
    }


def _is_settled(
    cause: str, user: str, name: str, gpus: int, end_ms: int, changes: Mapping[Change, int]
) -> bool:
    return end_ms <= changes.get((user, name, gpus, cause), -1)


def _changes() -> dict[Change, int]:
    """When each was, in ms."""
    rows = Fix.objects.filter(outcome=Outcome.IMPROVED)
    columns = rows.values_list("user", "job_name", "gpus", "cause", "at")
    return {(user, name, gpus, cause): to_ms(at) for user, name, gpus, cause, at in columns}


def _ended(
    job_ids: Collection[int], changes: Collection[Change]
) -> dict[int, tuple[str, str, int, int]]:
    """User, name, number of GPUs and end of each of these jobs that may be of a change."""
    users, names, *_ = (set(each) for each in zip(*changes, strict=True))
    jobs = Job.objects.filter(
        pk__in=job_ids, user__in=users, name__in=names, end_ms__isnull=False
    ).annotate(size=Count("allocations__gpu", distinct=True))
    return {
        pk: (user, name, size, end_ms)
        for pk, user, name, size, end_ms in jobs.values_list("pk", *COLUMNS)
    }
