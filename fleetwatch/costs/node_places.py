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
    present = FilteredRelation("places", condition=Q(places__valid_to__isnull=True))
    fields = ("present__pool", "present__node_class", "present__region")
    nodes = Node.objects.annotate(present=present).values_list("pk", "labels", *map(F, fields))
    moved = [node for node in nodes if node[2:] != place_of(node[1])]
    for node_id, labels, *before in moved:
        since = BEGINNING if before == [None, None, None] else floor_hour(now)
        _move(node_id, place_of(labels), since=since)
    return {"moved": len(moved)}


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
