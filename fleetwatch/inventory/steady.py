"""Batches that say of their node what is known already: nothing is written but how far time has come.

What a node's newest batch said of labels and GPUs has a digest. While the next batches
have the same one, their facts need no reading; as soon as anything else is stored for
the node (services.register_batch), the digest is forgotten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement

EXTEND_STEADY = read_statement(Path(__file__).parent / "sql" / "extend_steady.sql").encode()

Extent = tuple[int | None, int | None]


class UnsteadyError(Exception):
    """Some batches do not only continue what is known of their nodes; `node_ids` says whose."""

    def __init__(self, node_ids: set[int]) -> None:
        super().__init__(f"nodes {sorted(node_ids)[:10]}")
        self.node_ids = node_ids


@dataclass(frozen=True, slots=True)
class Continued:
    """One batch, as far as inventory is concerned: newer than all before it, its facts those with `digest`."""

    node_id: int
    digest: bytes
    boot_start_ms: int
    sequence: int
    newest_ms: int
    received_at: datetime
    agent: str  # JSON
    extents: Mapping[int, Extent]  # of every GPU that it names: its windows, (None, None) without any


def remember(node_id: int, uuids: Sequence[str], digest: bytes, *, order: list[int]) -> list[GPU] | None:
    """The GPUs with these UUIDs, once the digest of what the batch with this order said is kept for the node.

    None when something newer came meanwhile, or a GPU is not simply one of the
    node's own (retired, moved, a MIG instance whose parent is not among them).
    """
    rows = {gpu.uuid: gpu for gpu in GPU.objects.filter(node_id=node_id, uuid__in=uuids, retired_ms=None, first_ms__isnull=False)}
    ids = {gpu.pk for gpu in rows.values()}
    if len(rows) < len(uuids) or any(gpu.facts_order != order or gpu.parent_id not in {None, *ids} for gpu in rows.values()):
        return None
    if not Node.objects.filter(pk=node_id, facts_order=order).update(facts_digest=digest):
        return None
    return [rows[uuid] for uuid in uuids]


def forget(node_id: int) -> None:
    """Nobody's batches continue the node's any more, until one was stored again by services.register_batch."""
    Node.objects.filter(pk=node_id).update(facts_digest=None)


@dataclass(frozen=True, slots=True)
class Lived:
    """A node that lives on."""

    span: Span  # its last_ms before and after
    first_ms: int  # of the batch's GPUs, the earliest first window


def extend(batches: Sequence[Continued]) -> dict[int, Lived]:
    """By node id: the nodes, locked until the transaction ends, and their GPUs live on.

    At most one batch of a node. Raises UnsteadyError; the caller then undoes the transaction.
    """
    found = {row[0]: row[1:] for row in run(EXTEND_STEADY, _columns(batches))}
    unsteady = {one.node_id for one in batches if one.node_id not in found or found[one.node_id][1] < len(one.extents)}
    if unsteady:
        raise UnsteadyError(unsteady)
    lived = {}
    for one in batches:
        was_ms, _, first_ms = found[one.node_id]
        lived[one.node_id] = Lived((was_ms, max(was_ms, one.newest_ms)), first_ms)
    return lived


def _columns(batches: Sequence[Continued]) -> dict[str, object]:
    gpus = [(one.node_id, gpu_id, *extent) for one in batches for gpu_id, extent in one.extents.items()]
    return {
        "nodes": integers(one.node_id for one in batches),
        "digests": [one.digest for one in batches],
        "boot_starts": integers(one.boot_start_ms for one in batches),
        "sequences": integers(one.sequence for one in batches),
        "newest": integers(one.newest_ms for one in batches),
        "received": [one.received_at for one in batches],
        "agents": [one.agent for one in batches],
        "gpu_nodes": integers(row[0] for row in gpus),
        "gpus": integers(row[1] for row in gpus),
        "firsts": integers(row[2] for row in gpus),
        "lasts": integers(row[3] for row in gpus),
    }
