"""Batches that say of their node what is known already: nothing is written but how far time has
come, in the node's row alone.

What a node's newest batch said of labels and GPUs has a digest. While the next batches
have the same one, their facts need no reading; as soon as anything else is stored for
the node (services.register_batch), the digest is forgotten. Until then the node speaks
for the GPUs of that batch: all of them have windows as far as it has (GPU.newest_ms). What it said
of jobs has another: while that is the same, too, it speaks for its holds (jobs/repeats.py).
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from django.db.models import F, OuterRef, QuerySet, Subquery

from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.inventory.stays import GAP_MS
from fleetwatch.lib.sql import execute, read_statement

SETTLE = read_statement("inventory/sql/settle.sql")


class Remembered(NamedTuple):
    """What the next batches of a node are compared with."""

    gpus: list[GPU]  # by position in the batches
    begins: list[int]  # the first window of each one's stay
    digest: bytes


def remember(
    node_id: int, uuids: Sequence[str], fingerprint: bytes, *, order: list[int]
) -> Remembered | None:
    """The GPUs with these UUIDs, once the digest of what the batch with this order said is kept
    for the node.

    None when something newer came meanwhile, or a GPU is not simply one of the node's own
    (retired, elsewhere, silent while others report, a MIG instance whose parent is not among them).
    """
    living = _living(node_id, uuids, order)
    rows = {gpu.uuid: (gpu, stay_ms) for gpu, stay_ms in living}
    if len(rows) < len(uuids) or not _live_together([gpu for gpu, _ in living]):
        return None
    gpus = [rows[uuid][0] for uuid in uuids]
    begins = [rows[uuid][1] for uuid in uuids]
    digest = _digest(fingerprint, gpus, begins)
    node = Node.objects.filter(pk=node_id, facts_order=order)
    if not node.update(facts_digest=digest, continued_order=order):
        return None
    return Remembered(gpus, begins, digest)


def _living(node_id: int, uuids: Sequence[str], order: list[int]) -> list[tuple[GPU, int]]:
    """Of the GPUs those that the batch with this order was the newest to name and that are capacity
    of the node, each with the first window of its stay.
    """
    newest_stay = Stay.objects.filter(gpu=OuterRef("pk"), is_believed=True).order_by("-first_ms")
    rows = GPU.objects.filter(
        node_id=node_id, uuid__in=uuids, retired_ms=None, first_ms__isnull=False, facts_order=order
    ).annotate(stay_ms=Subquery(newest_stay.values("first_ms")[:1]))
    return [(gpu, gpu.stay_ms) for gpu in rows]


def _live_together(gpus: Collection[GPU]) -> bool:
    """Whether no instance is without its parent, and none is silent while others report."""
    parents = {None, *(gpu.pk for gpu in gpus)}
    ends = [gpu.last_ms or 0 for gpu in gpus]
    return all(gpu.parent_id in parents for gpu in gpus) and (
        max(ends, default=0) - min(ends, default=0) < GAP_MS
    )


def _digest(fingerprint: bytes, gpus: Sequence[GPU], begins: Sequence[int]) -> bytes:
    """The same while the same is said of the same GPUs and their stays begin where they began."""
    rows = b",".join(
        b"%d from %d" % (gpu.pk, begin) for gpu, begin in zip(gpus, begins, strict=True)
    )
    return hashlib.blake2b(fingerprint + b"\n" + rows, digest_size=16).digest()


def forget(node_ids: Iterable[int]) -> None:
    """Nobody's batches continue these nodes' any more, until one was stored again by
    services.register_batch.

    Needs a transaction: the nodes are locked until it ends.
    """
    locked = settle(node_ids)
    Node.objects.filter(pk__in=locked).update(facts_digest=None)


def settle(node_ids: Iterable[int]) -> list[int]:
    """Writes into GPUs' own rows what their nodes said for them; the ids of the nodes, which are
    locked until the transaction ends.
    """
    locked = list(
        Node.objects.select_for_update(no_key=True)
        .filter(pk__in=list(node_ids))
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    if locked:
        execute(SETTLE, {"nodes": locked})
    return locked


def settled(rows: QuerySet[GPU]) -> QuerySet[GPU]:
    """Those of the GPUs for which no node speaks: what their own rows say is all."""
    return rows.exclude(node__windows_ms__isnull=False, facts_order=F("node__continued_order"))
