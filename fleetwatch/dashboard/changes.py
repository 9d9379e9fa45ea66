"""What the settings page can change: one function per form, by name. Each calls one service.

A change gives back a sentence and, where a secret was made, the secret: it is shown once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo, available_timezones

from django.shortcuts import get_object_or_404

from fleetwatch.accounts import services as accounts
from fleetwatch.accounts.models import User
from fleetwatch.accounts.selectors import organisation, zone
from fleetwatch.alerts import services as alerts
from fleetwatch.alerts.models import Rule
from fleetwatch.costs import committing, exchange, sites
from fleetwatch.costs import services as costs
from fleetwatch.costs.models import Commitment, ExchangeRate, Rate, Region
from fleetwatch.costs.subjects import KINDS, Subject, find
from fleetwatch.dashboard import numbers
from fleetwatch.ingest import tokens
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger import closing
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.intervals import floor_hour
from fleetwatch.notify import services as notify
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.base import ConfigError
from fleetwatch.reports import choices

Post = Mapping[str, str]
MAX_TTL_DAYS = 366
LONGEST_NUMBER = 19  # digits; int() of thousands of them raises
NO_SUBJECT = "Choose a GPU model, a pool or a node, or name one: node gpu-07."
# field of the service -> of the form
RATE_FIELDS = {"price": "usd", "valid_from": "since", "pool": "named"}
EXCHANGE_FIELDS = {"usd_per_unit": "usd", "valid_from": "since"}
COMMITMENT_FIELDS = {"price": "usd", "valid_from": "since", "valid_to": "until"}


class RefusedError(Exception):
    """A form that can't be taken; `errors` says per field what to change ("" = the form as a whole)."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, for people; `secret` is shown once, `secret_kind` says how it is used."""

    text: str
    secret: str = ""
    secret_kind: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A form as it was sent, by whom and when."""

    post: Post
    user: User
    now: datetime

    def text(self, name: str, *, needed: str = "") -> str:
        """The field, trimmed. Raises RefusedError with `needed` when it is empty."""
        value = self.post.get(name, "").strip()
        if needed and not value:
            raise RefusedError({name: needed})
        return value

    def number(self, name: str, *, low: int, high: int) -> int:
        """The field as a whole number in [low, high]. Raises RefusedError."""
        value = self.text(name)
        if not value.isascii() or not value.isdecimal() or len(value) > LONGEST_NUMBER or not low <= int(value) <= high:
            raise RefusedError({name: f"A whole number from {low} to {high}, please."})
        return int(value)


def set_rate(asked: Asked) -> Done:
    subject = _rate_subject(asked)
    try:
        amount = Decimal(asked.text("usd", needed="How much per GPU-hour?").removeprefix("$"))
    except InvalidOperation:
        raise RefusedError({"usd": "A number of dollars, please, like 2.49."}) from None
    currency = asked.text("currency").upper() or exchange.USD
    source = asked.text("source") or "set by hand"
    try:
        valid_from = read_since(asked.text("since"), asked.now)
        costs.set_rate(subject, amount, valid_from=valid_from, now=asked.now, currency=currency, source=source[:300])
    except costs.RateError as error:
        raise RefusedError({RATE_FIELDS.get(error.field, error.field): str(error)}) from error
    price = numbers.usd(amount) if currency == exchange.USD else f"{amount:f} {currency}"
    return Done(f"{subject.name} costs {price} per GPU-hour {_from_then_on(valid_from)} {subject.doubt}".strip())


def withdraw_rate(asked: Asked) -> Done:
    rate = get_object_or_404(Rate, pk=asked.number("id", low=1, high=2**31))
    try:
        costs.withdraw_rate(rate)
    except costs.RateError as error:
        raise RefusedError({"": str(error)}) from error
    return Done("The rate was withdrawn; the one before it holds again.")


def set_exchange_rate(asked: Asked) -> Done:
    currency = asked.text("currency", needed="Which currency?").upper()
    try:
        amount = Decimal(asked.text("usd", needed="How many dollars is one?").removeprefix("$"))
        valid_from = read_since(asked.text("since"), asked.now)
        exchange.set_exchange_rate(currency, amount, valid_from=valid_from, now=asked.now, source=asked.text("source") or "set by hand")
    except InvalidOperation:
        raise RefusedError({"usd": "A number of dollars, please, like 1.0842."}) from None
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
        made = committing.commit(
            model,
            gpus,
            name=asked.text("name"),
            valid_from=read_since(asked.text("since"), asked.now),
            valid_to=_read_until(asked),
            price_per_gpu_hour=_decimal(asked, "usd"),
            amount_per_month=_decimal(asked, "amount"),
            currency=currency,
            source=asked.text("source"),
            now=asked.now,
            **narrowed,
        )
    except costs.RateError as error:
        raise RefusedError({COMMITMENT_FIELDS.get(error.field, error.field): str(error)}) from error
    return Done(f"Committed: {made.gpus:,} {model.name}. What of them is not there is a line of its own in the fleet's report.")


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
    """The field "until" as the midnight that begins that day, None where it is empty. Raises RefusedError."""
    text = asked.text("until")
    try:
        return datetime.combine(date.fromisoformat(text), time.min, tzinfo=zone()).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        raise RefusedError({"until": "A date, please, like 2026-11-01."}) from None


def set_region(asked: Asked) -> Done:
    name = asked.text("region")
    numbers_of = {field: _decimal(asked, field) for field in ("pue", "usd_per_kwh", "g_per_kwh")}
    pue = numbers_of.pop("pue")
    if pue is None:
        raise RefusedError({"pue": "The energy at the meter by that of the machines, please, like 1.3."})
    try:
        valid_from = read_since(asked.text("since"), asked.now)
        sites.set_region(name, valid_from=valid_from, pue=pue, **numbers_of, source=asked.text("source"), source_date=asked.now.date())
    except costs.RateError as error:
        raise RefusedError({EXCHANGE_FIELDS.get(error.field, error.field): str(error)}) from error
    return Done(f"Energy in {name or 'no named region'} is counted with that {_from_then_on(valid_from)}")


def withdraw_region(asked: Asked) -> Done:
    region = get_object_or_404(Region, pk=asked.number("id", low=1, high=2**31))
    try:
        sites.withdraw_region(region)
    except costs.RateError as error:
        raise RefusedError({"": str(error)}) from error
    return Done("The row was withdrawn; what held in the region before holds again.")


def _decimal(asked: Asked, field: str) -> Decimal | None:
    """The field as a number, None where it is empty. Raises RefusedError."""
    text = asked.text(field).removeprefix("$")
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        raise RefusedError({field: "A number, please, like 1.3."}) from None


def _rate_subject(asked: Asked) -> Subject:
    """What is named in the list, or, stronger, what is typed as the list of rates has it: "node gpu-07"."""
    named = asked.text("named")
    narrowed = {"node_class": asked.text("node_class"), "region": asked.text("region")}
    kind, _, name = named.partition(" ") if named else asked.text("subject", needed=NO_SUBJECT).partition(":")
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
    """A day of the organisation, "beginning", or this hour where nothing is said. Raises RateError."""
    since = text.strip()
    if since == "beginning":
        return costs.BEGINNING
    if not since:
        return floor_hour(now)
    try:
        return datetime.combine(date.fromisoformat(since), time.min, tzinfo=zone()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise costs.RateError("A date, please, like 2026-11-01.", field="valid_from") from None


def create_channel(asked: Asked) -> Done:
    kind = asked.text("kind")
    name = asked.text("name") or kind
    try:
        channel = notify.create_channel(kind, name, asked.post, now=asked.now, gets_digest=asked.text("gets_digest") == "on")
    except ConfigError as error:
        raise RefusedError(error.errors) from error
    except ValueError as error:
        raise RefusedError({"": str(error)}) from error
    return Done(f"The channel {channel.name} was added. Send a test to see that it works.")


def update_channel(asked: Asked) -> Done:
    channel = _channel(asked)
    try:
        notify.update_channel(channel, asked.text("name"), asked.post, gets_digest=asked.text("gets_digest") == "on")
    except ConfigError as error:
        raise RefusedError(error.errors) from error
    return Done(f"{channel.name} was saved and is switched on. Send a test to see that it works.")


def test_channel(asked: Asked) -> Done:
    channel = _channel(asked)
    result = notify.test_send(channel, asked.now)
    if not result.ok:
        raise RefusedError({"": f"The test to {channel.name} did not arrive: {result.text}"})
    return Done(f"The test was sent to {channel.name}: {result.text}")


def toggle_channel(asked: Asked) -> Done:
    channel = _channel(asked)
    notify.set_enabled(channel, not channel.is_enabled)
    return Done(f"{channel.name} is switched {'on' if channel.is_enabled else 'off'}.")


def delete_channel(asked: Asked) -> Done:
    channel = _channel(asked)
    notify.delete_channel(channel)
    return Done(f"{channel.name} was removed.")


def _channel(asked: Asked) -> Channel:
    return get_object_or_404(Channel, pk=asked.number("id", low=1, high=2**31))


def create_agent_token(asked: Asked) -> Done:
    node = asked.text("node", needed="Which node is it for?")
    try:
        return Done(f"A token for {node}:", tokens.create_agent_token(node, asked.now), "agent")
    except ValueError as error:
        raise RefusedError({"node": str(error)}) from error


def revoke_agent_token(asked: Asked) -> Done:
    tokens.revoke_agent_token(asked.number("id", low=1, high=2**31), asked.now)
    return Done("The agent token was revoked; its node can enrol again.")


def create_enrollment_token(asked: Asked) -> Done:
    uses = asked.number("uses", low=1, high=tokens.MAX_USES)
    days = asked.number("days", low=1, high=MAX_TTL_DAYS)
    text = tokens.create_enrollment_token(asked.now, uses=uses, ttl=timedelta(days=days))
    return Done(
        f"Run this on {'the host' if uses == 1 else f'up to {uses} hosts'}, within {days} day{'' if days == 1 else 's'}:",
        text,
        "enrollment",
    )


def revoke_enrollment_token(asked: Asked) -> Done:
    tokens.revoke_enrollment_token(asked.number("id", low=1, high=2**31), asked.now)
    return Done("The enrolment token was revoked; agents that it let in stay.")


def create_api_token(asked: Asked) -> Done:
    name = asked.text("name", needed="What will use it?")
    return Done(f"An API token for {name}:", accounts.create_api_token(asked.user, scope="read", now=asked.now, name=name[:100]), "api")


def revoke_api_token(asked: Asked) -> Done:
    accounts.revoke_api_token(asked.number("id", low=1, high=2**31), asked.now)
    return Done("The API token was revoked.")


def choose_free_capacity(asked: Asked) -> Done:
    try:
        choices.choose_free_capacity(asked.text("way"), by=asked.user.get_username())
    except ValueError as error:
        raise RefusedError({"way": str(error)}) from error
    return Done("Statements that are made from now on tell free capacity that way; what is stored stays.")


def set_organisation(asked: Asked) -> Done:
    """A zone whose midnight is no UTC hour moves the ledger's cuts: then all hours are posted again."""
    name = asked.text("name", needed="What is it called?")
    chosen = asked.text("time_zone")
    if chosen not in available_timezones():
        raise RefusedError({"time_zone": "An IANA name, please, like Europe/Berlin."})
    before = organisation().time_zone
    if chosen != before and closed_until() is not None:
        raise RefusedError({"time_zone": f"A month is closed, and its days begin at midnight in {before}: the time zone stays."})
    accounts.set_organisation(name=name[:100], time_zone=ZoneInfo(chosen))
    if chosen == before:
        return Done("Saved.")
    ledger.repost_all(asked.now)
    return Done(f"Days now begin at midnight in {chosen}. The ledger is cut there again; this takes some minutes.")


def close_month(asked: Asked) -> Done:
    text = asked.text("month", needed="Which month? Like 2026-10.")
    try:
        closed = closing.close_month(closing.read_month(text), by=asked.user.get_username(), now=asked.now, reason=asked.text("reason"))
    except closing.ClosingError as error:
        raise RefusedError({"month": str(error)}) from error
    return Done(f"{closed.month:%Y-%m} is closed. What is judged otherwise from now on is booked as an adjustment.")


def set_rule(asked: Asked) -> Done:
    rule = get_object_or_404(Rule, pk=asked.number("id", low=1, high=2**31))
    minutes = asked.number("threshold", low=1, high=1_000_000)
    chosen = [channel for channel in Channel.objects.order_by("name") if asked.text(f"channel-{channel.pk}") == "on"]
    try:
        alerts.set_rule(rule, threshold=float(minutes), is_enabled=asked.text("is_enabled") == "on", channels=chosen)
    except ValueError as error:
        raise RefusedError({"threshold": str(error)}) from error
    if not rule.is_enabled:
        return Done(f"{rule.name} is switched off.")
    told = ", ".join(channel.name for channel in chosen) or "every channel"
    return Done(f"{rule.name}: from {minutes} minutes on, told to {told}.")


CHANGES: dict[str, Callable[[Asked], Done]] = {
    "rate": set_rate,
    "rate-withdraw": withdraw_rate,
    "commitment": add_commitment,
    "commitment-end": end_commitment,
    "commitment-withdraw": withdraw_commitment,
    "region": set_region,
    "region-withdraw": withdraw_region,
    "exchange": set_exchange_rate,
    "exchange-withdraw": withdraw_exchange_rate,
    "channel": create_channel,
    "channel-edit": update_channel,
    "channel-test": test_channel,
    "channel-toggle": toggle_channel,
    "channel-delete": delete_channel,
    "agent-token": create_agent_token,
    "agent-token-revoke": revoke_agent_token,
    "enrollment": create_enrollment_token,
    "enrollment-revoke": revoke_enrollment_token,
    "api-token": create_api_token,
    "api-token-revoke": revoke_api_token,
    "month": close_month,
    "organisation": set_organisation,
    "free-capacity": choose_free_capacity,
    "rule": set_rule,
}
