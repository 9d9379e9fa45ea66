"""Edges that are no part of the read API: its description, /metrics, /healthz, /readyz."""

import ipaddress
import json

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_update
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from fleetwatch.api import collector, readiness
from fleetwatch.api.auth import reader
from fleetwatch.api.known_parameters import refusal
from fleetwatch.api.request_period import RequestError
from fleetwatch.api.v1 import api
from fleetwatch.operations import disk


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The read API's description."""
    if reader(request) is None:
        return _stranger()
    wrong = refusal(request)
    if wrong is not None:
        return _refused(wrong)
    return JsonResponse(
        api.get_openapi_schema(path_prefix=request.path.removesuffix("openapi.json"))
    )


def nothing_here(request: HttpRequest, path: str) -> HttpResponse:
    """Addresses under /api/v1 that do not exist: scripts get JSON, not a page."""
    return JsonResponse({"error": "there is nothing at this address", "field": None}, status=404)


@require_safe
@login_required
# Swagger UI writes style attributes; scripts stay our own files
@csp_update({"style-src": [SELF, UNSAFE_INLINE]})
def docs(request: HttpRequest) -> HttpResponse:
    """How to begin with the API, and all of it to try out, by scripts that django-ninja ships."""
    wrong = refusal(request)
    if wrong is not None:
        return _refused(wrong)
    swagger = {
        "layout": "BaseLayout",
        "deepLinking": True,
        "defaultModelsExpandDepth": 0,  # a hundred shapes of answers, folded
        "filter": True,
        "url": reverse("api-openapi"),
        "validatorUrl": None,
    }
    return render(
        request, "api/docs.html", {"page": "api", "swagger_settings": json.dumps(swagger)}
    )


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text, for a token, a session, or an address in FLEETWATCH_METRICS_ALLOW."""
    try:
        if not _is_allowed(request.META.get("REMOTE_ADDR", "")) and reader(request) is None:
            return _stranger()
    except RequestError as closed:
        return _refused(closed)
    wrong = refusal(request)
    if wrong is not None:
        return _refused(wrong)
    return HttpResponse(collector.text(timezone.now()), content_type=CONTENT_TYPE_LATEST)


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"ok": True})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether the instance works; the names of what is missing, and of a full disk that it is."""
    missing = readiness.missing(timezone.now())
    reason = disk.trouble()
    answer = {"ready": not missing, "missing": missing} | ({"reason": reason} if reason else {})
    return JsonResponse(answer, status=503 if missing else 200)


def _is_allowed(address: str) -> bool:
    """Whether the connection's own address is on the list; X-Forwarded-For is a claim and does not
    count.
    """
    try:
        own = ipaddress.ip_address(address)
    except ValueError:  # a unix socket has no address
        return False
    return any(own in network for network in settings.METRICS_ALLOW)


def _refused(wrong: RequestError) -> HttpResponse:
    return JsonResponse({"error": str(wrong), "field": wrong.field}, status=wrong.status)


def _stranger() -> HttpResponse:
    answer = JsonResponse(
        {"error": "an API token or a session is needed", "field": "Authorization"}, status=401
    )
    answer["WWW-Authenticate"] = "Bearer"
    return answer
