"""What the settings page can change: one function per form, by name. Each calls one service.

A change gives back a sentence and, where a secret was made, the secret: it is shown once.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from django.db import transaction
from django.db.models import Model

from fleetwatch.accounts import services as accounts
from fleetwatch.accounts import visibility
from fleetwatch.accounts.log_in import second_factor
from fleetwatch.accounts.models import ApiToken, OthersShown
from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs import services as costs
from fleetwatch.costs import sites
from fleetwatch.costs.models import Commitment, ExchangeRate, Rate, Region
from fleetwatch.costs.rates import exchange
from fleetwatch.dashboard.forms import api_tokens, policy_form, prices
from fleetwatch.dashboard.forms.asked import Asked, Done, refusing
from fleetwatch.finance import committing
from fleetwatch.ingest import tokens
from fleetwatch.ingest.models import MAX_USES, AgentToken, EnrollmentToken, Rights
from fleetwatch.inventory import silence
from fleetwatch.jobs import job_links as jobs
from fleetwatch.jobs.models import JobLink
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify import services as notify
from fleetwatch.notify.models import Channel
from fleetwatch.reports import statement_choices

MAX_TTL_DAYS = 366
SECOND_FACTOR = {
    "everybody": "Everybody now needs a second factor, including who is logged in already.",
    "each": "A second factor is now optional.",
}

OTHERS_SHOWN = {
    OthersShown.EVERYTHING: "Everybody sees everything.",
    OthersShown.OWN_TEAMS: "Engineers and leads now see only their own teams and jobs.",
    OthersShown.PSEUDONYMS: "Engineers and leads now see totals, and others under pseudonyms.",
}


def create_channel(asked: Asked) -> Done:
    kind = asked.text("kind")
    name = asked.text("name") or kind
    channel = notify.create_channel(
        kind, name, asked.post, now=asked.now, gets_digest=asked.is_ticked("gets_digest")
    )
    if asked.text("then") != "test":
        return Done(f"The channel {channel.name} was added. Send a test to see that it works.")
    result = notify.test_send(channel, asked.now)
    if result.ok:
        return Done(f"The channel {channel.name} was added, and its test was sent: {result.text}")
    return Done(f"The channel {channel.name} was added, but its test did not arrive: {result.text}")


def update_channel(asked: Asked) -> Done:
    channel = asked.row(Channel)
    notify.update_channel(
        channel, asked.text("name"), asked.post, gets_digest=asked.is_ticked("gets_digest")
    )
    return Done(f"{channel.name} was saved and is switched on. Send a test to see that it works.")


def test_channel(asked: Asked) -> Done:
    channel = asked.row(Channel)
    result = notify.test_send(channel, asked.now)
    if not result.ok:
        raise RefusedFieldError(f"The test to {channel.name} did not arrive: {result.text}")
    return Done(f"The test was sent to {channel.name}: {result.text}")


def toggle_channel(asked: Asked) -> Done:
    channel = asked.row(Channel)
    notify.set_enabled(channel, not channel.is_enabled)
    return Done(f"{channel.name} is switched {'on' if channel.is_enabled else 'off'}.")


def create_agent_token(asked: Asked) -> Done:
    node = asked.text("node", needed="Which node is it for?")
    with refusing("node"):
        return Done(f"A token for {node}:", tokens.create_agent_token(node, asked.now), "agent")


def set_rights(asked: Asked) -> Done:
    token = asked.row(AgentToken.objects.select_related("node"))
    rights = Rights(may_import=asked.is_ticked("may_import"), speaks_for=asked.text("speaks_for"))
    with refusing("speaks_for"):
        tokens.set_rights(token.pk, rights)
    return Done(f"From its next batch on the token of {token.node.name} {rights.in_words}.")


def revocation(
    model: type[Model], revoke: Callable[[int, datetime], object], done: str
) -> Callable[[Asked], Done]:
    """The form that revokes a token of the model; `done` says that it was."""

    def change(asked: Asked) -> Done:
        revoke(asked.row(model).pk, asked.now)
        return Done(done)

    return change


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


def choose_free_capacity(asked: Asked) -> Done:
    with refusing("way"):
        statement_choices.choose_free_capacity(asked.text("way"))
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
        raise RefusedFieldError("An IANA name, please, like Europe/Berlin.", field="time_zone")
    before = organisation().time_zone
    if chosen != before and closed_until() is not None:
        raise RefusedFieldError(
            f"A month is closed, and its days begin at midnight in {before}: the time zone stays.",
            field="time_zone",
        )
    accounts.set_organisation(name=name[:100], time_zone=ZoneInfo(chosen))
    if chosen == before:
        return Done("Saved.")
    ledger.repost_all(asked.now)
    return Done(
        f"Days now begin at midnight in {chosen}. The ledger is cut there again; this takes some"
        " minutes."
    )


def set_access(asked: Asked) -> Done:
    whose = asked.text("second_factor")
    if whose not in SECOND_FACTOR:
        raise RefusedFieldError("Choose one of the two.", field="second_factor")
    shown = asked.text("others_shown") or organisation().others_shown
    if asked.text("others_shown") and shown not in OTHERS_SHOWN:
        raise RefusedFieldError("Choose one from the list.", field="others_shown")
    with transaction.atomic():
        second_factor.set_required(whose == "everybody")
        visibility.set_others_shown(shown)
    others = OTHERS_SHOWN.get(OthersShown(shown), "")
    return Done(f"{SECOND_FACTOR[whose]} {others}".strip())


def close_month(asked: Asked) -> Done:
    text = asked.text("month", needed="Which month? Like 2026-10.")
    with refusing("month"):
        closed = closing.close_month(
            closing.read_month(text), by=asked.by, now=asked.now, reason=asked.text("reason")
        )
    return Done(
        f"{closed.month:%Y-%m} is closed. What is judged otherwise from now on is booked as an"
        " adjustment."
    )


def add_elastic_rule(asked: Asked) -> Done:
    pattern = asked.text("pattern", needed="A pattern, please.")
    try:
        rule = silence.add_rule(asked.text("kind"), pattern)
    except RefusedFieldError as error:
        raise RefusedFieldError(f"{error}.", field="pattern") from error
    return Done(f"Nodes of the {rule} are elastic: silent ones are gone after 15 minutes.")


def remove_elastic_rule(asked: Asked) -> Done:
    if not silence.remove_rule(asked.id()):
        raise RefusedFieldError("There is no such rule.")
    return Done("The rule was removed. Nodes that are gone by it stay so until they report again.")


def add_link(asked: Asked) -> Done:
    title = asked.text("title", needed="What is it called?")
    link = jobs.add_link(title, asked.text("template", needed="Where does it lead?"))
    return Done(f"{link.title} stands on the page of each job of which all is known that it names.")


def remove_link(asked: Asked) -> Done:
    link = asked.row(JobLink)
    jobs.remove_link(link)
    return Done(f"{link.title} was removed.")


CHANGES: dict[str, Callable[[Asked], Done]] = {
    "rate": prices.set_rate,
    "rate-withdraw": prices.withdrawal(
        Rate, costs.withdraw_rate, "The rate was withdrawn; the one before it holds again."
    ),
    "commitment": prices.add_commitment,
    "commitment-end": prices.end_commitment,
    "commitment-withdraw": prices.withdrawal(
        Commitment, committing.withdraw_commitment, "The commitment {0.name} was withdrawn."
    ),
    "region": prices.set_region,
    "region-withdraw": prices.withdrawal(
        Region,
        sites.withdraw_region,
        "The row was withdrawn; what held in the region before holds again.",
    ),
    "exchange": prices.set_exchange_rate,
    "exchange-withdraw": prices.withdrawal(
        ExchangeRate,
        exchange.withdraw_exchange_rate,
        "The exchange rate was withdrawn; the one before it holds again.",
    ),
    "channel": create_channel,
    "channel-edit": update_channel,
    "channel-test": test_channel,
    "channel-toggle": toggle_channel,
    "channel-delete": prices.withdrawal(Channel, notify.remove_channel, "{0.name} was removed."),
    "agent-token": create_agent_token,
    "agent-token-rights": set_rights,
    "agent-token-revoke": revocation(
        AgentToken,
        tokens.revoke_agent_token,
        "The agent token was revoked; its node can enrol again.",
    ),
    "elastic": add_elastic_rule,
    "elastic-remove": remove_elastic_rule,
    "link": add_link,
    "link-remove": remove_link,
    "enrollment": create_enrollment_token,
    "enrollment-revoke": revocation(
        EnrollmentToken,
        tokens.revoke_enrollment_token,
        "The enrolment token was revoked; agents that it let in stay.",
    ),
    "api-token": api_tokens.make,
    "api-token-revoke": revocation(
        ApiToken, accounts.revoke_api_token, "The API token was revoked."
    ),
    "month": close_month,
    "policy-set": policy_form.put_in_force,
    "organisation": set_organisation,
    "access": set_access,
    "free-capacity": choose_free_capacity,
}
