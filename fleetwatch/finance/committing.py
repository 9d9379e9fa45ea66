"""Writes of commitments: made, ended, withdrawn; like rates at cuts of the ledger and never in a
closed month.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from functools import partial

import structlog
from django.db import transaction

from fleetwatch.costs.models import PRICING_CLASSES, Commitment
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.changing import check_moment, read_again, write
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.costs.services import LONGEST_NAME, MAX_USD_PER_GPU_HOUR
from fleetwatch.figures.pricing import usd
from fleetwatch.inventory.models import GPUModel

MAX_GPUS = 1_000_000
LONGEST_CONTRACT = 100
MONTH_HOURS = 744

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is committed to: so many GPUs over [valid_from, valid_to), at a price per GPU-hour or an
    amount per month for all of them. Of `pool`, `node_class` and `region` "" is any.
    """

    gpu_model: GPUModel
    gpus: int
    name: str
    valid_from: datetime
    valid_to: datetime | None = None
    price_per_gpu_hour: Decimal | None = None
    amount_per_month: Decimal | None = None
    currency: str = exchange.USD
    pool: str = ""
    node_class: str = ""
    region: str = ""


@transaction.atomic
def commit(terms: Terms, *, now: datetime, source: str = "") -> Commitment:
    """The new commitment.

    Raises RateError for what can't be, and where it would begin in a closed month.
    """
    _check(terms)
    write(terms.valid_from)
    _check_price(terms, usd_per_unit=exchange.usd_per_unit(terms.currency, terms.valid_from))
    stored = {field.name: getattr(terms, field.name) for field in fields(terms)}
    valid_to = stored.pop("valid_to")
    if Commitment.objects.filter(**stored).exists():  # a form sent twice would be paid twice
        raise RateError(
            "This very commitment stands already. A second one like it needs another name.",
            field="name",
        )
    made = Commitment.objects.create(
        **stored, valid_to=valid_to, source=source[:300], created_at=now
    )
    _say("commitment made", made)
    return made


@transaction.atomic
def end_commitment(commitment: Commitment, at: datetime) -> None:
    """Ends it, or moves its end.

    Raises RateError in a closed month, and for an end that is not after its beginning.
    """
    _check_end(commitment.valid_from, at)
    read_again(commitment)
    write(min(at, commitment.valid_to or at))
    commitment.valid_to = at
    commitment.save(update_fields=["valid_to"])
    _say("commitment ended", commitment)


@transaction.atomic
def withdraw_commitment(commitment: Commitment) -> None:
    """Deletes it, as if nobody had entered it.

    Raises RateError where some of its time is closed: end it instead.
    """
    read_again(commitment)
    write(commitment.valid_from)
    _say("commitment withdrawn", commitment)
    commitment.delete()


def _check(terms: Terms) -> None:
    if not 1 <= terms.gpus <= MAX_GPUS:
        raise RateError(f"A commitment is for 1 to {MAX_GPUS:,} GPUs.", field="gpus")
    _check_text(terms.name, LONGEST_CONTRACT, field="name", needed=True)
    _check_text(terms.pool, LONGEST_NAME, field="pool")
    _check_text(terms.region, LONGEST_NAME, field="region")
    if terms.node_class and terms.node_class not in PRICING_CLASSES:
        raise RateError(
            f"A class is {', '.join(PRICING_CLASSES)}, not {terms.node_class[:40]!r}.",
            field="node_class",
        )
    check_moment(terms.valid_from, field="valid_from")
    _check_end(terms.valid_from, terms.valid_to)


def _check_end(valid_from: datetime, valid_to: datetime | None) -> None:
    if valid_to is None:
        return
    check_moment(valid_to, field="valid_to")
    if valid_to <= valid_from:
        raise RateError("A commitment has to end after it begins.", field="valid_to")


def _check_price(terms: Terms, *, usd_per_unit: Decimal) -> None:
    per_hour, per_month = terms.price_per_gpu_hour, terms.amount_per_month
    if (per_hour is None) == (per_month is None):
        raise RateError(
            "Either a price per GPU-hour or an amount per month, please.", field="price"
        )
    field = "price" if per_month is None else "amount"
    amount = per_hour if per_month is None else per_month
    most = (
        MAX_USD_PER_GPU_HOUR * (1 if per_month is None else terms.gpus * MONTH_HOURS) / usd_per_unit
    )
    if amount is None or not amount.is_finite() or not 0 <= amount <= most:
        raise RateError(
            f"A GPU-hour costs 0 to {MAX_USD_PER_GPU_HOUR} dollars: {amount} is no price for that.",
            field=field,
        )
    if usd(amount) != amount:
        raise RateError(f"{amount} is finer than a millionth.", field=field)


def _check_text(text: str, longest: int, *, field: str, needed: bool = False) -> None:
    if needed and not text:
        raise RateError("Which contract is it? A name, please.", field=field)
    if len(text) > longest or not text.isprintable() or text != text.strip():
        raise RateError(
            f"At most {longest} letters and no control characters, please.", field=field
        )


def _say(event: str, commitment: Commitment) -> None:
    """Logs it once it is true."""
    facts = {
        "commitment": commitment.pk,
        "gpu_model": commitment.gpu_model.name,
        "gpus": commitment.gpus,
    }
    ends = commitment.valid_to.isoformat() if commitment.valid_to else None
    transaction.on_commit(
        partial(
            log.info, event, valid_from=commitment.valid_from.isoformat(), valid_to=ends, **facts
        )
    )
