"""One incident: what is wrong, whose it is, what it costs and what to do; what happened so far, and
what people do about it.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import Resolver404, resolve
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import may_open
from fleetwatch.actions import keeping
from fleetwatch.actions.keeping import KEEPABLE, OVER, may_keep
from fleetwatch.actions.kinds import kind_of
from fleetwatch.actions.selectors import outlook
from fleetwatch.alerts import matchers
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.incidents import incident_actions
from fleetwatch.alerts.incidents.incident_actions import Action
from fleetwatch.alerts.incidents.incident_history import (
    again_after,
    before,
    is_at_the_top,
    joined,
    sends,
    waits_for,
)
from fleetwatch.alerts.incidents.late_incidents import late_reason
from fleetwatch.alerts.measuring.likely_causes import likely
from fleetwatch.alerts.messaging.messages import HOURS_PER_MONTH
from fleetwatch.alerts.messaging.page_steps import left
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import (
    IncidentView,
    view_of,
    visible_incidents,
    with_decisions,
)
from fleetwatch.alerts.services import settings_of
from fleetwatch.dashboard import agreements, incident_pages, slowed_gpus
from fleetwatch.dashboard.budget_drivers import drivers_of
from fleetwatch.dashboard.forms.asked import Asked, local_path, read_form, ticked
from fleetwatch.dashboard.forms.matcher_fields import typed
from fleetwatch.dashboard.incident_ends import is_held_still, say_what_came
from fleetwatch.dashboard.incident_places import is_page_seen, places
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, existing, live, page
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.findings import deciding
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Channel

AROUND_MS = 2 * HOUR_MS  # shown of its subject before it began
MAX_EVENTS = 200
MAX_CHOICES = 200
MAX_TICKED = 100
NEXT_WORKDAY = "workday"
SNOOZES = {"1": "1 hour", "4": "4 hours", "24": "1 day", "168": "1 week"}
JUSTIFIED = {"1": "for a day", "7": "for a week", "30": "for 30 days"}
DONE = {
    "ack": "Acknowledged: nobody else is notified.",
    "snooze": "Snoozed; it comes back by itself.",
    "unsnooze": "Snooze ended: people are notified again within a minute.",
    "resolve": "Resolved by hand: nobody is notified of it any more.",
    "assign": "Assigned.",
    "not_waste": "Thank you: nobody is notified of it until then, and the reason is recorded.",
    "fixed": "Thank you: fixed, and the rule was right.",
}
# what can be done to several at once, as it is called once it is done
BULK = {"ack": "acknowledged", "snooze": "snoozed", "resolve": "resolved"}
MAX_LABELS = 40
PAGE = "dashboard/incident.html"


def _incident(pk: int) -> Incident:
    return existing(visible_incidents().filter(pk=pk).first())


@require_GET
@login_required
@never_cache
@takes()
def incident(request: HttpRequest, pk: int) -> HttpResponse:
    return live(request, PAGE, lambda fresh: _page(request, _incident(pk), **fresh.context()))


@require_POST
@login_required
@never_cache
def act(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """One action, then back to where it was taken."""
    if action not in incident_actions.KINDS:
        raise Http404(action)
    incident = _incident(pk)
    asked = read_form(request)
    try:
        wanted = _wanted(action, asked)
        incident_actions.act(incident.pk, wanted, by=asked.user, now=asked.now)
    except RefusedFieldError as error:
        return _page(request, incident, action=action, error=str(error), sent=asked.post)
    messages.success(request, DONE[action])
    return redirect("incident", incident.pk)


@require_POST
@login_required
@never_cache
def keep(request: HttpRequest, pk: int) -> HttpResponse:
    """Nothing is done by itself about what the incident is about."""
    incident = _incident(pk)
    asked = read_form(request)
    ladder = incident.actions.filter(state__in=KEEPABLE, is_dry_run=False).first()
    if ladder is None:
        return _page(request, incident, action="keep", error=OVER)
    try:
        keeping.keep(ladder.pk, by=asked.user, reason=asked.text("reason"), now=asked.now)
    except RefusedFieldError as error:
        return _page(request, incident, action="keep", error=str(error), sent=asked.post)
    messages.success(request, kind_of(incident.rule.condition).words.kept)
    return redirect("incident", pk)


@require_POST
@login_required
@never_cache
def act_on_several(request: HttpRequest) -> HttpResponse:
    """The same action on those that are ticked; which of them it could not be done to is said."""
    asked = read_form(request)
    action = asked.text("action")
    if action not in BULK:
        raise Http404(action)
    every = list(visible_incidents().filter(pk__in=ticked(request, MAX_TICKED)))
    if not every:
        messages.error(request, "Nothing was ticked.")
    done = [incident for incident in every if _is_done(request, incident, action, asked)]
    if done:
        messages.success(request, f"{len(done)} {BULK[action]}.")
    return redirect(local_path(request, asked.text("back")) or "alerts")


def _is_done(request: HttpRequest, incident: Incident, action: str, asked: Asked) -> bool:
    try:
        wanted = _wanted(action, asked)
        incident_actions.act(incident.pk, wanted, by=asked.user, now=asked.now)
    except (RefusedFieldError, PermissionDenied) as error:
        title = view_of(incident).breach.title
        messages.error(request, f"{title}: {error}.")
        return False
    return True


def _wanted(action: str, asked: Asked) -> Action:
    """What the form says. Raises RefusedFieldError."""
    whom = deciding.assignee(asked.text("assignee")) if action == "assign" else None
    until = UNTIL.get(action, _no_end)(asked)
    return Action(action, asked.text("reason"), until, whom)


def _no_end(_: Asked) -> None:
    return None


def _snoozed_until(asked: Asked) -> datetime | None:
    """None, as long as usual, where the form names no length."""
    length = asked.text("length")
    if length == NEXT_WORKDAY:
        return next_workday(asked.now, zone())
    return asked.now + timedelta(hours=int(length)) if length in SNOOZES else None


def _justified_until(asked: Asked) -> datetime | None:
    days = asked.text("days")
    return asked.now + timedelta(days=int(days)) if days in JUSTIFIED else None


UNTIL: dict[str, Callable[[Asked], datetime | None]] = {
    "snooze": _snoozed_until,
    "not_waste": _justified_until,
}


def next_workday(now: datetime, zone: ZoneInfo) -> datetime:
    """Nine o'clock on the next day from Monday to Friday."""
    local = now.astimezone(zone)
    days = next(days for days in (1, 2, 3) if (local + timedelta(days=days)).weekday() < 5)
    day = local.date() + timedelta(days=days)
    return datetime.combine(day, time(9), zone)


def _page(request: HttpRequest, incident: Incident, **outcome: object) -> HttpResponse:
    period = read_period(request)
    user = cast("User", request.user)
    context: Context = {
        "incident": incident,
        **_of_breach(user, _view(incident, period), period),
        "rule_in_words": condition(incident.rule.condition).in_words(settings_of(incident.rule)),
        **_agreed(incident, user, period.now),
        "decided": _decided(incident, period.now),
        **_past(incident, period.now),
        "has_channel": Channel.objects.exists,  # asked where nobody was told
        "lacks_route": incident_pages.lacks_route(incident),
        **_rights(user, incident, period.now),
        **_of_actions(user, incident, period.now),
        "action": "",
        "error": "",
        "sent": {},
        **outcome,
    }
    return page(request, period, PAGE, "alerts", context)


def _agreed(incident: Incident, user: User, now: datetime) -> Context:
    """What people agreed on about it, and what happened, with that."""
    agreed = agreements.of_incident(incident, user, now)
    events = agreements.past_events(incident, agreed)
    say_what_came(incident, events, now)
    return {
        "agreements": agreed,
        "is_agreed": incident.is_accepted or any(each.is_no_waste for each in agreed),
        "events": events[-MAX_EVENTS:][::-1],
    }


def _decided(incident: Incident, now: datetime) -> str:
    """Who snoozed it or acknowledged it, and why, while that holds; "" else."""
    is_snoozed = incident.snoozed_until is not None and incident.snoozed_until > now
    if not is_snoozed and incident.state != Incident.State.ACKNOWLEDGED:
        return ""
    [view] = with_decisions([view_of(incident)])
    return view.decided


def _past(incident: Incident, now: datetime) -> Context:
    """What happened to it, whom it was told, and the times before."""
    return {
        "late_reason": late_reason(incident),
        "sends": sends(incident),
        "joined": joined(incident),
        "waits_for": waits_for(incident),
        "is_held_still": is_held_still(incident, now),
        "is_at_the_top": is_at_the_top(incident),
        "before": before(incident, now),
        "again_after_ms": again_after([incident]).get(incident.pk),
    }


def _view(incident: Incident, period: Period) -> IncidentView:
    return incident_pages.of_now(view_of(incident), period.now)


def _of_actions(user: User, incident: Incident, now: datetime) -> Context:
    """What is done about it by itself, and whether the user may stop that."""
    ladders = list(incident.actions.order_by("-pk"))
    going_on = (each for each in ladders if each.state in KEEPABLE and not each.is_dry_run)
    ladder = next(going_on, None)
    return {
        "ladders": ladders,
        "outlook": outlook(incident, now),
        "keepable": ladder is not None and may_keep(ladder, user, now),
        "action_words": kind_of(incident.rule.condition).words if ladder else None,
    }


def _of_breach(user: User, view: IncidentView, period: Period) -> Context:
    """What is wrong, of whom, and where more of it is to be seen."""
    breach = view.breach
    line = incident_pages.finding_line(breach, period.now)
    return {
        "breach": breach,
        "what": view.what,
        "drivers": drivers_of(breach, period.now, is_over=view.incident.ended_ms is not None),
        **_extent(view),
        "who": breach.label("user") or breach.label("team"),
        "holders": incident_pages.holders(breach),
        "of_same_gpu": incident_pages.of_same_gpu(view.incident, breach),
        "finding_line": line,
        "loses": breach.label("cause") == SLOWED and breach.has_cost,
        **slowed_gpus.of_incident(view, period),
        **_advice(view, period.now),
        "subject_url": _subject_url(user, breach, period),
        "places": places(breach),
        "around": _around(breach, period),
        "silence_query": _silence_query(view),
        "curve": _curve(view, period),
        **_ahead(view, period.now),
        "labels": _labels(breach),
    }


def _extent(view: IncidentView) -> Context:
    """Until when it went on and what of that its dollars are of."""
    return {
        "covers": condition(view.incident.rule.condition).covers,
        "ended_ms": view.ended_ms,
        "lasted_ms": view.lasted_ms,
        "passed_for_ms": view.passed_for_ms,
    }


def _advice(view: IncidentView, now: datetime) -> Context:
    """The likely cause, what to do step by step, and what else there is to say of it; of what is
    over what the message of its end says.
    """
    breach = view.breach
    why = likely(breach, now)
    is_over = view.incident.ended_ms is not None
    steps, texts = incident_pages.steps(left(breach) if is_over else breach, why)
    if incident_pages.is_left(view.incident) and breach.command:
        is_mended = is_over and why is not None and why.finding_id is not None
        steps = _without_ending(view, steps, is_mended=is_mended)
    notes = incident_pages.notes(texts, breach.label("kind"))
    return {"likely": why, "steps": steps, "step_notes": notes}


def _without_ending(view: IncidentView, steps: Sequence[Step], *, is_mended: bool) -> list[Step]:
    """The steps of a job that is not to be ended: who holds it is asked first, where it runs and
    nobody said what it is for, and no step mends it.
    """
    breach = view.breach
    ask = incident_pages.ask_owner(breach)
    others = [
        step for step in steps if step.code != breach.command and not ask.text.startswith(step.text)
    ]
    has_ended = incident_pages.job_end_ms(breach) is not None
    is_asked = not (is_mended or has_ended or view.incident.is_accepted)
    return [ask, *others] if is_asked else others


def _curve(view: IncidentView, period: Period) -> incident_pages.Curve | None:
    """Of a job while it ran: what was before, or came after, is another job's."""
    breach = view.breach
    begun_ms = incident_pages.begun_ms(breach) or 0
    around = _around(breach, period, begun_ms, incident_pages.job_end_ms(breach))
    from_job = begun_ms > breach.since_ms - AROUND_MS
    state = condition(view.incident.rule.condition).state
    return incident_pages.curve(breach, around, state=state, from_job=from_job)


def _silence_query(view: IncidentView) -> str:
    """What fills in the form of a silence of it."""
    rule = {"label-0": "rule", "values-0": typed([view.incident.rule.name])}
    return urlencode(rule | {"label-1": "subject", "values-1": typed([view.breach.subject])})


def _rights(user: User, incident: Incident, now: datetime) -> Context:
    """Whether the user may act on it, for how long, and whom it may be given to."""
    runs_fleet = may(user, Right.FLEET)
    people = deciding.candidates() if runs_fleet else deciding.colleagues(user, now)
    return {
        "may_act": bool(incident_actions.actable(user, [incident], now=now)),
        "not_yours": incident_actions.NOT_YOURS,
        "people": people[:MAX_CHOICES],
        "snoozes": (SNOOZES | {NEXT_WORKDAY: "until 9:00 of the next working day"}).items(),
        "justified": JUSTIFIED.items(),
    }


def _subject_url(user: User, breach: Breach, period: Period) -> str:
    """The page of what it is about, over the time around it where it takes a period; "" where there
    is none, or not for this reader.
    """
    try:
        match = resolve(breach.path)
    except Resolver404:
        return ""
    if not may_open(user, match) or not is_page_seen(breach):
        return ""
    has_period = "from" in getattr(match.func, "parameters", ())
    return f"{breach.path}?{_around(breach, period)}" if has_period else breach.path


def _around(breach: Breach, period: Period, begun_ms: int = 0, over_ms: int | None = None) -> str:
    """The time around it, but not before it began or after it was over, as an address names it."""
    end_ms = min(breach.until_ms + AROUND_MS, to_ms(period.now))
    if over_ms is not None:
        end_ms = max(min(end_ms, over_ms), breach.until_ms)
    return f"from={max(breach.since_ms - AROUND_MS, begun_ms)}&to={end_ms}"


def _ahead(view: IncidentView, now: datetime) -> Context:
    """What it comes to where it is left: by its job's time limit, else in a month."""
    limit = incident_pages.time_limit(view, now)
    return {"time_limit": limit, "usd_per_month": _month(view.breach)}


def _month(breach: Breach) -> Decimal | None:
    """Dollars if it went on for a month; None where an hour's are not known."""
    return None if breach.usd_per_hour is None else breach.usd_per_hour * HOURS_PER_MONTH


def _labels(breach: Breach) -> list[tuple[str, str]]:
    """What scopes, silences and routes can match, by its name for people."""
    return [
        (matchers.MATCHED.get(label, label), ", ".join(values))
        for label, values in list(breach.labels.items())[:MAX_LABELS]
    ]
