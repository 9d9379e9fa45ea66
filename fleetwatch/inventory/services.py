"""Writes of inventory: what batches say of nodes and GPUs, and the retirement of GPUs that fell
silent.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import transaction

from agent.wire import Batch
from fleetwatch.inventory import gpu_rows, intake, moves
from fleetwatch.inventory.extents import changed as changed_time
from fleetwatch.inventory.extents import newest_ms, windows_by_gpu
from fleetwatch.inventory.intake import Brought
from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.inventory.moves import Life
from fleetwatch.inventory.silence import RETIRED_AFTER_MS
from fleetwatch.inventory.stays import Reported
from fleetwatch.inventory.steady import forget, settle, settled
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.spans import Span, difference, union
from fleetwatch.lib.sql import execute, wait_for_lock

NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?")

WRITE_GPUS = """
UPDATE inventory_gpu AS gpu
SET first_ms = given.first_ms,
    last_ms = given.last_ms,
    retired_ms = given.retired_ms,
    facts_order = given.facts_order
FROM (
    SELECT
        unnest(%(ids)s::bigint[]) AS id,
        unnest(%(first)s::bigint[]) AS first_ms,
        unnest(%(last)s::bigint[]) AS last_ms,
        unnest(%(retired)s::bigint[]) AS retired_ms,
        unnest(%(orders)s::text[])::jsonb AS facts_order
) AS given
WHERE gpu.id = given.id
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why windows of a GPU do not count (yet), and the time that they cover."""

    why: str
    spans: list[Span]


@dataclass(frozen=True, slots=True)
class Registered:
    """The node's rows of the batch's GPUs, by position in batch.gpus, and what became of their
    windows.

    `changed`: node id -> the time in which its capacity changed. `refused`: by position, of those
    with windows that do not count.
    """

    gpus: dict[int, GPU]
    changed: dict[int, list[Span]]
    refused: dict[int, Refused]


def node_by_name(name: str) -> Node:
    """The node of that name; made when it is new.

    Raises RefusedFieldError for a name that could not stand in an address or a host name, and for a
    new one that differs from a node's only in case: host names have none, and one machine would be
    two.
    """
    if not NODE_NAME.fullmatch(name):
        raise RefusedFieldError(
            "a node's name has 1 to 253 letters, digits and . _ : - and begins and ends with a"
            " letter or digit"
        )
    return Node.objects.filter(name=name).first() or _new_node(name)


@transaction.atomic
def _new_node(name: str) -> Node:
    wait_for_lock(f"inventory.node {name.lower()}")
    same = Node.objects.filter(name__iexact=name).order_by("pk").first()
    if same is not None and same.name != name:
        raise RefusedFieldError(
            f"there is a node {same.name}: names that differ only in case are one host's, use"
            " that one"
        )
    return same or Node.objects.create(name=name)


def lock_node(
    node_id: int, batch: Batch | None = None, *, received_at: datetime | None = None
) -> Node:
    """The node, locked until the transaction ends: batches of one node are stored one after the
    other.

    With it the nodes that GPUs of the batch may be believed to have left, all in order of id: GPUs
    that change places at once wait for each other and do not deadlock. NO KEY UPDATE: whoever only
    refers to a node (a foreign key of the ledger's entries) does not wait.
    """
    left = (
        _nodes_left(node_id, batch, to_ms(received_at))
        if batch is not None and received_at is not None
        else set()
    )
    locked = {
        node.pk: node
        for node in (
            Node.objects.select_for_update(no_key=True)
            .filter(pk__in={node_id, *left})
            .order_by("pk")
        )
    }
    settle(left)
    return locked[node_id]


def _nodes_left(node_id: int, batch: Batch, received_ms: int) -> set[int]:
    """The other nodes that reported GPUs of the batch and are silent about them."""
    elsewhere = GPU.objects.filter(
        uuid__in=gpu_rows.uuids_of(batch), first_ms__isnull=False, retired_ms=None
    ).exclude(node_id=node_id)
    return {
        gpu.node_id for gpu in elsewhere.select_related("node") if moves.may_leave(gpu, received_ms)
    }


def register_batch(
    node: Node, batch: Batch, *, offset_ms: int, received_at: datetime, since_ms: int = 0
) -> Registered:
    """The batch's GPUs, and the time in which capacity changed through it.

    Facts come from the newest batch by (boot_start_ms, sequence), times from the windows, so the
    order of batches does not matter. Windows before `since_ms` are no capacity: their hours are
    final. Needs lock_node. Raises what intake.count raises.
    """
    order = [batch.boot_start_ms, batch.sequence]
    settle({node.pk})
    node.windows_ms = None
    gpus, new_gpus = gpu_rows.of_batch(node, batch)
    family = gpu_rows.with_parents(gpus.values())
    windows = _windows_of(gpus, windows_by_gpu(batch, offset_ms=offset_ms, since_ms=since_ms))
    hold_new([gpu for gpu in family.values() if gpu.pk in windows and gpu.first_ms is None])
    lives = moves.lives({gpu.uuid for gpu in family.values()}, family.values())
    node_was_ms = node.last_ms
    capacity_before = _capacities(lives.values())
    made = gpu_rows.take_facts(batch, gpus, order=order)
    if made or new_gpus:
        intake.count({node.pk: Brought(gpu_models=made, gpus=new_gpus)}, received_at)
    refused = _place(
        family,
        lives,
        windows,
        order=order,
        named={gpu.pk for gpu in gpus.values()},
        received_ms=to_ms(received_at),
    )
    _update_node(node, batch, order=order, offset_ms=offset_ms, received_at=received_at)
    changes = _changes(capacity_before, _capacities(lives.values()))
    if node_was_ms is not None and node.last_ms is not None:
        # the node's GPUs that this batch does not name live as long as the node
        changes[node.pk] = union([*changes.get(node.pk, []), (node_was_ms, node.last_ms)])
    refused_gpus = {place: refused[gpu.pk] for place, gpu in gpus.items() if gpu.pk in refused}
    return Registered(gpus, changes, refused_gpus)


def hold_new(gpus: Iterable[GPU]) -> None:
    """Until the transaction ends nobody else registers first windows of these GPUs: of two nodes at
    once one is the first.
    """
    for uuid in sorted(gpu.uuid for gpu in gpus):
        wait_for_lock(f"inventory.gpu {uuid}")


def _windows_of(gpus: dict[int, GPU], seen: dict[int, list[Span]]) -> dict[int, list[Span]]:
    """Row id -> the time of the batch's windows; a MIG parent is seen where any of its instances
    is.
    """
    windows: dict[int, list[Span]] = defaultdict(list)
    for position, spans in seen.items():
        gpu = gpus[position]
        for row_id in {gpu.pk, gpu.parent_id or gpu.pk}:
            windows[row_id] += spans
    return {row_id: union(spans) for row_id, spans in windows.items()}


def _place(
    family: dict[int, GPU],
    lives: dict[str, Life],
    windows: dict[int, list[Span]],
    *,
    order: list[int],
    named: set[int],
    received_ms: int,
) -> dict[int, Refused]:
    """Writes stays and rows of the GPUs; by row id what of their windows does not count."""
    before = {row_id: lives[family[row_id].uuid].reported_by(row_id) for row_id in windows}
    refused: dict[int, Refused] = {}
    after: dict[int, Reported] = {}
    for row_id, spans in windows.items():
        gpu = family[row_id]
        life = lives[gpu.uuid]
        after[row_id] = moves.place(life, gpu, spans, received_ms=received_ms)
        if rest := difference(spans, after[row_id].own):
            refused[row_id] = Refused(moves.why_refused(life, gpu), rest)
    _refuse_parts(refused, family, windows)
    moves.write_stays(before, after, family)
    rows = {
        gpu.pk: gpu for row_id in windows for gpu in moves.settle_rows(lives[family[row_id].uuid])
    }
    _order_facts(rows, [family[row_id] for row_id in named], order)
    forget({gpu.node_id for gpu in rows.values()} - {gpu.node_id for gpu in family.values()})
    _write_rows(rows.values())
    return refused


def _capacities(lives: Iterable[Life]) -> dict[tuple[int, int], list[Span]]:
    """(node id, row id) -> when the GPU was capacity of the node."""
    return {
        (life.rows[row_id].node_id, row_id): spans
        for life in lives
        for row_id, spans in life.capacities().items()
    }


def _changes(
    before: dict[tuple[int, int], list[Span]], after: dict[tuple[int, int], list[Span]]
) -> dict[int, list[Span]]:
    """Node id -> the time in which some GPU's capacity is not what it was."""
    changes: dict[int, list[Span]] = defaultdict(list)
    for key, spans in after.items():
        changes[key[0]] += changed_time(before[key], spans)
    return {node_id: union(spans) for node_id, spans in changes.items() if spans}


def _write_rows(gpus: Collection[GPU]) -> None:
    if not gpus:
        return
    execute(
        WRITE_GPUS,
        {
            "ids": [gpu.pk for gpu in gpus],
            "first": [gpu.first_ms for gpu in gpus],
            "last": [gpu.last_ms for gpu in gpus],
            "retired": [gpu.retired_ms for gpu in gpus],
            "orders": [json.dumps(gpu.facts_order) for gpu in gpus],
        },
    )


@transaction.atomic
def believe_silent(now: datetime) -> dict[int, list[Span]]:
    """Node id -> the time in which capacity changed, of all disputed windows that can be believed
    by now.
    """
    disputed = (
        Stay.objects.filter(is_believed=False)
        .order_by("uuid")
        .values_list("uuid", "gpu_id")
        .distinct()
    )
    changes: dict[int, list[Span]] = defaultdict(list)
    for uuid, row_id in disputed:
        for node_id, spans in _believe(uuid, row_id, received_ms=to_ms(now)).items():
            changes[node_id] += spans
    return {node_id: union(spans) for node_id, spans in changes.items()}


@transaction.atomic
def believe(gpu: GPU) -> dict[int, list[Span]]:
    """Node id -> the time in which capacity changed, now that the GPU is believed to be with the
    row's node: an admin said so.
    """
    return _believe(gpu.uuid, gpu.pk, received_ms=None)


def _refuse_parts(
    refused: dict[int, Refused], family: Mapping[int, GPU], row_ids: Iterable[int]
) -> None:
    """Adds to the refused rows those whose whole GPU is refused."""
    for row_id in row_ids:
        parent_id = family[row_id].parent_id
        if parent_id in refused:
            whole = refused[parent_id]
            part = Refused(f"it is a part of {family[parent_id].uuid}: {whole.why}", whole.spans)
            refused.setdefault(row_id, part)


def _order_facts(rows: dict[int, GPU], named: Iterable[GPU], order: list[int]) -> None:
    """Adds to the rows to write those whose facts this batch is the newest to say."""
    for gpu in named:
        if gpu.facts_order < order:
            gpu.facts_order = order
            rows[gpu.pk] = gpu


def _believe(uuid: str, row_id: int, *, received_ms: int | None) -> dict[int, list[Span]]:
    """Takes over the disputed windows of the row; with `received_ms` only where the former node may
    have been left by then.
    """
    if not _may_take_over(moves.lives([uuid])[uuid], received_ms):
        return {}
    forget(GPU.objects.filter(uuid=uuid).values_list("node_id", flat=True))
    life = moves.lives([uuid])[uuid]  # once more: now the nodes are locked
    capacity_before = _capacities([life])
    before = life.reported()
    take = moves.give if received_ms is None else moves.take_over
    if not (_may_take_over(life, received_ms) and take(life, life.rows[row_id])):
        return {}
    moves.write_stays(before, life.reported(), life.rows)
    _write_rows(moves.settle_rows(life))
    return _changes(capacity_before, _capacities([life]))


def _may_take_over(life: Life, received_ms: int | None) -> bool:
    holder = life.holder()
    return received_ms is None or holder is None or moves.may_leave(holder, received_ms)


def _update_node(
    node: Node, batch: Batch, *, order: list[int], offset_ms: int, received_at: datetime
) -> None:
    was_live = node.is_live
    newest = newest_ms(batch, offset_ms=offset_ms)
    if newest is not None:
        node.last_ms = max(newest, node.last_ms or newest)
    node.last_received_at = max(received_at, node.last_received_at or received_at)
    if was_live and not node.is_live:
        node.silent_ms = node.last_ms
    if order >= node.facts_order:
        node.facts_order = order
        node.labels = batch.node_labels
        node.window_s = batch.window_s
        node.agent = batch.agent
        node.clock_offset_ms = offset_ms
    node.facts_digest = None
    node.save(
        update_fields=[
            "last_ms",
            "last_received_at",
            "silent_ms",
            "facts_order",
            "facts_digest",
            "labels",
            "window_s",
            "agent",
            "clock_offset_ms",
        ]
    )


def retire_silent(now: datetime) -> list[tuple[int, Span]]:
    """(node id, time in which capacity ended) of every GPU that this call retired.

    Silent: its node was on the bill for 7 days after the GPU's last window, be it that it reported
    on, or is silent as a whole (silence.py). An import of old logs is judged like live data. A GPU
    that returns is capacity again. Needs a transaction.
    """
    cutoff = to_ms(now)
    before_ms = cutoff - RETIRED_AFTER_MS
    # while batches only continued, a node that is silent as a whole spoke for its GPUs: now they
    # speak for themselves
    nodes = Node.objects.filter(windows_ms__isnull=False, last_ms__lte=before_ms)
    forget(nodes.values_list("pk", flat=True))
    quiet = settled(GPU.objects.filter(retired_ms__isnull=True, last_ms__lte=before_ms))
    silent = [
        gpu
        for gpu in quiet.select_related("node").order_by("node_id", "id")
        if min(gpu.node.live_ms or 0, cutoff) - (gpu.last_ms or 0) >= RETIRED_AFTER_MS
    ]
    forget({gpu.node_id for gpu in silent})
    retired = []
    for gpu in silent:
        # the conditions again in the UPDATE: a batch may have arrived since
        if GPU.objects.filter(pk=gpu.pk, last_ms=gpu.last_ms, retired_ms__isnull=True).update(
            retired_ms=gpu.last_ms
        ):
            retired.append((gpu.node_id, (gpu.last_ms or 0, gpu.node.live_ms or 0)))
            log.info("gpu retired", gpu=gpu.uuid, node=gpu.node.name, last_ms=gpu.last_ms)
    return retired


@transaction.atomic
def retire(gpu: GPU, at: datetime) -> tuple[int, Span]:
    """Ends the GPU's capacity at `at`, by hand; (node id, time in which capacity changed)."""
    forget([gpu.node_id])
    was_ms = gpu.capacity_end_ms
    gpu.retired_ms = to_ms(at)
    gpu.save(update_fields=["retired_ms"])
    ends = sorted((gpu.retired_ms, was_ms or gpu.retired_ms))
    return gpu.node_id, (ends[0], ends[1])
