"""Regions and what is known of them; the energy of any scope by the regions its nodes were in."""

from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise

from fleetwatch.costs.energy import Drawn, Energy, Site, energy_of, example_site
from fleetwatch.costs.models import NodePlace, Region
from fleetwatch.costs.selectors import covered, totals_by
from fleetwatch.costs.services import LONGEST_NAME
from fleetwatch.costs.subjects import RateError
from fleetwatch.costs.totals import EVERYTHING, Scope, Totals
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import Interval

MAX_G_PER_KWH, MAX_USD_PER_KWH, MAX_PUE = Decimal(3000), Decimal(100), Decimal(5)


def energy(interval: Interval, *, scope: Scope = EVERYTHING) -> Energy:
    """What the scope drew in covered(interval), each hour at the region that its node was in then."""
    whole = covered(interval)
    known = {region.name: _site(region) for region in Region.objects.all()}
    parts = []
    for piece in _pieces(whole):
        regions = _regions(piece.start)
        for group in totals_by(piece, "node", scope=scope):
            region, found = regions[group.key], group.totals
            site = known.get(region) or example_site(region)
            parts.append(Drawn(site, found.energy_j, found.energy_ms, found.capacity_ms))
    return energy_of(parts)


def energy_of_node(node: Node, interval: Interval, found: Totals) -> Energy:
    """energy() of one node whose totals are known already: read again only where it changed its region meanwhile."""
    whole = covered(interval)
    places = NodePlace.objects.filter(node=node, valid_from__lt=whole.end).exclude(valid_to__lte=whole.start)
    regions = set(places.values_list("region", flat=True)) or {""}
    if len(regions) > 1:
        return energy(interval, scope=Scope(node=node.name))
    [region] = regions
    known = Region.objects.filter(name=region).first()
    site = example_site(region) if known is None else _site(known)
    return energy_of([Drawn(site, found.energy_j, found.energy_ms, found.capacity_ms)])


def set_region(
    name: str, *, pue: Decimal, usd_per_kwh: Decimal | None, g_per_kwh: Decimal | None, source: str = "", source_date: date | None = None
) -> Region:
    """What is known of a region ("" = of nodes that name none); what was known before is replaced. Raises RateError."""
    if len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise RateError(f"The name of a region has at most {LONGEST_NAME} letters and no control characters.", field="region")
    for field, value, low, high in (
        ("pue", pue, Decimal(1), MAX_PUE),
        ("usd_per_kwh", usd_per_kwh, Decimal(0), MAX_USD_PER_KWH),
        ("g_per_kwh", g_per_kwh, Decimal(0), MAX_G_PER_KWH),
    ):
        if value is not None and not (value.is_finite() and low <= value <= high):
            raise RateError(f"A number from {low} to {high}, please.", field=field)
    facts = {"pue": pue, "usd_per_kwh": usd_per_kwh, "g_per_kwh": g_per_kwh, "source": source[:300], "source_date": source_date}
    return Region.objects.update_or_create(name=name, defaults=facts)[0]


def _pieces(whole: Interval) -> list[Interval]:
    """The interval, cut where the labels of some node began to say something else."""
    moments = NodePlace.objects.filter(valid_from__gt=whole.start, valid_from__lt=whole.end).values_list("valid_from", flat=True)
    return [Interval(start, end) for start, end in pairwise([whole.start, *sorted(set(moments)), whole.end])]


def _regions(moment: datetime) -> defaultdict[str, str]:
    """Node's name -> its region at a moment; "" where it names none."""
    places = NodePlace.objects.filter(valid_from__lte=moment).exclude(valid_to__lte=moment)
    return defaultdict(str, places.values_list("node__name", "region"))


def _site(region: Region) -> Site:
    return Site(region.name, region.pue, region.usd_per_kwh, region.g_per_kwh, region.source)
