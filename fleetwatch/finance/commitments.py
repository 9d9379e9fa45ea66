"""Reads of commitments: which there are, and what of them was there, used and missing over a
period.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

from django.db.models import Min, Q, QuerySet

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.day_sums import SETTLED
from fleetwatch.costs.models import Commitment, ExchangeRate
from fleetwatch.figures import boundaries
from fleetwatch.figures.pricing import HOUR_MS
from fleetwatch.figures.totals import ZERO
from fleetwatch.finance.coverage import (
    Above,
    Covered,
    Kind,
    Promise,
    There,
    cover,
    narrowness,
    together,
)
from fleetwatch.finance.kinds import KindTime, time_of_kinds
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, ceil_hour, floor_hour, from_ms


@dataclass(frozen=True, slots=True)
class Coverage:
    """Commitments over [interval): hours that the ledger knows; None = it knows none of those asked
    for, or nothing was committed.
    """

    interval: Interval | None
    lines: list[tuple[Commitment, Covered]]
    above: list[Above]  # what commitments of the model could have covered and did not, by GPU model


def commitments() -> QuerySet[Commitment]:
    """All of them, by GPU model and beginning."""
    return Commitment.objects.select_related("gpu_model").order_by(
        "gpu_model__name", "valid_from", "pk"
    )


def coverage(
    interval: Interval, *, now: datetime | None = None, times: Sequence[KindTime] | None = None
) -> Coverage:
    """What of the commitments of the period was used, there and missing, and what stood above them.

    Of the hours that the ledger knows: before its first one nobody saw what was there. `now` leaves
    out those that are not posted yet; None = the period is over. `times`: time_of_kinds() of the
    interval, where it is read already.
    """
    known = _known(interval, now)
    found = [] if known is None else list(_in_force(known))
    if known is None or not found:
        return Coverage(None, [], [])
    if times is None:
        times = time_of_kinds(known, gpu_model_ids=sorted({each.gpu_model_id for each in found}))
    every, above = cover(_promised(found, known), _there(times))
    by_id = {each.pk: each for each in found}
    return Coverage(known, [(by_id[each.commitment], each) for each in every], above)


def _known(interval: Interval, now: datetime | None) -> Interval | None:
    """The whole cuts of the interval from the ledger's first whole hour on, up to what is posted at
    `now`.
    """
    first = Entry.objects.aggregate(first=Min("start"))["first"]
    if first is None:
        return None
    whole = boundaries.outward(interval, zone())
    start, end = (
        max(whole.start, ceil_hour(first)),
        whole.end if now is None else min(whole.end, floor_hour(now - SETTLED)),
    )
    return Interval(start, end) if start < end else None


def _in_force(interval: Interval) -> QuerySet[Commitment]:
    return commitments().filter(
        Q(valid_to__isnull=True) | Q(valid_to__gt=interval.start), valid_from__lt=interval.end
    )


def _promised(found: Sequence[Commitment], interval: Interval) -> dict[datetime, list[Promise]]:
    """By cut, what each commitment promised in it: the narrowest first, then the older."""
    organisation_zone, dollars = zone(), _Exchange(found)
    ordered = sorted(found, key=lambda each: (-narrowness(_wanted(each)), each.valid_from, each.pk))
    promised: dict[datetime, list[Promise]] = {}
    for cut in boundaries.between(interval, organisation_zone):
        promises = []
        for each in ordered:
            start, end = max(cut.start, each.valid_from), min(cut.end, each.valid_to or cut.end)
            if start < end:
                price = _usd_per_ms(each, cut.start, organisation_zone) * dollars.per_unit(
                    each.currency, cut.start
                )
                promises.append(
                    Promise(
                        each.pk, _wanted(each), each.gpus * Interval(start, end).duration_ms, price
                    )
                )
        promised[cut.start] = promises
    return promised


def _usd_per_ms(commitment: Commitment, moment: datetime, organisation_zone: ZoneInfo) -> Fraction:
    """Its price per GPU-millisecond in its currency: an amount by the month is spread over the
    month's hours and its GPUs.
    """
    if commitment.price_per_gpu_hour is not None:
        return Fraction(commitment.price_per_gpu_hour) / HOUR_MS
    month_ms = boundaries.month(moment, organisation_zone).duration_ms
    return Fraction(commitment.amount_per_month or ZERO) / (month_ms * commitment.gpus)


class _Exchange:
    """What units of the commitments' currencies are in dollars, at any moment."""

    def __init__(self, found: Sequence[Commitment]) -> None:
        self._since: dict[str, list[datetime]] = defaultdict(list)
        self._rates: dict[str, list[Fraction]] = defaultdict(list)
        for rate in ExchangeRate.objects.filter(
            currency__in={each.currency for each in found}
        ).order_by("valid_from"):
            self._since[rate.currency].append(rate.valid_from)
            self._rates[rate.currency].append(Fraction(rate.usd_per_unit))

    def per_unit(self, currency: str, moment: datetime) -> Fraction:
        """1 for dollars; the service saw to it that others have a rate from the commitment's
        beginning on.
        """
        if currency == "USD":
            return Fraction(1)
        return self._rates[currency][bisect_right(self._since[currency], moment) - 1]


def _wanted(commitment: Commitment) -> Kind:
    return Kind(
        commitment.gpu_model.name, commitment.pool, commitment.node_class, commitment.region
    )


def _there(times: Iterable[KindTime]) -> dict[datetime, dict[Kind, There]]:
    """By cut and kind what was there; of a kind that had several rates in a cut at their
    average.
    """
    by_cut: dict[int, dict[Kind, There]] = defaultdict(dict)
    for each in times:
        # time without a rate is in no dollar figure
        usd_per_ms = Fraction(each.usd_per_gpu_hour or ZERO) / HOUR_MS
        for cut_ms, capacity_ms, held_ms in zip(
            each.cuts_ms, each.capacity_ms, each.held_ms, strict=True
        ):
            if capacity_ms:
                more, kinds = There(capacity_ms, held_ms, usd_per_ms), by_cut[cut_ms]
                kinds[each.kind] = together(kinds[each.kind], more) if each.kind in kinds else more
    return {from_ms(cut_ms): kinds for cut_ms, kinds in by_cut.items()}
