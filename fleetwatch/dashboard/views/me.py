"""My page: the jobs that run under the reader's names, what they wasted, and what to do about it;
with the reader's own names, tokens and log-in.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import ApiToken, Identity, Team, User
from fleetwatch.accounts.names.holders import OF_JOBS, people_with_jobs
from fleetwatch.accounts.people import Name, give_name, take_name, teams_led, teams_of
from fleetwatch.accounts.permissions import Right, may, needs
from fleetwatch.accounts.services import revoke_api_token
from fleetwatch.accounts.visibility import sight
from fleetwatch.budgets import selectors as budgets
from fleetwatch.budgets.selectors import BudgetLine
from fleetwatch.dashboard import pattern_rows, words
from fleetwatch.dashboard.duties import duties, duties_of_lead
from fleetwatch.dashboard.fleet_health import needs_somebody
from fleetwatch.dashboard.forms import api_tokens, notification_form
from fleetwatch.dashboard.forms.asked import read_form
from fleetwatch.dashboard.incident_pages import first_steps
from fleetwatch.dashboard.install import cli_command
from fleetwatch.dashboard.job_lines import lines_of
from fleetwatch.dashboard.job_orders import NOW, order_by
from fleetwatch.dashboard.parameters import PERIOD, takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.persons_time import scope_of, time_of, wasted_change
from fleetwatch.dashboard.showing import Context, live, page
from fleetwatch.dashboard.team_people import team_people
from fleetwatch.diagnosis.cause_totals import Caused, Saving, total
from fleetwatch.diagnosis.causes import title
from fleetwatch.diagnosis.findings import deciding, fixes, inbox
from fleetwatch.diagnosis.findings.accepted import AcceptedFix, accepted_fixes
from fleetwatch.diagnosis.findings.inbox import RECOVERABLE
from fleetwatch.diagnosis.findings.patterns import patterns
from fleetwatch.diagnosis.findings.ranked_findings import Findings
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.jobs.called_jobs import users_called
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.own_names import alike
from fleetwatch.jobs.selectors import clusters, held_by
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.reports import months

PAGE = "dashboard/me.html"
MAX_JOBS = 20
MAX_PATTERNS = 10
MAX_FIXES = 10
MAX_RUNS = 100  # marked as fixed with one press
MAX_NAMES = 200  # of jobs' users, to choose from
MAX_FITS = 5
CLAIMED = (Identity.System.UNIX, Identity.System.KUBERNETES, Identity.System.SLACK)


@dataclass(frozen=True, slots=True)
class AcceptedRow:
    """A fix that is still to do, with its words; `saving` is what it could have saved in the
    period, None where its jobs have no time in it.
    """

    fix: AcceptedFix
    title: str
    ids: str  # of its findings, as the button sends them
    saving: Saving | None
    may_decide: bool


@require_GET
@login_required
@never_cache
@takes(*PERIOD)
def me(request: HttpRequest) -> HttpResponse:
    return live(request, PAGE, lambda fresh: _page(request, **fresh.context()))


@require_GET
@needs(Right.PEOPLE)
@never_cache
@takes(*PERIOD)
def jobs_of(request: HttpRequest, pk: int) -> HttpResponse:
    """Somebody's page, as far as it is about jobs."""
    person = get_object_or_404(User, pk=pk)
    return live(request, PAGE, lambda fresh: _page(request, person, **fresh.context()))


@require_POST
@login_required
@never_cache
def claim(request: HttpRequest) -> HttpResponse:
    """A name in another system that the reader says to have: an admin confirms it."""
    asked = read_form(request)
    name = Name(asked.text("system"), asked.text("name"), asked.text("cluster"))
    try:
        if name.system not in CLAIMED:
            raise RefusedFieldError("Choose one from the list.", field="system")
        give_name(asked.user, name, source=Identity.Source.CLAIM, now=asked.now)
    except RefusedFieldError as error:
        return _page(request, action="claim", errors={error.field: str(error)})
    messages.success(request, f"{name.name} is yours as soon as an admin has confirmed it.")
    return redirect("me")


@require_POST
@login_required
@never_cache
def set_notifications(request: HttpRequest) -> HttpResponse:
    """How the reader hears of incidents from now on."""
    try:
        notification_form.save(read_form(request))
    except RefusedFieldError as error:
        return _page(request, action="hear", errors={error.field: str(error)})
    messages.success(request, "Saved: this is how you are notified from now on.")
    return redirect(f"{reverse('me')}#notifications")


@require_POST
@login_required
@never_cache
def drop_name(request: HttpRequest, pk: int) -> HttpResponse:
    """A name that the reader claimed himself. Others' word stays: by the directory's name it is
    told who is gone from there (directory_look.py).
    """
    claimed = _user(request).identities.filter(source=Identity.Source.CLAIM)
    take_name(get_object_or_404(claimed, pk=pk))
    messages.success(request, "The name was removed.")
    return redirect("me")


@require_POST
@login_required
@never_cache
def make_token(request: HttpRequest) -> HttpResponse:
    """A token that may at most what the reader may: shown once."""
    try:
        return _page(request, done=api_tokens.make(read_form(request)))
    except RefusedFieldError as error:
        return _page(request, action="token", errors={error.field: str(error)})


@require_POST
@login_required
@never_cache
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=pk, user=_user(request))
    revoke_api_token(token.pk, read_form(request).now)
    messages.success(request, "The token was revoked.")
    return redirect("me")


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)


def _page(request: HttpRequest, whose: User | None = None, **outcome: object) -> HttpResponse:
    period = read_period(request)
    user = whose or _user(request)
    identities = list(user.identities.order_by("system", "cluster", "name"))
    names = [each for each in identities if each.system in OF_JOBS and each.confirmed_at]
    context: Context = {
        "person": user,
        "is_own": whose is None,
        "names": identities,
        "has_names": bool(names),
        "claim_first": _claim_first(identities),
        **(_suggested(user, _user(request)) if not names else {}),
        "teams": teams_of(user, period.now),
        **(_own(user, period) if whose is None else {}),
        "action": "",
        "errors": {},
        "sent": request.POST,
        **_of_jobs(_user(request), names, period),
        **outcome,
    }
    return page(request, period, PAGE, "people" if whose else "me", _headed(context, whose))


def _headed(context: Context, whose: User | None) -> Context:
    """With whose jobs they are."""
    return {**context, "heading": _heading(context, whose)}


def _heading(context: Context, whose: User | None) -> str:
    """Of who has a role's duties and no name that jobs run under, there are none."""
    if whose is not None:
        return f"Jobs of {whose.username}"
    is_of_role = context.get("duties") is not None and not context["has_names"]
    return "My page" if is_of_role else "My jobs"


def _own(user: User, period: Period) -> Context:
    """What nobody else is shown: what the reader's role is about, the own tokens, and how the
    reader hears of things.
    """
    return {
        **_of_role(user, period),
        "asks_cluster": len(clusters(2)) > 1,
        "systems": [(each.value, each.label) for each in CLAIMED],
        "tokens": ApiToken.objects.filter(user=user, revoked_at=None).order_by("-created_at"),
        "cli_command": cli_command(),
        **api_tokens.choices(user),
        **notification_form.context(user, period.now),
    }


def _claim_first(identities: Iterable[Identity]) -> str:
    """What the form for another name stands on: Slack for who has a name of jobs and none there."""
    systems = {each.system for each in identities}
    has_jobs = not systems.isdisjoint(OF_JOBS)
    return Identity.System.SLACK if has_jobs and Identity.System.SLACK not in systems else ""


def _of_role(user: User, period: Period) -> Context:
    """What was given to the reader and waits for the reader's role, with the figures that a lead,
    who pays and who runs the fleet look at first.
    """
    every = inbox.inbox(period.interval, now=period.now)
    led = teams_led(user, period.now)
    waiting = (
        duties_of_lead(led, period.interval, period.now) if led else duties(user, every, period.now)
    )
    return {
        "given": every.assigned(user.pk).counts()["open"],
        "duties": waiting,
        "led": led,
        "led_people": team_people(led, period),
        "months": _months(user, led, period),
        "month_name": months.in_words(months.name_at(period.now, period.zone)),
        "invoice_month": months.last_begun(period.now, period.zone),
        **(_of_the_fleet(period.now) if may(user, Right.FLEET) else {}),
    }


def _of_the_fleet(now: datetime) -> Context:
    """How the fleet is, and what fires with what to do first; of several at once each one's page
    says it.
    """
    shown = needs_somebody(now)
    rows = [row for row in shown.get("incidents", ()) if not row.is_group]
    steps = first_steps([row.first for row in rows], now)
    return {**shown, "steps": steps}


def _months(user: User, led: Sequence[Team], period: Period) -> list[BudgetLine]:
    """The month to date: the fleet's for those who pay, of their teams for leads."""
    if may(user, Right.MONEY) and sight() is None:
        return [budgets.line_or_run_rate(None, period.minute)]
    return [budgets.line_or_run_rate(team, period.minute) for team in led]


def _suggested(user: User, reader: User) -> Context:
    """Names of jobs that the user may be: the own one here, those that are like it, and, for the
    form, all that the reader sees; a person whose page shows how it looks.
    """
    own = user.get_username()
    seen = users_called("", limit=MAX_NAMES)
    fits = alike(seen, (own, user.email.partition("@")[0]))
    are_all = len(seen) < MAX_NAMES
    is_there = own in seen if are_all else Job.objects.filter(user=own).exists()
    guess = own if is_there else ""
    return {
        "guess": guess,
        "fits": [name for name in fits if name != guess][:MAX_FITS],
        "seen_names": seen,
        "seen_words": f"Run jobs here: {', '.join(seen[:MAX_FITS])}" if seen else "",
        "example": people_with_jobs().first() if may(reader, Right.PEOPLE) else None,
    }


def _of_jobs(reader: User, names: Sequence[Identity], period: Period) -> Context:
    """What jobs under these names did and wasted, what to do about it, and what fixes brought."""
    if not names:
        return {}
    held = held_by(names, since_ms=period.interval.start_ms)
    return {
        "user_name": scope_of(names).user,
        **_time(names, period, held),
        **_to_do(reader, names, period, held),
        **_fixed(names, period),
    }


def _to_do(
    reader: User, names: Sequence[Identity], period: Period, held: Collection[int]
) -> Context:
    """The open findings about the jobs by pattern, and what those that nobody decided about could
    save.
    """
    of_all = inbox.inbox(period.interval, now=period.now, scope=scope_of(names))
    every = of_all.of_jobs.only(held)
    undecided = every.of_status(*RECOVERABLE)
    still_open = patterns(every.of_status("open"), period.so_far, now=period.now)
    return {
        "recoverable": undecided.lines.whole().saving,
        "open_count": every.counts()["open"],
        "snoozed_count": every.counts()["snoozed"],
        "pattern_count": len(still_open),
        "accepted": _accepted(reader, names, every, period),
        **_wasting_first(pattern_rows.rows_of(still_open, slice(MAX_PATTERNS), reader, period.now)),
    }


def _wasting_first(shown: Context) -> Context:
    """The same rows, those first that waste now."""
    rows = sorted(shown["patterns"], key=lambda row: not row.is_wasting)
    return shown | {"patterns": rows}


def _accepted(
    reader: User, names: Sequence[Identity], every: Findings, period: Period
) -> list[AcceptedRow]:
    """What was accepted and is still to do, also where its jobs ran before the period."""
    several = accepted_fixes(names)
    if not several:
        return []
    decidable = deciding.decidable(reader, [fix.newest for fix in several], now=period.now)
    of_period = every.of_status("accepted")
    caused = dict(zip(of_period.pk.tolist(), of_period.lines.caused(), strict=True))
    return [_accepted_row(fix, caused, decidable) for fix in several]


def _accepted_row(
    fix: AcceptedFix,
    caused: Mapping[int, Caused],
    decidable: Collection[int],
) -> AcceptedRow:
    ids = [finding.pk for finding in fix.findings]
    in_period = [caused[pk] for pk in ids if pk in caused]
    return AcceptedRow(
        fix,
        title(fix.newest.cause),
        ",".join(map(str, ids[:MAX_RUNS])),
        total(in_period).saving if in_period else None,
        fix.newest.pk in decidable,
    )


def _time(names: Sequence[Identity], period: Period, held: Collection[int]) -> Context:
    """What the jobs did and wasted, those that still run apart."""
    seen = time_of(names, held, period.interval)
    # those that run are all shown, however little they wasted
    order = order_by(NOW, period.interval)
    ranked = seen.ranked("job", MAX_JOBS, sort=order)
    jobs = lines_of(ranked.groups, period.interval)
    running = [line for line in jobs if line.job and line.job.end_ms is None]
    totals = seen.totals()
    return {
        "totals": totals,
        "wasted_change": wasted_change(names, totals, period.so_far),
        "running": running,
        "ended": [line for line in jobs if line not in running],
        "ended_count": ranked.count - len(running),
    }


def _fixed(names: Sequence[Identity], period: Period) -> Context:
    """What the own fixes of the quarter brought, also those after which the cause came back."""
    quarter = fixes.quarter(period.interval.end - timedelta(microseconds=1), period.zone)
    effects = fixes.own(fixes.top_fixes(quarter), names)
    return {
        "realised": fixes.realised(effects),
        "is_realised": fixes.are_measured(effects),
        "regressed": sum(each.fix.outcome == Outcome.REGRESSED for each in effects),
        "quarter": words.quarter(quarter.start),
        "fixes": [(each, title(each.fix.cause)) for each in effects[:MAX_FIXES]],
    }
