"""Regions and what is known of them; the energy of any scope by the regions its nodes were in."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise

from django.db import transaction
from django.db.models import QuerySet

from fleetwatch.costs.energy import Drawn, Energy, Site, energy_of, example_site
from fleetwatch.costs.models import NodePlace, Region
from fleetwatch.costs.rates.changing import check_moment, write
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.costs.services import LONGEST_NAME
from fleetwatch.figures.selectors import totals_by
from fleetwatch.figures.totals import EVERYTHING, Group, Scope, Totals
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import Interval

Stays = defaultdict[str, list[tuple[datetime, str]]]
MAX_G_PER_KWH, MAX_USD_PER_KWH, MAX_PUE = Decimal(3000), Decimal(100), Decimal(5)


def energy(
    interval: Interval, *, scope: Scope = EVERYTHING, by_node: Sequence[Group] | None = None
) -> Energy:
    """What the scope drew in the interval, each hour at the region that its node was in then and
    what held there then.

    `by_node` is totals_by(node) of both, where it is known already: read again only where something
    else came to hold meanwhile.
    """
    stays, every = (
        _stays(interval, NodePlace.objects.all()),
        _by_name(Region.objects.order_by("valid_from")),
    )
    parts = []
    pieces = _pieces(interval, stays, every)
    for piece in pieces:
        for group in (
            by_node
            if by_node is not None and len(pieces) == 1
            else totals_by(piece, "node", scope=scope)
        ):
            site, found = (
                _site_at(_region_at(stays[group.key], piece.start), piece.start, every),
                group.totals,
            )
            parts.append(Drawn(site, found.energy_j, found.energy_ms, found.capacity_ms))
    return energy_of(parts)


def energy_of_node(node: Node, interval: Interval, found: Totals) -> Energy:
    """energy() of one node whose totals are known already: read again only where something else
    came to hold meanwhile.
    """
    stays = _stays(interval, NodePlace.objects.filter(node=node))
    names = {region for _, region in stays[node.name]} or {""}
    every = _by_name(Region.objects.filter(name__in=names).order_by("valid_from"))
    if len(_pieces(interval, stays, every)) > 1:
        return energy(interval, scope=Scope(node=node.name))
    site = _site_at(_region_at(stays[node.name], interval.start), interval.start, every)
    return energy_of([Drawn(site, found.energy_j, found.energy_ms, found.capacity_ms)])


@transaction.atomic
def set_region(
    name: str,
    *,
    valid_from: datetime,
    pue: Decimal,
    usd_per_kwh: Decimal | None,
    g_per_kwh: Decimal | None,
    source: str = "",
    source_date: date | None = None,
) -> Region:
    """What holds in a region ("" = of nodes that name none) from then on, until its next row
    begins.

    One that begins at that moment is replaced. Raises RateError for what can't be, and in a closed
    month.
    """
    if len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise RateError(
            f"The name of a region has at most {LONGEST_NAME} letters and no control characters.",
            field="region",
        )
    for field, value, low, high in (
        ("pue", pue, Decimal(1), MAX_PUE),
        ("usd_per_kwh", usd_per_kwh, Decimal(0), MAX_USD_PER_KWH),
        ("g_per_kwh", g_per_kwh, Decimal(0), MAX_G_PER_KWH),
    ):
        if value is not None and not (value.is_finite() and low <= value <= high):
            raise RateError(f"A number from {low} to {high}, please.", field=field)
    check_moment(valid_from, field="valid_from")
    write(valid_from)
    facts = {
        "pue": pue,
        "usd_per_kwh": usd_per_kwh,
        "g_per_kwh": g_per_kwh,
        "source": source[:300],
        "source_date": source_date,
    }
    return Region.objects.update_or_create(name=name, valid_from=valid_from, defaults=facts)[0]


@transaction.atomic
def withdraw_region(region: Region) -> None:
    """Deletes it: what held in the region before holds on in its place.

    Raises RateError in a closed month.
    """
    write(region.valid_from)
    region.delete()


def _by_name(rows: Iterable[Region]) -> dict[str, list[Region]]:
    """The rows of each region, in the order in which they begin."""
    found: dict[str, list[Region]] = defaultdict(list)
    for row in rows:
        found[row.name].append(row)
    return found


def _site_at(name: str, moment: datetime, every: Mapping[str, Sequence[Region]]) -> Site:
    """What holds in the region at a moment."""
    began = [row for row in every.get(name, ()) if row.valid_from <= moment]
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


def _pieces(whole: Interval, stays: Stays, every: Mapping[str, Sequence[Region]]) -> list[Interval]:
    """The interval, cut where a node came to another region, or something else came to hold
    in one.
    """
    moments = {since for each in stays.values() for since, _ in each} | {
        row.valid_from for rows in every.values() for row in rows
    }
    inner = sorted(moment for moment in moments if whole.start < moment < whole.end)
    return [Interval(start, end) for start, end in pairwise([whole.start, *inner, whole.end])]


def _site(region: Region) -> Site:
    """As somebody described the region; a grid that was left open is the average of the country
    whose code it is.
    """
    if region.g_per_kwh is not None:
        return Site(region.name, region.pue, region.usd_per_kwh, region.g_per_kwh, region.source)
    known = example_site(region.name)
    return Site(
        region.name, region.pue, region.usd_per_kwh, known.g_per_kwh, known.source or region.source
    )
