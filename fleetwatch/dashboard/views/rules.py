"""Rules: what each does, how it is set, and what it would have opened in the last days."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.db.models import Count, F, Min, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import organisation
from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts import back_test_runs, matchers, tried_rules
from fleetwatch.alerts.back_test import BackTest, back_test
from fleetwatch.alerts.breach import Condition
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.incidents import incident_inbox as inbox
from fleetwatch.alerts.incidents.muting import ACCEPTED
from fleetwatch.alerts.models import BackTestRun, Incident, Rule, Severity
from fleetwatch.alerts.rule_copies import copy_rule, remove_rule, rename_rule
from fleetwatch.alerts.selectors import views_of, visible_incidents
from fleetwatch.alerts.services import RuleTerms, set_rule, terms_of
from fleetwatch.alerts.suggested_times import later, longer
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.forms.asked import Asked, read_form
from fleetwatch.dashboard.forms.matcher_fields import NAMES, day_choices
from fleetwatch.dashboard.forms.one_change import (
    Change,
    Home,
    TakesLongError,
    at_once,
    change_one,
)
from fleetwatch.dashboard.forms.rule_fields import (
    NUMBERS,
    number_fields,
    read_telling,
    read_watching,
    scope_rows,
)
from fleetwatch.dashboard.long_tests import (
    ask_worker,
    check_may_stop,
    interval_of,
    long_test,
    refused,
)
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, existing, shows
from fleetwatch.dashboard.words import INCIDENT_STATES
from fleetwatch.figures import boundaries
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify import selectors as notify

PERIODS = {"1": "the last day", "7": "the last 7 days", "30": "the last 30 days"}
USUAL_DAYS = "30"
LOOKS_BACK = timedelta(days=30)
MAX_TRIALS = 100  # listed of a back-test; its figures are of all
SHOWN_TRIALS = 10  # before the others are asked for
OTHERS = "FleetWatch itself"
SUBJECTS = {
    "Jobs": ("job", "finding"),
    "GPUs and nodes": ("gpu", "node", "cluster"),
    "People, teams and money": ("person", "team", "budget", "series"),
    OTHERS: ("agent", "channel", "service"),
}
MAX_NEWEST = 10  # incidents of the rule; the inbox has all
MAX_OWNERS = 5  # named, those with most incidents
HOME = Home("dashboard/rule.html", "alerts", "rule", "rules")


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A rule with what it does in words and how it does."""

    rule: Rule
    watched: Condition
    terms: RuleTerms
    open_count: int
    accepted_count: int  # more of them, that somebody said to be no waste
    pending_count: int
    recent_count: int
    earlier_count: int  # of them those that fired by data from before it began to watch
    counted_from_ms: int

    @property
    def sentence(self) -> str:
        """What it does."""
        return self.watched.in_words(self.terms.settings)

    @property
    def subject(self) -> str:
        """What it watches, one of SUBJECTS."""
        kind = self.watched.kind
        return next((title for title, kinds in SUBJECTS.items() if kind in kinds), OTHERS)

    @property
    def begun_ms(self) -> int | None:
        """When it began to watch, where that is later than what is counted; None where not."""
        begun_ms = self.rule.begun_ms
        return begun_ms if begun_ms is not None and begun_ms > self.counted_from_ms else None


@shows("dashboard/rules.html", "alerts", "new")
def rules(request: HttpRequest, period: Period) -> Context:
    """`?new=1` with the menu of a new rule open."""
    lines = _lines(period.now)
    groups = {title: [each for each in lines if each.subject == title] for title in SUBJECTS}
    return {
        "groups": [(title, each) for title, each in groups.items() if each],
        "is_new_open": bool(chosen(request, "new", ("1",))),
    }


def _lines(now: datetime) -> list[RuleLine]:
    """Every rule, those that are switched on first."""
    goes_on = Q(incidents__state__in=(Incident.State.FIRING, Incident.State.ACKNOWLEDGED))
    is_accepted = Q(incidents__muted__startswith=ACCEPTED)
    is_pending = Q(incidents__state=Incident.State.PENDING)
    is_recent = Q(incidents__opened_at__gte=now - LOOKS_BACK, incidents__fired_ms__isnull=False)
    is_earlier = is_recent & Q(incidents__fired_ms__lt=F("begun_ms"))
    counted = Rule.objects.prefetch_related("channels").annotate(
        open_count=Count("incidents", filter=goes_on & ~is_accepted),
        accepted_count=Count("incidents", filter=goes_on & is_accepted),
        pending_count=Count("incidents", filter=is_pending),
        recent_count=Count("incidents", filter=is_recent),
        earlier_count=Count("incidents", filter=is_earlier),
    )
    return [
        RuleLine(
            rule,
            condition(rule.condition),
            terms_of(rule),
            rule.open_count,
            rule.accepted_count,
            rule.pending_count,
            rule.recent_count,
            rule.earlier_count,
            to_ms(now - LOOKS_BACK),
        )
        for rule in counted.order_by("-is_enabled", "name")
    ]


def _rule(pk: int) -> Rule:
    return get_object_or_404(Rule.objects.prefetch_related("channels"), pk=pk)


@shows("dashboard/rule.html", "alerts", "days", *NUMBERS, *NAMES, find=_rule)
def rule(request: HttpRequest, period: Period, rule: Rule) -> Context:
    """`?days=30` tries it on history, with what else the address says in the place of its own."""
    days = chosen(request, "days", PERIODS)
    sent = request.GET.dict()
    if not days:
        return _shown(rule, sent={})
    try:
        return _tested(request, period, rule, days)
    except RefusedFieldError as error:
        errors = {error.field: str(error)}
        return _shown(rule, sent=sent, days=days, action="watch", errors=errors)


def _tested(request: HttpRequest, period: Period, rule: Rule, days: str) -> Context:
    """What came of it, or how far a worker is with it. Raises RefusedFieldError."""
    sent = request.GET.dict()
    terms = read_watching(terms_of(rule), condition(rule.condition), sent)
    run = back_test_runs.newest(_asked(rule, terms, request), now=period.now)
    try:
        tried, saved = _tried(rule, terms, interval_of(run, days, period.now), run)
    except TakesLongError:
        long = long_test("rule_back_test", rule.pk, run)
        return _shown(rule, sent=sent, terms=terms, days=days, **long)
    beside = {"run": run, "saved": saved, **_history(rule, tried.interval)}
    outcome = _outcome(rule, terms, tried, beside, period) | _trials(tried, days)
    return _shown(rule, sent=sent, terms=terms, days=days, **outcome)


def _outcome(
    rule: Rule, terms: RuleTerms, tried: BackTest, beside: Context, period: Period
) -> Context:
    """What came of it, by day, and what other settings would come to."""
    drawn = _drawn(tried, beside["history_from"], period)
    return beside | drawn | _otherwise(terms_of(rule), terms, tried, beside["saved"])


def _otherwise(
    own: RuleTerms, terms: RuleTerms, tried: BackTest, saved: BackTest | None
) -> Context:
    """What longer waits, and later ends, would come to."""
    waits = _base(own, terms, tried, saved, "minutes")
    ends = _base(own, terms, tried, saved, "clear_minutes")
    waits_longer = longer(waits.outcome)
    ends_later = later(ends.outcome)
    return {
        "longer": waits_longer,
        "longer_is_suggested": any(row.is_better for row in waits_longer),
        "longer_than_saved": waits.is_saved,
        "waits": terms.settings.minutes,
        "later": ends_later,
        "later_is_suggested": any(row.is_better for row in ends_later),
        "later_than_saved": ends.is_saved,
        "ends": terms.settings.clear_minutes,
    }


class _Base(NamedTuple):
    """What suggestions are compared with: the rule as it is saved, or as it is tried."""

    outcome: BackTest
    is_saved: bool


def _base(
    own: RuleTerms, terms: RuleTerms, tried: BackTest, saved: BackTest | None, setting: str
) -> _Base:
    """The rule as it is saved, where what is tried differs in this setting alone: so the shares
    stay those of one sum. Else what is tried.
    """
    alike = replace(terms.settings, **{setting: getattr(own.settings, setting)})
    if (alike, terms.scope) == (own.settings, own.scope):
        return _Base(saved or tried, is_saved=True)
    return _Base(tried, is_saved=False)


@require_POST
@login_required
def start_back_test(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks a worker for what the address tries, as its page was asked for it."""
    rule = _rule(pk)
    try:
        terms = read_watching(terms_of(rule), condition(rule.condition), request.GET.dict())
        return ask_worker(request, _asked(rule, terms, request))
    except RefusedFieldError as error:
        return refused(request, error, reverse("rule", args=[pk]))


@require_POST
@login_required
def stop_back_test(request: HttpRequest, pk: int) -> HttpResponse:
    """Of a rule, or of a policy of actions; then back to its page."""
    run = get_object_or_404(BackTestRun.objects.defer("result"), pk=pk)
    check_may_stop(request, run)
    if not back_test_runs.stop(run, now=timezone.now()):
        messages.error(request, "It was over already.")
    return redirect(f"{run.address}#back-test")


def _asked(rule: Rule, terms: RuleTerms, request: HttpRequest) -> back_test_runs.Asked:
    days = chosen(request, "days", PERIODS, default="1")
    saved = _own(rule, terms)
    return tried_rules.asked_of(
        rule,
        (terms.settings, terms.scope),
        (saved.settings, saved.scope) if saved else None,
        days=int(days),
        address=f"{reverse('rule', args=[rule.pk])}?{request.GET.urlencode()}",
    )


def _tried(
    rule: Rule, terms: RuleTerms, interval: Interval, run: BackTestRun | None
) -> tuple[BackTest, BackTest | None]:
    """What the terms would have opened, and what the rule would as it is saved (None: they are its
    own): as a worker tried it, or at once.

    Raises RefusedFieldError; TakesLongError where a worker is at it, or is to be asked.
    """
    if run and run.state == BackTestRun.State.DONE:
        return tried_rules.outcomes_of(run)
    if run:
        raise TakesLongError
    watched = condition(rule.condition)
    saved = _own(rule, terms)
    with at_once() as on_step:
        several = [
            back_test(watched, each.settings, each.scope, interval, on_step=on_step)
            for each in (terms, saved)
            if each is not None
        ]
    return several[0], several[1] if saved else None


def _own(rule: Rule, terms: RuleTerms) -> RuleTerms | None:
    """The rule's terms as it is saved; None where these are its own."""
    own = terms_of(rule)
    is_own = (own.settings, own.scope) == (terms.settings, terms.scope)
    return None if is_own else own


def _history(rule: Rule, interval: Interval) -> Context:
    """How many of the tried days have any history, None: all of them, 0: today alone; and since
    when the rule itself watches.
    """
    begun_ms = GPU.objects.aggregate(Min("first_ms"))["first_ms__min"]
    begins = interval.end if begun_ms is None else max(from_ms(begun_ms), interval.start)
    days = boundaries.days_since(begins, organisation_zone(), now=interval.end)
    return {
        "days_with_history": days if begins > interval.start else None,
        "history_from": begins,
        "watches_since_ms": rule.begun_ms,
    }


def _drawn(tried: BackTest, since: datetime, period: Period) -> Context:
    """How many began on each day with history, beside the most of one as percent of it."""
    first = period.local(since).date()
    by_day = [(day, count) for day, count in tried.by_day(period.zone) if day >= first]
    highest = max((count for _, count in by_day), default=0)
    return {
        "by_day": [(day, count, 100 * count / highest if highest else 0) for day, count in by_day],
        "most_in_a_day": highest,
        "days_in_words": ", ".join(f"{day:%-d %b}: {count}" for day, count in by_day),
    }


def _trials(tried: BackTest, days: str) -> Context:
    listed = tried.trials[:MAX_TRIALS]
    watched = tried.trials.watched
    return {
        "listed_count": len(listed),
        "names_owners": any(each.breach.owner for each in listed) and not watched.is_of_teams,
        "tells_verdicts": any(each.verdict for each in listed),
        "tried": tried,
        "tried_over": PERIODS[days],
        "trials": listed[:SHOWN_TRIALS],
        "more_trials": listed[SHOWN_TRIALS:],
        "owners": tried.by_name.most_common(MAX_OWNERS),
        "trials_left": max(0, len(tried.trials) - MAX_TRIALS),
        "confirmed": tried.by_verdict[Incident.Verdict.CONFIRMED],
        "rejected": tried.by_verdict[Incident.Verdict.REJECTED],
    }


@require_POST
@needs(Right.FLEET)
@never_cache
def change(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """One change of a rule."""
    changed = existing(CHANGES.get(action))
    rule = _rule(pk)

    def shown(asked: Asked, errors: dict[str, str]) -> Context:
        return _shown(rule, sent=asked.post, action=action, errors=errors)

    return change_one(request, HOME, rule, changed, shown)


@require_http_methods(["GET", "POST"])
@login_required
@never_cache
def new(request: HttpRequest) -> HttpResponseBase:
    """The form's home, where it is asked for by its address."""
    if request.method == "GET":
        return redirect(f"{reverse('rules')}?new=1#new")
    return _new(request)


@needs(Right.FLEET)
def _new(request: HttpRequest) -> HttpResponse:
    """A rule that is set as the chosen one, to be set, tried and switched on on its page."""
    asked = read_form(request)
    try:
        copied, text = _copy(asked.row(Rule), asked)
    except RefusedFieldError as error:
        messages.error(request, str(error))
        return redirect("rules")
    messages.success(request, text)
    return redirect("rule", copied.pk)


def _set_watching(rule: Rule, asked: Asked) -> tuple[Rule, str]:
    watched = condition(rule.condition)
    terms = read_watching(terms_of(rule), watched, asked.post)
    set_rule(rule, terms)
    return rule, f"Saved. {watched.in_words(terms.settings)}"


def _set_telling(rule: Rule, asked: Asked) -> tuple[Rule, str]:
    terms = read_telling(terms_of(rule), asked, zone=organisation().time_zone)
    with transaction.atomic():
        rename_rule(rule, asked.text("name") or rule.name)
        set_rule(rule, terms)
    return rule, "Saved."


def _switch_on(rule: Rule, _: Asked) -> tuple[Rule, str]:
    set_rule(rule, replace(terms_of(rule), is_enabled=True))
    return rule, f"{rule.name} is switched on: it is evaluated within a minute."


def _switch_off(rule: Rule, _: Asked) -> tuple[Rule, str]:
    set_rule(rule, replace(terms_of(rule), is_enabled=False))
    return rule, f"{rule.name} is switched off; its incidents are resolved."


def _copy(rule: Rule, asked: Asked) -> tuple[Rule, str]:
    copied = copy_rule(rule, now=asked.now)
    return copied, f"{copied.name} is a copy of {rule.name}, switched off until you have set it."


def _remove(rule: Rule, asked: Asked) -> tuple[Rule, str]:
    name = rule.name
    remove_rule(rule, now=asked.now)
    rule.pk = None
    return rule, f"{name} was removed; its incidents stay in the history."


CHANGES: Mapping[str, Change[Rule]] = {
    "watch": _set_watching,
    "tell": _set_telling,
    "switch_on": _switch_on,
    "switch_off": _switch_off,
    "copy": _copy,
    "remove": _remove,
}


def _incidents(rule: Rule, now: datetime) -> Context:
    """How many it has in which state, the newest of them, those first that go on, and what is
    beyond its limit for too short yet.
    """
    own = visible_incidents().filter(rule=rule)
    counts = inbox.state_counts(own, now)
    states = [(state, label, counts[state]) for state, label in INCIDENT_STATES.items()]
    return {
        "incident_count": own.count(),
        "states": [each for each in states if counts[each[0]]],
        "were_accepted": counts["were_accepted"],
        "newest": [each.counted_to(now) for each in views_of(_newest(own))],
        "pending": views_of(_pending(own)),
    }


def _newest(own: QuerySet[Incident]) -> QuerySet[Incident]:
    """Of those that fired, those first that go on."""
    fired = own.exclude(state=Incident.State.PENDING)
    is_over = Q(state=Incident.State.RESOLVED)
    return fired.annotate(is_over=is_over).order_by("is_over", "-pk")[:MAX_NEWEST]


def _pending(own: QuerySet[Incident]) -> QuerySet[Incident]:
    return own.filter(state=Incident.State.PENDING).order_by("since_ms", "pk")[:MAX_NEWEST]


def _shown(
    rule: Rule, *, sent: Mapping[str, str], terms: RuleTerms | None = None, **outcome: object
) -> Context:
    """The rule as it is set, or with what was sent in its forms."""
    watched = condition(rule.condition)
    own = terms_of(rule)
    used = terms or own
    action = outcome.get("action")
    return {
        "rule": rule,
        "watched": watched,
        "terms": own,
        "sentence": watched.in_words(used.settings),
        "is_changed": terms is not None and terms != own,
        "fields": number_fields(watched, own.settings, {} if action == "tell" else sent),
        "rows": scope_rows(own.scope, {} if action == "tell" else sent),
        "matched": matchers.MATCHED.items(),
        "days_of_week": day_choices(own.hours),
        "severities": Severity.choices,
        "channels": notify.channels(),
        "periods": PERIODS.items(),
        "days": USUAL_DAYS,
        "action": "",
        "errors": {},
        "sent": sent,
        **_incidents(rule, timezone.now()),
        **outcome,
    }
