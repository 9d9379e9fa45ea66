"""One batch, from the door to the tables: all of it in one transaction, or nothing."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.db import transaction

from agent import packed
from agent.wire import Batch, WireError
from fleetwatch.accounts.audit import record
from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.tokens import NO_RIGHTS
from fleetwatch.inventory import intake, silence
from fleetwatch.inventory import services as inventory
from fleetwatch.inventory.extents import newest_ms, oldest_ms
from fleetwatch.inventory.intake import Brought
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.services import Refused, Registered
from fleetwatch.jobs import repeats
from fleetwatch.jobs import services as jobs
from fleetwatch.jobs.batch_report import JobKey, Report, StoredJob
from fleetwatch.jobs.job_writes import FUTURE_MS, store_jobs
from fleetwatch.jobs.repeats import Speaker
from fleetwatch.jobs.selectors import clusters_of, held_by_node
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.spans import Span, clip
from fleetwatch.lib.sql import limit_waits
from fleetwatch.telemetry import retention
from fleetwatch.telemetry import services as telemetry
from fleetwatch.telemetry.services import ClockBounds

# A node's row is held while its batch is stored. Who waits for it holds a thread and a connection:
# better that it comes again.
LOCK_MS = 1_000
STATEMENT_MS = 10_000
MAX_REASON = 300
# 2015-01-01: a clock before it was never set, and capacity would begin there
EARLIEST_MS = 1_420_070_400_000

log = structlog.get_logger(__name__)


class WrongNodeError(Exception):
    """The batch speaks for another node than its token does."""


class ImportRefusedError(Exception):
    """The batch is an import of accounting, and its token has no right to send one."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How many windows count, and whether the batch was one that we had (1) or not (0).

    `refused`: UUID -> why windows of that GPU do not count (yet): another node reports it.
    """

    stored: int
    duplicate: int
    refused: Mapping[str, str] = field(default_factory=dict)


@transaction.atomic
def store_promptly(
    node: Node,
    batch: Batch,
    *,
    payload: bytes | None,
    clock: ClockBounds | None,
    received_at: datetime,
    rights: Rights,
) -> Stored:
    """As store_batch; raises OperationalError where it had to wait longer than a second for others,
    or a statement takes ten.
    """
    limit_waits(lock_ms=LOCK_MS, statement_ms=STATEMENT_MS)
    return store_batch(
        node, batch, payload=payload, clock=clock, received_at=received_at, rights=rights
    )


@transaction.atomic(savepoint=False)
def store_batch(
    node: Node,
    batch: Batch,
    *,
    payload: bytes | None = None,
    clock: ClockBounds | None = None,
    received_at: datetime,
    rights: Rights = NO_RIGHTS,
) -> Stored:
    """What was stored of the batch; `payload` is it in packed form (None: it is packed here),
    `clock` how much the agent's is off (None = not sent).

    A batch that was stored before, under the same (node, boot_id, sequence), changes nothing.
    Raises WireError, packed.TooManyError among them, TooMuchNewError. The caller has asked
    check_node, and of an import check_import.
    """
    node = inventory.lock_node(node.pk, batch, received_at=received_at)
    offset_ms = telemetry.clock_offset(node.pk, batch.boot_id, clock)
    if not telemetry.record_sequence(node, batch, offset_ms=offset_ms):
        return Stored(0, 1)
    payload = payload or packed.pack(batch)
    intake.count({node.pk: _brought(batch, payload)}, received_at)
    refused: Mapping[int, Refused] = {}
    quarantined = is_quarantined(node, batch, offset_ms=offset_ms, received_at=received_at)
    if not quarantined:
        refused = _store_facts(node, batch, rights, offset_ms=offset_ms, received_at=received_at)
    telemetry.append_batch(
        node, batch, payload, offset_ms=offset_ms, received_at=received_at, quarantined=quarantined
    )
    return _stored(batch, refused, offset_ms=offset_ms)


def _brought(batch: Batch, payload: bytes) -> Brought:
    return Brought(events=len(batch.events), batch_bytes=len(payload))


def _stored(batch: Batch, refused: Mapping[int, Refused], *, offset_ms: int) -> Stored:
    counted = len(batch.windows["gpu"]) - _refused_windows(batch, refused, offset_ms=offset_ms)
    why = {batch.gpus[place]["uuid"]: each.why for place, each in refused.items()}
    return Stored(counted, 0, why)


def _refused_windows(batch: Batch, refused: Mapping[int, Refused], *, offset_ms: int) -> int:
    """How many windows lie, in whole or in part, in time that does not count of their GPU."""
    length_ms = batch.window_s * 1000
    count = 0
    for place, start_ms in zip(batch.windows["gpu"], batch.windows["start_ms"], strict=True):
        if place in refused:
            start = start_ms + offset_ms
            count += any(
                low < start + length_ms and start < high for low, high in refused[place].spans
            )
    return count


def check_node(batch: Batch, node: Node) -> None:
    """Raises WrongNodeError for a batch that speaks for another node than its token."""
    if batch.node != node.name:
        raise WrongNodeError(f"this token speaks for {node.name}, not for {batch.node}")


def check_import(batch: Batch, rights: Rights, received_at: datetime) -> None:
    """Raises ImportRefusedError for an import without the right to it, WireError for one that knows
    what is to come.
    """
    if not batch.jobs or newest_ms(batch, offset_ms=0) is not None:
        return
    if not rights.may_import:
        raise ImportRefusedError(
            "this token may not import accounting: an admin lets it in Settings, Agents, "
            f"or makes one that may: manage.py create_agent_token --import {batch.node}"
        )
    latest_ms = to_ms(received_at) + FUTURE_MS
    for place, job in enumerate(batch.jobs):
        if (job.get("end_ms") or 0) > latest_ms:
            raise WireError(
                f"jobs[{place}].end_ms",
                f"jobs[{place}].end_ms is more than five minutes ahead of the hub's clock",
            )


def is_quarantined(node: Node, batch: Batch, *, offset_ms: int, received_at: datetime) -> bool:
    """Whether the batch's clock can't be right: it is kept, but nothing is concluded from it."""
    newest = newest_ms(batch, offset_ms=offset_ms)
    oldest = oldest_ms(batch, offset_ms=offset_ms)
    if newest is None or oldest is None:
        return False
    is_wrong = is_out_of_time(newest, oldest, to_ms(received_at))
    if is_wrong:
        log.warning("batch quarantined", node=node.name, sequence=batch.sequence, newest_ms=newest)
    return is_wrong


def is_out_of_time(newest_ms: int, oldest_ms: int, received_ms: int) -> bool:
    """Whether no right clock can have said both."""
    return newest_ms > received_ms + FUTURE_MS or oldest_ms < EARLIEST_MS


def _store_facts(
    node: Node, batch: Batch, rights: Rights, *, offset_ms: int, received_at: datetime
) -> dict[int, Refused]:
    """Writes what the batch says beside its windows, and marks the hours in which something
    changed; the GPUs that are refused.
    """
    order = node.facts_order
    since_ms = to_ms(retention.horizon(received_at))
    registered = inventory.register_batch(
        node, batch, offset_ms=offset_ms, received_at=received_at, since_ms=since_ms
    )
    gpus = registered.gpus
    gpu_ids = [gpu.pk for _, gpu in sorted(gpus.items())]
    report = Report(node.pk, batch, gpu_ids, offset_ms, rights.speaks_for, order)
    stored, held = store_reports([report], received_at=received_at)
    jobs.store_processes([report], stored)
    telemetry.store_events(node, batch, gpus, offset_ms=offset_ms)
    own = _own_spans(node, report, registered, held)
    _touch({**registered.changed, node.pk: own}, received_at=received_at)
    touch_others(stored, held, gpu_ids, received_at=received_at)
    return registered.refused


def _own_spans(
    node: Node, report: Report, registered: Registered, held: Iterable[tuple[int, Span]]
) -> list[Span]:
    """The time of the node in which the batch changes something."""
    return [
        *_spans_of(node, report.batch, report.offset_ms),
        *registered.changed.get(node.pk, []),
        *_held_spans(node, registered.gpus.values(), held),
    ]


def _touch(changed: Mapping[int, Sequence[Span]], *, received_at: datetime) -> None:
    """Marks the hours of nodes that the spans touch, to be judged again."""
    for node_id, spans in sorted(changed.items()):
        telemetry.touch_hours(node_id, spans, received_at=received_at)


def store_reports(
    reports: Sequence[Report], *, received_at: datetime
) -> tuple[Mapping[JobKey, StoredJob], set[tuple[int, Span]]]:
    """The batches' jobs, and the (GPU id, time) that is held otherwise than before."""
    speakers = [Speaker(report.node_id, report.former_order) for report in reports]
    keys = {job["key"] for report in reports for job in report.batch.jobs}
    repeats.settle(speakers, keys, now_ms=to_ms(received_at))
    stored = store_jobs(reports, received_at=received_at)
    held = jobs.assert_allocations(reports, stored.jobs) | stored.moved
    jobs.assert_sources(reports)
    return stored.jobs, held


def _spans_of(node: Node, batch: Batch, offset_ms: int) -> list[Span]:
    """The time of the batch, in which windows changed and the job sources spoke; and from each
    event on, for a lost GPU stays lost until something else is said, which may be never.
    """
    spans: list[Span] = []
    if batch.start_ms is not None and batch.end_ms is not None:
        spans.append((batch.start_ms + offset_ms, batch.end_ms + offset_ms))
    if batch.events and node.live_ms is not None:
        first_ms = min(event["at_ms"] for event in batch.events) + offset_ms
        spans.append((first_ms, max(node.live_ms, first_ms + 1)))
    return spans


def _held_spans(node: Node, gpus: Iterable[GPU], held: Iterable[tuple[int, Span]]) -> list[Span]:
    """The time of other holders in which the GPU was capacity: a job that began last year touches
    no hour before the first window.
    """
    first = {gpu.pk: gpu.first_ms for gpu in gpus if gpu.first_ms is not None}
    live_ms = node.live_ms or 0
    return [
        part
        for gpu_id, span in held
        if gpu_id in first
        for part in clip([span], first[gpu_id], live_ms)
    ]


def touch_others(
    stored: Mapping[JobKey, StoredJob],
    held: Iterable[tuple[int, Span]],
    gpu_ids: Collection[int],
    *,
    received_at: datetime,
) -> None:
    """Marks the time of holders on GPUs that the batches do not name, for accounting and the books
    of a cluster end jobs everywhere; and all that jobs held whose kind changed, for what counts as
    idle depends on it.
    """
    if elsewhere := [(gpu_id, span) for gpu_id, span in held if gpu_id not in gpu_ids]:
        by_node: dict[Node, list[GPU]] = defaultdict(list)
        gpus = GPU.objects.filter(pk__in={gpu_id for gpu_id, _ in elsewhere})
        for gpu in gpus.select_related("node"):
            by_node[gpu.node].append(gpu)
        spans = {
            node.pk: _held_spans(node, of_node, elsewhere) for node, of_node in by_node.items()
        }
        _touch(spans, received_at=received_at)
    if changed := [job.pk for job in stored.values() if job.has_new_kind]:
        _touch(held_by_node(changed), received_at=received_at)


@transaction.atomic
def retire_silent_gpus(now: datetime) -> dict[str, int]:
    """How many GPUs were retired after 7 silent days; the hours in which capacity ended are
    marked.
    """
    retired = inventory.retire_silent(now)
    for node_id, span in retired:
        telemetry.touch_hours(node_id, [span], received_at=now)
    return {"retired": len(retired)}


@transaction.atomic
def believe_silent_moves(now: datetime) -> dict[str, int]:
    """How many nodes' capacity changed because GPUs are believed to have moved; what another node
    sent of them meanwhile counts.
    """
    changed = inventory.believe_silent(now)
    _touch(changed, received_at=now)
    return {"nodes": len(changed)}


@transaction.atomic
def bill_silent_nodes(now: datetime) -> dict[str, int]:
    """How many silent nodes are gone since now, and of how many others GPUs are capacity for
    longer; the hours of both are marked.
    """
    gone = _end_elastic(now)
    gone |= silence.retire_departed(now)
    billed = silence.bill(now)
    _touch({node_id: [span] for node_id, span in (gone | billed).items()}, received_at=now)
    return {"gone": len(gone), "nodes": len(billed)}


def _end_elastic(now: datetime) -> dict[int, Span]:
    """Node id -> time by which its GPUs are capacity no longer, of the elastic nodes that
    are gone.
    """
    rules = silence.elastic_rules()
    if not rules:
        return {}
    now_ms = to_ms(now)
    silent = list(silence.may_be_gone(now_ms))
    has_clusters = any(rule.kind == "cluster" for rule in rules)
    clusters = clusters_of(node.pk for node in silent) if has_clusters else {}
    gone: dict[int, Span] = {}
    for node in silent:
        rule = silence.rule_of(node, clusters.get(node.pk, ()), rules)
        if rule is None:
            continue
        with suppress(silence.PresentError):  # it reported meanwhile
            gone[node.pk] = _end_by(rule, node, now_ms)
    return gone


def _end_by(rule: object, node: Node, now_ms: int) -> Span:
    by = f"elastic by {rule}"[:200]
    reason = silence.why_gone(node, now_ms)
    return silence.depart(node.pk, by=by, reason=reason, at_ms=now_ms, silent_ms=node.last_ms or 0)


class RemovalError(ValueError):
    """A node that can't be removed; the text is a sentence for who wanted to."""


@transaction.atomic
def remove_node(name: str, *, reason: str, by: str, now: datetime) -> None:
    """The silent node is gone as of its last window, an admin says so; it comes back by reporting
    again.

    Raises RemovalError where it can't be.
    """
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise RemovalError(f"There is no node {name[:253]!r}.")
    if not reason or len(reason) > MAX_REASON or not reason.isprintable():
        raise RemovalError(
            f"Why it is removed is kept: one line of 1 to {MAX_REASON} characters, please."
        )
    now_ms = to_ms(now)
    try:
        span = silence.depart(
            node.pk,
            by=by[:200],
            reason=reason,
            at_ms=now_ms,
            silent_ms=now_ms - silence.SILENT_AFTER_MS,
        )
    except silence.PresentError as error:
        raise RemovalError(str(error)) from error
    _touch({node.pk: [span]}, received_at=now)
    record("agent.remove_node", node.name, reason=reason)


class MoveError(ValueError):
    """A GPU that can't be said to be with a node; the text is a sentence for who said it."""


@transaction.atomic
def move_gpu(uuid: str, node_name: str, *, now: datetime) -> None:
    """The windows of the GPU that the node sent and that another node's report kept from counting
    do count: an admin says that it moved.

    Raises MoveError where there are none.
    """
    gpu = (
        GPU.objects.select_related("node")
        .filter(uuid=uuid, node__name=node_name, stays__is_believed=False)
        .first()
    )
    if gpu is None:
        raise MoveError(
            f"No windows of {uuid[:96]!r} from the node {node_name[:253]!r} wait to be believed."
        )
    changed = inventory.believe(gpu)
    _touch(changed, received_at=now)
    record("agent.move_gpu", uuid, node=node_name)
