"""The page of an error that nobody caught, and of what is not there."""

import sys
from functools import lru_cache

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views import defaults
from redis.exceptions import RedisError

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import RIGHTS, Right, role_of
from fleetwatch.dashboard.search_places import PLACES
from fleetwatch.lib.cache import CACHE_AWAY
from fleetwatch.lib.trouble import database_trouble

HOLDERS = {
    role if role != User.Role.FINANCE else "finance user": held
    for role, held in RIGHTS.items()
    if held
}
# by the name of an address: what it is of, and the address's part that names it
THINGS = {
    **dict.fromkeys(("node", "agent"), ("node", "name")),
    "gpu": ("GPU", "uuid"),
    "job": ("job", "key"),
    **dict.fromkeys(("team", "team_statement", "budget"), ("team", "slug")),
    **{kind: (kind, "pk") for kind in ("finding", "incident", "rule")},
}
RETRY_AFTER_S = 10
JSON_PATHS = ("/api/", "/metrics")


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 with the reason while it is the database or Redis that says no."""
    error = sys.exc_info()[1]
    if isinstance(error, OperationalError | InterfaceError):
        return not_now(database_trouble(error), path=request.path)
    if isinstance(error, RedisError):
        return not_now(CACHE_AWAY, path=request.path)
    return defaults.server_error(request)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: which thing there is not, by its address alone: what the reader may not see reads as
    what is not there.
    """
    match = request.resolver_match
    kind, part = THINGS.get(match.url_name or "", ("", "")) if match else ("", "")
    context = {"kind": kind, "name": match.kwargs.get(part, "") if match else ""}
    return render(request, "404.html", context, status=404)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: what is not open to the reader, which right it needs and who has that."""
    context = {
        "heading": _refusal(request, str(exception)),
        "reason": str(exception) or "your role does not include it",
        "role": role_of(request.user) if isinstance(request.user, User) else "",
    }
    return render(request, "403.html", context, status=403)


def _refusal(request: HttpRequest, reason: str) -> str:
    """Who may open the page, or change it, by the right whose words the reason is."""
    needed = next((right for right in Right if right.value == reason), None)
    is_looked_at = request.method in ("GET", "HEAD")
    if needed is None:
        return "This is not open to you" if is_looked_at else "You can’t change this"
    who = " and ".join(f"{role}s" for role, held in HOLDERS.items() if needed in held)
    page = request.resolver_match.url_name if request.resolver_match else ""
    title = next((place.title for place in PLACES if place.name == page), "this page")
    return f"Only {who} can open {title}" if is_looked_at else f"Only {who} can change this"


def not_now(
    text: str, *, path: str, status: int = 503, retry_after_s: int = RETRY_AFTER_S
) -> HttpResponse:
    """What can't be answered now and can be later: JSON for scripts, a page for people."""
    answer: HttpResponse
    if path.startswith(JSON_PATHS):
        answer = JsonResponse({"error": text, "field": None}, status=status)
    else:
        answer = HttpResponse(_page(text, status, retry_after_s), status=status)
    answer["Retry-After"] = str(retry_after_s)
    answer["Cache-Control"] = "no-store"
    return answer


@lru_cache(maxsize=64)
def _page(text: str, status: int, retry_after_s: int) -> str:
    """Kept: it is told the more often the less time there is."""
    return render_to_string(
        "not_now.html", {"status": status, "text": text, "retry_after_s": retry_after_s}
    )
