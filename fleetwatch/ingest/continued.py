"""Batches that continue what is known of their nodes, stored together: one transaction, a handful
of statements.

The same rows as services.store_batch writes one by one. Whatever is not plain
continuation (UnsteadyError) leaves the group, and the others are stored without it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    touch_others,
)
from fleetwatch.inventory import steady as inventory
from fleetwatch.inventory.intake import TooMuchNewError
from fleetwatch.inventory.stays import GAP_MS, spans_of
from fleetwatch.inventory.steady import Continued, Lived, UnsteadyError
from fleetwatch.jobs.batch_report import Report
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.spans import Span, clip
from fleetwatch.telemetry import retention
from fleetwatch.telemetry import services as telemetry

# One node whose row somebody holds must not hold a group up: without a group its batches go the
# long way, and wait there.
LOCK_MS = 200


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


def arrived(offered: Offered, batch: Batch, received: Moment) -> Arrived | None:
    """The batch as a group takes it; None when it does more than continue.

    That is: events, a wrong clock, hours that are final, windows from before a GPU's first, a hole
    of ten minutes, a GPU without a last window.
    """
    sender = offered.sender
    starts = batch.windows["start_ms"]
    start_ms = min(starts)
    last_ms = max(starts)
    end_ms = last_ms + batch.window_s * 1000
    oldest_ms, newest_ms = _with_host(batch, start_ms, end_ms)
    if (
        batch.events
        or is_out_of_time(newest_ms, oldest_ms, received.ms)
        or oldest_ms < received.final_ms
        or start_ms < sender.since_ms
        or _has_holes(sender, batch, (start_ms, last_ms))
    ):
        return None
    continued = Continued(
        node_id=sender.node_id,
        digest=sender.digest,
        boot_id=batch.boot_id,
        boot_start_ms=batch.boot_start_ms,
        sequence=batch.sequence,
        start_ms=start_ms,
        end_ms=end_ms,
        newest_ms=newest_ms,
        hours_ms=_hours_ms(batch, oldest_ms, newest_ms),
        received_at=received.at,
        agent=msgspec.json.encode(batch.agent).decode(),
        payload=offered.packed,
    )
    return Arrived(offered, batch, continued, received)


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
        silent = _store(group)
    except UnsteadyError as error:
        return _stored_without(group, error.node_ids)
    except TooMuchNewError as error:
        return _stored_without(group, {error.node_id})  # the long way says so
    except (Error, WireError):
        return set()  # the long way says what is wrong
    for arrival in group:
        arrival.sender.memory.silent_since = arrival.order if arrival.node_id in silent else None
    return {arrival.node_id for arrival in group}


def _stored_without(group: list[Arrived], node_ids: set[int]) -> set[int]:
    rest = [arrival for arrival in group if arrival.node_id not in node_ids]
    return _stored(rest) if rest else set()


@transaction.atomic
def _store(group: Sequence[Arrived]) -> set[int]:
    """The node ids of the batches after which no process is stored of their GPUs."""
    continued = [arrival.continued for arrival in group]
    lived = inventory.extend(continued, lock_ms=LOCK_MS, statement_ms=STATEMENT_MS)
    silent = {
        arrival.node_id for arrival in group if _stays_silent(arrival, lived[arrival.node_id])
    }
    held, now_silent = _store_reports([each for each in group if each.node_id not in silent])
    touched = {each.node_id: _touched(each, lived[each.node_id], held) for each in group}
    new = telemetry.append_new(continued, touched)
    if unsteady := lived.keys() - new:
        raise UnsteadyError(unsteady)
    if due := [arrival.sender.token_id for arrival in group if arrival.offered.is_use_due]:
        tokens.note_use(due, group[0].received.at)
    return silent | now_silent


def _stays_silent(arrival: Arrived, lived: Lived) -> bool:
    """Whether the batch says nothing of jobs but that there is no process, as was known since the
    node's batch before.
    """
    batch = arrival.batch
    return lived.former == arrival.sender.memory.silent_since and not (
        batch.jobs or batch.sources or batch.allocations or batch.processes
    )


def _store_reports(group: Sequence[Arrived]) -> tuple[Mapping[int, set[Span]], set[int]]:
    """What the batches say of jobs: by GPU id the time in which somebody else holds it now, and the
    ids of the nodes where no process is, nor was.
    """
    reports = [_report(arrival) for arrival in group if _speaks_of_jobs(arrival.batch)]
    if not reports:
        return {}, set()
    received_at = group[0].received.at
    stored, held, silent = store_reports(reports, received_at=received_at)
    own = {gpu_id for arrival in group for gpu_id in arrival.sender.gpu_ids}
    touch_others(stored, held, own, received_at=received_at)
    spans: dict[int, set[Span]] = defaultdict(set)
    for gpu_id, span in held:
        spans[gpu_id].add(span)
    return spans, silent


def _report(arrival: Arrived) -> Report:
    sender = arrival.sender
    return Report(sender.node_id, arrival.batch, sender.gpu_ids, 0, sender.speaks_for)


def _speaks_of_jobs(batch: Batch) -> bool:
    return bool(
        batch.jobs
        or batch.sources
        or batch.allocations
        or batch.processes
        or "process_count" in batch.windows
    )


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
