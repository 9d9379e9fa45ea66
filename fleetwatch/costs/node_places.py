"""Where nodes stand: pool, class and region out of their labels, kept over time.

Written when a node's labels are seen to say something else, from that hour on. Hours before keep
what they had: relabelling a node today reprices nothing of yesterday.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, FilteredRelation, Q

from fleetwatch.costs.models import PRICING_CLASSES, NodePlace
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import floor_hour

_LONGEST = 63

Place = tuple[str, str, str]  # pool, class, region
NOWHERE: Place = ("", "", "")


def place_of(labels: Mapping[str, Any]) -> Place:
    """Pool, class and region as the labels say them; "" for what they do not, and for a class that
    is none.
    """
    node_class = _text(labels.get("class")).lower().replace("-", "_")
    return (
        _text(labels.get("pool")),
        node_class if node_class in PRICING_CLASSES else "",
        _text(labels.get("region")),
    )


def note_places(now: datetime) -> dict[str, int]:
    """How many nodes were found in another place than was known.

    Their first place holds from the beginning, each later one from the hour on in which it
    is noticed. Safe twice; two runs at once are fenced by the caller.
    """
    since = floor_hour(now)
    moved = [node for node in _nodes() if node[1] != node[2]]
    for node_id, before, place in moved:
        _move(node_id, place, since=BEGINNING if before is None else since)
    return {"moved": len(moved)}


def _nodes() -> list[tuple[int, Place | None, Place]]:
    """Each node's id, the place that is known of it, and the one that its labels say."""
    present = FilteredRelation("places", condition=Q(places__valid_to__isnull=True))
    nodes = Node.objects.annotate(present=present).values_list(
        "pk",
        "labels",
        F("present__pk"),
        F("present__pool"),
        F("present__node_class"),
        F("present__region"),
    )
    return [
        (node_id, None if present_id is None else (pool, node_class, region), place_of(labels))
        for node_id, labels, present_id, pool, node_class, region in nodes
    ]


@transaction.atomic
def _move(node_id: int, place: Place, *, since: datetime) -> None:
    """Ends what holds where the new place begins; what began in this very hour is replaced."""
    pool, node_class, region = place
    NodePlace.objects.filter(node_id=node_id, valid_from__gte=since).delete()
    NodePlace.objects.filter(
        Q(valid_to__isnull=True) | Q(valid_to__gt=since), node_id=node_id
    ).update(valid_to=since)
    NodePlace.objects.create(
        node_id=node_id, pool=pool, node_class=node_class, region=region, valid_from=since
    )


def _text(value: object) -> str:
    return value.strip()[:_LONGEST] if isinstance(value, str) else ""
