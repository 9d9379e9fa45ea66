"""Batches that continue what is known of their nodes, stored together: one transaction, a handful
of statements.

The same rows as services.store_batch writes one by one, but what batches repeat of jobs: that is
told by their nodes' rows (jobs/repeats.py). Whatever is not plain continuation (UnsteadyError)
leaves the group, and the others are stored without it.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.db import Error, transaction

from agent.wire import Batch, WireError
from fleetwatch.ingest import tokens
from fleetwatch.ingest.fast_decode import BatchFacts, KnownWords, Read, Words
from fleetwatch.ingest.services import (
    STATEMENT_MS,
    is_out_of_time,
    store_reports,
    touch_others,
)
from fleetwatch.inventory import steady as inventory
from fleetwatch.inventory.intake import TooMuchNewError
from fleetwatch.inventory.stays import GAP_MS, spans_of
from fleetwatch.inventory.steady import Continued, Lived, UnsteadyError
from fleetwatch.jobs import repeats
from fleetwatch.jobs.batch_report import JobKey, Report, StoredJob
from fleetwatch.jobs.repeats import NotRepeatableError
from fleetwatch.jobs.services import store_processes
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.spans import Span, clip
from fleetwatch.telemetry import retention
from fleetwatch.telemetry import services as telemetry

# One node whose row somebody holds must not hold a group up: without a group its batches go the
# long way, and wait there.
LOCK_MS = 200


class Repeated(NamedTuple):
    """What a node repeats of jobs, and as what they are stored."""

    words: Words
    digest: bytes
    jobs: Mapping[JobKey, StoredJob]

    @property
    def known_words(self) -> KnownWords:
        return KnownWords(self.words, tuple(key for _, key in self.jobs))


@dataclass(slots=True)
class Memory:
    """What is known of a node beside its facts."""

    repeated: Repeated | None = None  # None: what it says of jobs does not simply go on
    # order of the newest batch after which it was known that no process is stored of its GPUs
    silent_since: tuple[int, int] | None = None

    def keep(self, repeated: Repeated | None, silent_since: tuple[int, int] | None) -> None:
        """Of the newest batch."""
        self.repeated = repeated
        self.silent_since = silent_since


@dataclass(frozen=True, slots=True)
class Sender:
    """A token that was let in, its node, and what the node's newest batch said."""

    token_id: int
    speaks_for: str
    node_id: int
    facts: BatchFacts
    digest: bytes
    gpu_ids: tuple[int, ...]  # by position in the batches
    # positions of the GPUs that are no parent of another: windows are expected of each
    living: frozenset[int]
    first_ms: int  # where the stay of the first of them begins
    since_ms: int  # and that of the last
    memory: Memory = field(compare=False)

    @property
    def known_words(self) -> KnownWords | None:
        """What its next batch may repeat of jobs."""
        repeated = self.memory.repeated
        return None if repeated is None else repeated.known_words


@dataclass(frozen=True, slots=True)
class Offered:
    """The body of a known sender's request, as it came."""

    sender: Sender
    packed: bytes
    received_at: datetime
    is_use_due: bool  # of the token: to be noted


class Moment(NamedTuple):
    """When a group came, and what is final by then."""

    at: datetime
    ms: int
    final_ms: int  # hours that start before it

    @classmethod
    def of(cls, at: datetime) -> "Moment":
        return cls(at, to_ms(at), to_ms(retention.horizon(at)))


class Arrived(NamedTuple):
    """One batch at the door, read and valid."""

    offered: Offered
    batch: Batch
    words: Words | None  # what it newly says of jobs
    continued: Continued
    received: Moment

    @property
    def sender(self) -> Sender:
        return self.offered.sender

    @property
    def node_id(self) -> int:
        return self.sender.node_id

    @property
    def order(self) -> tuple[int, int]:
        return self.batch.boot_start_ms, self.batch.sequence


def arrived(offered: Offered, read: Read, received: Moment) -> Arrived | None:
    """The batch as a group takes it; None when it does more than continue.

    That is: events, a wrong clock, hours that are final, windows from before a GPU's first, a hole
    of ten minutes, a GPU without a last window.
    """
    sender = offered.sender
    batch = read.batch
    starts = batch.windows["start_ms"]
    span = min(starts), max(starts)
    oldest_ms, newest_ms = _with_host(batch, span[0], span[1] + batch.window_s * 1000)
    if (
        batch.events
        or is_out_of_time(newest_ms, oldest_ms, received.ms)
        or oldest_ms < received.final_ms
        or span[0] < sender.since_ms
        or _has_holes(sender, batch, span)
    ):
        return None
    continued = _continued(offered, read, span, (oldest_ms, newest_ms), received)
    return Arrived(offered, batch, read.words, continued, received)


def _continued(
    offered: Offered, read: Read, starts: Span, extent: Span, received: Moment
) -> Continued:
    """`starts` of the first window and of the last, `extent` with host samples."""
    batch = read.batch
    return Continued(
        node_id=offered.sender.node_id,
        digest=offered.sender.digest,
        words=_repeats_by(offered.sender, read),
        boot_id=batch.boot_id,
        boot_start_ms=batch.boot_start_ms,
        sequence=batch.sequence,
        start_ms=starts[0],
        end_ms=starts[1] + batch.window_s * 1000,
        newest_ms=extent[1],
        hours_ms=_hours_ms(batch, *extent),
        received_at=received.at,
        agent=msgspec.json.encode(batch.agent).decode(),
        payload=offered.packed,
    )


def _repeats_by(sender: Sender, read: Read) -> bytes:
    """The digest of what it repeats; b"" where it says something new."""
    repeated = sender.memory.repeated
    return repeated.digest if read.words is None and repeated is not None else b""


def _has_holes(sender: Sender, batch: Batch, starts: Span) -> bool:
    """Whether ten minutes have no window, or a GPU has none that starts with the last."""
    first_ms, last_ms = starts
    if last_ms - first_ms >= GAP_MS:
        length_ms = batch.window_s * 1000
        if len(spans_of(batch.windows["start_ms"], length_ms)) > 1:
            return True
    windows = zip(batch.windows["gpu"], batch.windows["start_ms"], strict=True)
    return not sender.living.issubset([place for place, start_ms in windows if start_ms == last_ms])


def _with_host(batch: Batch, start_ms: int, end_ms: int) -> Span:
    """The time of the windows, and of host samples that begin before them or end after."""
    host = batch.host.get("start_ms")
    if not host:
        return start_ms, end_ms
    return min(start_ms, *host), max(end_ms, max(host) + batch.window_s * 1000)


def store_together(group: Sequence[Arrived]) -> list[bool]:
    """For each batch whether it is stored; what is not has left nothing behind and goes the long
    way.
    """
    # of a node the first: the next one continues that one
    wanted = {arrival.node_id: arrival for arrival in reversed(group)}
    stored = _stored(list(wanted.values()))
    return [arrival.node_id in stored and wanted[arrival.node_id] is arrival for arrival in group]


def _stored(group: list[Arrived]) -> set[int]:
    """The node ids of the batches that are stored."""
    try:
        memories = _store(group)
    except UnsteadyError as error:
        return _stored_without(group, error.node_ids)
    except TooMuchNewError as error:
        return _stored_without(group, {error.node_id})  # the long way says so
    except (Error, WireError):
        return set()  # the long way says what is wrong
    for arrival in group:
        arrival.sender.memory.keep(*memories[arrival.node_id])
    return {arrival.node_id for arrival in group}


def _stored_without(group: list[Arrived], node_ids: set[int]) -> set[int]:
    rest = [arrival for arrival in group if arrival.node_id not in node_ids]
    return _stored(rest) if rest else set()


Remembered = tuple[Repeated | None, tuple[int, int] | None]  # as of a Memory


@transaction.atomic
def _store(group: Sequence[Arrived]) -> dict[int, Remembered]:
    """By node id what is to be remembered of it."""
    continued = [arrival.continued for arrival in group]
    lived = inventory.extend(continued, lock_ms=LOCK_MS, statement_ms=STATEMENT_MS)
    new_words = _store_words([each for each in group if each.words is not None], lived)
    silent = _store_processes(group, lived, new_words.jobs)
    touched = {each.node_id: _touched(each, lived[each.node_id], new_words.held) for each in group}
    new = telemetry.append_new(continued, touched)
    if unsteady := lived.keys() - new:
        raise UnsteadyError(unsteady)
    if due := [arrival.sender.token_id for arrival in group if arrival.offered.is_use_due]:
        tokens.note_use(due, group[0].received.at)
    return {each.node_id: _remembered(each, new_words, silent) for each in group}


def _remembered(arrival: Arrived, new_words: "NewWords", silent: Collection[int]) -> Remembered:
    repeated = new_words.repeated.get(arrival.node_id, arrival.sender.memory.repeated)
    return repeated, arrival.order if arrival.node_id in silent else None


class NewWords(NamedTuple):
    """What batches newly said of jobs, stored."""

    jobs: Mapping[JobKey, StoredJob]
    held: Mapping[int, set[Span]]  # GPU id -> time in which somebody else holds it now
    repeated: Mapping[int, Repeated | None]  # node id -> what its next batches may repeat


def _store_words(group: Sequence[Arrived], lived: Mapping[int, Lived]) -> NewWords:
    if not group:
        return NewWords({}, {}, {})
    reports = [_report(arrival, lived[arrival.node_id].former) for arrival in group]
    received_at = group[0].received.at
    stored, held = store_reports(reports, received_at=received_at)
    own = {gpu_id for arrival in group for gpu_id in arrival.sender.gpu_ids}
    touch_others(stored, held, own, received_at=received_at)
    spans: dict[int, set[Span]] = defaultdict(set)
    for gpu_id, span in held:
        spans[gpu_id].add(span)
    pairs = zip(group, reports, strict=True)
    repeated = {
        arrival.node_id: begin_repeating(report, arrival.words) for arrival, report in pairs
    }
    return NewWords(stored, spans, repeated)


def begin_repeating(report: Report, words: Words | None) -> Repeated | None:
    """What the node may repeat from this batch on, which is stored; None where it does not simply
    go on.
    """
    if words is None:
        return None
    try:
        with transaction.atomic():
            return Repeated(words, *repeats.begin(report, words.digest))
    except NotRepeatableError:
        return None


def _report(arrival: Arrived, former: tuple[int, int] = (0, 0)) -> Report:
    sender = arrival.sender
    return Report(
        sender.node_id, arrival.batch, sender.gpu_ids, 0, sender.speaks_for, former_order=former
    )


def _store_processes(
    group: Sequence[Arrived], lived: Mapping[int, Lived], new_words: Mapping[JobKey, StoredJob]
) -> set[int]:
    """The ids of the nodes where no process is, nor was."""
    silent = {each.node_id for each in group if _stays_silent(each, lived[each.node_id])}
    repeated = [each.sender.memory.repeated for each in group if each.words is None]
    jobs = dict(new_words)
    for each in repeated:
        jobs |= each.jobs if each else {}
    reports = [_report(each) for each in group if each.node_id not in silent]
    return silent | store_processes(reports, jobs)


def _stays_silent(arrival: Arrived, lived: Lived) -> bool:
    """Whether the batch says that there is no process, as was known since the node's batch
    before.
    """
    return lived.former == arrival.sender.memory.silent_since and not arrival.batch.processes


def _touched(arrival: Arrived, lived: Lived, held: Mapping[int, set[Span]]) -> list[Span]:
    """The batch's windows, the time by which the node's life became longer: all its GPUs were
    capacity in it; and the time of other holders on its GPUs.
    """
    sender = arrival.sender
    final_ms = arrival.received.final_ms
    spans = [(arrival.continued.start_ms, arrival.continued.end_ms)]
    spans += clip([(lived.was_ms, lived.is_ms)], final_ms, lived.is_ms)
    holders = set().union(*(held.get(gpu_id, ()) for gpu_id in sender.gpu_ids))
    return spans + clip(holders, max(sender.first_ms, final_ms), lived.is_ms)


def _hours_ms(batch: Batch, oldest_ms: int, newest_ms: int) -> list[int]:
    """The hours in which windows and host samples start."""
    first = oldest_ms - oldest_ms % HOUR_MS
    if newest_ms <= first + HOUR_MS:
        return [first]
    starts = {*batch.windows["start_ms"], *batch.host.get("start_ms", ())}
    return [hour * HOUR_MS for hour in sorted({start // HOUR_MS for start in starts})]
