"""What the settings page can change: one function per form, by name. Each calls one service.

A change gives back a sentence and, where a secret was made, the secret: it is shown once.
"""

from collections.abc import Callable
from datetime import timedelta
from zoneinfo import ZoneInfo, available_timezones

from django.shortcuts import get_object_or_404

from fleetwatch.accounts import services as accounts
from fleetwatch.accounts.selectors import organisation
from fleetwatch.alerts import services as alerts
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.models import Rule
from fleetwatch.dashboard import prices
from fleetwatch.dashboard.asked import Asked, Done, RefusedError
from fleetwatch.ingest import tokens
from fleetwatch.ingest.models import MAX_USES, AgentToken, Rights
from fleetwatch.inventory import silence
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.notify import services as notify
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.base import ConfigError
from fleetwatch.reports import statement_choices

MAX_TTL_DAYS = 366


def create_channel(asked: Asked) -> Done:
    kind = asked.text("kind")
    name = asked.text("name") or kind
    try:
        channel = notify.create_channel(
            kind, name, asked.post, now=asked.now, gets_digest=asked.text("gets_digest") == "on"
        )
    except ConfigError as error:
        raise RefusedError(error.errors) from error
    except ValueError as error:
        raise RefusedError({"": str(error)}) from error
    return Done(f"The channel {channel.name} was added. Send a test to see that it works.")


def update_channel(asked: Asked) -> Done:
    channel = _channel(asked)
    try:
        notify.update_channel(
            channel, asked.text("name"), asked.post, gets_digest=asked.text("gets_digest") == "on"
        )
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


def set_rights(asked: Asked) -> Done:
    token = get_object_or_404(
        AgentToken.objects.select_related("node"), pk=asked.number("id", low=1, high=2**31)
    )
    rights = Rights(
        may_import=asked.text("may_import") == "on", speaks_for=asked.text("speaks_for")
    )
    try:
        tokens.set_rights(token.pk, rights)
    except ValueError as error:
        raise RefusedError({"speaks_for": str(error)}) from error
    return Done(f"From its next batch on the token of {token.node.name} {rights.in_words}.")


def revoke_agent_token(asked: Asked) -> Done:
    tokens.revoke_agent_token(asked.number("id", low=1, high=2**31), asked.now)
    return Done("The agent token was revoked; its node can enrol again.")


def create_enrollment_token(asked: Asked) -> Done:
    uses = asked.number("uses", low=1, high=MAX_USES)
    days = asked.number("days", low=1, high=MAX_TTL_DAYS)
    text = tokens.create_enrollment_token(asked.now, uses=uses, ttl=timedelta(days=days))
    return Done(
        f"Run this on {'the host' if uses == 1 else f'up to {uses} hosts'}, within {days}"
        f" day{'' if days == 1 else 's'}:",
        text,
        "enrollment",
    )


def revoke_enrollment_token(asked: Asked) -> Done:
    tokens.revoke_enrollment_token(asked.number("id", low=1, high=2**31), asked.now)
    return Done("The enrolment token was revoked; agents that it let in stay.")


def create_api_token(asked: Asked) -> Done:
    name = asked.text("name", needed="What will use it?")
    return Done(
        f"An API token for {name}:",
        accounts.create_api_token(asked.user, scope="read", now=asked.now, name=name[:100]),
        "api",
    )


def revoke_api_token(asked: Asked) -> Done:
    accounts.revoke_api_token(asked.number("id", low=1, high=2**31), asked.now)
    return Done("The API token was revoked.")


def choose_free_capacity(asked: Asked) -> Done:
    try:
        statement_choices.choose_free_capacity(asked.text("way"), by=asked.user.get_username())
    except ValueError as error:
        raise RefusedError({"way": str(error)}) from error
    return Done(
        "Statements that are made from now on tell free capacity that way; what is stored stays."
    )


def set_organisation(asked: Asked) -> Done:
    """A zone whose midnight is no UTC hour moves the ledger's cuts: then all hours are posted
    again.
    """
    name = asked.text("name", needed="What is it called?")
    chosen = asked.text("time_zone")
    if chosen not in available_timezones():
        raise RefusedError({"time_zone": "An IANA name, please, like Europe/Berlin."})
    before = organisation().time_zone
    if chosen != before and closed_until() is not None:
        raise RefusedError(
            {
                "time_zone": (
                    f"A month is closed, and its days begin at midnight in {before}: the time zone"
                    " stays."
                )
            }
        )
    accounts.set_organisation(name=name[:100], time_zone=ZoneInfo(chosen))
    if chosen == before:
        return Done("Saved.")
    ledger.repost_all(asked.now)
    return Done(
        f"Days now begin at midnight in {chosen}. The ledger is cut there again; this takes some"
        " minutes."
    )


def close_month(asked: Asked) -> Done:
    text = asked.text("month", needed="Which month? Like 2026-10.")
    try:
        closed = closing.close_month(
            closing.read_month(text),
            by=asked.user.get_username(),
            now=asked.now,
            reason=asked.text("reason"),
        )
    except closing.ClosingError as error:
        raise RefusedError({"month": str(error)}) from error
    return Done(
        f"{closed.month:%Y-%m} is closed. What is judged otherwise from now on is booked as an"
        " adjustment."
    )


def set_rule(asked: Asked) -> Done:
    rule = get_object_or_404(Rule, pk=asked.number("id", low=1, high=2**31))
    threshold = asked.number("threshold", low=1, high=1_000_000)
    chosen = [
        channel
        for channel in Channel.objects.order_by("name")
        if asked.text(f"channel-{channel.pk}") == "on"
    ]
    try:
        alerts.set_rule(
            rule,
            threshold=float(threshold),
            is_enabled=asked.text("is_enabled") == "on",
            channels=chosen,
        )
    except ValueError as error:
        raise RefusedError({"threshold": str(error)}) from error
    if not rule.is_enabled:
        return Done(f"{rule.name} is switched off.")
    told = ", ".join(channel.name for channel in chosen) or "every channel"
    unit = condition(rule.condition).unit
    return Done(f"{rule.name}: from {threshold} {unit} on, told to {told}.")


def add_elastic_rule(asked: Asked) -> Done:
    try:
        rule = silence.add_rule(
            asked.text("kind"), asked.text("pattern", needed="A pattern, please.")
        )
    except ValueError as error:
        raise RefusedError({"pattern": f"{error}."}) from error
    return Done(f"Nodes of the {rule} are elastic: silent ones are gone after 15 minutes.")


def remove_elastic_rule(asked: Asked) -> Done:
    if not silence.remove_rule(asked.number("id", low=1, high=2**31)):
        raise RefusedError({"": "There is no such rule."})
    return Done("The rule was removed. Nodes that are gone by it stay so until they report again.")


CHANGES: dict[str, Callable[[Asked], Done]] = {
    "rate": prices.set_rate,
    "rate-withdraw": prices.withdraw_rate,
    "commitment": prices.add_commitment,
    "commitment-end": prices.end_commitment,
    "commitment-withdraw": prices.withdraw_commitment,
    "region": prices.set_region,
    "region-withdraw": prices.withdraw_region,
    "exchange": prices.set_exchange_rate,
    "exchange-withdraw": prices.withdraw_exchange_rate,
    "channel": create_channel,
    "channel-edit": update_channel,
    "channel-test": test_channel,
    "channel-toggle": toggle_channel,
    "channel-delete": delete_channel,
    "agent-token": create_agent_token,
    "agent-token-rights": set_rights,
    "agent-token-revoke": revoke_agent_token,
    "elastic": add_elastic_rule,
    "elastic-remove": remove_elastic_rule,
    "enrollment": create_enrollment_token,
    "enrollment-revoke": revoke_enrollment_token,
    "api-token": create_api_token,
    "api-token-revoke": revoke_api_token,
    "month": close_month,
    "organisation": set_organisation,
    "free-capacity": choose_free_capacity,
    "rule": set_rule,
}
