"""Name rules: an admin sees whom one would make which Unix user, then sets it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from fleetwatch.accounts.models import NameRule
from fleetwatch.accounts.names.name_rule_changes import NewNameRule, drop_rule, dry_run, set_rule
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.dashboard.forms.asked import read_form
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.lib.refusal import RefusedFieldError

MAX_SHOWN = 500


@require_http_methods(["GET", "POST"])
@needs(Right.PEOPLE)
@never_cache
@takes()
def name_rules(request: HttpRequest) -> HttpResponse:
    """A rule is looked at first, with the names that it would give; then the same one is set."""
    if request.method == "GET":
        return _page(request)
    asked = read_form(request)
    new = NewNameRule(asked.text("takes"), asked.text("domain"), asked.text("cluster"))
    try:
        if asked.text("do") != "set":
            names = dry_run(new, now=asked.now)
            left_off = max(0, len(names) - MAX_SHOWN)
            return _page(request, preview=True, names=names[:MAX_SHOWN], left_off=left_off)
        set_rule(new, now=asked.now)
    except RefusedFieldError as error:
        return _page(request, action="rule", errors={error.field: str(error)})
    messages.success(request, "The rule is set: names follow it from now on.")
    return redirect("name_rules")


@require_POST
@needs(Right.PEOPLE)
@never_cache
def drop(request: HttpRequest, pk: int) -> HttpResponse:
    drop_rule(get_object_or_404(NameRule, pk=pk), now=read_form(request).now)
    messages.success(request, "The rule is removed, and so are the names that it alone gave.")
    return redirect("name_rules")


def _page(request: HttpRequest, **outcome: object) -> HttpResponse:
    context: Context = {
        "rules": NameRule.objects.order_by("created_at"),
        "takes": NameRule.Takes.choices,
        "action": "rule",
        "errors": {},
        "sent": request.POST,
        **outcome,
    }
    return page(request, read_period(request), "dashboard/name_rules.html", "people", context)
