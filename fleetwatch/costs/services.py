"""Writes of costs: rates, each valid from one moment to another.

What was charged is never changed in passing.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.costs import tco
from fleetwatch.costs.changing import RATES, OpenBook, open_book
from fleetwatch.costs.models import PRICING_CLASSES, Rate
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.example_prices import example_price
from fleetwatch.costs.rates.subjects import (
    BEGINNING,
    KINDS,
    LONGEST_NAME,
    RateError,
    rates_like,
    subject_name,
)
from fleetwatch.costs.tco import Component
from fleetwatch.figures.pricing import MICRO_USD, usd
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.refusal import is_name

MAX_USD_PER_GPU_HOUR = Decimal(10_000)  # far above any GPU: a higher price is a typing error

__all__ = ["BEGINNING", "RateError", "ensure_example_rates", "set_rate", "withdraw_rate"]


@transaction.atomic
def set_rate(
    rate: Rate,
    *,
    now: datetime,
    components: Sequence[Component] = (),
    book: OpenBook | None = None,
) -> Rate:
    """Stores a new rate of its subject over [valid_from, valid_to).

    The rate that held before ends where it begins (and holds again from valid_to on, if
    there is one); shipped examples that begin later make room too, because nobody agreed on them.

    Raises RateError for an amount or a moment that can't be, and when an own rate stands
    in the way: that one has to be withdrawn first (withdraw_rate), knowingly.

    Who sets many in one transaction opens the `book` once, for all of them.
    """
    book = book or open_book(RATES)
    book.check_moment(rate.valid_from, field="valid_from")
    book.check_end(rate.valid_from, rate.valid_to)
    _check_subject(rate)
    book.check_open(rate.valid_from)
    rate.price_per_gpu_hour = _checked_price(rate)
    rate.pricing_class = _checked_class(rate.pricing_class or rate.node_class)
    rate.components = _checked_components(components, rate.price_per_gpu_hour)
    rate.created_at = now
    for standing in _overlapping(rate).order_by("valid_from"):
        _make_room(standing, valid_from=rate.valid_from, valid_to=rate.valid_to)
    rate.save(force_insert=True)
    _record("rate.set", rate)
    return rate


def _overlapping(rate: Rate) -> QuerySet[Rate]:
    """The subject's rates that hold in any of the rate's time."""
    rates = rates_like(rate).filter(Q(valid_to__isnull=True) | Q(valid_to__gt=rate.valid_from))
    return rates if rate.valid_to is None else rates.filter(valid_from__lt=rate.valid_to)


@transaction.atomic
def withdraw_rate(rate: Rate) -> None:
    """Deletes a rate; the one that ended where it began holds on in its place, so that nothing
    becomes unpriced by a correction.

    The dollars of its whole time change: call it only on a person's word.
    Raises RateError where some of that is closed.
    """
    book = open_book(RATES)
    book.read_again(rate)
    book.check_open(rate.valid_from)
    _record("rate.withdraw", rate)
    rate.delete()
    rates_like(rate).filter(valid_to=rate.valid_from).update(valid_to=rate.valid_to)


def ensure_example_rates(now: datetime) -> dict[str, int]:
    """How many GPU models that have a GPU and no rate for all nodes got their shipped example
    price.

    It is valid from the beginning, or from where the ledger is open on.
    """
    since = closed_until() or BEGINNING
    own = Rate.objects.filter(gpu_model=OuterRef("pk"), node_class="", region="")
    models = GPUModel.objects.filter(~Exists(own), gpus__isnull=False).distinct()
    examples = [
        Rate(
            gpu_model=model,
            price_per_gpu_hour=price.usd_per_gpu_hour,
            valid_from=since,
            is_example=True,
            source=price.source,
            source_date=price.source_date,
            created_at=now,
        )
        for model in models
        if (price := example_price(model.name)) is not None
    ]
    # a rate that someone set meanwhile stands: the constraint one_rate_per_model_at_a_time sends
    # the example away
    Rate.objects.bulk_create(examples, ignore_conflicts=True)
    return {"created": len(examples)}


def _make_room(standing: Rate, *, valid_from: datetime, valid_to: datetime | None) -> None:
    """Takes [valid_from, valid_to) out of a standing rate.

    Raises RateError when it is the user's own and begins in there.
    """
    ends = standing.valid_to
    again_from = valid_to if valid_to is not None and (ends is None or ends > valid_to) else None
    if standing.valid_from < valid_from:
        standing.valid_to = valid_from
        standing.save(update_fields=["valid_to"])
        if again_from is not None:
            standing.pk = None
            standing.valid_from = again_from
            standing.valid_to = ends
            standing.save(force_insert=True)
        return
    if not standing.is_example:
        price = f"{standing.price_per_gpu_hour} {standing.currency}"
        raise RateError(
            f"A rate of {price} stands from {standing.valid_from:%Y-%m-%d %H:%M} UTC: withdraw it"
            " first.",
            field="valid_from",
        )
    if again_from is not None:
        standing.valid_from = again_from
        standing.save(update_fields=["valid_from"])
    else:
        standing.delete()


def _record(action: str, rate: Rate) -> None:
    price = f"{rate.price_per_gpu_hour} {rate.currency}"
    record(action, subject_name(rate), price=price, valid_from=rate.valid_from.isoformat())


def _checked_price(rate: Rate) -> Decimal:
    amount = rate.price_per_gpu_hour
    usd_per_unit = exchange.usd_per_unit(rate.currency, rate.valid_from)
    if not amount.is_finite():
        raise RateError(f"{amount} is no price.", field="price")
    if not 0 <= amount <= MAX_USD_PER_GPU_HOUR / usd_per_unit:
        raise RateError(
            f"A GPU-hour costs 0 to {MAX_USD_PER_GPU_HOUR} dollars, not {amount}.", field="price"
        )
    price = usd(amount)
    if price != amount:
        raise RateError(f"{amount} is finer than a millionth ({MICRO_USD}).", field="price")
    return price


def _checked_components(components: Sequence[Component], whole: Decimal) -> list[dict[str, str]]:
    """As the rate keeps them. Raises ValueError when they are not the price."""
    if components and tco.price(components) != whole:
        raise ValueError(f"components sum to {tco.price(components)}, not to {whole}")
    return [
        {"name": part.name, "usd_per_gpu_hour": f"{part.usd_per_gpu_hour:f}", "how": part.how}
        for part in components
    ]


def _check_subject(rate: Rate) -> None:
    named = [name for name in KINDS if getattr(rate, name)]
    if len(named) != 1:
        raise RateError(
            "A rate is for one GPU, one node, one pool or one GPU model.", field="subject"
        )
    if rate.gpu_model is None and (rate.node_class or rate.region):
        raise RateError(
            "Only a GPU model's rate can be for a class or a region.",
            field="region" if rate.region else "node_class",
        )
    if rate.gpu is not None and rate.gpu.parent_id is not None:
        raise RateError(
            "A MIG instance costs its share of its GPU: set the GPU's rate.", field="subject"
        )
    check_name("pool", rate.pool)
    check_name("region", rate.region)
    _checked_class(rate.node_class, field="node_class")


def check_name(field: str, text: str) -> None:
    """Raises RateError for what can be no pool's or region's name."""
    if not is_name(text, longest=LONGEST_NAME):
        raise RateError(
            f"The name of a {field} has at most {LONGEST_NAME} letters and no control characters.",
            field=field,
        )


def _checked_class(text: str, *, field: str = "pricing_class") -> str:
    if text and text not in PRICING_CLASSES:
        raise RateError(f"A class is {', '.join(PRICING_CLASSES)}, not {text[:40]!r}.", field=field)
    return text
