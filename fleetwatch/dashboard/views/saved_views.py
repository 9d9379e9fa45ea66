"""Saved views: the list, a view's own address, and how one is saved and deleted."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import SavedView, User
from fleetwatch.accounts.saved_views import drop_view, may_drop, may_share, save_view, views_of
from fleetwatch.dashboard.forms.asked import read_form
from fleetwatch.dashboard.page_addresses import address_in_words, read_address
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, page, shows
from fleetwatch.lib.refusal import RefusedFieldError

TEMPLATE = "dashboard/saved_views.html"
LONGEST_NUMBER = 18  # digits of a view's


@shows(TEMPLATE, "views")
def views(request: HttpRequest, _: Period) -> Context:
    return _context(cast("User", request.user))


@require_GET
@login_required
@takes()
def view(request: HttpRequest, slug: str) -> HttpResponse:
    """Where the view leads; who may not open it is told no more than that there is none."""
    number = slug.partition("-")[0]
    if not number.isdecimal() or len(number) > LONGEST_NUMBER:
        raise Http404
    seen = get_object_or_404(views_of(cast("User", request.user)), pk=int(number))
    try:
        path, query = read_address(seen.address)  # pages come and go
    except RefusedFieldError:
        raise Http404 from None
    return redirect(f"{path}?{query}" if query else path)


@require_POST
@login_required
def save(request: HttpRequest) -> HttpResponse:
    asked = read_form(request)
    try:
        address = read_address(asked.text("address"))
        is_shared = asked.is_ticked("shared")
        saved = save_view(
            asked.user, asked.text("name"), address, is_shared=is_shared, now=asked.now
        )
    except RefusedFieldError as error:
        refused = {"errors": {error.field: str(error)}, "sent": asked.post}
        context = _context(asked.user) | refused
        return page(request, read_period(request), TEMPLATE, "views", context)
    whose = "everybody finds it" if saved.is_shared else "you find it"
    messages.success(request, f"Saved as “{saved.name}”: {whose} under Views.")
    return redirect(saved.address)


@require_POST
@login_required
def drop(request: HttpRequest, pk: int) -> HttpResponse:
    user = cast("User", request.user)
    seen = get_object_or_404(views_of(user), pk=pk)
    if not may_drop(user, seen):
        raise Http404
    drop_view(seen)
    messages.success(request, f"The view “{seen.name}” was deleted.")
    return redirect("views")


def _context(user: User) -> Context:
    listed: list[tuple[SavedView, str, bool]] = [
        (each, address_in_words(each.path, each.query), may_drop(user, each))
        for each in views_of(user)
    ]
    return {"views": listed, "may_share": may_share(user), "errors": {}, "sent": {}}
