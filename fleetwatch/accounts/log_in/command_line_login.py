"""How a command line on a host gets a token: it begins, a person confirms in a browser, it asks
until that is done.
"""

import json
from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse, RawPostDataException
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from fleetwatch.accounts.clients import client_of
from fleetwatch.accounts.log_in import waiting_logins
from fleetwatch.accounts.log_in.throttle import TooManyTriesError
from fleetwatch.accounts.log_in.waiting_logins import TooManyWaitError
from fleetwatch.accounts.models import DeviceLogin, User
from fleetwatch.lib.refusal import RefusedFieldError

PROPOSED_DAYS = 30
NO_SUCH_CODE = "No command line waits under this code: look again, or begin again there."
BUSY_S = 60


@csrf_exempt
@require_POST
@never_cache
def begin(request: HttpRequest) -> JsonResponse:
    """A log-in that waits, as RFC 8628, section 3.2 has it; 429 where too many wait."""
    try:
        new = waiting_logins.begin(_text(request, "host"), client_of(request), timezone.now())
    except TooManyWaitError:
        answer = _refusal("too many log-ins wait from here", 429)
        answer["Retry-After"] = str(BUSY_S)
        return answer
    shown = waiting_logins.in_words(new.user_code)
    return JsonResponse(
        {
            "device_code": new.device_code,
            "user_code": shown,
            "verification_uri": f"{settings.PUBLIC_URL}/device",
            "verification_uri_complete": f"{settings.PUBLIC_URL}/device?code={shown}",
            "expires_in": int(waiting_logins.TTL.total_seconds()),
            "interval": waiting_logins.INTERVAL_S,
        }
    )


@csrf_exempt
@require_POST
@never_cache
def token(request: HttpRequest) -> JsonResponse:
    """The token, once somebody confirmed; until then 400 with the error that RFC 8628 names."""
    code = _text(request, "device_code")
    if error := waiting_logins.outcome(code, timezone.now()):
        return _refusal(error, 400)
    return JsonResponse({"access_token": code, "token_type": "Bearer"})


@csrf_exempt
@require_POST
@never_cache
def end(request: HttpRequest) -> JsonResponse:
    """Revokes the token in the body."""
    if waiting_logins.end(_text(request, "token"), timezone.now()):
        return JsonResponse({"ended": True})
    return _refusal("this is no token that is in force", 401)


def _text(request: HttpRequest, name: str) -> str:
    """What the JSON body has under the name; "" where it has none."""
    try:
        sent = json.loads(request.body)
    except (ValueError, RecursionError, RawPostDataException):  # the last: it was a form
        return ""
    text = sent.get(name) if isinstance(sent, dict) else ""
    return text if isinstance(text, str) else ""


def _refusal(error: str, status: int) -> JsonResponse:
    return JsonResponse({"error": error}, status=status)


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
def confirm(request: HttpRequest) -> HttpResponse:
    """The page where a person types the code, sees who asks, and lets them in or not."""
    user = cast("User", request.user)
    sent = request.POST if request.method == "POST" else request.GET
    typed = sent.get("code", "").strip()
    if not typed:
        return _form(request)
    now = timezone.now()
    try:
        login = waiting_logins.waiting_login(typed, user, client_of(request), now)
    except TooManyTriesError as error:
        return _form(request, error=f"Too many wrong codes: wait {error.wait_s} s.", status=429)
    if login is None:
        return _form(request, error=NO_SUCH_CODE, status=422)
    if request.method == "GET":
        return _form(request, login)
    return _decide(request, user, login)


def _decide(request: HttpRequest, user: User, login: DeviceLogin) -> HttpResponse:
    now = timezone.now()
    try:
        if request.POST.get("decision") != "confirm":
            host = waiting_logins.refuse(login.pk, user, now)
            messages.info(request, f"Refused: the command line on {host} gets no token.")
            return redirect("device")
        asked = request.POST.get("days", "")
        days = next((number for number in waiting_logins.DAYS if str(number) == asked), 0)
        host = waiting_logins.confirm(login.pk, user, days, now)
    except RefusedFieldError as error:
        return _form(request, login, error=str(error), status=422)
    messages.success(request, f"The command line on {host} reads as {user.username} from now on.")
    return redirect("device")


def _form(
    request: HttpRequest, login: DeviceLogin | None = None, *, error: str = "", status: int = 200
) -> HttpResponse:
    shown = {
        "login": login,
        "code": waiting_logins.in_words(login.user_code) if login else "",
        "days": waiting_logins.DAYS,
        "proposed": PROPOSED_DAYS,
        "own_address": client_of(request),
        "error": error,
    }
    return render(request, "account/device.html", shown, status=status)
