"""What nodes and imports say of jobs, and what of it is believed. Pure.

- Nobody speaks for a job but the nodes that hold it or held it, the books of its cluster, and
  imports: those two by a right that an admin gave to their token. Of anybody else nothing is taken.
- **Each node's GPU time is charged to whom that node names**: nodes that name the same user and
  account hold one job; who names somebody else holds another job of the same key. So nobody takes a
  job from its owner, or gives it time, by naming others: not before it exists, and not later. The
  books of the cluster say it for all nodes.
- What a job is (kind, labels) is the word of the node that the hub first heard holding it. Any time
  that a sender states could be dated back, so here, and only here, what arrived first counts. An
  import fills in what that node does not know.
- How it goes (name, state, times, restarts) is the newest word, a node's at most GRACE_MS after its
  hold ended; an end that other holders outlived is no end.
- On one node a scheduler's books win over what processes claim in their environment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, Protocol

from agent.wire import BOOKED_LABELS

# An agent asks its scheduler now and then: this long after a job's end it may still have called it
# running.
OUTCOME_LAG_MS = 10 * 60_000
# The grace of a scheduler: what a node says later than this after its hold ended weighs no more
# than what it said then.
GRACE_MS = OUTCOME_LAG_MS
BATCH = "batch"  # of what kind a job is that nobody calls anything


class Voice(IntEnum):
    """How a record came to be known.

    On one node the later of CLAIM and BOOKS wins; above them stand rights of tokens.
    """

    CLAIM = 0  # the environment of its processes
    BOOKS = 1  # the node's scheduler, its container engine, or the node itself
    IMPORT = 2  # accounting, by a token that may import
    CLUSTER = 3  # a node whose token speaks for the job's cluster
    CLUSTER_IMPORT = 4  # accounting, by such a token

    @property
    def is_import(self) -> bool:
        return self in (Voice.IMPORT, Voice.CLUSTER_IMPORT)

    @property
    def is_cluster(self) -> bool:
        return self >= Voice.CLUSTER


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is said of a job; "" and None = not said."""

    scheduler: str = ""
    cluster: str = ""
    external_id: str = ""
    name: str = ""
    user: str = ""
    account: str = ""
    kind: str = ""
    state: str = ""
    submit_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    restarts: int = 0
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """The newest that one node says of a job with one voice."""

    pk: int
    node_id: int | None
    voice: Voice
    order: tuple[int, int, int]  # (as of ms, boot start ms, sequence) of the batch
    facts: JobFacts
    # when the hub first heard that the node holds the job; None = never
    held_at: datetime | None = None
    held_until_ms: int | None = None  # end of its hold, as far as it is known
    job_id: int | None = None  # the stored job that it was of until now

    @property
    def is_heard(self) -> bool:
        """Whether it may speak for the job."""
        return self.voice >= Voice.IMPORT or self.held_at is not None

    @property
    def is_holder(self) -> bool:
        """Whether it speaks because it holds or held the job."""
        return self.voice < Voice.IMPORT and self.held_at is not None

    @property
    def weight(self) -> tuple[int, ...]:
        """The newest has the largest."""
        if self.is_holder and self.held_until_ms is not None:
            return min(self.order[0], self.held_until_ms + GRACE_MS), *self.order, self.pk
        return self.order[0], *self.order, self.pk


@dataclass(frozen=True, slots=True, order=True)
class JobOwner:
    """Whose a job is; "" = nobody is named."""

    user: str
    account: str


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job as it is believed, and what is said of it by those who may."""

    facts: JobFacts
    records: tuple[Record, ...]

    @property
    def owner(self) -> JobOwner:
        return JobOwner(self.facts.user, self.facts.account)


class Owned(Protocol):
    """A job, as far as it is somebody's."""

    @property
    def user(self) -> str: ...
    @property
    def account(self) -> str: ...
    @property
    def kind(self) -> str: ...


def known_jobs(records: Iterable[Record]) -> list[KnownJob]:
    """The jobs that share the records' key, the first heard first; none where nobody who may speak
    does. Order does not matter.
    """
    rows = list(records)
    cluster = _newest_first(record for record in rows if record.voice.is_cluster)
    imports = _newest_first(record for record in rows if record.voice == Voice.IMPORT)
    jobs = _held_jobs([record for record in rows if record.voice < Voice.IMPORT], cluster, imports)
    for record in cluster:
        _join(record, jobs, is_founder=True)
    for record in imports:
        _join(record, jobs, is_founder=not jobs)
    believed = [
        KnownJob(_believed(owner, members), tuple(members)) for owner, members in jobs.items()
    ]
    return sorted(believed, key=lambda job: (_first_heard(job.records), job.owner))


def contradictions(records: Iterable[Record], facts: Owned) -> list[tuple[Record, str, str]]:
    """(record, fact, value) of what those who may speak say otherwise of whose the job is and what
    it is; who says nothing contradicts nothing.
    """
    return [
        (record, fact, value)
        for record in sorted(_heard(records), key=lambda record: record.pk)
        for fact in ("user", "account", "kind")
        if (value := getattr(record.facts, fact)) and value != getattr(facts, fact)
    ]


def _held_jobs(
    node_records: Sequence[Record], cluster: Sequence[Record], imports: Sequence[Record]
) -> dict[JobOwner, list[Record]]:
    """The jobs that nodes hold, by whose they are, with what their holders say of them."""
    of_node: dict[int | None, list[Record]] = {}
    for record in node_records:
        of_node.setdefault(record.node_id, []).append(record)
    words = {node_id: _word_of(records) for node_id, records in of_node.items()}
    jobs: dict[JobOwner, list[Record]] = {}
    for record in node_records:
        word = record if _is_word(record, words[record.node_id]) else words[record.node_id]
        jobs.setdefault(_owner_by(word, cluster, imports), []).append(record)
    return {owner: heard for owner, members in jobs.items() if (heard := _heard(members))}


def _word_of(records: Iterable[Record]) -> Record:
    """By which record a node says whose the job is: by its books where it has them, by one that
    names a user where there is one.
    """
    return max(records, key=lambda record: (record.voice, bool(record.facts.user), record.weight))


def _is_word(record: Record, word: Record) -> bool:
    """Whether the record says itself whose its job is: it names a user, and no books of its node
    know better.
    """
    return bool(record.facts.user) and record.voice == word.voice


def _owner_by(word: Record, cluster: Sequence[Record], imports: Sequence[Record]) -> JobOwner:
    """Whose the time of the word's node is: an import knows better than a claim, a node's books
    better than it.
    """
    named = word.facts
    is_weak = word.voice == Voice.CLAIM or not named.user
    authority = _authority(named.user, cluster) or (
        _authority(named.user, imports) if is_weak else None
    )
    if authority is None:
        account = _first(
            record.facts.account for record in imports if record.facts.user == named.user
        )
        return JobOwner(named.user, named.account or account)
    if authority.facts.user in ("", named.user):
        return JobOwner(named.user, authority.facts.account or named.account)
    return JobOwner(authority.facts.user, authority.facts.account)


def _authority(user: str, records: Sequence[Record]) -> Record | None:
    """Of the records, the newest first: the one that speaks of the user's job, else the newest that
    names anybody; None without any.
    """
    of_user = [record for record in records if record.facts.user == user]
    naming = [record for record in records if record.facts.user]
    return next(iter(of_user or naming or records), None)


def _join(record: Record, jobs: dict[JobOwner, list[Record]], *, is_founder: bool) -> None:
    """Adds what books or an import say to the jobs of the user that they name; to a job of its own
    where there is none.
    """
    facts = record.facts
    joined = [owner for owner in jobs if facts.user in ("", owner.user)]
    for owner in joined:
        jobs[owner].append(record)
    if not joined and is_founder:
        jobs[JobOwner(facts.user, facts.account)] = [record]


def _first_heard(records: Iterable[Record]) -> tuple[bool, float, int]:
    """When the hub first heard who holds the job, what nobody holds last; then by the record."""
    return min(
        (record.held_at is None, record.held_at.timestamp() if record.held_at else 0.0, record.pk)
        for record in records
    )


def _heard(records: Iterable[Record]) -> list[Record]:
    """Those who may speak; a node's hold is that of all its records, with whichever voice it was
    told.
    """
    rows = list(records)
    holds: dict[int | None, list[Record]] = {}
    for record in rows:
        if record.is_holder:
            holds.setdefault(record.node_id, []).append(record)
    return [
        held
        for record in rows
        if (held := _holding(record, holds.get(record.node_id, ()))).is_heard
    ]


def _holding(record: Record, held: Sequence[Record]) -> Record:
    if not held or record.voice >= Voice.IMPORT:
        return record
    held_at = min(each.held_at for each in held if each.held_at is not None)
    return replace(
        record, held_at=held_at, held_until_ms=max(each.held_until_ms or 0 for each in held)
    )


def _believed(owner: JobOwner, members: Sequence[Record]) -> JobFacts:
    first = _first_holder(members)
    trusted = _trusted(members, first)
    outcomes = _outcomes(members)
    newest = outcomes[0].facts
    return JobFacts(
        scheduler=_first(record.facts.scheduler for record in trusted),
        cluster=_first(record.facts.cluster for record in trusted),
        external_id=_first(record.facts.external_id for record in trusted),
        user=owner.user,
        account=owner.account,
        kind=_first(record.facts.kind for record in trusted) or BATCH,
        labels=_labels(trusted),
        name=_first(record.facts.name for record in outcomes),
        state=newest.state,
        submit_ms=_first_known(record.facts.submit_ms for record in outcomes),
        start_ms=_first_known(record.facts.start_ms for record in outcomes),
        end_ms=newest.end_ms,
        restarts=_restarts(outcomes),
    )


def _first_holder(members: Sequence[Record]) -> Record | None:
    """The word of the node that was heard first to hold the job; its books' where it has both."""
    holders = [record for record in members if record.is_holder]
    if not holders:
        return None
    first = min(
        (record.held_at, record.pk, record.node_id)
        for record in holders
        if record.held_at is not None
    )
    return max(
        (record for record in holders if record.node_id == first[2]),
        key=lambda record: (record.voice, record.weight),
    )


def _trusted(members: Sequence[Record], first: Record | None) -> list[Record]:
    """Who says what the job is, the most believed first: an import knows better than a claim, a
    node's books better than it.
    """
    cluster = _newest_first(record for record in members if record.voice.is_cluster)
    imports = _newest_first(record for record in members if record.voice == Voice.IMPORT)
    if first is None:
        return [*cluster, *imports]
    if first.voice == Voice.CLAIM:
        return [*cluster, *imports, first]
    return [*cluster, first, *imports]


def _outcomes(members: Sequence[Record]) -> list[Record]:
    """Who says how the job goes, the newest first."""
    booked = {
        record.node_id for record in members if record.voice == Voice.BOOKS and record.is_holder
    }
    candidates = [
        record for record in members if record.voice != Voice.CLAIM or record.node_id not in booked
    ]
    lasting = [record for record in candidates if not _is_outlived(record, candidates)]
    return _newest_first(lasting or candidates)


def _is_outlived(record: Record, others: Iterable[Record]) -> bool:
    """Whether another node held the job well after the end that this one tells."""
    end_ms = record.facts.end_ms
    if end_ms is None or not record.is_holder:
        return False
    held = [
        other.held_until_ms
        for other in others
        if other.is_holder and other.node_id != record.node_id
    ]
    return any(until_ms is not None and until_ms > end_ms + OUTCOME_LAG_MS for until_ms in held)


def _labels(trusted: Sequence[Record]) -> dict[str, Any]:
    """Every label once: as the cluster's books have it, else as the newest of those who are
    believed has it.
    """
    labels: dict[str, Any] = {}
    for record in sorted(trusted, key=lambda record: (record.voice.is_cluster, record.weight)):
        labels |= record.facts.labels
    return {name: value for name, value in labels.items() if BOOKED_LABELS.get(name) not in labels}


def _restarts(outcomes: Sequence[Record]) -> int:
    """By the newest holder or the newest import, whichever counted more: an import may not know,
    and a counter only grows.
    """
    newest = {record.voice.is_import: record.facts.restarts for record in reversed(outcomes)}
    return max(newest.values())


def _newest_first(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.weight, reverse=True)


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


def _first_known(times: Iterable[int | None]) -> int | None:
    return next((time_ms for time_ms in times if time_ms is not None), None)
