"""Rates of exchange: what a unit of another currency is in dollars, from when on."""

import re
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import Q

from fleetwatch.accounts.audit import record
from fleetwatch.costs.changing import RATES, open_book
from fleetwatch.costs.models import Commitment, ExchangeRate, Rate
from fleetwatch.costs.rates.subjects import RateError

USD = "USD"
MAX_USD_PER_UNIT = Decimal(1_000_000)  # gold by the kilogram is below
FINEST = Decimal("0.00000001")
_CODE = re.compile("[A-Z]{3}")


def usd_per_unit(currency: str, moment: datetime) -> Decimal:
    """What a unit of the currency is in dollars at a moment. Raises RateError where nobody said."""
    if currency == USD:
        return Decimal(1)
    rate = (
        ExchangeRate.objects.filter(currency=currency, valid_from__lte=moment)
        .order_by("-valid_from")
        .first()
    )
    if rate is None:
        raise RateError(
            f"Nobody said what one {currency[:3]!r} is in dollars at {moment:%Y-%m-%d %H:%M} UTC.",
            field="currency",
        )
    return rate.usd_per_unit


@transaction.atomic
def set_exchange_rate(
    currency: str, rate: Decimal, *, valid_from: datetime, now: datetime, source: str = ""
) -> ExchangeRate:
    """From then on a unit of the currency is so many dollars, until the next one begins.

    Raises RateError for what can't be, in a closed month, and where one begins at that moment
    already.
    """
    if not _CODE.fullmatch(currency) or currency == USD:
        raise RateError("A currency has three letters, like EUR, and is not USD.", field="currency")
    if not rate.is_finite() or not 0 < rate <= MAX_USD_PER_UNIT or rate != rate.quantize(FINEST):
        raise RateError(
            f"A unit is up to {MAX_USD_PER_UNIT:,} dollars, with at most eight places, not {rate}.",
            field="usd_per_unit",
        )
    book = open_book(RATES)
    book.check_moment(valid_from, field="valid_from")
    book.check_open(valid_from)
    if ExchangeRate.objects.filter(currency=currency, valid_from=valid_from).exists():
        raise RateError(
            f"One of {currency} begins at that moment: withdraw it first.", field="valid_from"
        )
    made = ExchangeRate.objects.create(
        currency=currency,
        usd_per_unit=rate,
        valid_from=valid_from,
        source=source[:300],
        created_at=now,
    )
    _record("rate.exchange", made)
    return made


@transaction.atomic
def withdraw_exchange_rate(rate: ExchangeRate) -> None:
    """Deletes it: the one before holds on in its place.

    Raises RateError in a closed month, and where prices would have none left.
    """
    book = open_book(RATES)
    book.read_again(rate)
    book.check_open(rate.valid_from)
    others = ExchangeRate.objects.filter(currency=rate.currency).exclude(pk=rate.pk)
    if not others.filter(valid_from__lt=rate.valid_from).exists():
        following = others.order_by("valid_from").first()
        began = Q(currency=rate.currency)
        if following is not None:
            began &= Q(valid_from__lt=following.valid_from)
        if Rate.objects.filter(began).exists() or Commitment.objects.filter(began).exists():
            raise RateError(
                f"Prices in {rate.currency} need it: withdraw them first.", field="currency"
            )
    _record("rate.exchange_withdraw", rate)
    rate.delete()


def _record(action: str, rate: ExchangeRate) -> None:
    facts = {"usd_per_unit": str(rate.usd_per_unit), "valid_from": rate.valid_from.isoformat()}
    record(action, rate.currency, **facts)
