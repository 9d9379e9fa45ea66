"""What a click in Slack does to the incidents that its message tells of."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, transaction

from fleetwatch.accounts.models import Identity, User
from fleetwatch.accounts.names.holders import person_named
from fleetwatch.accounts.visibility import seeing, sight_of
from fleetwatch.alerts.incidents.incident_actions import Action, act_on_all
from fleetwatch.alerts.models import Incident
from fleetwatch.lib.actor import SLACK, Actor, acting
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import limit_waits
from fleetwatch.notify.message import OPENING
from fleetwatch.notify.models import Channel
from fleetwatch.notify.selectors import carrier
from fleetwatch.notify.services import ask_reason, whisper
from fleetwatch.notify.slack_interaction import Interaction
from fleetwatch.notify.transports.base import TransportError

# of Slack's 3 s: how long a row is waited for (an evaluation may hold it), and a statement takes
LOCK_MS = 800
STATEMENT_MS = 1000
GROUP = "group/"
BUSY = "FleetWatch is just looking at this incident: click again in a moment."
NOT_OURS = "FleetWatch does not know what this message is about any more."
OVER = "This is over already."
NO_WINDOW = "The window did not open in time: click again, or open the incident's page."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to say to who clicked, "" where the message's change says it; `asks`: the channel whose
    app asks for a reason first.
    """

    text: str = ""
    asks: Channel | None = None


def act(signers: Iterable[Channel], click: Interaction, now: datetime) -> Answer:
    """Does what was clicked, as the person whose Slack member it is. `signers`: the channels of the
    app that it came from.
    """
    if click.action in OPENING:
        return Answer()
    person = person_named(Identity.System.SLACK, click.who)
    if person is None:
        return Answer(_stranger(click.who))
    channel = carrier(signers, click.value)
    if channel is None:
        return Answer(NOT_OURS)
    if click.action == "not_waste" and click.reason is None:
        return Answer(asks=channel)
    with (
        acting(lambda: Actor(person.get_username(), person.pk, SLACK)),
        seeing(lambda: sight_of(person)),
    ):
        return Answer(_did(person, click, now))


def reply(answer: Answer, click: Interaction) -> None:
    """Opens the window, or says it to who clicked; what Slack does not take is logged."""
    text = answer.text
    try:
        if answer.asks is not None:
            text = _ask(answer.asks, click)
        if text:
            whisper(click, text)
    except TransportError as error:
        log.warning("slack click not answered", action=click.action, error=str(error)[:200])


def _ask(channel: Channel, click: Interaction) -> str:
    """What to say where no window opened, else ""."""
    try:
        ask_reason(channel, click)
    except TransportError as error:
        log.warning("slack window not opened", error=str(error)[:200])
        return NO_WINDOW
    return ""


def _did(person: User, click: Interaction, now: datetime) -> str:
    """What stood against it, else ""."""
    try:
        with transaction.atomic():
            limit_waits(lock_ms=LOCK_MS, statement_ms=STATEMENT_MS)
            incidents = _going_on(click.value)
            if not incidents:
                return OVER
            action = Action(click.action, reason=click.reason or "")
            act_on_all(incidents, action, by=person, now=now)
    except OperationalError:
        return BUSY
    except (RefusedFieldError, PermissionDenied) as error:
        return str(error)
    log.info("slack click done", action=click.action, about=click.value, user=person.pk)
    return ""


def _going_on(thread: str) -> list[Incident]:
    """The incidents of the group that the thread is of, as far as they are not resolved."""
    group_id = thread.removeprefix(GROUP)
    if not thread.startswith(GROUP) or not group_id.isdecimal():
        return []
    return list(Incident.objects.filter(group=int(group_id), resolved_at=None).order_by("pk"))


def _stranger(member: str) -> str:
    return (
        f"FleetWatch knows nobody as Slack member {member}. Claim that name on"
        f" {settings.PUBLIC_URL}/me: once an admin has confirmed it, your clicks count."
    )
