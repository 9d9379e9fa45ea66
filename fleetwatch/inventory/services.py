"""Writes of inventory: what batches say of nodes and GPUs, and the retirement of GPUs that fell silent."""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from django.db import connection, transaction

from agent.wire import Batch
from fleetwatch.inventory.extents import Capacity, newest_ms, windows_by_gpu
from fleetwatch.inventory.gpu_models import facts_for
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.inventory.moves import Taken, is_former, take
from fleetwatch.inventory.steady import forget, settle, settled
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.spans import Span, union

NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?")
SILENT_MS = 7 * 86_400_000  # docs/ledger.md: capacity ends after 7 silent days, dated back to the last window

# What a batch says of a GPU: field -> key on the wire. A null there is "not read" and erases nothing.
GPU_FACTS = {
    "index": "index",
    "model_name": "model",
    "memory_total_bytes": "memory_total_bytes",
    "power_limit_w": "power_limit_w",
    "sm_count": "sm_count",
    "mig_profile": "mig_profile",
    "persistence": "persistence",
}

# One row per GPU of a batch; runs for every batch. Again: safe, LEAST and GREATEST do not care for order.
EXTEND_GPUS = """
UPDATE inventory_gpu AS gpu
SET first_ms = LEAST(gpu.first_ms, seen.first_ms),
    last_ms = GREATEST(gpu.last_ms, seen.last_ms),
    retired_ms = CASE
        WHEN seen.last_ms <= gpu.retired_ms THEN gpu.retired_ms
        WHEN gpu.retired_ms IS NOT NULL AND seen.is_former THEN seen.last_ms
    END,
    facts_order = seen.facts_order
FROM (
    SELECT
        unnest(%(ids)s::bigint[]) AS id,
        unnest(%(first)s::bigint[]) AS first_ms,
        unnest(%(last)s::bigint[]) AS last_ms,
        unnest(%(orders)s::text[])::jsonb AS facts_order,
        unnest(%(former)s::boolean[]) AS is_former
) AS seen
WHERE gpu.id = seen.id
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """The batch's GPUs by position in batch.gpus, and the time in which capacity changed.

    `ended`: (node id, time) in which capacity ended on nodes that GPUs of the batch moved away from.
    """

    gpus: dict[int, GPU]
    grown: list[Span]
    ended: list[tuple[int, Span]]


def node_by_name(name: str) -> Node:
    """The node of that name; made when it is new.

    Raises ValueError for a name that could not stand in an address or a host name.
    """
    if not NODE_NAME.fullmatch(name):
        raise ValueError("a node's name has 1 to 253 letters, digits and . _ : - and begins and ends with a letter or digit")
    return Node.objects.get_or_create(name=name)[0]


def lock_node(node_id: int, batch: Batch | None = None) -> Node:
    """The node, locked until the transaction ends: batches of one node are stored one after the other.

    With it the nodes that GPUs of the batch would move away from, all in order of id: GPUs that change places at once
    wait for each other and do not deadlock. NO KEY UPDATE: whoever only refers to a node (a foreign key of the
    ledger's entries) does not wait.
    """
    wanted = {node_id, *(_other_nodes(node_id, batch) if batch else ())}
    locked = {node.pk: node for node in Node.objects.select_for_update(no_key=True).filter(pk__in=wanted).order_by("pk")}
    return locked[node_id]


def register(node: Node, batch: Batch, *, offset_ms: int, received_at: datetime) -> dict[int, GPU]:
    """The batch's GPUs by position in batch.gpus, with nodes and GPUs brought up to date."""
    return register_batch(node, batch, offset_ms=offset_ms, received_at=received_at).gpus


def register_batch(node: Node, batch: Batch, *, offset_ms: int, received_at: datetime, since_ms: int = 0) -> Registered:
    """The batch's GPUs, and the time in which capacity changed through it.

    Facts come from the newest batch by (boot_start_ms, sequence), times from the
    earliest and latest window ever seen, so the order of batches does not matter.
    Windows before `since_ms` are no capacity: their hours are final.
    Needs lock_node. Raises ForeignGPUError when another node is reporting one of the GPUs.
    """
    order = [batch.boot_start_ms, batch.sequence]
    _settle(node, batch)
    seen = windows_by_gpu(batch, offset_ms=offset_ms, since_ms=since_ms)
    gpus, ended = _gpus(node, batch, seen)
    family = _with_parents(gpus)
    node_was_ms = node.last_ms
    before = {gpu_id: _capacity(gpu, node.last_ms) for gpu_id, gpu in family.items()}
    _take_facts(batch, gpus, order=order)
    _extend(family, _extents(gpus, seen), order=order, own={gpu.pk for gpu in gpus.values()})
    _update_node(node, batch, order=order, offset_ms=offset_ms, received_at=received_at)
    after = {gpu_id: _capacity(gpu, node.last_ms) for gpu_id, gpu in family.items()}
    grown = Capacity(before, after).grown()
    if node_was_ms is not None and node.last_ms is not None:
        # the node's GPUs that this batch does not name live as long as the node
        grown = union([*grown, (node_was_ms, node.last_ms)])
    return Registered(gpus, grown, ended)


def _settle(node: Node, batch: Batch) -> None:
    """The rows of the node's GPUs, and of those that the batch names and others hold, say all that is known of them."""
    settle({node.pk, *_other_nodes(node.pk, batch)})
    node.windows_ms = None


def _other_nodes(node_id: int, batch: Batch) -> set[int]:
    """The nodes that have GPUs which the batch names."""
    return set(GPU.objects.filter(uuid__in=_uuids(batch)).exclude(node_id=node_id).values_list("node_id", flat=True))


def _gpus(node: Node, batch: Batch, seen: dict[int, Span]) -> tuple[dict[int, GPU], list[tuple[int, Span]]]:
    """A row of this node for every GPU of the batch, by position, made where it is new, with its parent; and what ended elsewhere."""
    uuids = _uuids(batch)
    rows = _rows(uuids)
    if missing := uuids - rows.keys():
        # sorted, so that two nodes that name the same new UUIDs wait for each other and do not deadlock
        GPU.objects.bulk_create([GPU(uuid=uuid, node=node) for uuid in sorted(missing)], ignore_conflicts=True)
        rows = _rows(uuids)
    parents = _parents(batch, rows)
    taken = _taken(node, batch, rows, parents, seen)
    for uuid, parent_uuid in parents.items():
        own, parent = taken[uuid].gpu, taken[parent_uuid].gpu
        if parent.pk not in (own.pk, own.parent_id):
            own.parent = parent
            own.save(update_fields=["parent"])
    ended = [one.ended for one in taken.values() if one.ended is not None]
    return {position: taken[item["uuid"]].gpu for position, item in enumerate(batch.gpus)}, ended


def _uuids(batch: Batch) -> set[str]:
    """Of the batch's GPUs and of the parents that it names."""
    return {gpu["uuid"] for gpu in batch.gpus} | {gpu["parent_uuid"] for gpu in batch.gpus if gpu.get("parent_uuid")}


def _parents(batch: Batch, rows: dict[str, GPU]) -> dict[str, str]:
    """UUID of an instance -> that of the GPU it is a part of, as the batch says it or as it is known."""
    named = {item["uuid"]: item.get("parent_uuid") for item in batch.gpus}
    known = {uuid: parent.uuid for uuid in named if (parent := rows[uuid].parent) is not None and not is_former(parent)}
    return {uuid: whole for uuid in named if (whole := named[uuid] or known.get(uuid))}


def _taken(node: Node, batch: Batch, rows: dict[str, GPU], parents: dict[str, str], seen: dict[int, Span]) -> dict[str, Taken]:
    """This node's row by UUID, of the batch's GPUs and of the parents that it does not name; a parent is seen where a part of it is."""
    places: dict[str, list[int]] = {item["uuid"]: [place] for place, item in enumerate(batch.gpus)}
    for place, item in enumerate(batch.gpus):
        if item["uuid"] in parents:
            places.setdefault(parents[item["uuid"]], []).append(place)
    taken = {}
    for uuid, at in places.items():
        spans = [seen[place] for place in at if place in seen]
        extent = (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
        taken[uuid] = take(node, rows[uuid], position=at[0], seen=extent)
    return taken


def _rows(uuids: set[str]) -> dict[str, GPU]:
    """The GPUs by UUID, locked; the parents of MIG instances that the batch did not name are among them."""
    locked = GPU.objects.select_for_update(no_key=True).order_by("id")
    rows = {gpu.uuid: gpu for gpu in locked.filter(uuid__in=uuids)}
    ids = {gpu.pk for gpu in rows.values()}
    if unnamed := {gpu.parent_id for gpu in rows.values() if gpu.parent_id is not None} - ids:
        rows |= {gpu.uuid: gpu for gpu in locked.filter(pk__in=unnamed)}
    by_id = {gpu.pk: gpu for gpu in rows.values()}
    for gpu in rows.values():
        if gpu.parent_id is not None:
            gpu.parent = by_id.get(gpu.parent_id)
    return rows


def _with_parents(gpus: dict[int, GPU]) -> dict[int, GPU]:
    """The GPUs and the parents of MIG instances among them, by id."""
    return {row.pk: row for gpu in gpus.values() for row in (gpu, gpu.parent) if row is not None}


def _extents(gpus: dict[int, GPU], seen: dict[int, Span]) -> dict[int, Span]:
    """GPU id -> the batch's windows of it; a MIG parent lives as long as any of its instances."""
    extents: dict[int, Span] = {}
    for position, (first_ms, last_ms) in seen.items():
        gpu = gpus[position]
        for gpu_id in {gpu.pk, gpu.parent_id or gpu.pk}:
            first, last = extents.get(gpu_id, (first_ms, last_ms))
            extents[gpu_id] = (min(first, first_ms), max(last, last_ms))
    return extents


def _take_facts(batch: Batch, gpus: dict[int, GPU], *, order: list[int]) -> None:
    """Writes what is new of the GPUs: known facts change only by a newer batch, unknown ones by any."""
    for position, item in enumerate(batch.gpus):
        gpu = gpus[position]
        changed = _changes(gpu, item, is_newer=order >= gpu.facts_order)
        if not changed:
            continue
        for field, value in changed.items():
            setattr(gpu, field, value)
        if "model_name" in changed:
            gpu.model = gpu_model(gpu.model_name)
        gpu.save(update_fields=[*changed, "model"])


def _changes(gpu: GPU, item: dict[str, Any], *, is_newer: bool) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for field, key in GPU_FACTS.items():
        value, known = item.get(key), getattr(gpu, field)
        if value not in (None, "") and value != known and (is_newer or known in (None, "")):
            changed[field] = value
    if is_newer and item["unread"] != gpu.unread:
        changed["unread"] = item["unread"]
    return changed


def gpu_model(driver_name: str) -> GPUModel:
    """The product that the driver's name stands for; made when it is new."""
    facts = facts_for(driver_name)
    return GPUModel.objects.get_or_create(name=facts.name, defaults={"idle_w": facts.idle_w, "limit_w": facts.limit_w})[0]


def _extend(family: dict[int, GPU], extents: dict[int, Span], *, order: list[int], own: set[int]) -> None:
    """Widens first and last window of the GPUs; ends the retirement of those that came back."""
    moved = []
    for gpu in family.values():
        was = (gpu.first_ms, gpu.last_ms, gpu.retired_ms, gpu.facts_order)
        if gpu.pk in own:
            gpu.facts_order = max(gpu.facts_order, order)
        if extent := extents.get(gpu.pk):
            gpu.first_ms = extent[0] if gpu.first_ms is None else min(gpu.first_ms, extent[0])
            gpu.last_ms = extent[1] if gpu.last_ms is None else max(gpu.last_ms, extent[1])
            if gpu.retired_ms is not None and extent[1] > gpu.retired_ms:
                gpu.retired_ms = gpu.last_ms if is_former(gpu) else None
        if was != (gpu.first_ms, gpu.last_ms, gpu.retired_ms, gpu.facts_order):
            moved.append(gpu)
    if moved:
        _write_extents(moved)


def _write_extents(gpus: list[GPU]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            EXTEND_GPUS,
            {
                "ids": [gpu.pk for gpu in gpus],
                "first": [gpu.first_ms for gpu in gpus],
                "last": [gpu.last_ms for gpu in gpus],
                "orders": [json.dumps(gpu.facts_order) for gpu in gpus],
                "former": [is_former(gpu) for gpu in gpus],
            },
        )


def _capacity(gpu: GPU, node_last_ms: int | None) -> Span:
    """[first window, retirement or the node's newest sign of life); (0, 0) before its first window."""
    end_ms = node_last_ms if gpu.retired_ms is None else gpu.retired_ms
    return (0, 0) if gpu.first_ms is None or end_ms is None else (gpu.first_ms, end_ms)


def _update_node(node: Node, batch: Batch, *, order: list[int], offset_ms: int, received_at: datetime) -> None:
    newest = newest_ms(batch, offset_ms=offset_ms)
    if newest is not None:
        node.last_ms = newest if node.last_ms is None else max(node.last_ms, newest)
    node.last_received_at = received_at if node.last_received_at is None else max(node.last_received_at, received_at)
    if order >= node.facts_order:
        node.facts_order = order
        node.labels, node.window_s, node.agent, node.clock_offset_ms = batch.node_labels, batch.window_s, batch.agent, offset_ms
    node.facts_digest = None
    node.save(
        update_fields=["last_ms", "last_received_at", "facts_order", "facts_digest", "labels", "window_s", "agent", "clock_offset_ms"]
    )


def retire_silent(now: datetime) -> list[tuple[int, Span]]:
    """(node id, time in which capacity ended) of every GPU that this call retired.

    Silent: its node reported on for 7 days after the GPU's last window. The
    node's own time is what counts, so that a node that is off retires nothing and
    an import of old logs is judged like live data. A GPU that returns is capacity again.
    Needs a transaction.
    """
    cutoff = to_ms(now)
    quiet = settled(GPU.objects.filter(retired_ms__isnull=True, last_ms__lt=cutoff - SILENT_MS))
    silent = [
        gpu
        for gpu in quiet.select_related("node").order_by("node_id", "id")
        if min(gpu.node.last_ms or 0, cutoff) - (gpu.last_ms or 0) >= SILENT_MS
    ]
    forget({gpu.node_id for gpu in silent})
    retired = []
    for gpu in silent:
        # the conditions again in the UPDATE: a batch may have arrived since
        if GPU.objects.filter(pk=gpu.pk, last_ms=gpu.last_ms, retired_ms__isnull=True).update(retired_ms=gpu.last_ms):
            retired.append((gpu.node_id, (gpu.last_ms or 0, gpu.node.last_ms or 0)))
            log.info("gpu retired", gpu=gpu.uuid, node=gpu.node.name, last_ms=gpu.last_ms)
    return retired


@transaction.atomic
def retire(gpu: GPU, at: datetime) -> tuple[int, Span]:
    """Ends the GPU's capacity at `at`, by hand; (node id, time in which capacity changed)."""
    forget([gpu.node_id])
    was_ms = gpu.retired_ms if gpu.retired_ms is not None else gpu.node.last_ms
    gpu.retired_ms = to_ms(at)
    gpu.save(update_fields=["retired_ms"])
    ends = sorted((gpu.retired_ms, was_ms or gpu.retired_ms))
    return gpu.node_id, (ends[0], ends[1])
