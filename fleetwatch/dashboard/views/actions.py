"""Actions: what is done by itself when nobody answers, what it would have done, what it did."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.actions import action_policies, past_ladders
from fleetwatch.actions.action_policies import JOB_KINDS, PolicyTerms, kinds_about, terms_of_policy
from fleetwatch.actions.kinds import kind_of
from fleetwatch.actions.models import Policy
from fleetwatch.actions.past_ladders import PolicyTrial
from fleetwatch.actions.selectors import (
    policies,
    rules_without,
    view_of_policy,
    visible_actions,
)
from fleetwatch.alerts import back_test_runs
from fleetwatch.alerts.models import BackTestRun, Rule
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.forms.asked import LARGEST_ID, Asked, read_form
from fleetwatch.dashboard.forms.one_change import (
    Change,
    Home,
    TakesLongError,
    at_once,
    change_one,
)
from fleetwatch.dashboard.long_tests import ask_worker, interval_of, long_test, refused
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, existing, page, shows
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.webhook import WEBHOOK

PERIODS = {"7": "the last 7 days", "30": "the last 30 days"}
SHOWN = 50
MAX_TEAMS = 500
MAX_DAYS = 366
HOME = Home("dashboard/action_policy.html", "alerts", "action_policy", "actions")


@shows("dashboard/actions.html", "alerts")
def actions(_: HttpRequest, period: Period) -> Context:
    return _listed(period.now)


def _listed(now: datetime) -> Context:
    return {
        "lines": policies(now),
        "rules": [(rule, kinds_about(rule)) for rule in rules_without()],
        "actions": list(visible_actions()[:SHOWN]),
        "errors": {},
    }


def _policy(pk: int) -> Policy:
    rows = Policy.objects.select_related("rule", "channel").prefetch_related("teams")
    return get_object_or_404(rows, pk=pk)


@shows("dashboard/action_policy.html", "alerts", "days", find=_policy)
def action_policy(request: HttpRequest, period: Period, policy: Policy) -> Context:
    """`?days=30` says what it would have done."""
    days = chosen(request, "days", PERIODS)
    if not days:
        return _shown(policy, period.now)
    run = back_test_runs.newest(_asked(policy, request), now=period.now)
    try:
        tried = _tried(policy, interval_of(run, days, period.now), run)
    except RefusedFieldError as error:
        return _shown(policy, period.now, errors={error.field: str(error)})
    except TakesLongError:
        long = long_test("policy_back_test", policy.pk, run)
        return _shown(policy, period.now, days=days, **long)
    return _shown(policy, period.now, tried=tried, tried_over=PERIODS[days], days=days, run=run)


@require_POST
@login_required
def start_back_test(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks a worker for what the address tries, as its page was asked for it."""
    try:
        return ask_worker(request, _asked(_policy(pk), request))
    except RefusedFieldError as error:
        return refused(request, error, reverse("action_policy", args=[pk]))


def _asked(policy: Policy, request: HttpRequest) -> back_test_runs.Asked:
    days = chosen(request, "days", PERIODS, default="7")
    address = f"{reverse('action_policy', args=[policy.pk])}?{request.GET.urlencode()}"
    return past_ladders.asked_of(policy, days=int(days), address=address)


def _tried(policy: Policy, interval: Interval, run: BackTestRun | None) -> PolicyTrial:
    """What the policy would have done: as a worker tried it, or at once.

    Raises RefusedFieldError; TakesLongError where a worker is at it, or is to be asked.
    """
    if run and run.state == BackTestRun.State.DONE:
        return past_ladders.outcome_of(run)
    if run:
        raise TakesLongError
    with at_once() as on_step:
        return past_ladders.try_on_history(policy, interval, on_step=on_step)


def _shown(policy: Policy, now: datetime, **outcome: object) -> Context:
    return {
        "line": view_of_policy(policy, now),
        "policy": policy,
        "teams": list(Team.objects.order_by("slug")[:MAX_TEAMS]),
        "chosen_teams": set(policy.teams.all()),
        "job_kinds": JOB_KINDS,
        "channels": list(Channel.objects.filter(kind=WEBHOOK.kind).order_by("name")),
        "actions": list(visible_actions().filter(policy=policy)[:SHOWN]),
        "fields": _fields(policy),
        "periods": PERIODS.items(),
        "days": "30",
        "errors": {},
        "sent": {},
        **outcome,
    }


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A field of the form: its name, what it is called, its value, and what is said of it."""

    name: str
    label: str
    value: str
    help: str = ""
    type: str = "text"


def _fields(policy: Policy) -> list[PolicyField]:
    until = _last_day(policy.dry_run_until)
    most = f"{policy.max_usd_per_hour:.2f}"
    first = str(policy.first_wait_minutes)
    second = str(policy.second_wait_minutes)
    words = kind_of(policy.rule.condition).words
    of_all = f"what the GPUs of all {words.thing}s {words.done} within an hour cost an hour"
    many = f"{words.thing.capitalize()}s an hour at most"
    week = "always for the first week, from when it is switched on"
    return [
        PolicyField("first_wait_minutes", "First wait, min", first, "after the first warning"),
        PolicyField("second_wait_minutes", "Second wait, min", second, "after the second one"),
        PolicyField("max_per_hour", many, str(policy.max_per_hour)),
        PolicyField("max_usd_per_hour", "Dollars an hour at most", most, of_all),
        PolicyField("dry_run_until", "Dry run until", until, week, "date"),
    ]


def _last_day(until: datetime | None) -> str:
    """The day that a form has for it; of a moment within a day the day."""
    return f"{until - timedelta(seconds=1):%Y-%m-%d}" if until else ""


@require_POST
@needs(Right.FLEET)
@never_cache
def add_action_policy(request: HttpRequest) -> HttpResponse:
    """A policy of a rule, switched off."""
    asked = read_form(request)
    try:
        rule = get_object_or_404(Rule, pk=asked.number("rule", low=1, high=2**31))
        policy = action_policies.add_policy(rule, asked.text("kind"), by=asked.user, now=asked.now)
    except RefusedFieldError as error:
        context = _listed(asked.now) | {"errors": {error.field: str(error)}}
        return page(request, read_period(request), "dashboard/actions.html", "alerts", context)
    messages.success(request, "Created, switched off. Set whom it is for and how long it waits.")
    return redirect("action_policy", policy.pk)


@require_POST
@needs(Right.FLEET)
@never_cache
def change_action_policy(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """One change of a policy."""
    change = existing(CHANGES.get(action))

    def shown(asked: Asked, errors: dict[str, str]) -> Context:
        return _shown(_policy(pk), asked.now, action=action, errors=errors, sent=asked.post)

    return change_one(request, HOME, _policy(pk), change, shown)


def _set(policy: Policy, asked: Asked) -> tuple[Policy, str]:
    terms = _read_terms(terms_of_policy(policy), asked)
    changed = action_policies.set_policy(policy, terms, by=asked.user, now=asked.now)
    is_rehearsed_anew = changed.rehearsed_from == asked.now
    return changed, "Saved; its week of dry run starts again." if is_rehearsed_anew else "Saved."


def _switch_on(policy: Policy, asked: Asked) -> tuple[Policy, str]:
    changed = _switched(policy, asked, is_enabled=True)
    if action_policies.is_about_nobody(changed):
        return changed, "Switched on, for nobody yet: name teams and kinds of jobs below."
    return changed, "Switched on."


def _switch_off(policy: Policy, asked: Asked) -> tuple[Policy, str]:
    changed = _switched(policy, asked, is_enabled=False)
    return changed, "Switched off: it no longer warns or acts."


def _switched(policy: Policy, asked: Asked, *, is_enabled: bool) -> Policy:
    # never the other way round than it is: who presses twice means it once
    return action_policies.switch_policy(
        policy, is_enabled=is_enabled, by=asked.user, now=asked.now
    )


def _remove(policy: Policy, asked: Asked) -> tuple[Policy, str]:
    action_policies.remove_policy(policy, by=asked.user, now=asked.now)
    return policy, "Removed; its history is kept."


CHANGES: Mapping[str, Change[Policy]] = {
    "set": _set,
    "switch_on": _switch_on,
    "switch_off": _switch_off,
    "remove": _remove,
}


def _read_terms(terms: PolicyTerms, asked: Asked) -> PolicyTerms:
    """What the form says. Raises RefusedFieldError."""
    teams = [team for team in Team.objects.order_by("slug") if asked.is_ticked(f"team-{team.pk}")]
    kinds = [kind for kind in JOB_KINDS if asked.is_ticked(f"kind-{kind}")]
    longest = action_policies.LONGEST_WAIT
    return replace(
        terms,
        teams=tuple(teams),
        job_kinds=tuple(kinds),
        first_wait_minutes=asked.number("first_wait_minutes", low=1, high=longest),
        second_wait_minutes=asked.number("second_wait_minutes", low=1, high=longest),
        max_per_hour=asked.number("max_per_hour", low=1, high=action_policies.MOST_PER_HOUR),
        max_usd_per_hour=_amount(asked),
        channel=_channel(asked),
        dry_run_until=_dry_run_until(asked, terms.dry_run_until),
    )


def _channel(asked: Asked) -> Channel | None:
    """Raises RefusedFieldError; Http404 where there is none of that number."""
    if not asked.text("channel"):
        return None
    return get_object_or_404(Channel, pk=asked.number("channel", low=1, high=LARGEST_ID))


def _amount(asked: Asked) -> Decimal:
    """Raises RefusedFieldError."""
    try:
        return Decimal(asked.text("max_usd_per_hour"))
    except InvalidOperation as error:
        raise RefusedFieldError(
            "An amount of dollars, please.", field="max_usd_per_hour"
        ) from error


def _dry_run_until(asked: Asked, now_until: datetime | None) -> datetime | None:
    """The end of that day, UTC, or as it is where the form was sent with its day; None where it
    names none. Raises RefusedFieldError.
    """
    text = asked.text("dry_run_until")
    if text == _last_day(now_until):
        return now_until
    if not text:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError as error:
        raise RefusedFieldError("A day, please: 2027-01-31.", field="dry_run_until") from error
    if day > asked.now + timedelta(days=MAX_DAYS):
        raise RefusedFieldError(f"within {MAX_DAYS} days", field="dry_run_until")
    return day + timedelta(days=1)
