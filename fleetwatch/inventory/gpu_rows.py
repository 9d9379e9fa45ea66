"""A node's own rows of the GPUs that a batch names, and what the batch says of them: few
statements, however many GPUs.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from agent.wire import Batch
from fleetwatch.inventory.gpu_models import ModelFacts, facts_for
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.inventory.vgpu import slice_of

# What a batch says of a GPU: field -> key on the wire. A null there is "not read" and erases
# nothing.
FACTS = {
    "index": "index",
    "model_name": "model",
    "memory_total_bytes": "memory_total_bytes",
    "power_limit_w": "power_limit_w",
    "sm_count": "sm_count",
    "mig_profile": "mig_profile",
    "persistence": "persistence",
}


def uuids_of(batch: Batch) -> set[str]:
    """Of the batch's GPUs and of the parents that it names."""
    return {gpu["uuid"] for gpu in batch.gpus} | {
        gpu["parent_uuid"] for gpu in batch.gpus if gpu.get("parent_uuid")
    }


def of_batch(node: Node, batch: Batch) -> tuple[dict[int, GPU], int]:
    """The node's row of every GPU of the batch, by position, locked and with its parent; how many
    were new and are made.
    """
    uuids = uuids_of(batch)
    rows = _locked(node, uuids)
    missing = uuids - rows.keys()
    if missing:
        GPU.objects.bulk_create(
            [GPU(uuid=uuid, node=node) for uuid in sorted(missing)], ignore_conflicts=True
        )
        rows = _locked(node, uuids)
    gpus = {position: rows[item["uuid"]] for position, item in enumerate(batch.gpus)}
    _take_parents(batch, gpus, rows)
    return gpus, len(missing)


def with_parents(gpus: Iterable[GPU]) -> dict[int, GPU]:
    """The GPUs and the parents of MIG instances among them, by id."""
    return {row.pk: row for gpu in gpus for row in (gpu, gpu.parent) if row is not None}


_WITH_MODEL = {"model", *FACTS, "unread"}


def take_facts(batch: Batch, gpus: dict[int, GPU], *, order: list[int]) -> int:
    """Writes what is new of the GPUs: known facts change only by a newer batch, unknown ones by
    any. How many models it made.
    """
    changed: list[GPU] = []
    renamed: list[GPU] = []
    fields: set[str] = set()
    for position, item in enumerate(batch.gpus):
        gpu = gpus[position]
        news = _news(gpu, item, is_newer=order >= gpu.facts_order)
        for field, value in news.items():
            setattr(gpu, field, value)
        if news:
            changed.append(gpu)
            fields |= news.keys()
        if "model_name" in news:
            renamed.append(gpu)
    if not changed:
        return 0
    made = _take_models(renamed)
    GPU.objects.bulk_update(changed, sorted(fields | (_WITH_MODEL if renamed else set())))
    return made


def _locked(node: Node, uuids: set[str]) -> dict[str, GPU]:
    """The node's GPUs by UUID, locked; the parents of MIG instances that the batch did not name are
    among them.
    """
    own = GPU.objects.select_for_update(no_key=True).filter(node=node).order_by("id")
    rows = {gpu.uuid: gpu for gpu in own.filter(uuid__in=uuids)}
    unnamed = {gpu.parent_id for gpu in rows.values() if gpu.parent_id is not None} - {
        gpu.pk for gpu in rows.values()
    }
    if unnamed:
        rows |= {gpu.uuid: gpu for gpu in own.filter(pk__in=unnamed)}
    by_id = {gpu.pk: gpu for gpu in rows.values()}
    for gpu in rows.values():
        gpu.node = node
        if gpu.parent_id is not None:
            gpu.parent = by_id.get(gpu.parent_id)
    return rows


def _take_parents(batch: Batch, gpus: dict[int, GPU], rows: dict[str, GPU]) -> None:
    if not any(item.get("parent_uuid") for item in batch.gpus):
        return
    moved = []
    wholes = set(
        GPU.objects.filter(parent__in=[gpu.pk for gpu in gpus.values()]).values_list(
            "parent_id", flat=True
        )
    )
    for position, item in enumerate(batch.gpus):
        gpu = gpus[position]
        parent = rows.get(item.get("parent_uuid") or "")
        # an instance has no instances: GPUs that name each other would be capacity of nobody
        if (
            parent is not None
            and parent.pk not in (gpu.pk, gpu.parent_id)
            and parent.parent_id is None
            and gpu.pk not in wholes
        ):
            wholes.add(parent.pk)
            gpu.parent = parent
            moved.append(gpu)
    if moved:
        GPU.objects.bulk_update(moved, ["parent"])


def _news(gpu: GPU, item: dict[str, Any], *, is_newer: bool) -> dict[str, Any]:
    news: dict[str, Any] = {}
    for field, key in FACTS.items():
        value = item.get(key)
        stored = getattr(gpu, field)
        if value not in (None, "") and value != stored and (is_newer or stored in (None, "")):
            news[field] = value
    if is_newer and item["unread"] != gpu.unread:
        news["unread"] = item["unread"]
    return news


def _take_models(gpus: Iterable[GPU]) -> int:
    """Gives the GPUs the products that their drivers' names stand for, made where they are new; how
    many were.
    """
    facts = {gpu.model_name: facts_for(gpu.model_name) for gpu in gpus}
    models, made = _models(list(facts.values()))
    for gpu in gpus:
        gpu.model = models[facts[gpu.model_name].name]
    return made


def _models(facts: Sequence[ModelFacts]) -> tuple[dict[str, GPUModel], int]:
    """The products by name, and how many are new; a virtual GPU's board is one too, so that it can
    be given a rate.
    """
    by_name = {each.name: each for each in facts}
    stored = GPUModel.objects.filter(name__in=by_name)
    new = sorted(by_name.keys() - set(stored.values_list("name", flat=True)))
    parts = {name: part for name in new if (part := slice_of(name)) is not None and part.board}
    boards = _models([facts_for(part.board) for part in parts.values()])[0] if parts else {}
    rows = {
        name: GPUModel(name=name, idle_w=by_name[name].idle_w, limit_w=by_name[name].limit_w)
        for name in new
    }
    for name, part in parts.items():
        rows[name].board = boards[facts_for(part.board).name]
        rows[name].board_share = part.share
    GPUModel.objects.bulk_create(rows.values(), ignore_conflicts=True)
    return {model.name: model for model in stored}, len(new)
