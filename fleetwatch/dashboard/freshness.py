"""Whether what a browser shows is still what it would be given: told by the version of what pages
are made of, without making the page.

A version holds for a minute at most: time goes on, and the ledger with it. Within the minute it
ends with what anybody does and with what alerts find. Only whoever asks by a version is answered
by one, live pages (static/js/live.js) and the browser's own copies of figures: a page that somebody
opens or reloads is always made.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.cache import patch_cache_control

from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

HOLDS_MS = 60_000

_VERSION = read_statement("dashboard/sql/version.sql")


@dataclass(frozen=True, slots=True)
class Freshness:
    """The `version` of what is shown, "" of what has none; `newest_ms` is the end of the newest
    data of any node, None where there is none yet or nobody asked.
    """

    version: str = ""
    newest_ms: int | None = None

    def context(self) -> dict[str, Any]:
        """What a live page's template is given of it."""
        return {"page_version": self.version, "newest_ms": self.newest_ms}


NEVER_LIVE = Freshness()  # what a form answers, what is stored


def freshness(request: HttpRequest, now: datetime) -> Freshness:
    """What is shown at the address now, for who asks: another version where it may differ."""
    [(done, evaluated, newest_ms)] = fetched(_VERSION, (), is_fixed=True)
    minute = to_ms(now) // HOLDS_MS
    parts = (request.user.pk, request.get_full_path(), minute, done, evaluated)
    digest = sha256("\n".join(map(str, parts)).encode()).hexdigest()[:24]
    return Freshness(digest, newest_ms)


def unchanged(request: HttpRequest, version: str) -> HttpResponse | None:
    """304 for a browser that has this version, if there is one; None for another."""
    if not version or request.headers.get("If-None-Match") != _tag(version):
        return None
    return marked(HttpResponseNotModified(), version)


def marked(response: HttpResponse, version: str) -> HttpResponse:
    """The response as one of this version, which a browser keeps and asks about each time."""
    response["ETag"] = _tag(version)
    return private(response)


def private(response: HttpResponse) -> HttpResponse:
    """The response as the reader's own, unless it says already what may be kept of it."""
    if "Cache-Control" not in response.headers:
        patch_cache_control(response, private=True, no_cache=True)
    return response


def _tag(version: str) -> str:
    # weak: the body may be compressed, or have other random parts
    return f'W/"{version}"'
