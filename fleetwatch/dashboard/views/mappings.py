"""Mapping rules: everybody reads them; admins add, end and withdraw them, after they have seen in
dollars what that moves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.permissions import Right, check
from fleetwatch.costs.mapping import attribution, mapping_effects, mappings, rule_terms
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import MappingRule
from fleetwatch.dashboard.forms.asked import Asked
from fleetwatch.dashboard.forms.prices import read_since
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.lib.refusal import RefusedFieldError

MAX_RULES = 200  # shown; the API gives them all
MAX_MOVES = 50
ASKS = ("user", "account", "namespace", "partition")
FIELDS = (*ASKS, "label", *rule_terms.GIVES, "priority", "valid_from", "valid_to", "note")
MAX_ID = 2**62


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done, the sentence that says it was, and of what the rule speaks."""

    make: Callable[[], Any]
    done: str
    gives: Gives


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
@takes()
def teams_and_mapping(request: HttpRequest) -> HttpResponse:
    """A change is shown first, with what it would move; sent again with `confirmed` it is made."""
    period = read_period(request)
    if request.method == "GET":
        return _page(request, period)
    check(request.user, Right.MONEY)
    try:
        return _change(request, period)
    except RefusedFieldError as error:
        return _page(request, period, errors={error.field: str(error)})


def _change(request: HttpRequest, period: Period) -> HttpResponse:
    """What the form asks for: shown, or made. Raises RefusedFieldError."""
    asked = Asked(request.POST.dict(), cast("User", request.user), period.now)
    change = _CHANGES.get(asked.text("do"), _add)(asked)
    if asked.text("confirmed"):
        change.make()
        messages.success(request, change.done)
        return redirect("mappings")
    owners = [owner for owner in rule_terms.GIVES if getattr(change.gives, owner)]
    preview = mapping_effects.preview(change.make, owners, now=period.now)
    return _page(request, period, preview=preview)


def _page(
    request: HttpRequest,
    period: Period,
    *,
    errors: Mapping[str, str] | None = None,
    preview: mapping_effects.Preview | None = None,
) -> HttpResponse:
    rules = attribution.rules()
    sent = request.POST
    context = {
        "sent": sent,
        "errors": errors,
        "days": mapping_effects.LOOKS_BACK_DAYS,
        "rules": [_in_words(rule) for rule in rules[:MAX_RULES]],
        "rules_left_off": max(0, len(rules) - MAX_RULES),
        **_moves(preview),
        "kept": [(name, sent[name]) for name in ("do", "id", *FIELDS) if sent.get(name)],
        "teams": Team.objects.order_by("slug")[:MAX_RULES],
        "owner_names": {name: label.capitalize() for name, label in rule_terms.GIVES.items()},
    }
    return page(request, period, "dashboard/mappings.html", "settings", context)


def _moves(preview: mapping_effects.Preview | None) -> Context:
    """What a change would move; None: no change is shown."""
    moves = preview.moves if preview else []
    return {
        "preview": preview,
        "moves": moves[:MAX_MOVES],
        "moves_left_off": max(0, len(moves) - MAX_MOVES),
    }


def _in_words(rule: MappingRule) -> tuple[MappingRule, str, str]:
    return rule, attribution.conditions(rule).words, attribution.gives(rule).words


def _end(asked: Asked) -> Change:
    rule = _rule(asked)
    at = read_since(asked.text("valid_to"), asked.now)
    return Change(
        partial(mappings.end_rule, rule, at),
        "The rule has ended; what it said before stays.",
        attribution.gives(rule),
    )


def _withdraw(asked: Asked) -> Change:
    rule = _rule(asked)
    return Change(
        partial(mappings.withdraw_rule, rule),
        "The rule was withdrawn, as if it had never been.",
        attribution.gives(rule),
    )


def _rule(asked: Asked) -> MappingRule:
    return get_object_or_404(MappingRule, pk=asked.number("id", low=1, high=MAX_ID))


def _add(asked: Asked) -> Change:
    """Raises RefusedFieldError where it can't be."""
    label, value = rule_terms.read_label(asked.text("label"))
    asks = Conditions(**{name: asked.text(name) for name in ASKS}, label=label, label_value=value)
    gives = Gives(*(asked.text(name) for name in rule_terms.GIVES))
    priority = rule_terms.USUAL
    if asked.text("priority"):
        priority = asked.number("priority", low=rule_terms.FIRST, high=rule_terms.LAST)
    end = asked.text("valid_to")
    rule = Terms(
        asks,
        gives,
        valid_from=read_since(asked.text("valid_from"), asked.now),
        valid_to=read_since(end, asked.now) if end else None,
        priority=priority,
        note=asked.text("note"),
    )
    return Change(
        partial(mappings.add_rule, rule, by=asked.by, now=asked.now),
        f"{asks.words} belongs to {gives.words}.",
        gives,
    )


_CHANGES: dict[str, Callable[[Asked], Change]] = {"end": _end, "withdraw": _withdraw}
