"""Batches that continue what is known of their nodes, stored together: one transaction, a handful
of statements.

The same rows as services.store_batch writes one by one. Whatever is not plain
continuation (UnsteadyError) leaves the group, and the others are stored without it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec
from django.db import Error, transaction

from agent.wire import Batch, WireError
from fleetwatch.ingest import tokens
from fleetwatch.ingest.fast_decode import BatchFacts, Memory
from fleetwatch.ingest.services import (
    STATEMENT_MS,
    is_out_of_time,
    store_reports,
    touch_holds,
    touch_jobs_of_new_kind,
)
from fleetwatch.inventory import steady as inventory
from fleetwatch.inventory.intake import TooMuchNewError
from fleetwatch.inventory.stays import GAP_MS, spans_of
from fleetwatch.inventory.steady import Continued, Lived, UnsteadyError
from fleetwatch.jobs.batch_report import Report
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.spans import Span, clip, difference
from fleetwatch.telemetry import retention
from fleetwatch.telemetry import services as telemetry
from fleetwatch.telemetry.services import Appended

# One node whose row somebody holds must not hold a group up: without a group its batches go the
# long way, and wait there.
LOCK_MS = 200


@dataclass(slots=True)
class Silence:
    """The order of the newest batch after which it was known that no process is stored of the
    node's GPUs; None = not known.
    """

    since: tuple[int, int] | None = None


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
    memory: Memory = field(default_factory=Memory, compare=False)
    silence: Silence = field(default_factory=Silence, compare=False)


class Moment(NamedTuple):
    """When a group came, and what is final by then."""

    at: datetime
    ms: int
    final_ms: int  # hours that start before it

    @classmethod
    def of(cls, at: datetime) -> "Moment":
        return cls(at, to_ms(at), to_ms(retention.horizon(at)))


class Arrived(NamedTuple):
    """One batch at the door, read and valid, with its gzip."""

    sender: Sender
    batch: Batch
    packed: bytes
    received: Moment
    start_ms: int  # of the windows
    end_ms: int
    oldest_ms: int  # of windows and host samples
    newest_ms: int
    is_use_due: bool  # of the token: to be noted

    @property
    def node_id(self) -> int:
        return self.sender.node_id

    @property
    def order(self) -> tuple[int, int]:
        return self.batch.boot_start_ms, self.batch.sequence


def arrived(
    sender: Sender, batch: Batch, packed: bytes, received: Moment, *, is_use_due: bool
) -> Arrived | None:
    """The batch as a group takes it; None when it does more than continue.

    That is: events, a wrong clock, hours that are final, windows from before a GPU's first, a hole
    of ten minutes, a GPU without a last window.
    """
    if batch.events:
        return None
    starts = batch.windows["start_ms"]
    start_ms = min(starts)
    last_ms = max(starts)
    end_ms = last_ms + batch.window_s * 1000
    oldest_ms, newest_ms = _with_host(batch, start_ms, end_ms)
    if last_ms - start_ms >= GAP_MS and len(spans_of(starts, batch.window_s * 1000)) > 1:
        return None
    if (
        is_out_of_time(newest_ms, oldest_ms, received.ms)
        or oldest_ms < received.final_ms
        or start_ms < sender.since_ms
    ):
        return None
    if not sender.living.issubset(_places_at(batch, last_ms)):
        return None
    return Arrived(
        sender, batch, packed, received, start_ms, end_ms, oldest_ms, newest_ms, is_use_due
    )


def _with_host(batch: Batch, start_ms: int, end_ms: int) -> Span:
    """The time of the windows, and of host samples that begin before them or end after."""
    host = batch.host.get("start_ms")
    if not host:
        return start_ms, end_ms
    return min(start_ms, *host), max(end_ms, max(host) + batch.window_s * 1000)


def _places_at(batch: Batch, start_ms: int) -> list[int]:
    """The positions of the GPUs with a window that starts then."""
    windows = zip(batch.windows["gpu"], batch.windows["start_ms"], strict=True)
    return [place for place, start in windows if start == start_ms]


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
        silent = _store(group)
    except UnsteadyError as error:
        return _stored_without(group, error.node_ids)
    except TooMuchNewError as error:
        return _stored_without(group, {error.node_id})  # the long way says so
    except (Error, WireError):
        return set()  # the long way says what is wrong
    for arrival in group:
        arrival.sender.silence.since = arrival.order if arrival.node_id in silent else None
    return {arrival.node_id for arrival in group}


def _stored_without(group: list[Arrived], node_ids: set[int]) -> set[int]:
    rest = [arrival for arrival in group if arrival.node_id not in node_ids]
    return _stored(rest) if rest else set()


@transaction.atomic
def _store(group: Sequence[Arrived]) -> set[int]:
    """The node ids of the batches after which no process is stored of their GPUs."""
    lived = inventory.extend(
        [_continued(arrival) for arrival in group], lock_ms=LOCK_MS, statement_ms=STATEMENT_MS
    )
    touched = {arrival.node_id: _touched(arrival, lived[arrival.node_id]) for arrival in group}
    _require(telemetry.append_new([_appended(arrival) for arrival in group], touched), group)
    silent = {
        arrival.node_id for arrival in group if _stays_silent(arrival, lived[arrival.node_id])
    }
    silent |= _store_reports(
        [arrival for arrival in group if arrival.node_id not in silent], lived, touched
    )
    if due := [arrival.sender.token_id for arrival in group if arrival.is_use_due]:
        tokens.note_use(due, group[0].received.at)
    return silent


def _stays_silent(arrival: Arrived, lived: Lived) -> bool:
    """Whether the batch says nothing of jobs but that there is no process, as was known since the
    node's batch before.
    """
    batch = arrival.batch
    return lived.former == arrival.sender.silence.since and not (
        batch.jobs or batch.sources or batch.allocations or batch.processes
    )


def _store_reports(
    group: Sequence[Arrived], lived: Mapping[int, Lived], touched: Mapping[int, Span]
) -> set[int]:
    """What the batches say of jobs; hours in which somebody else holds a GPU now are marked where
    the batch itself did not.

    The ids of the nodes where no process is, nor was.
    """
    reports = [_report(arrival) for arrival in group if _speaks_of_jobs(arrival.batch)]
    if not reports:
        return set()
    received_at = group[0].received.at
    stored, held, silent = store_reports(reports, received_at=received_at)
    of_gpu = {gpu_id: arrival for arrival in group for gpu_id in arrival.sender.gpu_ids}
    own = [(of_gpu[gpu_id], span) for gpu_id, span in held if gpu_id in of_gpu]
    for arrival, spans in _by_node(own):
        _touch_held(arrival, spans, lived[arrival.node_id], touched[arrival.node_id])
    touch_holds([pair for pair in held if pair[0] not in of_gpu], received_at=received_at)
    touch_jobs_of_new_kind(stored.values(), received_at=received_at)
    return silent


def _report(arrival: Arrived) -> Report:
    sender = arrival.sender
    return Report(sender.node_id, arrival.batch, sender.gpu_ids, 0, sender.speaks_for)


def _touch_held(arrival: Arrived, held: Iterable[Span], lived: Lived, touched: Span) -> None:
    capacity = clip(held, arrival.sender.first_ms, lived.is_ms)
    if untouched := difference(capacity, [touched]):
        telemetry.touch_hours(arrival.node_id, untouched, received_at=arrival.received.at)


def _by_node(held: Iterable[tuple[Arrived, Span]]) -> Iterable[tuple[Arrived, set[Span]]]:
    """Each batch with the time in which its GPUs have other holders."""
    held_by_node: dict[int, tuple[Arrived, set[Span]]] = {}
    for arrival, span in held:
        held_by_node.setdefault(arrival.node_id, (arrival, set()))[1].add(span)
    return held_by_node.values()


def _speaks_of_jobs(batch: Batch) -> bool:
    return bool(
        batch.jobs
        or batch.sources
        or batch.allocations
        or batch.processes
        or "process_count" in batch.windows
    )


def _require(done: set[int], group: Sequence[Arrived]) -> None:
    if unsteady := {arrival.node_id for arrival in group} - done:
        raise UnsteadyError(unsteady)


def _continued(arrival: Arrived) -> Continued:
    batch = arrival.batch
    agent = msgspec.json.encode(batch.agent).decode()
    return Continued(
        node_id=arrival.sender.node_id,
        digest=arrival.sender.digest,
        boot_start_ms=batch.boot_start_ms,
        sequence=batch.sequence,
        first_ms=arrival.start_ms,
        windows_ms=arrival.end_ms,
        newest_ms=arrival.newest_ms,
        received_at=arrival.received.at,
        agent=agent,
    )


def _touched(arrival: Arrived, lived: Lived) -> Span:
    """The batch's windows, and the time by which the node's life became longer: all its GPUs were
    capacity in it.
    """
    start_ms = arrival.start_ms
    end_ms = arrival.end_ms
    was_ms = lived.was_ms
    is_ms = lived.is_ms
    if was_ms >= is_ms:
        return (start_ms, end_ms)
    return (max(min(start_ms, was_ms), arrival.received.final_ms), max(end_ms, is_ms))


def _appended(arrival: Arrived) -> Appended:
    batch = arrival.batch
    return Appended(
        node_id=arrival.node_id,
        boot_id=batch.boot_id,
        boot_start_ms=batch.boot_start_ms,
        sequence=batch.sequence,
        received_at=arrival.received.at,
        start_ms=arrival.start_ms,
        end_ms=arrival.end_ms,
        payload=arrival.packed,
        hours_ms=_hours_ms(arrival),
    )


def _hours_ms(arrival: Arrived) -> list[int]:
    """The hours in which windows and host samples start."""
    first = arrival.oldest_ms - arrival.oldest_ms % HOUR_MS
    if arrival.newest_ms <= first + HOUR_MS:
        return [first]
    starts = {*arrival.batch.windows["start_ms"], *arrival.batch.host.get("start_ms", ())}
    return [hour * HOUR_MS for hour in sorted({start // HOUR_MS for start in starts})]
