"""Links in a person's mail by which he acts on incidents without a log-in: signed for that mail,
that person and that action, for some days, each of them once.

A mail may be forwarded, or be read by who is gone: so what a link does is judged when it is
followed, as if its person did it then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.urls import reverse

from fleetwatch.accounts.models import Identity, User
from fleetwatch.accounts.visibility import seeing, sight_of
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.incidents.incident_actions import NOT_YOURS, Action, act_on_all, actable
from fleetwatch.alerts.incidents.open_names import name_of
from fleetwatch.alerts.messaging.unsubscribing import unsubscribe_url
from fleetwatch.alerts.models import Incident, Notification
from fleetwatch.lib.actor import MAIL, acting, actor
from fleetwatch.notify.message import Button, Message, one_line
from fleetwatch.notify.transports import transport

SALT = "alerts.mail_links"
LASTS = timedelta(days=7)  # then a reminder has come with links of its own
SNOOZE = timedelta(hours=24)  # mail is read later than a chat
# the actions that a link can name, as its button calls them
LABELS = {
    "ack": "Acknowledge",
    "snooze": "Snooze 24 h",
    "not_waste": "Not waste",
    "fixed": "Resolve",
}

log = structlog.get_logger(__name__)


class LinkEndedError(Exception):
    """The link does nothing any more; says why."""


@dataclass(frozen=True, slots=True)
class Link:
    """One action that one mail offered to a person."""

    notification: Notification
    person: User
    action: str

    @property
    def going_on(self) -> list[Incident]:
        """What the mail told of, as far as it is not resolved."""
        rows = Incident.objects.filter(pk__in=self.notification.shown, resolved_at=None)
        return list(rows.select_related("rule").order_by("pk"))

    @property
    def page(self) -> str:
        """Where the same is done by who is logged in."""
        return f"/incidents/{self.notification.shown[0]}"


def for_person(message: Message, user: User, notification: Notification) -> Message:
    """The message as the user gets it: with a link that stops such, and in mail with links that
    act.
    """
    is_mail = transport(notification.channel.kind).person_by == Identity.System.EMAIL
    buttons = message.buttons
    if is_mail and notification.shown:
        buttons = tuple(_signed(each, notification) for each in buttons)
    return replace(
        message,
        unsubscribe_url=unsubscribe_url(user, "alerts"),
        settings_url=f"{settings.PUBLIC_URL}/me#notifications",
        buttons=buttons,
    )


def read_link(token: str) -> Link | None:
    """None where it is none of ours, or its person may not log in any more."""
    try:
        pk, person_id, action = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    rows = Notification.objects.filter(pk=pk, person_id=person_id, person__is_active=True)
    notification = rows.select_related("person").first()
    if notification is None or notification.person is None:
        return None
    return Link(notification, notification.person, action)


def titles(incidents: Iterable[Incident]) -> list[str]:
    """What they are about, a line each."""
    return [one_line(stored_breach(each.facts).title) for each in incidents]


def check(link: Link, reader: User | AnonymousUser, now: datetime) -> list[Incident]:
    """What the link would act on. `reader` is who is logged in where it is followed.

    Raises LinkEndedError, and PermissionDenied where its person may not do it (any more), or
    somebody else is logged in.
    """
    if reader.is_authenticated and reader.pk != link.person.pk:
        raise PermissionDenied(f"this link is for {name_of(link.person)}, not for you")
    if now >= link.notification.created_at + LASTS:
        raise LinkEndedError(f"it is older than {LASTS.days} days")
    if link.action in link.notification.used_links:
        raise LinkEndedError("it was used already")
    incidents = link.going_on
    if not incidents:
        raise LinkEndedError("what it is about is over")
    if actable(link.person, incidents, now=now) != {each.pk for each in incidents}:
        raise PermissionDenied(NOT_YOURS)
    return incidents


@transaction.atomic
def follow(link: Link, reason: str, *, reader: User | AnonymousUser, now: datetime) -> None:
    """Does what the link names, in its person's name, and it is used.

    Raises what check() does, and RefusedFieldError, after which it can be followed again.
    """
    # of two that come at once the second one waits, and sees that it was used
    locked = Notification.objects.select_for_update().get(pk=link.notification.pk)
    link = replace(link, notification=locked)
    person = link.person
    who = replace(actor(), name=person.get_username(), user_id=person.pk, via=MAIL)
    until = now + SNOOZE if link.action == "snooze" else None
    with acting(lambda: who), seeing(lambda: sight_of(person)):
        incidents = check(link, reader, now)
        act_on_all(incidents, Action(link.action, reason, until), by=person, now=now)
    locked.used_links.append(link.action)
    locked.save(update_fields=["used_links"])
    log.info("mail link followed", action=link.action, user=person.pk, count=len(incidents))


def _signed(button: Button, notification: Notification) -> Button:
    if button.action not in LABELS:
        return button
    named = [notification.pk, notification.person_id, button.action]
    path = reverse("mail_link", args=[signing.dumps(named, salt=SALT)])
    return replace(button, label=LABELS[button.action], url=f"{settings.PUBLIC_URL}{path}")
