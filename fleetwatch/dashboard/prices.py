"""What the settings page can change about money: rates, rates of exchange, commitments, regions.

As changes.py, which lists them.
"""

from datetime import datetime
from decimal import Decimal

from django.shortcuts import get_object_or_404

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import services as costs
from fleetwatch.costs import sites
from fleetwatch.costs.models import Commitment, ExchangeRate, Rate, Region
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.subjects import KINDS, Subject, find
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.asked import Asked, Done, RefusedError
from fleetwatch.finance import committing
from fleetwatch.inventory.models import GPUModel
from fleetwatch.lib import amounts, csv_cells
from fleetwatch.lib.csv_rows import FieldError
from fleetwatch.lib.intervals import floor_hour

NO_MOMENT = "A date, please, like 2026-11-01, or a time like 2026-11-01T14:00Z."
NO_SUBJECT = "Choose a GPU model, a pool or a node, or name one: node gpu-07."
# field of the service -> of the form
RATE_FIELDS = {"price": "usd", "valid_from": "since", "pool": "named"}
EXCHANGE_FIELDS = {"usd_per_unit": "usd", "valid_from": "since"}
COMMITMENT_FIELDS = {"price": "usd", "valid_from": "since", "valid_to": "until"}


def set_rate(asked: Asked) -> Done:
    subject = _rate_subject(asked)
    amount = amounts.typed(asked.text("usd", needed="How much per GPU-hour?"))
    if amount is None:
        raise RefusedError({"usd": "A number of dollars, please, like 2.49."})
    currency = asked.text("currency").upper() or exchange.USD
    source = asked.text("source") or "set by hand"
    try:
        valid_from = read_since(asked.text("since"), asked.now)
        costs.set_rate(
            subject,
            amount,
            valid_from=valid_from,
            now=asked.now,
            currency=currency,
            source=source[:300],
        )
    except costs.RateError as error:
        raise RefusedError({RATE_FIELDS.get(error.field, error.field): str(error)}) from error
    return Done(
        f"{subject.name} costs {numbers.price(amount, currency)} per GPU-hour"
        f" {_from_then_on(valid_from)} {subject.doubt}".strip()
    )


def withdraw_rate(asked: Asked) -> Done:
    rate = get_object_or_404(Rate, pk=asked.number("id", low=1, high=2**31))
    try:
        costs.withdraw_rate(rate)
    except costs.RateError as error:
        raise RefusedError({"": str(error)}) from error
    return Done("The rate was withdrawn; the one before it holds again.")


def set_exchange_rate(asked: Asked) -> Done:
    currency = asked.text("currency", needed="Which currency?").upper()
    amount = amounts.typed(asked.text("usd", needed="How many dollars is one?"))
    if amount is None:
        raise RefusedError({"usd": "A number of dollars, please, like 1.0842."})
    try:
        valid_from = read_since(asked.text("since"), asked.now)
        exchange.set_exchange_rate(
            currency,
            amount,
            valid_from=valid_from,
            now=asked.now,
            source=asked.text("source") or "set by hand",
        )
    except costs.RateError as error:
        raise RefusedError({EXCHANGE_FIELDS.get(error.field, error.field): str(error)}) from error
    return Done(f"One {currency} is ${amount:f} {_from_then_on(valid_from)}")


def withdraw_exchange_rate(asked: Asked) -> Done:
    rate = get_object_or_404(ExchangeRate, pk=asked.number("id", low=1, high=2**31))
    try:
        exchange.withdraw_exchange_rate(rate)
    except costs.RateError as error:
        raise RefusedError({"": str(error)}) from error
    return Done("The exchange rate was withdrawn; the one before it holds again.")


def add_commitment(asked: Asked) -> Done:
    model = GPUModel.objects.filter(name=asked.text("gpu_model")).first()
    if model is None:
        raise RefusedError({"gpu_model": "Choose a GPU model, please."})
    gpus = asked.number("gpus", low=1, high=committing.MAX_GPUS)
    narrowed = {field: asked.text(field) for field in ("pool", "node_class", "region")}
    currency = asked.text("currency").upper() or exchange.USD
    try:
        terms = committing.Terms(
            gpu_model=model,
            gpus=gpus,
            name=asked.text("name"),
            valid_from=read_since(asked.text("since"), asked.now),
            valid_to=_read_until(asked),
            price_per_gpu_hour=_decimal(asked, "usd"),
            amount_per_month=_decimal(asked, "amount"),
            currency=currency,
            **narrowed,
        )
        made = committing.commit(terms, now=asked.now, source=asked.text("source"))
    except costs.RateError as error:
        raise RefusedError({COMMITMENT_FIELDS.get(error.field, error.field): str(error)}) from error
    return Done(
        f"Committed: {made.gpus:,} {model.name}. What of them is not there is a line of its own in"
        " the fleet's report."
    )


def end_commitment(asked: Asked) -> Done:
    commitment = _commitment(asked)
    until = _read_until(asked)
    if until is None:
        raise RefusedError({"until": "On which day does it end? Like 2026-11-01."})
    try:
        committing.end_commitment(commitment, until)
    except costs.RateError as error:
        raise RefusedError({"until": str(error)}) from error
    return Done(f"{commitment.name} ends at {until.astimezone(zone()):%Y-%m-%d %H:%M}.")


def withdraw_commitment(asked: Asked) -> Done:
    commitment = _commitment(asked)
    try:
        committing.withdraw_commitment(commitment)
    except costs.RateError as error:
        raise RefusedError({"": str(error)}) from error
    return Done(f"The commitment {commitment.name} was withdrawn.")


def _commitment(asked: Asked) -> Commitment:
    return get_object_or_404(Commitment, pk=asked.number("id", low=1, high=2**31))


def _read_until(asked: Asked) -> datetime | None:
    """The field "until": the midnight that begins that day, or a time with its offset; None where
    it is empty. Raises RefusedError.
    """
    try:
        return csv_cells.moment("until", asked.text("until"), zone())
    except FieldError:
        raise RefusedError({"until": NO_MOMENT}) from None


def set_region(asked: Asked) -> Done:
    name = asked.text("region")
    numbers_of = {field: _decimal(asked, field) for field in ("pue", "usd_per_kwh", "g_per_kwh")}
    pue = numbers_of.pop("pue")
    if pue is None:
        raise RefusedError(
            {"pue": "The energy at the meter by that of the machines, please, like 1.3."}
        )
    try:
        valid_from = read_since(asked.text("since"), asked.now)
        sites.set_region(
            name,
            valid_from=valid_from,
            pue=pue,
            **numbers_of,
            source=asked.text("source"),
            source_date=asked.now.date(),
        )
    except costs.RateError as error:
        raise RefusedError({EXCHANGE_FIELDS.get(error.field, error.field): str(error)}) from error
    return Done(
        f"Energy in {name or 'no named region'} is counted with that {_from_then_on(valid_from)}"
    )


def withdraw_region(asked: Asked) -> Done:
    region = get_object_or_404(Region, pk=asked.number("id", low=1, high=2**31))
    try:
        sites.withdraw_region(region)
    except costs.RateError as error:
        raise RefusedError({"": str(error)}) from error
    return Done("The row was withdrawn; what held in the region before holds again.")


def _decimal(asked: Asked, field: str) -> Decimal | None:
    """The field as a number, None where it is empty. Raises RefusedError."""
    text = asked.text(field)
    amount = amounts.typed(text)
    if text and amount is None:
        raise RefusedError({field: "A number, please, like 1.3."})
    return amount


def _rate_subject(asked: Asked) -> Subject:
    """What is named in the list, or, stronger, what is typed as the list of rates has it: "node
    gpu-07".
    """
    named = asked.text("named")
    narrowed = {"node_class": asked.text("node_class"), "region": asked.text("region")}
    kind, _, name = (
        named.partition(" ") if named else asked.text("subject", needed=NO_SUBJECT).partition(":")
    )
    kind = {"model": "gpu_model"}.get(kind.lower(), kind.lower())
    if kind not in KINDS or not name.strip():
        raise RefusedError({"named" if named else "subject": NO_SUBJECT})
    try:
        return find(kind, name.strip(), **narrowed)
    except costs.RateError as error:
        raise RefusedError({"named" if named else "subject": str(error)}) from error


def _from_then_on(valid_from: datetime) -> str:
    if valid_from == costs.BEGINNING:
        return "from the beginning. Every page shows it at once."
    return f"from {valid_from.astimezone(zone()):%Y-%m-%d %H:%M} on; hours before keep their price."


def read_since(text: str, now: datetime) -> datetime:
    """A day of the organisation, a time with its offset, "beginning", or this hour where nothing is
    said. Raises RateError.
    """
    since = text.strip()
    if since.lower() == "beginning":
        return costs.BEGINNING
    try:
        return csv_cells.moment("valid_from", since, zone()) or floor_hour(now)
    except FieldError:
        raise costs.RateError(NO_MOMENT, field="valid_from") from None
