"""Silences, maintenance windows and what is agreed as not waste: what is not told, until when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, cast
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.colleagues import show_people
from fleetwatch.accounts.models import User
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import Right, may, role_of
from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts import matchers, weekly_hours
from fleetwatch.alerts.incidents.muted_incidents import muted_counts
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Silence
from fleetwatch.alerts.silences import (
    OF_LEADS,
    SilenceTerms,
    add_silence,
    end_silence,
    endable,
    seen_by,
)
from fleetwatch.dashboard.forms.asked import Asked, local_path, read_form
from fleetwatch.dashboard.forms.matcher_fields import (
    NAMES,
    day_choices,
    is_scope_sent,
    read_hours,
    read_scope,
    sent_rows,
    typed,
)
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import Context, existing, page
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.diagnosis.selectors import history
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.refusal import RefusedFieldError

LOOKS_BACK = timedelta(days=30)  # for those that are over
MAX_SHOWN = 200
USUAL = timedelta(hours=4)
KINDS = {
    Silence.Kind.SILENCE: "Silence: nobody is notified",
    Silence.Kind.MAINTENANCE: "Maintenance window: nobody is notified",
    Silence.Kind.EXEMPTION: "Agreed as not waste, approved by an operator",
}


class NamedJob(NamedTuple):
    """A job that a silence is about; end_ms None: it may go on."""

    name: str
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class SilenceLine:
    """A silence as the page shows it."""

    silence: Silence
    texts: tuple[str, ...]
    hours: str
    may_end: bool
    muted: int  # incidents that fired while it held
    job_ended_ms: int | None  # when the last of the jobs was over that it is about; None: it is not


@require_GET
@login_required
@never_cache
@takes("kind", *NAMES)
def silences(request: HttpRequest) -> HttpResponse:
    """`?label-0=node&values-0=gpu-01` fills the form in."""
    return _page(request, sent=request.GET.dict())


@require_POST
@login_required
@never_cache
def add(request: HttpRequest) -> HttpResponse:
    asked = read_form(request)
    try:
        silence = add_silence(_terms(asked), by=asked.user, now=asked.now)
    except RefusedFieldError as error:
        return _page(request, sent=asked.post, errors={error.field: str(error)})
    messages.success(request, f"{silence.kind_in_words.capitalize()}: it was added.")
    return redirect("silences")


@require_POST
@login_required
@never_cache
def end(request: HttpRequest, pk: int) -> HttpResponse:
    asked = read_form(request)
    seen = seen_by(asked.user, Silence.objects.filter(pk=pk), now=asked.now)
    silence = existing(next(iter(seen), None))
    end_silence(silence.pk, by=asked.user, now=asked.now)
    messages.success(request, "Ended: people are notified again of what it held back.")
    return redirect(local_path(request, asked.text("back")) or "silences")


def _terms(asked: Asked) -> SilenceTerms:
    """What the form says. Raises RefusedFieldError."""
    here = zone()
    return SilenceTerms(
        kind=asked.text("kind"),
        matchers=read_scope(asked.post),
        starts_at=_moment(asked, "starts_at", here) or asked.now,
        ends_at=_moment(asked, "ends_at", here) or asked.now + USUAL,
        reason=asked.text("reason"),
        hours=read_hours(asked.post, zone=str(here)),
        approved_by=_approver(asked),
    )


def _approver(asked: Asked) -> User | None:
    """None where none was chosen. Raises RefusedFieldError."""
    name = asked.text("approved_by")
    approver = User.objects.filter(username=name, is_active=True).first()
    if name and approver is None:
        raise RefusedFieldError("Nobody has that name any more.", field="approved_by")
    return approver


def _moment(asked: Asked, name: str, here: ZoneInfo) -> datetime | None:
    """None where nothing was sent. Raises RefusedFieldError."""
    text = asked.text(name)
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=here)
    except ValueError as error:
        raise RefusedFieldError("A day and a time, please.", field=name) from error


def _page(request: HttpRequest, *, sent: Mapping[str, str], **outcome: object) -> HttpResponse:
    period = read_period(request)
    user = cast("User", request.user)
    runs_fleet = may(user, Right.FLEET)
    context: Context = {
        **_listed(user, period.now),
        "may_add": runs_fleet or role_of(user) == User.Role.LEAD,
        "kinds": [
            (str(kind), label) for kind, label in KINDS.items() if runs_fleet or kind in OF_LEADS
        ],
        "rows": sent_rows(sent if runs_fleet or is_scope_sent(sent) else _own(user, period.now)),
        "matched": matchers.MATCHED.items(),
        "days_of_week": day_choices(None),
        "approvers": _approvers() if runs_fleet else [],
        "action": "silence",
        "sent": sent,
        "errors": {},
        **outcome,
    }
    return page(request, period, "dashboard/silences.html", "alerts", context)


def _own(user: User, now: datetime) -> dict[str, str]:
    """What a lead's silence has to name: the team."""
    slugs = [team.slug for team in teams_of(user, now)]
    return {"label-0": "team", "values-0": typed(slugs)} if slugs else {}


def _listed(user: User, now: datetime) -> Context:
    """Those that hold or will, the first to end first, and those that were over lately."""
    rows = Silence.objects.select_related("by", "approved_by")
    holding = rows.filter(ends_at__gt=now).order_by("ends_at")
    over = rows.filter(ends_at__lte=now, ends_at__gt=now - LOOKS_BACK).order_by("-ends_at")
    return {
        "lines": _lines(holding, user, now),
        "over": _lines(over, user, now),
        "dismissed": _dismissed(),
    }


class Dismissed(NamedTuple):
    """A finding that somebody closed as no waste: its cause by name, by whose word and why."""

    finding: Finding
    title: str
    decision: Said | None


def _dismissed() -> list[Dismissed]:
    """Those of jobs that the reader sees, the newest first; they hold until somebody reopens
    them.
    """
    jobs = visible(Job.objects.all())
    rows = Finding.objects.filter(status=Finding.Status.DISMISSED, job__in=jobs)
    findings = list(rows.select_related("job").order_by("-decided_at", "-pk")[:MAX_SHOWN])
    decisions: dict[int, Said] = {}
    for each in history(*findings) if findings else ():
        if each.kind == Said.Kind.DISMISSED:
            decisions.setdefault(each.finding_id, each)
    return [
        Dismissed(each, of_kind(each.cause, each.its_job.kind).title, decisions.get(each.pk))
        for each in findings
    ]


def _approvers() -> list[tuple[str, str]]:
    """Who may approve of an exemption."""
    users = User.objects.filter(is_active=True).order_by("username")
    return [(user.username, user.username) for user in users if may(user, Right.FLEET)][:MAX_SHOWN]


def _lines(silences: Iterable[Silence], user: User, now: datetime) -> list[SilenceLine]:
    rows = seen_by(user, silences, now=now)[:MAX_SHOWN]
    may_end = endable(user, rows, now=now)
    show_people(rows, "by", "approved_by")
    muted = muted_counts(rows, now)
    jobs = _jobs(rows)
    return [_line(silence, silence.pk in may_end, muted[silence.pk], jobs) for silence in rows]


def _line(silence: Silence, may_end: bool, muted: int, jobs: Mapping[str, NamedJob]) -> SilenceLine:
    hours = weekly_hours.stored(silence.weekly)
    scope = matchers.stored(silence.matchers)
    texts = tuple(_text(matcher, jobs) for matcher in scope)
    ended_ms = _ended_ms(scope, jobs)
    return SilenceLine(silence, texts, hours.text if hours else "", may_end, muted, ended_ms)


def _text(matcher: Matcher, jobs: Mapping[str, NamedJob]) -> str:
    """What it matches; of jobs with their names."""
    called = [jobs[value].name for value in matcher.values if value in jobs and jobs[value].name]
    return f"{matcher.text} ({', '.join(called)})" if called else matcher.text


def _ended_ms(scope: Iterable[Matcher], jobs: Mapping[str, NamedJob]) -> int | None:
    """When the last of the jobs was over that it is about alone; None where one may go on."""
    subjects = [each for each in scope if each.label == "subject" and not each.is_not]
    ends = [
        jobs[value].end_ms if value in jobs else None for each in subjects for value in each.values
    ]
    over = [end_ms for end_ms in ends if end_ms is not None]
    return max(over) if over and len(over) == len(ends) else None


def _jobs(silences: Iterable[Silence]) -> dict[str, NamedJob]:
    """By its key each job that one of them is about."""
    every = [matcher for silence in silences for matcher in matchers.stored(silence.matchers)]
    keys = {value for matcher in every if matcher.label == "subject" for value in matcher.values}
    rows = Job.objects.filter(key__in=keys).values_list("key", "name", "end_ms") if keys else ()
    return {key: NamedJob(name, end_ms) for key, name, end_ms in rows}
