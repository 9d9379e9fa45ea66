"""Policies that are tried in the background: asked for, watched, stopped."""

from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.selectors import zone
from fleetwatch.dashboard import policy_pages, trial_pages
from fleetwatch.dashboard.numbers import duration
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.settings_pages import PAGES, shared
from fleetwatch.dashboard.showing import Context, existing, page
from fleetwatch.finance import policy_trial, trial_runs
from fleetwatch.finance.models import PolicyTrial
from fleetwatch.finance.trial_sums import GROUPS, TrialSums
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import newest_policy
from fleetwatch.ledger.trial import TrialError, bounds
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError

RUNNING = PolicyTrial.State.RUNNING


@require_POST
@login_required
def ask(request: HttpRequest) -> HttpResponse:
    """Asks for a trial on as many hours as a page offers, and leads to it."""
    policy_trial.check_may_try(request.user)
    hours = request.POST.get("hours", "")
    now = timezone.now()
    try:
        changed = policy_pages.read(policy_pages.thresholds_of(request.POST))
        if hours not in policy_pages.HOURS or not changed:
            raise RefusedFieldError("Which thresholds are tried, and on how many hours?")
        period = bounds(policy_pages.full_hours(int(hours), now), now=now)
        asked = trial_runs.ask(
            newest_policy(), changed, period, by=request.user.get_username(), now=now
        )
    except (RefusedFieldError, TrialError) as error:
        return _refused(request, now, str(error))
    return redirect("policy_trial", asked.pk)


@require_GET
@login_required
@never_cache
@takes()
def trial(request: HttpRequest, pk: int) -> HttpResponse:
    """How far it is, or what came of it."""
    policy_trial.check_may_try(request.user)
    shown = existing(PolicyTrial.objects.select_related("policy").filter(pk=pk).first())
    response = render(request, "dashboard/policy_trial.html", _context(request, shown))
    if shown.state != RUNNING:
        response["HX-Refresh"] = "true"  # read by the progress alone, which asks until it is over
    return response


@require_POST
@login_required
def stop(request: HttpRequest, pk: int) -> HttpResponse:
    policy_trial.check_may_try(request.user)
    shown = existing(PolicyTrial.objects.select_related("policy").filter(pk=pk).first())
    if not trial_runs.stop(pk, now=timezone.now()):
        return render(request, "dashboard/policy_trial.html", _context(request, shown), status=409)
    return redirect("policy_trial", pk)


def _refused(request: HttpRequest, now: datetime, why: str) -> HttpResponse:
    """The policy's page with the values as they were sent, and what is wrong with them."""
    context = {**shared(now), **policy_pages.content(request, now)}
    context["errors"] = context["errors"] or {"": why}
    return page(request, read_period(request), PAGES["policy"].template, "settings", context)


def _context(request: HttpRequest, shown: PolicyTrial) -> Context:
    in_force = newest_policy()
    return {
        **{"page": "settings", "zone": zone(), "now": timezone.now(), "trial": shown},
        "version": in_force.version,
        "is_outdated": in_force.version != shown.policy.version,
        "left": _left(shown),
        "hours": str(shown.hours),
        "again": _again(shown),
        **trial_pages.outcome_of(
            Policy.from_json(shown.policy.thresholds),
            shown.changed,
            _lines(shown),
            Interval(shown.start, shown.end),
        ),
    }


def _lines(shown: PolicyTrial) -> dict[str, Any]:
    """By state, team and job, once all is judged."""
    if shown.state != PolicyTrial.State.DONE:
        return dict.fromkeys(GROUPS, ())
    sums = TrialSums.from_json(shown.sums)
    return {grouping: sums.lines(grouping) for grouping in GROUPS}


def _left(shown: PolicyTrial) -> str:
    """How long the other nodes take, at the pace so far; "" before there is one."""
    if shown.state != RUNNING or not shown.nodes_done:
        return ""
    past = timezone.now() - shown.asked_at
    ahead = max(0, shown.nodes_all - shown.nodes_done)
    return duration(past.total_seconds() * 1000 * ahead / shown.nodes_done)


def _again(shown: PolicyTrial) -> str:
    """The query that opens the form with these values, on hours that are judged at once."""
    query = QueryDict(mutable=True)
    query.update({name: policy_pages.as_typed(name, each) for name, each in shown.changed.items()})
    query["hours"] = "1"
    return query.urlencode()
