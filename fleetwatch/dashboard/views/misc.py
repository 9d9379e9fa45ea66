"""Search, definitions, the theme switch."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.dashboard import selectors, words
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period

THEME_MAX_AGE_S = 365 * 86_400


@require_GET
@login_required
@takes("q")
def search(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()
    period = read_period(request)
    return render(
        request,
        "dashboard/search.html",
        period.context("search", text=text, found=selectors.search(text)),
    )


@require_GET
@login_required
@takes()
def definitions(request: HttpRequest) -> HttpResponse:
    return render(
        request,
        "dashboard/definitions.html",
        read_period(request).context("definitions", states=words.SHOWN),
    )


@require_POST
@login_required
def theme(request: HttpRequest) -> HttpResponse:
    """The other theme, kept in a cookie; without JavaScript light is what is switched from
    first.
    """
    back = request.headers.get("Referer", "")
    response = redirect(
        back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "overview"
    )
    chosen = "light" if request.COOKIES.get("theme") == "dark" else "dark"
    response.set_cookie("theme", chosen, max_age=THEME_MAX_AGE_S, samesite="Lax")
    return response
