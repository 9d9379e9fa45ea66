"""Search, definitions, the theme switch."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.dashboard import selectors, words
from fleetwatch.dashboard.glossary import TERMS
from fleetwatch.dashboard.parameters import View
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows

THEME_MAX_AGE_S = 365 * 86_400


@shows("dashboard/search.html", "search", "q")
def search(request: HttpRequest, _: Period) -> Context:
    text = request.GET.get("q", "").strip()
    rows = selectors.search(text)
    return {"text": text, "found": rows, "count": sum(map(len, rows.values()))}


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
