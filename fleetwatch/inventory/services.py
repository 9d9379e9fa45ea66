"""Writes of inventory: what batches say of nodes and GPUs, and the retirement of GPUs that fell
silent.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import structlog
from django.db import transaction

from agent.wire import Batch
from fleetwatch.inventory import gpu_rows, intake, moves
from fleetwatch.inventory.extents import newest_ms, windows_by_gpu
from fleetwatch.inventory.intake import Brought
from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.inventory.moves import Life
from fleetwatch.inventory.silence import RETIRED_AFTER_MS
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

# What a batch says of its node.
NODE_FACTS = (
    "last_ms",
    "last_received_at",
    "silent_ms",
    "facts_order",
    "facts_digest",
    "labels",
    "window_s",
    "agent",
    "clock_offset_ms",
)

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
    left: set[int] = set()
    if batch is not None and received_at is not None:
        left = _nodes_left(node_id, batch, to_ms(received_at))
    nodes = Node.objects.select_for_update(no_key=True).filter(pk__in={node_id, *left})
    locked = {node.pk: node for node in nodes.order_by("pk")}
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
    gpus, brought = gpu_rows.of_batch(node, batch, order=order)
    if brought != Brought():
        intake.count({node.pk: brought}, received_at)
    windows = _windows_of(gpus, windows_by_gpu(batch, offset_ms=offset_ms, since_ms=since_ms))
    lives = _lives(gpus, windows)
    refused = _place(gpus, lives, windows, received_ms=to_ms(received_at))
    _write_gpus(node, lives, windows, _with_newer_facts(gpus.values(), order))
    lived = _update_node(node, batch, order=order, offset_ms=offset_ms, received_at=received_at)
    return Registered(gpus, _changes(lives.values(), {node.pk: lived}), refused)


def _lives(gpus: Mapping[int, GPU], windows: Container[int]) -> dict[int, Life]:
    """The lives of the batch's GPUs and of their parents, by row id.

    Until the transaction ends nobody else registers first windows of these GPUs: of two nodes at
    once one is the first.
    """
    family = gpu_rows.with_parents(gpus.values())
    new = [gpu.uuid for gpu in family.values() if gpu.pk in windows and gpu.first_ms is None]
    for uuid in sorted(new):
        wait_for_lock(f"inventory.gpu {uuid}")
    return moves.lives(family.values())


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
    gpus: Mapping[int, GPU],
    lives: Mapping[int, Life],
    windows: Mapping[int, list[Span]],
    *,
    received_ms: int,
) -> dict[int, Refused]:
    """By position what of the windows does not count; the lives are brought up to date."""
    refused: dict[int, Refused] = {}
    for row_id, spans in windows.items():
        own = moves.place(lives[row_id], spans, received_ms=received_ms)
        if rest := difference(spans, own):
            refused[row_id] = Refused(moves.why_refused(lives[row_id]), rest)
    _refuse_parts(refused, [lives[row_id].gpu for row_id in windows])
    return {place: refused[gpu.pk] for place, gpu in gpus.items() if gpu.pk in refused}


def _refuse_parts(refused: dict[int, Refused], gpus: Iterable[GPU]) -> None:
    """Adds to the refused rows those of the GPUs whose whole GPU is refused."""
    for gpu in gpus:
        if gpu.parent is not None and gpu.parent.pk in refused:
            whole = refused[gpu.parent.pk]
            part = Refused(f"it is a part of {gpu.parent.uuid}: {whole.why}", whole.spans)
            refused.setdefault(gpu.pk, part)


def _with_newer_facts(gpus: Iterable[GPU], order: list[int]) -> list[GPU]:
    """The rows whose facts this batch is the newest to say."""
    newer = [gpu for gpu in gpus if gpu.facts_order < order]
    for gpu in newer:
        gpu.facts_order = order
    return newer


def _write_gpus(
    node: Node, lives: Mapping[int, Life], windows: Iterable[int], others: Iterable[GPU]
) -> None:
    """Writes stays, and the rows that changed by the windows or otherwise."""
    moves.write_stays(lives.values())
    rows = {gpu for row_id in windows for gpu in moves.settle_rows(lives[row_id])}
    rows.update(others)
    forget({gpu.node_id for gpu in rows} - {node.pk})
    _write_rows(rows)


def _changes(
    lives: Iterable[Life], lived: Mapping[int, list[Span]] = MappingProxyType({})
) -> dict[int, list[Span]]:
    """Node id -> the time in which some GPU's capacity is not what it was: `lived` of those that
    live as long as their nodes.
    """
    changes = defaultdict(list, lived)
    for life in lives:
        for node_id, spans in life.changes():
            changes[node_id] = union([*changes[node_id], *spans])
    return {node_id: spans for node_id, spans in changes.items() if spans}


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
    disputed = Stay.objects.filter(is_believed=False).order_by("uuid")
    changes: dict[int, list[Span]] = defaultdict(list)
    for row_id in disputed.values_list("gpu_id", flat=True).distinct():
        for node_id, spans in _believe(row_id, received_ms=to_ms(now)).items():
            changes[node_id] += spans
    return {node_id: union(spans) for node_id, spans in changes.items()}


@transaction.atomic
def believe(gpu: GPU) -> dict[int, list[Span]]:
    """Node id -> the time in which capacity changed, now that the GPU is believed to be with the
    row's node: an admin said so.
    """
    return _believe(gpu.pk, received_ms=None)


def _believe(row_id: int, *, received_ms: int | None) -> dict[int, list[Span]]:
    """Takes over the disputed windows of the row; with `received_ms` only where the former node may
    have been left by then.
    """
    gpu = GPU.objects.filter(pk=row_id).select_related("node")
    life = moves.lives(gpu.all())[row_id]
    if not _may_take_over(life, received_ms):
        return {}
    forget(GPU.objects.filter(uuid=life.gpu.uuid).values_list("node_id", flat=True))
    life = moves.lives(gpu.all())[row_id]  # once more: now the nodes are locked
    take = moves.give if received_ms is None else moves.take_over
    if not (_may_take_over(life, received_ms) and take(life)):
        return {}
    moves.write_stays([life])
    _write_rows(moves.settle_rows(life))
    return _changes([life])


def _may_take_over(life: Life, received_ms: int | None) -> bool:
    holder = life.holder()
    return received_ms is None or holder is None or moves.may_leave(holder, received_ms)


def _update_node(
    node: Node, batch: Batch, *, order: list[int], offset_ms: int, received_at: datetime
) -> list[Span]:
    """The time by which the node's life became longer; none where it begins."""
    was_ms = node.last_ms
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
    node.save(update_fields=NODE_FACTS)
    return [] if was_ms is None else union([(was_ms, node.last_ms or was_ms)])


def retire_silent(now: datetime) -> list[tuple[int, Span]]:
    """(node id, time in which capacity ended) of every GPU that this call retired.

    Silent: its node was on the bill for 7 days after the GPU's last window, be it that it reported
    on, or is silent as a whole (silence.py). An import of old logs is judged like live data. A GPU
    that returns is capacity again. Needs a transaction.
    """
    before_ms = to_ms(now) - RETIRED_AFTER_MS
    # while batches only continued, a node that is silent as a whole spoke for its GPUs: now they
    # speak for themselves
    nodes = Node.objects.filter(windows_ms__isnull=False, last_ms__lte=before_ms)
    forget(nodes.values_list("pk", flat=True))
    silent = _silent(to_ms(now))
    forget({gpu.node_id for gpu in silent})
    retired = []
    for gpu in silent:
        # the conditions again in the UPDATE: a batch may have arrived since
        same = GPU.objects.filter(pk=gpu.pk, last_ms=gpu.last_ms, retired_ms__isnull=True)
        if same.update(retired_ms=gpu.last_ms):
            retired.append((gpu.node_id, (gpu.last_ms or 0, gpu.node.live_ms or 0)))
            log.info("gpu retired", gpu=gpu.uuid, node=gpu.node.name, last_ms=gpu.last_ms)
    return retired


def _silent(now_ms: int) -> list[GPU]:
    """The GPUs, with their nodes, that were on the bill for 7 days after their last windows."""
    quiet = settled(
        GPU.objects.filter(retired_ms__isnull=True, last_ms__lte=now_ms - RETIRED_AFTER_MS)
    )
    return [
        gpu
        for gpu in quiet.select_related("node").order_by("node_id", "id")
        if min(gpu.node.live_ms or 0, now_ms) - (gpu.last_ms or 0) >= RETIRED_AFTER_MS
    ]


@transaction.atomic
def retire(gpu: GPU, at: datetime) -> tuple[int, Span]:
    """Ends the GPU's capacity at `at`, by hand; (node id, time in which capacity changed)."""
    forget([gpu.node_id])
    was_ms = gpu.capacity_end_ms
    gpu.retired_ms = to_ms(at)
    gpu.save(update_fields=["retired_ms"])
    ends = sorted((gpu.retired_ms, was_ms or gpu.retired_ms))
    return gpu.node_id, (ends[0], ends[1])
