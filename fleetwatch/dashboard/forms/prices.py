"""What the settings page can change about money: rates, rates of exchange, commitments, regions.

As changes.py, which lists them.
"""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import services as costs
from fleetwatch.costs import sites
from fleetwatch.costs.models import Commitment, Rate, Region
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.subjects import KINDS, doubt, find, subject_name
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.forms.asked import Asked, Done, Row, refusing
from fleetwatch.finance import committing
from fleetwatch.inventory.models import GPUModel
from fleetwatch.lib.csv_files import amounts, csv_cells
from fleetwatch.lib.csv_files.csv_rows import FieldError
from fleetwatch.lib.intervals import floor_hour
from fleetwatch.lib.refusal import RefusedFieldError

NO_MOMENT = "A date, please, like 2026-11-01, or a time like 2026-11-01T14:00Z."
NO_SUBJECT = "Choose a GPU model, a pool or a node, or name one: node gpu-07."
# field of the service -> of its form
FIELDS = {"price": "usd", "usd_per_unit": "usd", "valid_from": "since", "valid_to": "until"}
RATE_FIELDS = FIELDS | {"pool": "named"}
NOT_KEPT = ("do", "csrfmiddlewaretoken")  # of a form that is sent once more


def read_rate(asked: Asked) -> Rate:
    """The rate that the form describes, not set yet. Raises RefusedFieldError."""
    subject = _rate_subject(asked)
    amount = _dollars(asked, needed="How much per GPU-hour?", like="2.49")
    currency = asked.text("currency").upper() or exchange.USD
    source = asked.text("source") or "set by hand"
    return Rate(
        **subject,
        price_per_gpu_hour=amount,
        valid_from=read_since(asked.text("since"), asked.now),
        currency=currency,
        source=source[:300],
    )


def in_words(rate: Rate) -> str:
    """H100 SXM at $2.49."""
    return f"{subject_name(rate)} at {numbers.price(rate.price_per_gpu_hour, rate.currency)}"


def set_rate(asked: Asked) -> Done:
    rate = read_rate(asked)
    amount = rate.price_per_gpu_hour
    costs.set_rate(rate, now=asked.now)
    return Done(
        f"{subject_name(rate)} costs {numbers.price(amount, rate.currency)} per GPU-hour"
        f" {_from_then_on(rate.valid_from)} {doubt(rate)}".strip()
    )


def set_exchange_rate(asked: Asked) -> Done:
    currency = asked.text("currency", needed="Which currency?").upper()
    amount = _dollars(asked, needed="How many dollars is one?", like="1.0842")
    valid_from = read_since(asked.text("since"), asked.now)
    exchange.set_exchange_rate(
        currency,
        amount,
        valid_from=valid_from,
        now=asked.now,
        source=asked.text("source") or "set by hand",
    )
    return Done(f"One {currency} is ${amount:f} {_from_then_on(valid_from)}")


def withdrawal(
    rows: type[Row], withdraw: Callable[[Row], object], done: str
) -> Callable[[Asked], Done]:
    """The form that withdraws one of those rows; `done` says that it was, of the row {0}."""

    def change(asked: Asked) -> Done:
        row = asked.row(rows)
        with refusing(""):
            withdraw(row)
        return Done(done.format(row))

    return change


def add_commitment(asked: Asked) -> Done:
    model = GPUModel.objects.filter(name=asked.text("gpu_model")).first()
    if model is None:
        raise RefusedFieldError("Choose a GPU model, please.", field="gpu_model")
    terms = {field: asked.text(field) for field in ("name", "pool", "node_class", "region")}
    commitment = Commitment(
        gpu_model=model,
        gpus=asked.number("gpus", low=1, high=committing.MAX_GPUS),
        valid_from=read_since(asked.text("since"), asked.now),
        valid_to=_read_until(asked),
        price_per_gpu_hour=_decimal(asked, "usd"),
        amount_per_month=_decimal(asked, "amount"),
        currency=asked.text("currency").upper() or exchange.USD,
        source=asked.text("source"),
        **terms,
    )
    made = committing.commit(commitment, now=asked.now)
    return Done(
        f"Committed: {made.gpus:,} {model.name}. What of them is not there is a line of its own in"
        " the fleet's report."
    )


def end_commitment(asked: Asked) -> Done:
    commitment = asked.row(Commitment)
    until = _read_until(asked)
    if until is None:
        raise RefusedFieldError("On which day does it end? Like 2026-11-01.", field="until")
    with refusing("until"):
        committing.end_commitment(commitment, until)
    return Done(f"{commitment.name} ends at {until.astimezone(zone()):%Y-%m-%d %H:%M}.")


def _read_until(asked: Asked) -> datetime | None:
    """The field "until": the midnight that begins that day, or a time with its offset; None where
    it is empty. Raises RefusedFieldError.
    """
    try:
        return csv_cells.moment("until", asked.text("until"), zone())
    except FieldError:
        raise RefusedFieldError(NO_MOMENT, field="until") from None


def set_region(asked: Asked) -> Done:
    name = asked.text("region")
    pue, usd_per_kwh, g_per_kwh = (
        _decimal(asked, field) for field in ("pue", "usd_per_kwh", "g_per_kwh")
    )
    if pue is None:
        raise RefusedFieldError(
            "The energy at the meter by that of the machines, please, like 1.3.", field="pue"
        )
    valid_from = read_since(asked.text("since"), asked.now)
    region = Region(
        name=name,
        valid_from=valid_from,
        pue=pue,
        usd_per_kwh=usd_per_kwh,
        g_per_kwh=g_per_kwh,
        source=asked.text("source"),
        source_date=asked.now.date(),
    )
    sites.set_region(region)
    return Done(
        f"Energy in {name or 'no named region'} is counted with that {_from_then_on(valid_from)}"
    )


def _dollars(asked: Asked, *, needed: str, like: str) -> Decimal:
    """The field "usd". Raises RefusedFieldError."""
    amount = amounts.typed(asked.text("usd", needed=needed))
    if amount is None:
        raise RefusedFieldError(f"A number of dollars, please, like {like}.", field="usd")
    return amount


def _decimal(asked: Asked, field: str) -> Decimal | None:
    """The field as a number, None where it is empty. Raises RefusedFieldError."""
    text = asked.text(field)
    amount = amounts.typed(text)
    if text and amount is None:
        raise RefusedFieldError("A number, please, like 1.3.", field=field)
    return amount


def _rate_subject(asked: Asked) -> dict[str, Any]:
    """What is named in the list, or, stronger, what is typed as the list of rates has it: "node
    gpu-07".
    """
    named = asked.text("named")
    kind, _, name = (
        named.partition(" ") if named else asked.text("subject", needed=NO_SUBJECT).partition(":")
    )
    kind = {"model": "gpu_model"}.get(kind.lower(), kind.lower())
    field = "named" if named else "subject"
    if kind not in KINDS or not name.strip():
        raise RefusedFieldError(NO_SUBJECT, field=field)
    with refusing(field):
        subject = find(kind, name.strip())
    return subject | {name: asked.text(name) for name in ("node_class", "region")}


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
