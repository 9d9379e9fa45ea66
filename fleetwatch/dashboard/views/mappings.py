"""Mapping rules: everybody reads them; admins add, end and withdraw them, after they have seen in
dollars what that moves.
"""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.permissions import can_administer
from fleetwatch.costs.mapping import attribution, mapping_effects, mappings, rule_terms
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, MappingError
from fleetwatch.costs.models import MappingRule
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.dashboard.asked import Asked, RefusedError
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.prices import read_since

MAX_RULES = 200  # shown; the API gives them all
MAX_MOVES = 50
ASKS = ("user", "account", "namespace", "partition", "label")
FIELDS = (*ASKS, *rule_terms.GIVES, "priority", "valid_from", "valid_to", "note")
MAX_ID = 2**62

# What is to be done, the sentence that says it was, and of what the rule speaks.
Change = tuple[Callable[[], Any], str, Gives]


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
@takes()
def teams_and_mapping(request: HttpRequest) -> HttpResponse:
    """A change is shown first, with what it would move; sent again with `confirmed` it is made."""
    period = read_period(request)
    is_admin = can_administer(request.user)
    context: dict[str, Any] = {"is_admin": is_admin, "sent": request.POST, "status": 200}
    if request.method == "POST":
        if not is_admin:
            raise PermissionDenied("only admins change settings")
        asked = Asked(request.POST.dict(), request.user, period.now)  # type: ignore[arg-type]
        try:
            change, done, gives = _change(asked)
            if asked.text("confirmed"):
                change()
                messages.success(request, done)
                return redirect("mappings")
            owners = [owner for owner in rule_terms.GIVES if getattr(gives, owner)]
            context |= {
                "preview": mapping_effects.preview(change, owners, now=period.now),
                "days": mapping_effects.LOOKS_BACK_DAYS,
            }
        except RefusedError as error:
            context |= {"errors": error.errors, "status": 422}
        except (MappingError, RateError) as error:
            context |= {"errors": {error.field: str(error)}, "status": 422}
    return _page(request, period, context)


def _page(request: HttpRequest, period: Any, context: dict[str, Any]) -> HttpResponse:
    rules = [
        (rule, attribution.conditions(rule).words, attribution.gives(rule).words)
        for rule in attribution.rules()
    ]
    preview = context.get("preview")
    sent: Mapping[str, str] = context["sent"]
    context |= {
        "rules": rules[:MAX_RULES],
        "rules_left_off": max(0, len(rules) - MAX_RULES),
        "moves": preview.moves[:MAX_MOVES] if preview else [],
        "moves_left_off": max(0, len(preview.moves) - MAX_MOVES) if preview else 0,
        "kept": [(name, sent[name]) for name in ("do", "id", *FIELDS) if sent.get(name)],
        "teams": Team.objects.order_by("slug")[:MAX_RULES],
        "owner_names": {name: label.capitalize() for name, label in rule_terms.GIVES.items()},
    }
    return render(
        request,
        "dashboard/mappings.html",
        period.context("settings", **context),
        status=context["status"],
    )


def _change(asked: Asked) -> Change:
    """What was asked for. Raises RefusedError, MappingError and RateError where it can't be."""
    match asked.text("do"):
        case "end":
            rule, at = _rule(asked), read_since(asked.text("valid_to"), asked.now)
            return (
                (lambda: mappings.end_rule(rule, at)),
                "The rule has ended; what it said before stays.",
                attribution.gives(rule),
            )
        case "withdraw":
            rule = _rule(asked)
            return (
                (lambda: mappings.withdraw_rule(rule)),
                "The rule was withdrawn, as if it had never been.",
                attribution.gives(rule),
            )
    return _addition(asked)


def _addition(asked: Asked) -> Change:
    label, value = rule_terms.read_label(asked.text("label"))
    user, account, namespace, partition = (asked.text(name) for name in ASKS[:-1])
    asks = Conditions(user, account, namespace, partition, label, value)
    gives = Gives(asked.text("team"), asked.text("project"), asked.text("cost_centre"))
    priority = (
        asked.number("priority", low=rule_terms.FIRST, high=rule_terms.LAST)
        if asked.text("priority")
        else rule_terms.USUAL
    )
    since = read_since(asked.text("valid_from"), asked.now)
    until = read_since(asked.text("valid_to"), asked.now) if asked.text("valid_to") else None
    note, by = asked.text("note"), asked.user.get_username()

    def add() -> None:
        mappings.add_rule(
            mappings.NewRule(
                asks, gives, valid_from=since, valid_to=until, priority=priority, note=note
            ),
            by=by,
            now=asked.now,
        )

    return add, f"{asks.words} belongs to {gives.words}.", gives


def _rule(asked: Asked) -> MappingRule:
    return get_object_or_404(MappingRule, pk=asked.number("id", low=1, high=MAX_ID))
