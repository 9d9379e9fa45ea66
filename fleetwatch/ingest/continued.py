"""Batches that continue what is known of their nodes, stored together: in one statement, or where
some say something new of jobs or processes in one transaction of a handful.

The same rows as services.store_batch writes one by one, but what batches repeat of jobs: that is
told by their nodes' rows (jobs/repeats.py). Of whatever is not plain continuation nothing is
written, and the others are stored without it.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from django.db import Error, transaction

from agent.wire import WireError
from fleetwatch.ingest import continued_rows, tokens
from fleetwatch.ingest.continued_rows import Continued, Lived
from fleetwatch.ingest.fast_decode import BatchFacts, KnownWords, Read, Words
from fleetwatch.ingest.services import (
    STATEMENT_MS,
    is_out_of_time,
    store_reports,
    touch_others,
)
from fleetwatch.inventory.intake import TooMuchNewError
from fleetwatch.inventory.stays import GAP_MS, spans_of
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

    node_id: int
    sender: Sender
    read: Read
    continued: Continued
    received: Moment
    is_use_due: bool  # of the token: to be noted

    @property
    def windows(self) -> int:
        """How many it holds."""
        return self.read.rows.windows

    @property
    def order(self) -> tuple[int, int]:
        return self.read.boot_start_ms, self.read.sequence

    @property
    def is_mere_time(self) -> bool:
        """Whether nothing is to be written but that time went on."""
        is_known_silent = self.sender.memory.silent_since or not self.read.rows.has_process_count
        is_new = self.read.words is not None or self.is_use_due
        return bool(is_known_silent and not (self.read.has_processes or is_new))


def arrived(offered: Offered, read: Read, received: Moment) -> Arrived | None:
    """The batch as a group takes it; None when it does more than continue.

    That is: events, a wrong clock, hours that are final, windows from before a GPU's first, a hole
    of ten minutes, a GPU without a last window, host samples of an hour without windows.
    """
    sender = offered.sender
    rows = read.rows
    length_ms = sender.facts.window_s * 1000
    starts = rows.starts
    host = rows.host_starts or starts
    oldest_ms = min(starts[0], host[0])
    newest_ms = max(starts[-1], host[-1]) + length_ms
    if (
        read.has_events
        or is_out_of_time(newest_ms, oldest_ms, received.ms)
        or oldest_ms < received.final_ms
        or starts[0] < sender.since_ms
        or not sender.living <= rows.layout.last
        or _has_holes(starts, length_ms)
        or _is_beyond(host, starts)
    ):
        return None
    continued = _continued(offered, read, starts, newest_ms)
    return Arrived(sender.node_id, sender, read, continued, received, offered.is_use_due)


def _continued(offered: Offered, read: Read, starts: list[int], newest_ms: int) -> Continued:
    sender = offered.sender
    silent_since = sender.memory.silent_since if read.rows.has_process_count else None
    return Continued(
        sender.node_id,
        sender.digest,
        _repeats_by(sender, read),
        sender.facts.boot_id,
        read.boot_start_ms,
        read.sequence,
        starts[0],
        starts[-1],
        starts[-1] + sender.facts.window_s * 1000,
        newest_ms,
        offered.received_at,
        read.agent,
        offered.packed,
        silent_since,
    )


def _repeats_by(sender: Sender, read: Read) -> bytes:
    """The digest of what it repeats; b"" where it says something new."""
    repeated = sender.memory.repeated
    return repeated.digest if read.words is None and repeated is not None else b""


def _is_beyond(host: list[int], starts: list[int]) -> bool:
    """Whether host samples start in an hour before the windows, or in one after them."""
    return host[0] // HOUR_MS < starts[0] // HOUR_MS or host[-1] // HOUR_MS > starts[-1] // HOUR_MS


def _has_holes(starts: list[int], length_ms: int) -> bool:
    """Whether ten minutes have no window."""
    return starts[-1] - starts[0] >= GAP_MS and len(spans_of(starts, length_ms)) > 1


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
    except TooMuchNewError as error:  # the long way says so
        rest = [arrival for arrival in group if arrival.node_id != error.node_id]
        return _stored(rest) if rest else set()
    except (Error, WireError):
        return set()  # the long way says what is wrong
    for arrival in group:
        if arrival.node_id in memories:
            arrival.sender.memory.keep(*memories[arrival.node_id])
    return set(memories)


Remembered = tuple[Repeated | None, tuple[int, int] | None]  # as of a Memory


def _store(group: Sequence[Arrived]) -> dict[int, Remembered]:
    """By node id, of the batches that are stored, what is to be remembered."""
    if not all(arrival.is_mere_time for arrival in group):
        return _store_all(group)
    lived = _store_rows(group, [arrival.continued for arrival in group])
    memories = {
        each.node_id: (
            each.sender.memory.repeated,
            each.order if _stays_silent(each, lived[each.node_id]) else None,
        )
        for each in group
        if each.node_id in lived
    }
    # another process of the hub may have stored processes of these since
    left = [each for each in group if each.node_id not in lived and each.continued.quiet_since]
    if left:
        with suppress(Error):  # the others are stored
            memories |= _store_all(left)
    return memories


@transaction.atomic
def _store_all(group: Sequence[Arrived]) -> dict[int, Remembered]:
    """As `_store`, with what they say of jobs and processes."""
    rows = [each.continued._replace(quiet_since=None) for each in group]
    lived = _store_rows(group, rows)
    group = [arrival for arrival in group if arrival.node_id in lived]
    new_words = _store_words([each for each in group if each.read.words is not None], lived)
    silent = _store_processes(group, lived, new_words.jobs)
    for each in group:
        if holders := _held(each, lived[each.node_id], new_words.held):
            telemetry.touch_hours(each.node_id, holders)
    if due := [arrival.sender.token_id for arrival in group if arrival.is_use_due]:
        tokens.note_use(due, group[0].received.at)
    return {each.node_id: _remembered(each, new_words, silent) for each in group}


def _remembered(arrival: Arrived, new_words: "NewWords", silent: Collection[int]) -> Remembered:
    repeated = new_words.repeated.get(arrival.node_id, arrival.sender.memory.repeated)
    return repeated, arrival.order if arrival.node_id in silent else None


def _store_rows(group: Sequence[Arrived], rows: Sequence[Continued]) -> Mapping[int, Lived]:
    final_ms = group[0].received.final_ms
    return continued_rows.store(rows, final_ms=final_ms, lock_ms=LOCK_MS, statement_ms=STATEMENT_MS)


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
        arrival.node_id: begin_repeating(report, arrival.read.words) for arrival, report in pairs
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
        sender.node_id,
        arrival.read.batch,
        sender.gpu_ids,
        0,
        sender.speaks_for,
        former_order=former,
    )


def _store_processes(
    group: Sequence[Arrived], lived: Mapping[int, Lived], new_words: Mapping[JobKey, StoredJob]
) -> set[int]:
    """The ids of the nodes where no process is, nor was."""
    silent = {each.node_id for each in group if _stays_silent(each, lived[each.node_id])}
    repeated = [each.sender.memory.repeated for each in group if each.read.words is None]
    jobs = dict(new_words)
    for each in repeated:
        jobs |= each.jobs if each else {}
    reports = [_report(each) for each in group if each.node_id not in silent]
    return silent | store_processes(reports, jobs)


def _stays_silent(arrival: Arrived, lived: Lived) -> bool:
    """Whether the batch says that there is no process, as was known since the node's batch
    before.
    """
    return lived.former == arrival.sender.memory.silent_since and not arrival.read.has_processes


def _held(arrival: Arrived, lived: Lived, held: Mapping[int, set[Span]]) -> list[Span]:
    """The time of other holders on its GPUs."""
    sender = arrival.sender
    holders = set().union(*(held.get(gpu_id, ()) for gpu_id in sender.gpu_ids))
    return clip(holders, max(sender.first_ms, arrival.received.final_ms), lived.is_ms)
