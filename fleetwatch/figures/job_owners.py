"""Whose jobs are. A process reads it once, and later what changed: of a large fleet a page would
else read half a million jobs to sum their time by user or team.

The database notes whose job changed, and in which transaction (costs/sql/note_owner_changes.sql).
What was read saw all transactions before the oldest that ran then; what these and later ones
changed is read again, each time.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from fleetwatch.figures.packed_spans import Ints, numbered
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_OWNERS, _CHANGES = (
    read_statement(f"figures/sql/{name}.sql") for name in ("owners", "owner_changes")
)
# So few jobs are looked up faster than it is asked what changed.
FEW = 500
# Shorter than changes are kept (costs/owner_changes.py).
KEPT_FOR = timedelta(hours=1)
_NOTHING = np.iinfo(np.int64).max  # no transaction has such an id


class Owner(NamedTuple):
    """Whose some time of a job is, over [valid_from, valid_to); None = always."""

    user_name: str
    team_id: int | None
    project: str
    cost_centre: str
    is_named: bool
    valid_from: datetime | None
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class OwnerRows:
    """Of some jobs, by position: `at` is of the owner at that place in `owners`, for as long as
    that one is.
    """

    at: Ints
    owner: Ints
    owners: Sequence[Owner]

    def by_validity(self) -> Iterator[tuple[tuple[datetime | None, datetime | None], Ints]]:
        """From when to when, and the rows of those who are owners so long."""
        places = defaultdict(list)
        for place, owner in enumerate(self.owners):
            places[owner.valid_from, owner.valid_to].append(place)
        for valid, of_valid in places.items():
            yield valid, np.flatnonzero(np.isin(self.owner, of_valid))


@dataclass(frozen=True, slots=True, eq=False)
class JobOwners:
    """Each of `job` (ids, ascending) is of the owner at that place in `owners`; one whose time
    passed from hand to hand is there several times, one that was deleted is not.
    """

    job: Ints
    owner: Ints
    owners: Sequence[Owner]

    def of(self, jobs: Ints) -> OwnerRows:
        """What is known of these jobs (ascending)."""
        first = np.searchsorted(self.job, jobs)
        counts = np.searchsorted(self.job, jobs, side="right") - first
        at = np.repeat(np.arange(len(jobs)), counts)
        before = np.cumsum(counts) - counts  # rows of the jobs before
        rows = np.arange(len(at)) + np.repeat(first - before, counts)
        places, owner = numbered(self.owner[rows])
        return OwnerRows(at, owner, [self.owners[place] for place in places.tolist()])

    def with_changed(self, jobs: Ints, now: "JobOwners") -> "JobOwners":
        """The same with these jobs as they are now."""
        places = {owner: place for place, owner in enumerate(self.owners)}
        new = np.array(
            [places.setdefault(owner, len(places)) for owner in now.owners], dtype=np.int64
        )
        stays = ~np.isin(self.job, jobs)
        job = self.job[stays]
        at = np.searchsorted(job, now.job)
        return JobOwners(
            np.insert(job, at, now.job),
            np.insert(self.owner[stays], at, new[now.owner]),
            list(places),
        )


_NOBODY = JobOwners(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), [])


class _Changes(NamedTuple):
    """A row of owner_changes.sql."""

    oldest_running: int
    next: int
    at: datetime
    has_written: bool
    changed: bytes | None


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read at a moment, by a view that saw all transactions before `oldest_running`, and
    none from `next` on.
    """

    owners: JobOwners
    oldest_running: int
    next: int
    at: datetime


class _Memory:
    """Of this process."""

    reading: _Reading | None = None


_memory = _Memory()


def owners_of(jobs: Ints) -> JobOwners:
    """Of these jobs (ascending), and maybe of others."""
    if not len(jobs):
        return _NOBODY
    return _read(jobs) if len(jobs) <= FEW else every_owner()


@read_once
def every_owner() -> JobOwners:
    """Of all jobs. What others commit while a page is made may be in it."""
    kept = _memory.reading
    since = _NOTHING if kept is None else kept.oldest_running
    changes = _Changes(*fetched(_CHANGES, {"since": since})[0])
    if changes.has_written:  # it may be taken back: not what others are to read
        return _read(None)
    if kept is None or changes.at - kept.at >= KEPT_FOR:
        kept = _as_of(changes, _read(None))
    elif changes.next >= kept.next:  # else the view is older than what is kept, as a replica's is
        kept = _as_of(changes, _brought_up(kept.owners, changes.changed))
    _memory.reading = kept
    return kept.owners


def _as_of(changes: _Changes, owners: JobOwners) -> _Reading:
    return _Reading(owners, changes.oldest_running, changes.next, changes.at)


def _brought_up(owners: JobOwners, changed: bytes | None) -> JobOwners:
    if changed is None:
        return owners
    jobs = np.sort(_ids(changed))
    return owners.with_changed(jobs, _read(jobs))


def _read(jobs: Ints | None) -> JobOwners:
    """As the database has it now; None = of all jobs."""
    rows = fetched(_OWNERS, {"job_ids": jobs})
    ids = [_ids(row[-1]) for row in rows]
    job = np.concatenate([np.empty(0, dtype=np.int64), *ids])
    owner = np.repeat(np.arange(len(rows)), [len(of_row) for of_row in ids])
    order = np.argsort(job, kind="stable")
    return JobOwners(job[order], owner[order], [Owner(*row[:-1]) for row in rows])


def _ids(packed: bytes) -> Ints:
    return np.frombuffer(packed, dtype=">i8").astype(np.int64)
