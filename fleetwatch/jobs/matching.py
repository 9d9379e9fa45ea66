"""Which of the jobs that are stored under one key is which of those that are believed now. Pure."""

from collections.abc import Callable, Sequence
from typing import Protocol

from fleetwatch.jobs.records import KnownJob


class StoredJobRow(Protocol):
    """A job as it is stored."""

    @property
    def pk(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def account(self) -> str: ...


def matched(jobs: Sequence[KnownJob], rows: Sequence[StoredJobRow]) -> list[int | None]:
    """By position of the job: the row that it is from now on; None = a new one.

    The row of the same owner comes first, so that nobody moves what others hold by naming another
    owner of his own; then a row of the job's own records, whose owner became known or another; then
    any that is left: its records have gone to other jobs.
    """
    free = sorted(rows, key=lambda row: row.pk)
    chosen: dict[int, int] = {}
    for is_fit in RULES:
        for place, job in enumerate(jobs):
            row = None if place in chosen else next((row for row in free if is_fit(job, row)), None)
            if row is not None:
                chosen[place] = row.pk
                free.remove(row)
    return [chosen.get(place) for place in range(len(jobs))]


def _has_same_owner(job: KnownJob, row: StoredJobRow) -> bool:
    return (row.user, row.account) == (job.facts.user, job.facts.account)


def _has_its_records(job: KnownJob, row: StoredJobRow) -> bool:
    return any(record.job_id == row.pk for record in job.records)


def _is_left(_: KnownJob, __: StoredJobRow) -> bool:
    return True


RULES: tuple[Callable[[KnownJob, StoredJobRow], bool], ...] = (
    _has_same_owner,
    _has_its_records,
    _is_left,
)
