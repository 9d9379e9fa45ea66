"""Edges that are no part of the read API: its description, /metrics, /healthz, /readyz."""

import ipaddress
from dataclasses import replace
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from fleetwatch.api import collector, readiness, reference
from fleetwatch.api.auth import reader
from fleetwatch.api.description import ERRORS
from fleetwatch.api.example_values import example_values
from fleetwatch.api.known_parameters import refusal
from fleetwatch.api.request_period import RequestError
from fleetwatch.api.v1 import api
from fleetwatch.ingest.taken_forms import FORMS
from fleetwatch.operations import disk

DESCRIPTION = "openapi.json"  # the end of its address


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The read API's description."""
    if reader(request) is None:
        return _stranger()
    wrong = refusal(request)
    if wrong is not None:
        return _refused(wrong)
    return JsonResponse(api.get_openapi_schema(path_prefix=request.path.removesuffix(DESCRIPTION)))


def nothing_here(request: HttpRequest, path: str) -> HttpResponse:
    """Addresses under /api/v1 that do not exist: scripts get JSON, not a page."""
    return JsonResponse({"error": "there is nothing at this address", "field": None}, status=404)


@require_safe
@login_required
def docs(request: HttpRequest) -> HttpResponse:
    """How to begin with the API, and every operation of it with a call to copy."""
    wrong = refusal(request)
    if wrong is not None:
        return _refused(wrong)
    context = {
        "page": "api",
        "origin": settings.PUBLIC_URL.rstrip("/"),
        **_with_values(_reference(), example_values(timezone.now())),
    }
    return render(request, "api/docs.html", context)


def _with_values(shown: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """The description with examples of this fleet, as far as the reader sees them."""
    groups = [
        replace(group, operations=[each.with_values(values) for each in group.operations])
        for group in shown["groups"]
    ]
    return shown | {"groups": groups, "examples": values}


@cache
def _reference() -> dict[str, Any]:
    """The description as its page shows it: it is the same as long as this process runs."""
    described = api.get_openapi_schema(path_prefix=reverse("api-openapi").removesuffix(DESCRIPTION))
    groups = reference.groups(described)
    return {
        "groups": groups,
        "first": groups[0].operations[0],
        "count": sum(len(group.operations) for group in groups),
        "common_sets": reference.common_parameters(described),
        "answers": {status: meaning for status, (_, meaning) in ERRORS.items()},
    }


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
    """This process answers; an agent asks it before its first batch in which form it may be."""
    return JsonResponse({"ok": True}, headers=FORMS)


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
