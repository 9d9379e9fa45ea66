"""Regions and what is known of them; the energy of any scope by the regions its nodes were in."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.costs.changing import RATES, open_book
from fleetwatch.costs.energy import Energy, Site, energy_of, example_site
from fleetwatch.costs.models import NodePlace, Region
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.costs.services import check_name
from fleetwatch.figures.selectors import Look, look
from fleetwatch.figures.totals import EVERYTHING, Scope, Totals
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import Interval

What = TypeVar("What")
Since = Sequence[tuple[datetime, What]]  # what began to hold when, in order
BOUNDS = {
    "pue": (Decimal(1), Decimal(5)),
    "usd_per_kwh": (Decimal(0), Decimal(100)),
    "g_per_kwh": (Decimal(0), Decimal(3000)),
}


def energy(
    interval: Interval, *, scope: Scope = EVERYTHING, of_nodes: Look | None = None
) -> Energy:
    """What the scope drew in the interval, each hour at the region that its node was in then and
    what held there then.

    `of_nodes` is look(node) of both, where it was read already: read again only where something
    else came to hold meanwhile.
    """
    stays, regions, pieces = _places(interval, scope.node)
    read = [(interval, of_nodes)] if of_nodes is not None else []
    if not read or len(pieces) > 1:
        read = [(piece, look(piece, "node", scope=scope)) for piece in pieces]
    return energy_of(
        (_site_at(region, piece.start, regions), totals)
        for piece, seen in read
        for region, totals in seen.together("node", _regions_at(piece.start, stays)).items()
    )


def energy_of_node(node: Node, interval: Interval, node_totals: Totals) -> Energy:
    """energy() of one node whose totals are known already."""
    stays, regions, pieces = _places(interval, node.name)
    if len(pieces) > 1:
        return energy(interval, scope=Scope(node=node.name))
    region = _at(stays[node.name], interval.start) or ""
    return energy_of([(_site_at(region, interval.start, regions), node_totals)])


def _places(
    interval: Interval, node: str | None
) -> tuple[Mapping[str, Since[str]], Mapping[str, Since[Region]], list[Interval]]:
    """Which nodes (None: every one) were in which regions, what is known of these, and the pieces
    of the interval in each of which neither changes.
    """
    stays = _stays(interval, node)
    regions = _regions(None if node is None else stays[node])
    return stays, regions, _pieces(interval, [*stays.values(), *regions.values()])


def _regions_at(moment: datetime, stays: Mapping[str, Since[str]]) -> Callable[[str], str]:
    """In which region the node of a name was then; "" in none that is named."""
    return lambda name: _at(stays.get(name, ()), moment) or ""


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


def _stays(whole: Interval, node: str | None) -> Mapping[str, Since[str]]:
    """From when on each node (None: every one) was in which region, by its name: where one only
    came to another pool nothing begins.
    """
    held = NodePlace.objects.filter(valid_from__lt=whole.end).exclude(valid_to__lte=whole.start)
    if node is not None:
        held = held.filter(node__name=node)
    stays: defaultdict[str, list[tuple[datetime, str]]] = defaultdict(list)
    rows = held.order_by("node", "valid_from").values_list("node__name", "valid_from", "region")
    for name, valid_from, region in rows:
        if not stays[name] or stays[name][-1][1] != region:
            stays[name].append((valid_from, region))
    return stays


def _regions(stays: Since[str] | None) -> Mapping[str, Since[Region]]:
    """What is known of the regions of these stays (none of them: of "", None: of every region)."""
    rows = Region.objects.order_by("valid_from")
    if stays is not None:
        rows = rows.filter(name__in={region for _, region in stays} or {""})
    regions: defaultdict[str, list[tuple[datetime, Region]]] = defaultdict(list)
    for row in rows:
        regions[row.name].append((row.valid_from, row))
    return regions


def _at(rows: Since[What], moment: datetime) -> What | None:
    """What holds at a moment."""
    return next((what for since, what in reversed(rows) if since <= moment), None)


def _site_at(name: str, moment: datetime, regions: Mapping[str, Since[Region]]) -> Site:
    """As somebody described the region; a grid that was left open is the average of the country
    whose code it is.
    """
    example = example_site(name)
    region = _at(regions.get(name, ()), moment)
    if region is None:
        return example
    site = Site(name, region.pue, region.usd_per_kwh, region.g_per_kwh, region.source)
    if site.g_per_kwh is not None:
        return site
    return replace(site, g_per_kwh=example.g_per_kwh, source=example.source or site.source)


def _pieces(whole: Interval, changes: Iterable[Since[Any]]) -> list[Interval]:
    """The interval, cut where a node came to another region, or something else came to hold
    in one.
    """
    moments = {since for rows in changes for since, _ in rows}
    inner = sorted(moment for moment in moments if whole.start < moment < whole.end)
    return [Interval(start, end) for start, end in pairwise([whole.start, *inner, whole.end])]
