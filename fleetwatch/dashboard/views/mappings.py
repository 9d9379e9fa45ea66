"""Mapping rules: everybody reads them; admins add, end and withdraw them, after they have seen in
dollars what that moves.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.permissions import Right, check, may
from fleetwatch.costs.difference import closed_days
from fleetwatch.costs.mapping import attribution, mapping_effects, mappings, rule_terms
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.mapping.unmapped_time import Unmapped, unmapped_time
from fleetwatch.costs.models import MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.dashboard.forms.asked import Asked
from fleetwatch.dashboard.forms.prices import read_since
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.refusal import RefusedFieldError

MAX_RULES = 200  # shown; the API gives them all
MAX_MOVES = 50
MAX_UNMAPPED = 8
LINKED = ("account", "user")  # conditions that a link to the form may fill in
ASKS = ("user", "account", "namespace", "partition")
FIELDS = (*ASKS, "label", *rule_terms.GIVES, "priority", "valid_from", "valid_to", "note")
MAX_ID = 2**62


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done, the sentence that says it was, and of what the rule speaks; from when on
    it moves anything, and what would have moved as much had it been done before (`trial`).
    """

    make: Callable[[], Any]
    done: str
    gives: Gives
    since: datetime
    trial: Callable[[], Any]


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
@takes(*LINKED)
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
    if change.since < preview.interval.end:
        return _page(request, period, preview=_moves(preview))
    trial = mapping_effects.preview(change.trial, owners, now=period.now)
    return _page(request, period, preview=_moves(trial) | {"since": change.since})


def _page(
    request: HttpRequest,
    period: Period,
    *,
    errors: Mapping[str, str] | None = None,
    preview: Context | None = None,
) -> HttpResponse:
    sent = request.POST or _linked(request)
    context = {
        "sent": sent,
        **(_unmapped(period) if may(request.user, Right.MONEY) else {}),
        "errors": errors,
        "days": mapping_effects.LOOKS_BACK_DAYS,
        **_shown(attribution.rules()),
        **(preview or {}),
        "kept": [(name, sent[name]) for name in ("do", "id", *FIELDS) if sent.get(name)],
        "teams": Team.objects.order_by("slug")[:MAX_RULES],
        "owner_names": {name: label.capitalize() for name, label in rule_terms.GIVES.items()},
    }
    return page(request, period, "dashboard/mappings.html", "settings", context)


def _shown(every: Sequence[MappingRule]) -> Context:
    """The rules, and which columns say something: not one where each rule has what is usual."""
    rules = every[:MAX_RULES]
    return {
        "rules": [_in_words(rule) for rule in rules],
        "rules_left_off": len(every) - len(rules),
        "has_priorities": any(rule.priority != rule_terms.USUAL for rule in rules),
        "has_validity": any(
            rule.valid_from != BEGINNING or rule.valid_to is not None for rule in rules
        ),
    }


def _linked(request: HttpRequest) -> dict[str, str]:
    """The form as a link to it fills it in."""
    asked = {name: request.GET.get(name, "") for name in LINKED}
    return {"do": "add"} | asked if any(asked.values()) else {}


def _unmapped(period: Period) -> Context:
    """What of the last days is nobody's: its sum by owner, and the dearest of it, each with what it
    is without.
    """
    time = unmapped_time(closed_days(period.now))
    without: dict[Unmapped, list[str]] = defaultdict(list)
    for owner, lines in time.items():
        for line in lines:
            without[line].append(rule_terms.GIVES[owner])
    dearest = sorted(without.items(), key=lambda row: (-row[0].usd, -row[0].gpu_ms, row[0].name))
    return {
        "unmapped": _sums(time),
        "unmapped_lines": dearest[:MAX_UNMAPPED],
        "unmapped_left_off": max(0, len(dearest) - MAX_UNMAPPED),
    }


def _sums(time: Mapping[str, list[Unmapped]]) -> list[tuple[str, Decimal, int, int]]:
    """What is without which owner, its dollars, GPU time and jobs; the same time without several is
    one line.
    """
    owners: dict[frozenset[Unmapped], list[str]] = defaultdict(list)
    for owner, lines in time.items():
        if lines:
            owners[frozenset(lines)].append(rule_terms.GIVES[owner])
    return [
        (
            ", ".join(several),
            sum((line.usd for line in lines), ZERO),
            sum(line.gpu_ms for line in lines),
            sum(line.jobs for line in lines),
        )
        for lines, several in owners.items()
    ]


def _moves(preview: mapping_effects.Preview) -> Context:
    """What a change would move."""
    left_off = max(0, len(preview.moves) - MAX_MOVES)
    return {"preview": preview, "moves": preview.moves[:MAX_MOVES], "moves_left_off": left_off}


def _in_words(rule: MappingRule) -> tuple[MappingRule, str, str, str]:
    """The rule, what it asks for, the team that it gives ("": it leaves that to the account), and
    what else.
    """
    gives = attribution.gives(rule)
    others = replace(gives, team="").words
    return rule, attribution.conditions(rule).words, gives.team, others


def _end(asked: Asked) -> Change:
    rule = _rule(asked)
    at = read_since(asked.text("valid_to"), asked.now)
    return Change(
        partial(mappings.end_rule, rule, at),
        "The rule has ended; what it said before stays.",
        attribution.gives(rule),
        at,
        partial(_end_before, rule, mapping_effects.trial_start(asked.now)),
    )


def _end_before(rule: MappingRule, start: datetime) -> None:
    """What ending a rule moves of the days from `start` on, had it been done then."""
    if rule.valid_from < start:
        mappings.end_rule(rule, start)
    else:
        mappings.withdraw_rule(rule)


def _withdraw(asked: Asked) -> Change:
    rule = _rule(asked)
    withdraw = partial(mappings.withdraw_rule, rule)
    done = "The rule was withdrawn, as if it had never been."
    return Change(withdraw, done, attribution.gives(rule), rule.valid_from, withdraw)


def _rule(asked: Asked) -> MappingRule:
    return get_object_or_404(MappingRule, pk=asked.number("id", low=1, high=MAX_ID))


def _add(asked: Asked) -> Change:
    """Raises RefusedFieldError where it can't be."""
    rule = _terms(asked)
    add = partial(mappings.add_rule, by=asked.by, now=asked.now)
    tried = replace(rule, valid_from=mapping_effects.trial_start(asked.now))
    done = f"{rule.asks.words} belongs to {rule.gives.words}."
    return Change(partial(add, rule), done, rule.gives, rule.valid_from, partial(add, tried))


def _terms(asked: Asked) -> Terms:
    """The rule as the form has it. Raises RefusedFieldError."""
    label, value = rule_terms.read_label(asked.text("label"))
    priority = rule_terms.USUAL
    if asked.text("priority"):
        priority = asked.number("priority", low=rule_terms.FIRST, high=rule_terms.LAST)
    end = asked.text("valid_to")
    return Terms(
        Conditions(**{name: asked.text(name) for name in ASKS}, label=label, label_value=value),
        Gives(*(asked.text(name) for name in rule_terms.GIVES)),
        valid_from=read_since(asked.text("valid_from"), asked.now),
        valid_to=read_since(end, asked.now) if end else None,
        priority=priority,
        note=asked.text("note"),
    )


_CHANGES: dict[str, Callable[[Asked], Change]] = {"end": _end, "withdraw": _withdraw}
