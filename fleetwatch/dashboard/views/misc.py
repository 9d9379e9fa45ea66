"""Search, definitions, the theme switch."""

from collections.abc import Sequence
from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import User
from fleetwatch.dashboard import words
from fleetwatch.dashboard.glossary import TERMS
from fleetwatch.dashboard.parameters import View
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.search_dollars import DAYS, FINDING_DAYS, dollars_of, savings_of
from fleetwatch.dashboard.search_hits import Hit, by_kind, hits, main_pages
from fleetwatch.dashboard.showing import Context, shows

MAX_HITS = 10  # of each kind
MAX_COUNTED = 500  # of each kind
MAX_QUICK_HITS = 4
THEME_MAX_AGE_S = 365 * 86_400


@shows("dashboard/search.html", "search", "q", "kind")
def search(request: HttpRequest, period: Period) -> Context:
    """Some of each kind with how many there are, or all of the `kind` that is asked for."""
    text = request.GET.get("q", "").strip()
    only = request.GET.get("kind", "")
    every = hits(text, cast("User", request.user), limit=MAX_COUNTED)
    groups = [(kind, several) for kind, several in by_kind(every) if only in ("", kind)]
    limit = MAX_COUNTED if only else MAX_HITS
    return {
        "text": text,
        "only": only,
        "most": MAX_HITS,
        "most_counted": MAX_COUNTED,
        **_listed(groups, limit),
        **_dollars([hit for _, several in groups for hit in several[:limit]], period),
    }


def _listed(groups: Sequence[tuple[str, list[Hit]]], limit: int) -> Context:
    """So many of each kind, how many were found of it and in all, and whether there may be more."""
    counts = [len(several) for _, several in groups]
    return {
        "groups": [(kind, several[:limit], len(several)) for kind, several in groups],
        "found": sum(counts),
        "is_more": max(counts, default=0) >= MAX_COUNTED,
    }


def _dollars(shown: Sequence[Hit], period: Period) -> Context:
    return {
        "dollars": dollars_of(shown, period.now),
        "savings": savings_of(shown, period.now),
        "days": DAYS,
        "finding_days": FINDING_DAYS,
    }


@shows("dashboard/_search_hits.html", "search", "q", is_part=True)
def search_quickly(request: HttpRequest, period: Period) -> Context:
    """What is found so far, while somebody types; before that the pages to go to."""
    text = request.GET.get("q", "").strip()
    user = cast("User", request.user)
    every = hits(text, user, limit=MAX_QUICK_HITS) if text else main_pages(user)
    return {
        "text": text,
        "groups": by_kind(every),
        "most": MAX_QUICK_HITS,
        "savings": savings_of(every, period.now),
    }


@shows("dashboard/definitions.html", "definitions")
def definitions(_: HttpRequest, __: Period) -> Context:
    return {"states": words.SHOWN}


@shows("dashboard/glossary.html", "definitions")
def glossary(_: HttpRequest, __: Period) -> Context:
    return {"terms": TERMS}


def moved(to: str) -> View:
    """The former address of the page of that name: it leads on, with all that it asks for."""

    @require_GET
    @login_required
    def lead(request: HttpRequest) -> HttpResponse:
        return redirect(f"{reverse(to)}?{request.GET.urlencode()}".removesuffix("?"))

    return lead


@require_GET
def favicon(_: HttpRequest) -> HttpResponse:
    """Where programs ask that read no page: the icon that pages name."""
    return redirect(static("img/favicon.svg"))


@require_POST
@login_required
def theme(request: HttpRequest) -> HttpResponse:
    """The other theme, kept in a cookie; without JavaScript light is what is switched from
    first.
    """
    back = request.headers.get("Referer", "")
    response = redirect(
        back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "home"
    )
    chosen = "light" if request.COOKIES.get("theme") == "dark" else "dark"
    response.set_cookie("theme", chosen, max_age=THEME_MAX_AGE_S, samesite="Lax")
    return response
