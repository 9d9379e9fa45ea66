"""A node's own rows of the GPUs that a batch names, and what the batch says of them: few
statements, however many GPUs.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.wire import Batch
from fleetwatch.inventory.gpu_models import ModelFacts, facts_for
from fleetwatch.inventory.intake import Brought
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


def of_batch(node: Node, batch: Batch, *, order: list[int]) -> tuple[dict[int, GPU], Brought]:
    """The node's row of every GPU of the batch, by position, locked and with its parent and what
    the batch with this order says of it; how much of that is new.
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
    return gpus, Brought(gpus=len(missing), gpu_models=_take_facts(batch, gpus, order))


def with_parents(gpus: Iterable[GPU]) -> dict[int, GPU]:
    """The GPUs and the parents of MIG instances among them, by id."""
    return {row.pk: row for gpu in gpus for row in (gpu, gpu.parent) if row is not None}


def _take_facts(batch: Batch, gpus: dict[int, GPU], order: list[int]) -> int:
    """Writes what is new of the GPUs: known facts change only by a newer batch, unknown ones by
    any. How many models it made.
    """
    news = {
        gpus[position]: _news(gpus[position], item, is_newer=order >= gpus[position].facts_order)
        for position, item in enumerate(batch.gpus)
    }
    made = _take_models(news)
    for gpu, values in news.items():
        for field, value in values.items():
            setattr(gpu, field, value)
    if fields := {field for values in news.values() for field in values}:
        GPU.objects.bulk_update([gpu for gpu in news if news[gpu]], sorted(fields))
    return made


def _take_models(news: Mapping[GPU, dict[str, Any]]) -> int:
    """Adds to the news the products that drivers' new names stand for; how many of these it
    made.
    """
    products = {
        gpu: facts_for(values["model_name"])
        for gpu, values in news.items()
        if "model_name" in values
    }
    by_name = sorted(set(products.values()), key=lambda product: product.name)
    models = {product: _model(product) for product in by_name}
    for gpu, product in products.items():
        news[gpu]["model"] = models[product][0]
    return sum(is_new for _, is_new in models.values())


def _locked(node: Node, uuids: set[str]) -> dict[str, GPU]:
    """The node's GPUs by UUID, locked; the parents of MIG instances that the batch did not name are
    among them.
    """
    own = GPU.objects.select_for_update(no_key=True).filter(node=node).order_by("id")
    rows = {gpu.pk: gpu for gpu in own.filter(uuid__in=uuids)}
    # asked apart: the index on UUIDs answers for those that the batch names
    if unnamed := {gpu.parent_id for gpu in rows.values() if gpu.parent_id} - rows.keys():
        rows |= {gpu.pk: gpu for gpu in own.filter(pk__in=unnamed)}
    for gpu in rows.values():
        gpu.node = node
        gpu.parent = rows.get(gpu.parent_id or 0)
    return {gpu.uuid: gpu for gpu in rows.values()}


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


def _model(product: ModelFacts) -> tuple[GPUModel, bool]:
    """The product's row, and whether it is new; a virtual GPU's board has one too, so that it can
    be given a rate.
    """
    figures: dict[str, Any] = {"idle_w": product.idle_w, "limit_w": product.limit_w}
    part = slice_of(product.name)
    if part is not None and part.board:
        board = facts_for(part.board)
        figures |= {"board": lambda: _model(board)[0], "board_share": part.share}
    return GPUModel.objects.get_or_create(name=product.name, defaults=figures)
