"""The rate book's own pages: admins import files of rates."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.permissions import admin_required
from fleetwatch.costs import imports
from fleetwatch.costs.rate_csv import COLUMNS, MAX_BYTES, RefusedError
from fleetwatch.dashboard.period import read_period


@require_http_methods(["GET", "POST"])
@admin_required
@never_cache
def rates_import(request: HttpRequest) -> HttpResponse:
    """A file is looked at first, with what it would change in dollars; then the same text is imported."""
    period = read_period(request)
    context: dict[str, Any] = {"columns": COLUMNS, "days": imports.LOOKS_BACK_DAYS}
    status = 200
    if request.method == "POST":
        content = _content(request)
        context["text"] = content.decode("utf-8-sig", "replace") if len(content) <= MAX_BYTES else ""
        try:
            if request.POST.get("do") == "import":
                done = imports.import_rates(content, now=period.now)
                messages.success(request, f"{done.set} rates were set; {done.stood} stood already.")
                return redirect(f"{reverse('settings')}#rates")
            context["dry_run"] = imports.dry_run(content, now=period.now)
        except RefusedError as error:
            context["faults"], status = error.faults, 422
    return render(request, "dashboard/rates_import.html", period.context("settings", **context), status=status)


def _content(request: HttpRequest) -> bytes:
    """The uploaded file, else the text; one byte more than is taken at most."""
    file = request.FILES.get("file")
    if file is not None:
        return bytes(file.read(MAX_BYTES + 1))
    return request.POST.get("text", "").encode()
