"""Writes of jobs: what every batch says of them is kept by node, what is believed of it is the job
(records.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from agent.wire import Batch, Item
from fleetwatch.accounts.selectors import unknown_teams
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.inventory import intake
from fleetwatch.inventory.intake import Brought
from fleetwatch.jobs.batch_report import (
    JobKey,
    Report,
    StoredJob,
    known_until,
)
from fleetwatch.jobs.locked_jobs import (
    HeldTime,
    LockedJob,
    jobs_of_records,
    lock_jobs,
    recall_doubters,
)
from fleetwatch.jobs.models import ChangedJob, Job, JobChange, JobRecord
from fleetwatch.jobs.records import JobFacts, Voice
from fleetwatch.lib.batched import run
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.sql import execute, read_statement

RECORD_JOBS = read_statement("jobs/sql/record_jobs.sql")
TAKE_FACTS = read_statement("jobs/sql/take_facts.sql")
DROP_OLD_CHANGES = read_statement("jobs/sql/drop_old_changes.sql")

MAX_SLUG = 100
# Lines of jobs that name nobody or have no team (costs/totals.py): who is called so would take
# another line's place.
NO_NAMES = frozenset({"(none)", "(unmapped)"})
# As far as clocks may be ahead (docs/ledger.md): what is said to begin or end later than this after
# receipt is not believed, and of a batch with such windows nothing.
FUTURE_MS = 5 * 60_000
MAX_CHANGES = 50  # kept of one job
MAX_USERS = 8  # that a node may name of one key: a scheduler gives a number to few
# What a node says of a job before it is heard to hold it waits this long: batches may come in any
# order.
UNHEARD_MS = 7 * 86_400_000
# Of what a record newly says, which facts are noted; the end goes with them, alone it is the noise
# of clocks.
NOTED = ("user", "account", "kind", "name", "state", "restarts", "labels")
MAPPED = ("name", "user", "account", "labels")  # the facts that mapping rules go by
PROCESS = "process"  # the source of allocations that no books know
FACTS = tuple(JobFacts.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Given:
    """What one batch says of one job, as record_jobs.sql takes it."""

    key: str
    node_id: int
    voice: Voice
    as_of_ms: int
    boot_start_ms: int
    sequence: int
    facts: JobFacts
    held_at: datetime | None  # None = it does not hold the job
    held_until_ms: int | None

    @property
    def name(self) -> JobKey:
        return self.node_id, self.key


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a given record changed, and the job that it was of before."""

    given: Given
    record_id: int | None  # None = its node names too many users of the key
    job_id: int | None
    is_new: bool
    is_changed: bool
    has_new_labels: bool
    is_heard: bool
    differs: bool

    @property
    def is_news(self) -> bool:
        """Whether something else may be believed of the job now, or it has to be made."""
        if self.record_id is None:
            return False
        if self.job_id is None:
            return self.is_heard or self.given.held_until_ms is not None
        return self.is_heard and (self.is_changed or self.differs)


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """The jobs of all batches, by who names them how; and (GPU id, time) that is another job's from
    now on than before.

    A job that a node may not speak for is not there.
    """

    jobs: dict[JobKey, StoredJob] = field(default_factory=dict)
    moved: HeldTime = frozenset()


def store_jobs(reports: Sequence[Report], *, received_at: datetime) -> StoredJobs:
    """Raises TooMuchNewError."""
    given = sorted(
        (each for report in reports for each in _given(report, received_at)),
        key=lambda each: (each.key, each.node_id),
    )
    if not given:
        return StoredJobs()
    recorded = _recorded(given)
    _count(((each.given, _brought(each)) for each in recorded), received_at)
    stored = {
        each.given.name: StoredJob(each.job_id) for each in recorded if each.job_id is not None
    }
    keys = {each.given.key for each in recorded if each.is_news}
    if not keys:
        return StoredJobs(stored)
    believed = _believe([each for each in recorded if each.given.key in keys], received_at)
    return StoredJobs(stored | believed.jobs, believed.moved)


def _given(report: Report, received_at: datetime) -> Iterator[Given]:
    """What the batch says of each job."""
    batch = report.batch
    if not batch.jobs:
        return
    spoken_ms = report.spoken_ms
    is_import = spoken_ms is None
    holds = _holds(report)
    booked = _booked(batch)
    now_ms = to_ms(received_at)
    offset_ms = 0 if is_import else report.offset_ms  # accounting has its controller's clock
    for place, job in enumerate(batch.jobs):
        facts = _facts(job, is_import=is_import, offset_ms=offset_ms, now_ms=now_ms)
        yield Given(
            key=job["key"],
            node_id=report.node_id,
            voice=_voice(report, job, is_import=is_import, is_booked=place in booked),
            as_of_ms=_as_of_ms(facts, report, spoken_ms, now_ms),
            boot_start_ms=batch.boot_start_ms,
            sequence=batch.sequence,
            facts=facts,
            held_at=received_at if place in holds else None,
            held_until_ms=holds.get(place),
        )


def _as_of_ms(facts: JobFacts, report: Report, spoken_ms: int | None, now_ms: int) -> int:
    """Until when what is said of the job holds, by the hub's clock."""
    if spoken_ms is None:
        return min(known_until(facts), now_ms + FUTURE_MS)
    # agents' clocks are corrected: who spoke from ahead would stand as the newest until then
    return min(spoken_ms + report.offset_ms, now_ms)


def _holds(report: Report) -> dict[int, int]:
    """Position of each job that the node holds by this batch -> until when, by the hub's clock."""
    holds: dict[int, int] = {}
    for item in report.batch.allocations:
        extent = report.extent(item)
        # a hold that ended as it began was one: its end must stand before a batch that names it on
        if extent is not None and extent[0] <= extent[1]:
            holds[item["job"]] = max(holds.get(item["job"], 0), extent[1])
    return holds


def _booked(batch: Batch) -> set[int]:
    """Positions of the jobs whose facts are somebody's books, not what processes claim."""
    answered = {source["kind"] for source in batch.sources if source["ok"]}
    allocated = {item["job"] for item in batch.allocations if item.get("source") != PROCESS}
    return allocated | {
        place for place, job in enumerate(batch.jobs) if job.get("scheduler") in answered
    }


def _voice(report: Report, job: Item, *, is_import: bool, is_booked: bool) -> Voice:
    if report.is_of_cluster(job):
        return Voice.CLUSTER_IMPORT if is_import else Voice.CLUSTER
    if is_import:
        return Voice.IMPORT
    return Voice.BOOKS if is_booked else Voice.CLAIM


def _facts(job: Item, *, is_import: bool, offset_ms: int, now_ms: int) -> JobFacts:
    get = job.get
    latest_ms = now_ms + FUTURE_MS
    return JobFacts(
        scheduler=get("scheduler") or "",
        cluster=get("cluster") or "",
        external_id=get("id") or "",
        name=get("name") or "",
        user=_name(job, "user"),
        account=_name(job, "account"),
        kind="" if is_import else job["kind"],  # accounting knows how a job ended, not what it is
        state=get("state") or "",
        submit_ms=_past(get("submit_ms"), offset_ms, latest_ms),
        start_ms=_past(get("start_ms"), offset_ms, latest_ms),
        end_ms=_past(get("end_ms"), offset_ms, latest_ms),
        restarts=get("restarts") or 0,  # a requeue counter: none is 0
        labels=job["labels"],
    )


def _name(job: Item, field: str) -> str:
    """The user or account that the job names; "" without one."""
    text: str = job.get(field) or ""
    return "" if text.strip() in NO_NAMES else text


def _past(time_ms: int | None, offset_ms: int, latest_ms: int) -> int | None:
    """The time by the hub's clock; None for one that is to come: nobody knows it."""
    if time_ms is None or time_ms + offset_ms > latest_ms:
        return None
    return time_ms + offset_ms


def _recorded(given: Sequence[Given]) -> list[Recorded]:
    written = run(RECORD_JOBS, {"records": msgspec.json.encode(given).decode(), "users": MAX_USERS})
    return [Recorded(each, *row) for each, row in zip(given, written, strict=True)]


def _brought(recorded: Recorded) -> Brought:
    """How much of what it said is new."""
    labels = len(recorded.given.facts.labels) if recorded.has_new_labels else 0
    return Brought(jobs=int(recorded.is_new), labels=labels)


def _count(brought: Iterable[tuple[Given, Brought]], received_at: datetime) -> None:
    """Counts how much each node brought."""
    sums: dict[int, Brought] = {}
    for given, amounts in brought:
        if amounts != Brought():
            own = replace(amounts, is_import=given.voice.is_import)
            sums[given.node_id] = sums.get(given.node_id, Brought()) + own
    intake.count(sums, received_at)


def _believe(recorded: Sequence[Recorded], received_at: datetime) -> StoredJobs:
    """The jobs of keys of which something was newly said, as they are believed now, with the teams
    that their accounts name.
    """
    unknown = {each.given.key for each in recorded if each.job_id is None}
    keys = sorted({each.given.key for each in recorded})
    locked_jobs, moved = lock_jobs(keys, unknown=unknown)
    job_ids = jobs_of_records(locked_jobs)
    spoken = [(each, job_ids[each.record_id]) for each in recorded if each.record_id in job_ids]
    _write(locked_jobs, _teams(locked_jobs, spoken, received_at))
    jobs = {job.row.pk: job for job in locked_jobs}
    _note([(each, jobs[job_id]) for each, job_id in spoken], received_at)
    recall_doubters(keys)
    return StoredJobs({each.given.name: _stored(jobs[job_id]) for each, job_id in spoken}, moved)


def _stored(job: LockedJob) -> StoredJob:
    has_new_kind = not job.is_new and job.has_other(["kind"])
    return StoredJob(job.row.pk, has_new_kind, job.records)


def _write(jobs: Iterable[LockedJob], teams: Mapping[str, int]) -> None:
    """Writes what is believed otherwise than before, and marks whose job may be somebody else's."""
    rows = []
    marks = []
    for job in jobs:
        team_id = teams.get(_slug(job.facts))
        if job.is_new or job.has_other(FACTS) or job.row.team_id != team_id:
            rows.append({"id": job.row.pk, "team_id": team_id, **asdict(job.facts)})
        if job.is_new or job.has_other(MAPPED):
            marks.append(_mark(job))
    if rows:
        run(TAKE_FACTS, {"jobs": msgspec.json.encode(rows).decode()})
    ChangedJob.objects.bulk_create(marks)


def _teams(
    locked_jobs: Sequence[LockedJob], spoken: Sequence[tuple[Recorded, int]], received_at: datetime
) -> dict[str, int]:
    """Slug -> id of the teams that the jobs' accounts name, made where they are new and counted as
    brought by who spoke.
    """
    slugs = {each.row.pk: slug for each in locked_jobs if (slug := _slug(each.facts))}
    unknown = unknown_teams(set(slugs.values()))
    bringers = {
        slugs[job_id]: each.given
        for each, job_id in spoken
        if each.is_news and slugs.get(job_id) in unknown
    }
    _count(((given, Brought(teams=1)) for given in bringers.values()), received_at)
    return ensure_teams(set(slugs.values()))


def _slug(facts: JobFacts) -> str:
    """The slug of the team that the account names; "" without an account."""
    return facts.account.strip()[:MAX_SLUG]


def _mark(job: LockedJob) -> ChangedJob:
    return ChangedJob(
        job_id=job.row.pk,
        is_new=job.is_new,
        former_team_id=job.row.team_id,
        was_named=bool(job.row.user or job.row.account),
    )


def _note(spoken: Iterable[tuple[Recorded, LockedJob]], received_at: datetime) -> None:
    """Keeps who newly said what of the jobs, and what of it was not taken."""
    changes = []
    grown = set()
    for each, job in spoken:
        facts = _news(each.given.facts, job.row) if each.is_news and each.is_changed else {}
        if facts:
            changes.append(_change(each.given, facts, job, received_at))
        if facts and not job.is_new:
            grown.add(job.row.pk)
    JobChange.objects.bulk_create(changes)
    if grown:
        execute(DROP_OLD_CHANGES, {"jobs": sorted(grown), "kept": MAX_CHANGES})


def _news(given: JobFacts, was: Job) -> dict[str, Any]:
    """What is said otherwise than it was believed; nothing where only the end is: that is the noise
    of clocks.
    """
    facts = {name: getattr(given, name) for name in NOTED}
    news = {name: value for name, value in facts.items() if value and value != getattr(was, name)}
    if news and given.end_ms is not None:
        news["end_ms"] = given.end_ms
    return news


def _change(
    given: Given, facts: dict[str, Any], job: LockedJob, received_at: datetime
) -> JobChange:
    refused = [
        name for name, value in facts.items() if not _is_taken(value, getattr(job.facts, name))
    ]
    return JobChange(
        job_id=job.row.pk,
        node_id=given.node_id,
        at=received_at,
        voice=int(given.voice),
        facts=facts,
        refused=refused,
    )


def _is_taken(value: Any, now: Any) -> bool:
    """Whether it is what is believed; of labels, whether all of them are."""
    return bool(value.items() <= now.items() if isinstance(value, dict) else value == now)


def drop_unheard(now: datetime) -> dict[str, int]:
    """How many records were dropped because their nodes did not come to hold the jobs; safe
    twice.
    """
    unheard = JobRecord.objects.filter(
        held_at=None, voice__lt=Voice.IMPORT, as_of_ms__lt=to_ms(now) - UNHEARD_MS
    )
    return {"dropped_records": unheard.delete()[0]}
