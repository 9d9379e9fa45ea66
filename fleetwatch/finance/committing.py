"""Writes of commitments: made, ended, withdrawn; like rates at cuts of the ledger and never in a
closed month.
"""

from datetime import datetime

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.costs.changing import RATES, OpenBook, open_book
from fleetwatch.costs.models import PRICING_CLASSES, Commitment
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.subjects import LONGEST_NAME, RateError
from fleetwatch.costs.services import MAX_USD_PER_GPU_HOUR
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.refusal import is_name

MAX_GPUS = 1_000_000
LONGEST = {"name": 100, "pool": LONGEST_NAME, "region": LONGEST_NAME}
MONTH_HOURS = 744
# what makes two commitments one
TERMS = (
    "gpu_model",
    "gpus",
    "name",
    "valid_from",
    "price_per_gpu_hour",
    "amount_per_month",
    "currency",
    "pool",
    "node_class",
    "region",
)


@transaction.atomic
def commit(commitment: Commitment, *, now: datetime) -> Commitment:
    """Stores a new commitment: so many GPUs over [valid_from, valid_to), at a price per GPU-hour or
    an amount per month for all of them.

    Raises RateError for what can't be, and where it would begin in a closed month.
    """
    book = open_book(RATES)
    _check(commitment, book)
    book.check_open(commitment.valid_from)
    _check_price(commitment)
    terms = {name: getattr(commitment, name) for name in TERMS}
    if Commitment.objects.filter(**terms).exists():  # a form sent twice would be paid twice
        raise RateError(
            "This very commitment stands already. A second one like it needs another name.",
            field="name",
        )
    commitment.source = commitment.source[:300]
    commitment.created_at = now
    commitment.save(force_insert=True)
    _record("commitment.make", commitment)
    return commitment


@transaction.atomic
def end_commitment(commitment: Commitment, at: datetime) -> None:
    """Ends it, or moves its end.

    Raises RateError in a closed month, and for an end that is not after its beginning.
    """
    book = open_book(RATES)
    book.check_end(commitment.valid_from, at, row="commitment")
    book.read_again(commitment)
    book.check_open(min(at, commitment.valid_to or at))
    commitment.valid_to = at
    commitment.save(update_fields=["valid_to"])
    _record("commitment.end", commitment)


@transaction.atomic
def withdraw_commitment(commitment: Commitment) -> None:
    """Deletes it, as if nobody had entered it.

    Raises RateError where some of its time is closed: end it instead.
    """
    book = open_book(RATES)
    book.read_again(commitment)
    book.check_open(commitment.valid_from)
    _record("commitment.withdraw", commitment)
    commitment.delete()


def _check(terms: Commitment, book: OpenBook) -> None:
    if not 1 <= terms.gpus <= MAX_GPUS:
        raise RateError(f"A commitment is for 1 to {MAX_GPUS:,} GPUs.", field="gpus")
    if not terms.name:
        raise RateError("Which contract is it? A name, please.", field="name")
    for field, longest in LONGEST.items():
        if not is_name(getattr(terms, field), longest=longest):
            raise RateError(
                f"At most {longest} letters and no control characters, please.", field=field
            )
    if terms.node_class and terms.node_class not in PRICING_CLASSES:
        raise RateError(
            f"A class is {', '.join(PRICING_CLASSES)}, not {terms.node_class[:40]!r}.",
            field="node_class",
        )
    book.check_moment(terms.valid_from, field="valid_from")
    book.check_end(terms.valid_from, terms.valid_to, row="commitment")


def _check_price(terms: Commitment) -> None:
    usd_per_unit = exchange.usd_per_unit(terms.currency, terms.valid_from)
    prices = {"price": terms.price_per_gpu_hour, "amount": terms.amount_per_month}
    given = [(field, amount) for field, amount in prices.items() if amount is not None]
    if len(given) != 1:
        raise RateError(
            "Either a price per GPU-hour or an amount per month, please.", field="price"
        )
    [(field, amount)] = given
    hours = 1 if field == "price" else terms.gpus * MONTH_HOURS
    if not amount.is_finite() or not 0 <= amount <= MAX_USD_PER_GPU_HOUR * hours / usd_per_unit:
        raise RateError(
            f"A GPU-hour costs 0 to {MAX_USD_PER_GPU_HOUR} dollars: {amount} is no price for that.",
            field=field,
        )
    if usd(amount) != amount:
        raise RateError(f"{amount} is finer than a millionth.", field=field)


def _record(action: str, commitment: Commitment) -> None:
    record(
        action,
        commitment.name,
        gpu_model=commitment.gpu_model.name,
        gpus=commitment.gpus,
        price=_price(commitment),
        valid_from=commitment.valid_from.isoformat(),
        valid_to=commitment.valid_to.isoformat() if commitment.valid_to else None,
    )


def _price(commitment: Commitment) -> str:
    """ "1.5 USD per GPU-hour"."""
    of_hour = commitment.price_per_gpu_hour
    amount = commitment.amount_per_month or ZERO if of_hour is None else of_hour
    unit = "month" if of_hour is None else "GPU-hour"
    return f"{amount.normalize():f} {commitment.currency} per {unit}"
