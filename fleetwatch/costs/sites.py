"""Regions and what is known of them; the energy of any scope by the regions its nodes were in."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from django.db import transaction
from django.db.models import QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.costs.changing import RATES, open_book
from fleetwatch.costs.energy import Drawn, Energy, Site, energy_of, example_site
from fleetwatch.costs.models import NodePlace, Region
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.costs.services import check_name
from fleetwatch.figures.selectors import totals_by
from fleetwatch.figures.totals import EVERYTHING, Group, Scope, Totals
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import Interval

Stays = defaultdict[str, list[tuple[datetime, str]]]
Regions = defaultdict[str, list[Region]]
BOUNDS = {
    "pue": (Decimal(1), Decimal(5)),
    "usd_per_kwh": (Decimal(0), Decimal(100)),
    "g_per_kwh": (Decimal(0), Decimal(3000)),
}


def energy(
    interval: Interval, *, scope: Scope = EVERYTHING, by_node: Sequence[Group] | None = None
) -> Energy:
    """What the scope drew in the interval, each hour at the region that its node was in then and
    what held there then.

    `by_node` is totals_by(node) of both, where it is known already: read again only where something
    else came to hold meanwhile.
    """
    stays = _stays(interval, NodePlace.objects.all())
    regions = _by_name(Region.objects.all())
    pieces = _pieces(interval, stays, regions)
    if by_node is not None and len(pieces) == 1:
        return energy_of(_drawn(interval, by_node, stays, regions))
    return energy_of(
        part
        for piece in pieces
        for part in _drawn(piece, totals_by(piece, "node", scope=scope), stays, regions)
    )


def energy_of_node(node: Node, interval: Interval, node_totals: Totals) -> Energy:
    """energy() of one node whose totals are known already: read again only where something else
    came to hold meanwhile.
    """
    stays = _stays(interval, NodePlace.objects.filter(node=node))
    names = {region for _, region in stays[node.name]} or {""}
    regions = _by_name(Region.objects.filter(name__in=names))
    if len(_pieces(interval, stays, regions)) > 1:
        return energy(interval, scope=Scope(node=node.name))
    group = Group(node.name, node.name, node_totals)
    return energy_of(_drawn(interval, [group], stays, regions))


def _drawn(
    piece: Interval, by_node: Iterable[Group], stays: Stays, regions: Regions
) -> Iterator[Drawn]:
    """What nodes drew while nothing changed."""
    for group in by_node:
        site = _site_at(_region_at(stays[group.key], piece.start), piece.start, regions)
        drawn = group.totals
        yield Drawn(site, drawn.energy_j, drawn.energy_ms, drawn.capacity_ms)


@transaction.atomic
def set_region(region: Region) -> Region:
    """What holds in a region (name "" = of nodes that name none) from then on, until its next row
    begins.

    One that begins at that moment is replaced. Raises RateError for what can't be, and in a closed
    month.
    """
    check_name("region", region.name)
    for field, (low, high) in BOUNDS.items():
        value = getattr(region, field)
        if value is not None and not (value.is_finite() and low <= value <= high):
            raise RateError(f"A number from {low} to {high}, please.", field=field)
    book = open_book(RATES)
    book.check_moment(region.valid_from, field="valid_from")
    book.check_open(region.valid_from)
    facts = {name: getattr(region, name) for name in (*BOUNDS, "source_date")}
    row, _ = Region.objects.update_or_create(
        name=region.name,
        valid_from=region.valid_from,
        defaults=facts | {"source": region.source[:300]},
    )
    record("rate.region", region.name, valid_from=region.valid_from.isoformat())
    return row


@transaction.atomic
def withdraw_region(region: Region) -> None:
    """Deletes it: what held in the region before holds on in its place.

    Raises RateError in a closed month.
    """
    open_book(RATES).check_open(region.valid_from)
    record("rate.region_withdraw", region.name, valid_from=region.valid_from.isoformat())
    region.delete()


def _by_name(rows: QuerySet[Region]) -> Regions:
    """The rows of each region, in the order in which they begin."""
    regions: Regions = defaultdict(list)
    for row in rows.order_by("valid_from"):
        regions[row.name].append(row)
    return regions


def _site_at(name: str, moment: datetime, regions: Regions) -> Site:
    """What holds in the region at a moment."""
    began = [row for row in regions.get(name, ()) if row.valid_from <= moment]
    return _site(began[-1]) if began else example_site(name)


def _stays(whole: Interval, places: QuerySet[NodePlace]) -> Stays:
    """From when on each node was in which region, by its name and in order: where one only came to
    another pool there is no row.
    """
    stays: Stays = defaultdict(list)
    held = (
        places.filter(valid_from__lt=whole.end)
        .exclude(valid_to__lte=whole.start)
        .order_by("node", "valid_from")
    )
    for node, valid_from, region in held.values_list("node__name", "valid_from", "region"):
        if not stays[node] or stays[node][-1][1] != region:
            stays[node].append((valid_from, region))
    return stays


def _region_at(stays: Sequence[tuple[datetime, str]], moment: datetime) -> str:
    """A node's region at a moment; "" where it named none."""
    return next((region for since, region in reversed(stays) if since <= moment), "")


def _pieces(whole: Interval, stays: Stays, regions: Regions) -> list[Interval]:
    """The interval, cut where a node came to another region, or something else came to hold
    in one.
    """
    moments = {since for each in stays.values() for since, _ in each} | {
        row.valid_from for rows in regions.values() for row in rows
    }
    inner = sorted(moment for moment in moments if whole.start < moment < whole.end)
    return [Interval(start, end) for start, end in pairwise([whole.start, *inner, whole.end])]


def _site(region: Region) -> Site:
    """As somebody described the region; a grid that was left open is the average of the country
    whose code it is.
    """
    site = Site(region.name, region.pue, region.usd_per_kwh, region.g_per_kwh, region.source)
    if site.g_per_kwh is not None:
        return site
    example = example_site(region.name)
    return replace(site, g_per_kwh=example.g_per_kwh, source=example.source or region.source)
