"""The doors that need no session: Slack's clicks, and the links in mails that act or stop them."""

from functools import partial
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from fleetwatch.alerts.incidents.incident_actions import MAX_REASON
from fleetwatch.alerts.incidents.open_names import name_of
from fleetwatch.alerts.messaging import mail_links, slack_clicks, unsubscribing
from fleetwatch.alerts.messaging.mail_links import Link, LinkEndedError
from fleetwatch.lib.aside import aside
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.selectors import slack_signers
from fleetwatch.notify.slack_interaction import (
    REASON,
    Interaction,
    InteractionError,
    is_first,
    parse,
)

# what strangers may send (front); Slack sends the whole message with a click, some kilobytes
MAX_BYTES = 65_536
# Slack waits 3 s for our answer; our own work before takes at most about one
REPLY_S = 1.7
REFUSALS = {
    400: "no interaction of ours",
    401: "not signed by Slack",
    409: "this came before",
    413: "too large",
}

log = structlog.get_logger(__name__)


@csrf_exempt
@require_POST
def slack_interactivity(request: HttpRequest) -> HttpResponse:
    """A click, or a window's reason, as Slack posts it: no session, Slack's signature instead. An
    empty 200 means done; what stood against it is told to who clicked alone.
    """
    now = timezone.now()
    body = request.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        return _refused(413)
    signature = request.headers.get("X-Slack-Signature", "")
    timestamp = request.headers.get("X-Slack-Request-Timestamp", "")
    signers = slack_signers(body, timestamp=timestamp, signature=signature, now=now)
    if not signers:
        return _refused(401)
    if not is_first(signature):
        return _refused(409)
    try:
        click = parse(body)
    except InteractionError:
        return _refused(400)
    return _answered(slack_clicks.act(signers, click, now), click)


@csrf_exempt
@require_http_methods(["GET", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """The link's page; what POSTs it (a person, or his mail program by one click: RFC 8058) does
    it. A GET changes nothing: scanners of mail follow links.
    """
    link = unsubscribing.read_token(token)
    if link is None:
        raise Http404
    user, what = link
    is_done = request.method == "POST"
    if is_done:
        unsubscribing.unsubscribe(user, what)
    shown = {
        "user_name": user.get_full_name() or user.get_username(),
        "what": unsubscribing.STOPS[what],
        "is_done": is_done,
    }
    return render(request, "notify/unsubscribe.html", shown)


@csrf_exempt
@never_cache
@require_http_methods(["GET", "POST"])
def mail_link(request: HttpRequest, token: str) -> HttpResponse:
    """What the link would do, and to what; its button does it. A GET changes nothing: scanners of
    mail follow links. The token is what proves the mail: no session is needed, and one of somebody
    else is refused.
    """
    link = mail_links.read_link(token)
    if link is None:
        raise Http404
    follow = _follow if request.method == "POST" else _look
    shown = {
        "link": link,
        "user_name": name_of(link.person),
        "label": mail_links.LABELS[link.action],
    }
    try:
        more = follow(request, link)
    except LinkEndedError as error:
        more = {"ended": str(error), "status": 410}
    except PermissionDenied as error:
        more = {"ended": str(error), "status": 403}
    return render(request, "notify/mail_link.html", shown | more, status=more.get("status"))


def _look(request: HttpRequest, link: Link) -> dict[str, Any]:
    """What its page shows before. Raises what mail_links.check() does."""
    incidents = mail_links.check(link, request.user, timezone.now())
    return {"titles": mail_links.titles(incidents), "longest": MAX_REASON}


def _follow(request: HttpRequest, link: Link) -> dict[str, Any]:
    """The same afterwards, or with what has to be said otherwise."""
    look = _look(request, link)
    try:
        reason = request.POST.get("reason", "")
        mail_links.follow(link, reason, reader=request.user, now=timezone.now())
    except RefusedFieldError as error:
        return look | {"error": str(error), "status": 422}
    return look | {"is_done": True}


def _answered(answer: slack_clicks.Answer, click: Interaction) -> HttpResponse:
    """A window shows what is wrong itself; of a click that is said aside."""
    if click.reason is not None and answer.text:
        return JsonResponse({"response_action": "errors", "errors": {REASON: answer.text}})
    if answer.text or answer.asks is not None:
        aside(partial(slack_clicks.reply, answer, click), within_s=REPLY_S)
    return HttpResponse()


def _refused(status: int) -> HttpResponse:
    log.warning("slack request refused", status=status, why=REFUSALS[status])
    return HttpResponse(REFUSALS[status], status=status, content_type="text/plain")
