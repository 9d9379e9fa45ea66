"""Messages as mails show them: what a channel was sent, and a digest."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.incidents.incident_history import first_of, names_cause
from fleetwatch.alerts.measuring.likely_causes import likely
from fleetwatch.alerts.selectors import view_of
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.showing import existing
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.plain_text import without_own_links
from fleetwatch.notify.selectors import is_kept
from fleetwatch.notify.transports.email import html
from fleetwatch.reports import selectors

# a page of its own, which brings its style and nothing else
OF_MAIL = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


@require_GET
@needs(Right.FLEET)
@never_cache
@takes()
def message_mail(request: HttpRequest, pk: int) -> HttpResponse:
    """What a channel was sent, whatever its kind: as a mail has it, below to whom and when."""
    delivery = get_object_or_404(Delivery.objects.select_related("channel"), pk=pk)
    return _mail(delivery.message, _about(delivery))


def _about(delivery: Delivery) -> str:
    is_log = is_kept(delivery.channel.kind, delivery.state)
    state = "kept" if is_log else Delivery.State(delivery.state).label
    at = delivery.shown_at.astimezone(zone())
    return format_html(
        '<a class="link" href="{}">All messages</a> · to {}: {}, {}{}',
        reverse("settings_channels"),
        delivery.channel.name,
        state,
        f"{at:%a %-d %b %Y, %H:%M %Z}",
        _cause_since(delivery),
    )


def _cause_since(delivery: Delivery) -> str:
    """Of a message that names no cause that one is known by now, and where it stands; "" else."""
    incident = None if names_cause(delivery) else first_of(delivery)
    if incident is None or likely(view_of(incident).breach, timezone.now()) is None:
        return ""
    return format_html(
        ' · cause found later: <a class="link" href="{}">its incident</a> names it',
        reverse("incident", args=[incident.pk]),
    )


@require_GET
@login_required
@never_cache
@takes()
def digest_mail(request: HttpRequest, pk: int) -> HttpResponse:
    """A digest, for who may read it."""
    return _mail(existing(selectors.weekly_digest(pk)).content["message"])


def _mail(stored: Mapping[str, Any], about: str = "") -> HttpResponse:
    message = without_own_links(stored)
    if message is None:
        raise Http404("this message is stored in a form that is no longer read")
    return HttpResponse(html(message, about=about), headers=OF_MAIL)
