"""The page of an error that nobody caught."""

import sys
from functools import lru_cache

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views import defaults
from redis.exceptions import RedisError

from fleetwatch.lib.cache import CACHE_AWAY
from fleetwatch.lib.trouble import database_trouble

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
