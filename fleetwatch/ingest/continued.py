"""Batches that continue what is known of their nodes, stored together: one transaction, a handful of statements.

The same rows as services.store_batch writes one by one. Whatever is not plain
continuation (UnsteadyError) leaves the group, and the others are stored without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from django.db import Error, transaction

from agent.wire import Batch
from fleetwatch.ingest import tokens
from fleetwatch.ingest.services import is_quarantined, store_reports, touch_jobs_of_new_kind
from fleetwatch.ingest.steady import Facts
from fleetwatch.inventory import steady as inventory
from fleetwatch.inventory.extents import newest_ms, oldest_ms, windows_by_gpu
from fleetwatch.inventory.steady import Continued, Extent, Lived, UnsteadyError
from fleetwatch.jobs import services as jobs
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.spans import Span, clip, difference
from fleetwatch.telemetry import retention
from fleetwatch.telemetry import services as telemetry
from fleetwatch.telemetry.services import Appended


@dataclass(frozen=True, slots=True)
class Known:
    """A token that was let in, its node, and what the node's newest batch said."""

    token_id: int
    node_id: int
    facts: Facts
    digest: bytes
    gpu_ids: tuple[int, ...]  # by position in the batches
    parent_ids: tuple[int | None, ...]  # of MIG instances


@dataclass(frozen=True, slots=True)
class Arrived:
    """One batch at the door, read and valid, with its gzip."""

    known: Known
    batch: Batch
    packed: bytes
    received_at: datetime
    start_ms: int
    end_ms: int
    newest_ms: int
    is_use_due: bool  # of the token: to be noted

    @property
    def node_id(self) -> int:
        return self.known.node_id


def arrived(known: Known, batch: Batch, packed: bytes, *, received_at: datetime, is_use_due: bool) -> Arrived | None:
    """The batch as a group takes it; None when it does more than continue: events, a wrong clock, hours that are final."""
    start_ms, end_ms = batch.start_ms, batch.end_ms
    newest, oldest = newest_ms(batch, offset_ms=0), oldest_ms(batch, offset_ms=0)
    if start_ms is None or end_ms is None or newest is None or oldest is None or batch.events:
        return None
    if is_quarantined(batch, offset_ms=0, received_at=received_at) or oldest < to_ms(retention.horizon(received_at)):
        return None
    return Arrived(known, batch, packed, received_at, start_ms, end_ms, newest, is_use_due)


def store_together(group: Sequence[Arrived]) -> list[bool]:
    """For each batch whether it is stored; what is not has left nothing behind and goes the long way."""
    wanted = {one.node_id: one for one in reversed(group)}  # of a node the first: the next one continues that one
    stored = _stored(list(wanted.values()))
    return [one.node_id in stored and wanted[one.node_id] is one for one in group]


def _stored(group: list[Arrived]) -> set[int]:
    """The node ids of the batches that are stored."""
    try:
        _store(group)
    except UnsteadyError as error:
        rest = [one for one in group if one.node_id not in error.node_ids]
        return _stored(rest) if rest else set()
    except Error:
        return set()  # the long way says what is wrong
    return {one.node_id for one in group}


@transaction.atomic
def _store(group: Sequence[Arrived]) -> None:
    lived = inventory.extend([_continued(one) for one in group])
    touched = {one.node_id: _touched(one, lived[one.node_id].span) for one in group}
    _require(telemetry.append_new([_appended(one) for one in group], touched), group)
    _store_reports(group, lived, touched)
    if due := [one.known.token_id for one in group if one.is_use_due]:
        tokens.note_use(due, group[0].received_at)


def _store_reports(group: Sequence[Arrived], lived: Mapping[int, Lived], touched: Mapping[int, Span]) -> None:
    """What the batches say of jobs; hours that newly asserted time touches are marked where the batch itself did not."""
    reports = [jobs.Report(one.node_id, one.batch, one.known.gpu_ids, 0) for one in group if _speaks_of_jobs(one.batch)]
    if not reports:
        return
    stored, held = store_reports(reports)
    nodes = {gpu_id: report.node_id for report in reports for gpu_id in report.gpu_ids}
    for node_id in {nodes[gpu_id] for gpu_id, _ in held}:
        spans = [span for gpu_id, span in held if nodes[gpu_id] == node_id]
        capacity = clip(spans, lived[node_id].first_ms, lived[node_id].span[1])
        telemetry.touch_hours(node_id, difference(capacity, [touched[node_id]]), received_at=group[0].received_at)
    touch_jobs_of_new_kind(stored.values(), received_at=group[0].received_at)


def _speaks_of_jobs(batch: Batch) -> bool:
    return bool(batch.jobs or batch.sources or batch.allocations or batch.processes or "process_count" in batch.windows)


def _require(done: set[int], group: Sequence[Arrived]) -> None:
    if unsteady := {one.node_id for one in group} - done:
        raise UnsteadyError(unsteady)


def _continued(one: Arrived) -> Continued:
    return Continued(
        node_id=one.node_id,
        digest=one.known.digest,
        boot_start_ms=one.batch.boot_start_ms,
        sequence=one.batch.sequence,
        newest_ms=one.newest_ms,
        received_at=one.received_at,
        agent=msgspec.json.encode(one.batch.agent).decode(),
        extents=_extents(one),
    )


def _extents(one: Arrived) -> Mapping[int, Extent]:
    """Every GPU that the batch names and its windows; a MIG parent lives as long as any of its instances."""
    known = one.known
    extents: dict[int, Extent] = dict.fromkeys(known.gpu_ids, (None, None))
    for position, (first_ms, last_ms) in windows_by_gpu(one.batch, offset_ms=0).items():
        for gpu_id in (known.gpu_ids[position], known.parent_ids[position]):
            if gpu_id is not None:
                first, last = extents[gpu_id]
                extents[gpu_id] = (min(first or first_ms, first_ms), max(last or last_ms, last_ms))
    return extents


def _touched(one: Arrived, lived: Span) -> Span:
    """The batch's windows, and the time by which the node's life became longer: all its GPUs were capacity in it."""
    start_ms, end_ms = one.start_ms, one.end_ms
    was_ms, is_ms = lived
    if was_ms >= is_ms:
        return (start_ms, end_ms)
    return (max(min(start_ms, was_ms), to_ms(retention.horizon(one.received_at))), max(end_ms, is_ms))


def _appended(one: Arrived) -> Appended:
    batch = one.batch
    return Appended(
        node_id=one.node_id,
        boot_id=batch.boot_id,
        boot_start_ms=batch.boot_start_ms,
        sequence=batch.sequence,
        received_at=one.received_at,
        start_ms=one.start_ms,
        end_ms=one.end_ms,
        payload=one.packed,
        hours_ms=[hour * HOUR_MS for hour in sorted({start // HOUR_MS for start in _starts(batch)})],
    )


def _starts(batch: Batch) -> set[int]:
    return {*batch.windows["start_ms"], *batch.host.get("start_ms", ())}
