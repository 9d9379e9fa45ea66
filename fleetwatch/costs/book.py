"""Reads of the rate book: every rate there is or was, and what rates can be for."""

from django.db.models import QuerySet

from fleetwatch.costs.models import NodePlace, Rate


def rates() -> QuerySet[Rate]:
    """GPU models' first, by name; then nodes', pools' and single GPUs', each with the oldest first."""
    ordered = ("gpu_model__name", "node_class", "region", "node__name", "pool", "gpu__uuid", "valid_from", "pk")
    return Rate.objects.select_related("gpu_model", "node", "gpu").order_by(*ordered)


def pools() -> list[str]:
    """Pools that nodes are in or were in."""
    return list(NodePlace.objects.exclude(pool="").order_by("pool").values_list("pool", flat=True).distinct())


def regions() -> list[str]:
    """Regions that nodes are in or were in."""
    return list(NodePlace.objects.exclude(region="").order_by("region").values_list("region", flat=True).distinct())
