"""Reads of the rate book: every rate there is or was, and what rates can be for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Exists, Max, Min, OuterRef, Q, QuerySet

from fleetwatch.costs.models import GPURate, NodePlace, Rate
from fleetwatch.inventory.models import GPU, GPUModel


def rates() -> QuerySet[Rate]:
    """GPU models' first, by name; then nodes', pools' and single GPUs', each with the
    oldest first.
    """
    ordered = (
        "gpu_model__name",
        "node_class",
        "region",
        "node__name",
        "pool",
        "gpu__uuid",
        "valid_from",
        "pk",
    )
    return Rate.objects.select_related("gpu_model", "node", "gpu").order_by(*ordered)


def priced_models() -> tuple[Sequence[GPUModel], Sequence[GPUModel]]:
    """GPU models of the fleet, by name; and these with the boards whose virtual GPUs it has."""
    whole = GPU.objects.filter(model=OuterRef("pk"))
    parts = GPU.objects.filter(model__board=OuterRef("pk"))
    models = list(
        GPUModel.objects.annotate(is_there=Exists(whole))
        .filter(Q(is_there=True) | Exists(parts))
        .order_by("name")
    )
    return [model for model in models if model.is_there], models


def places(field: str) -> list[str]:
    """Pools (or regions) that nodes are in or were in."""
    rows = NodePlace.objects.exclude(**{field: ""}).order_by(field)
    return list(rows.values_list(field, flat=True).distinct())


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What a GPU model of the fleet costs per GPU-hour, from its least to its most, and the memory
    that each of its GPUs has at least.
    """

    gpu_model_id: int
    memory_bytes: int
    least_usd: Decimal
    most_usd: Decimal


def prices_of_models(at: datetime) -> list[ModelPrice]:
    """Of every GPU model that the fleet has, whose memory is known, and that has a rate at that
    moment.
    """
    rates = GPURate.objects.filter(Q(valid_to=None) | Q(valid_to__gt=at), valid_from__lte=at)
    priced = rates.filter(gpu__model__isnull=False, gpu__parent=None, gpu__memory_total_bytes__gt=0)
    rows = priced.values_list("gpu__model_id").annotate(
        Min("gpu__memory_total_bytes"), Min("usd_per_gpu_hour"), Max("usd_per_gpu_hour")
    )
    return [ModelPrice(*row) for row in rows.order_by("gpu__model_id")]


def cheaper_than(own: ModelPrice, prices: Iterable[ModelPrice]) -> tuple[tuple[float, float], ...]:
    """The smaller models that surely cost less: bytes of memory, and the most that they cost as a
    share of the least of this one's.
    """
    smaller = [
        price
        for price in prices
        if price.memory_bytes < own.memory_bytes and price.most_usd < own.least_usd
    ]
    return tuple(
        (float(price.memory_bytes), float(price.most_usd / own.least_usd)) for price in smaller
    )
