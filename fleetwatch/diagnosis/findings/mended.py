"""Which findings a later change of the same job settled: what they could save is saved since."""

from collections.abc import Collection

from django.db.models import Max

from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.diagnosis.models import Fix
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms

COLUMNS = ("pk", "user", "name", "end_ms")
Change = tuple[str, str, str]  # user and name of a job, cause


def mended(keys: Collection[Key]) -> set[Key]:
    """Of these jobs and causes those of jobs that ended before a change of the same user's job of
    that name, which was measured to improve it.
    """
    changes = _changes() if keys else {}
    if not changes:
        return set()
    users, names, causes = (set(each) for each in zip(*changes, strict=True))
    ids = {job_id for job_id, cause in keys if cause in causes}
    ended = Job.objects.filter(pk__in=ids, user__in=users, name__in=names, end_ms__isnull=False)
    jobs = {pk: (user, name, end_ms) for pk, user, name, end_ms in ended.values_list(*COLUMNS)}
    return {key for key in keys if key[0] in jobs and _is_settled(key[1], *jobs[key[0]], changes)}


def _is_settled(cause: str, user: str, name: str, end_ms: int, changes: dict[Change, int]) -> bool:
    return end_ms <= changes.get((user, name, cause), -1)


def _changes() -> dict[Change, int]:
    """When the last of each was, in ms."""
    rows = Fix.objects.filter(outcome=Outcome.IMPROVED).values_list("user", "job_name", "cause")
    return {
        (user, name, cause): to_ms(at)
        for user, name, cause, at in rows.annotate(last=Max("at")).order_by()
    }
