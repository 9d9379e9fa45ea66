"""Reads of commitments: which there are, and what of them was there, used and missing over a
period.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.day_sums import SETTLED
from fleetwatch.costs.models import Commitment, ExchangeRate
from fleetwatch.costs.rates.exchange import USD
from fleetwatch.figures import boundaries
from fleetwatch.figures.pricing import EXACT
from fleetwatch.figures.selectors import ledger_began
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
from fleetwatch.lib.intervals import HOUR_MS, Interval, ceil_hour, floor_hour, from_ms


@dataclass(frozen=True, slots=True)
class Coverage:
    """Commitments over [interval): hours that the ledger knows; None = it knows none of those asked
    for, or nothing was committed.
    """

    interval: Interval | None
    lines: list[tuple[Commitment, Covered]]
    above: list[Above]  # what commitments of the model could have covered and did not, by GPU model
    # by a commitment's id the GPU time that it promised of the period before FleetWatch saw a GPU:
    # not observed, neither delivered nor missing
    before_ms: dict[int, int] = field(default_factory=dict)


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
    posted = _posted(interval, now)
    if posted is None:
        return Coverage(None, [], [])
    holds_on = Q(valid_to__isnull=True) | Q(valid_to__gt=posted.start)
    committed = list(commitments().filter(holds_on, valid_from__lt=posted.end))
    if not committed:
        return Coverage(None, [], [])
    if times is None:
        times = time_of_kinds(posted, gpu_model_ids=sorted({row.gpu_model_id for row in committed}))
    covered, above = cover(_promised(committed, posted), _there(times))
    by_id = {row.pk: row for row in committed}
    lines = [(by_id[each.commitment], each) for each in covered]
    return Coverage(posted, lines, above, _before(committed, interval, posted))


def _before(
    committed: Sequence[Commitment], interval: Interval, posted: Interval
) -> dict[int, int]:
    """What each promised of the interval before the hours that the ledger knows."""
    if interval.start >= posted.start:
        return {}
    before = Interval(interval.start, posted.start)
    return {row.pk: _promised_ms(row, before) for row in committed}


def _posted(interval: Interval, now: datetime | None) -> Interval | None:
    """The whole cuts of the interval from the ledger's first whole hour on, up to what is posted at
    `now`.
    """
    first = ledger_began()
    if first is None:
        return None
    whole = boundaries.outward(interval, zone())
    start = max(whole.start, ceil_hour(first))
    end = whole.end if now is None else min(whole.end, floor_hour(now - SETTLED))
    return Interval(start, end) if start < end else None


def _promised(committed: Sequence[Commitment], interval: Interval) -> dict[datetime, list[Promise]]:
    """By cut, what each commitment promised in it: the narrowest first, then the older."""
    organisation_zone = zone()
    currencies = {row.currency for row in committed}
    rates = list(ExchangeRate.objects.filter(currency__in=currencies).order_by("-valid_from"))
    ordered = sorted(committed, key=lambda row: (-narrowness(_wanted(row)), row.valid_from, row.pk))
    promised: dict[datetime, list[Promise]] = {}
    for cut in boundaries.between(interval, organisation_zone):
        promised[cut.start] = promises = []
        for row in ordered:
            if gpu_ms := _promised_ms(row, cut):
                price = _usd_per_ms(row, cut.start, organisation_zone)
                price *= _usd_per_unit(rates, row.currency, cut.start)
                promises.append(Promise(row.pk, _wanted(row), gpu_ms, price))
    return promised


def _promised_ms(commitment: Commitment, cut: Interval) -> int:
    start = max(cut.start, commitment.valid_from)
    end = min(cut.end, commitment.valid_to or cut.end)
    return commitment.gpus * Interval(start, end).duration_ms if start < end else 0


def _usd_per_ms(commitment: Commitment, moment: datetime, organisation_zone: ZoneInfo) -> Fraction:
    """Its price per GPU-millisecond in its currency: an amount by the month is spread over the
    month's hours and its GPUs.
    """
    if commitment.price_per_gpu_hour is not None:
        return Fraction(commitment.price_per_gpu_hour) / HOUR_MS
    month_ms = boundaries.month(moment, organisation_zone).duration_ms
    return Fraction(commitment.amount_per_month or ZERO) / (month_ms * commitment.gpus)


def usd_per_gpu_hour(commitment: Commitment, at: datetime) -> Decimal:
    """What the contract says of a GPU-hour in the month and at the rate of exchange of then."""
    rates = ExchangeRate.objects.filter(currency=commitment.currency).order_by("-valid_from")
    exact = _usd_per_ms(commitment, at, zone()) * HOUR_MS
    exact *= _usd_per_unit(rates, commitment.currency, at)
    return EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator))


def _usd_per_unit(rates: Iterable[ExchangeRate], currency: str, moment: datetime) -> Fraction:
    """Dollars of a unit at a moment, by rates of which the newest come first; the service saw to it
    that there is one from the commitment's beginning on.
    """
    held = (rate for rate in rates if rate.currency == currency and rate.valid_from <= moment)
    return Fraction(1 if currency == USD else next(held).usd_per_unit)


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
                more = There(capacity_ms, held_ms, usd_per_ms)
                kinds = by_cut[cut_ms]
                kinds[each.kind] = together(kinds[each.kind], more) if each.kind in kinds else more
    return {from_ms(cut_ms): kinds for cut_ms, kinds in by_cut.items()}
