"""A team's statement of a month, and what finance and the team's leads do about it: approve it,
send it, say to whom it goes each month.
"""

from collections.abc import Callable
from datetime import datetime
from typing import cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.alerts.messaging.team_routes import offered_channels
from fleetwatch.budgets.selectors import line_or_run_rate
from fleetwatch.dashboard.forms.asked import Asked, read_form
from fleetwatch.dashboard.freshness import NEVER_LIVE, Freshness
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.report_pages import report_context, trend_of, wasted_usd_of
from fleetwatch.dashboard.showing import Context, existing, live
from fleetwatch.dashboard.team_waste import team_waste
from fleetwatch.figures import boundaries
from fleetwatch.figures.selectors import ledger_began
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.reports import months, selectors, statement_sending, team_months
from fleetwatch.reports.models import Report, StatementApproval, StatementRecipient
from fleetwatch.reports.monthly import STATEMENT

PAGE = "dashboard/team_statement.html"
NOT_THEIRS = "a statement is approved and sent by finance and the team's leads"


@require_GET
@login_required
@never_cache
@takes()
def team(request: HttpRequest, slug: str) -> HttpResponse:
    """The team's newest statement; where there is none the newest month that can have one, which
    on the first of a month is the one before.
    """
    of = existing(visible_teams().filter(slug=slug).first())
    stored = [each.name for each in team_months.newest(of.slug)[:1]]
    possible = stored or sorted(_known_months(of), reverse=True)
    month = possible[0] if possible else months.name_at(timezone.now(), zone())
    return redirect("team_statement", slug=of.slug, month=month)


@require_GET
@login_required
@never_cache
@takes()
def team_statement(request: HttpRequest, slug: str, month: str) -> HttpResponse:
    """One month of one team. Where it is not computed, what is known of that. A month that is over
    and computed is shown as it is stored, and so is not live.
    """
    of = existing(visible_teams().filter(slug=slug).first())
    known_months = _known_months(of)
    if month not in known_months:
        return _no_statement(request, of, month, sorted(known_months, reverse=True))
    if known_months[month]:
        return _page(request, of, month)
    return live(request, PAGE, lambda fresh: _page(request, of, month, fresh=fresh))


def _known_months(of: Team) -> dict[str, bool]:
    """The months that the team has a statement of, or can have one: whether it is stored as it
    stays, which the month that runs, and one that is being computed, is not.
    """
    now = timezone.now()
    lines = {each.name: each.is_open for each in selectors.month_lines(now)}
    running = months.name_at(now, zone())
    stored = {each.name for each in team_months.newest(of.slug)}
    return dict.fromkeys(lines, False) | {
        name: name != running and not lines.get(name) for name in stored
    }


def _no_statement(request: HttpRequest, of: Team, month: str, others: list[str]) -> HttpResponse:
    context = {"team": of, "month_in_words": months.in_words(month), "months": others[:12]}
    context |= {"page": "reports", "zone": zone(), "recorded_since": _since_after(month)}
    return render(request, "dashboard/no_statement.html", context, status=404)


def _since_after(month: str) -> datetime | None:
    """Since when there are figures, where the month began before; else None."""
    began = ledger_began()
    return began if began and began > months.start(month, zone()) else None


def _page(
    request: HttpRequest,
    of: Team,
    month: str,
    *,
    errors: dict[str, str] | None = None,
    fresh: Freshness = NEVER_LIVE,
) -> HttpResponse:
    shown = _month(cast("User", request.user), of, month)
    context = _form(request, errors or {}) | shown | fresh.context()
    status = 422 if errors else 200
    response = render(request, PAGE, context, status=status)
    line = context["line"]
    if not (line and line.is_open):
        response["HX-Refresh"] = "true"  # read by the progress alone, which asks until it is over
    return response


def _month(user: User, of: Team, month: str) -> Context:
    """What is known of the team's month. Raises Http404 of one that nobody knows."""
    now = timezone.now()
    every = team_months.newest(of.slug)
    lines = selectors.month_lines(now)
    shown = {each.name: each.report for each in every}.get(month)
    line = {each.name: each for each in lines}.get(month)
    existing(shown or line)
    return {
        **{"now": now, "team": of, "month": month, "line": line},
        "month_in_words": months.in_words(month),
        "months": [each.name for each in lines],
        **trend_of(every, month),
        **_sent_to(user, of, now),
        **(_statement(shown, of, month, now) if shown else {}),
    }


def _form(request: HttpRequest, errors: dict[str, str]) -> Context:
    """What every page of a statement has, and the form as it was sent, with what is wrong."""
    return {
        "page": "reports",
        "zone": zone(),
        "action": "recipient" if errors else "",
        "sent": request.POST,
        "errors": errors,
    }


def _statement(report: Report, of: Team, month: str, now: datetime) -> Context:
    """What the month's newest version says, by whom it was approved; while it runs its burn, and
    what is expected of it as /budgets says it.
    """
    context = report_context(report)
    query = urlencode({"team": of.slug, "until": to_ms(report.end)})
    interval = Interval(report.start, report.end)
    is_running = month == months.name_at(now, zone())
    return context | {
        **team_waste(of, interval, now, zone(), version_usd=wasted_usd_of(context)),
        "approval": StatementApproval.objects.filter(report=report).first(),
        "approved_from": _month_end(month),
        "burn_url": f"{reverse('chart', args=['budget'])}?{query}" if is_running else "",
        "live": line_or_run_rate(of, now) if is_running else None,
    }


def _month_end(month: str) -> datetime:
    """When the month is over, in the organisation's zone."""
    return boundaries.month(months.start(month, zone()), zone()).end.astimezone(zone())


def _sent_to(user: User, of: Team, now: datetime) -> Context:
    """To whom it goes, for those who decide that."""
    if not team_months.may_decide(user, of, now):
        return {"may_decide": False}
    recipients = StatementRecipient.objects.filter(team=of).select_related("channel")
    return {
        "may_decide": True,
        "recipients": recipients.order_by("pk"),
        "channels": [(str(each.pk), each.name) for each in offered_channels()],
    }


@require_POST
@login_required
def change(request: HttpRequest, slug: str, month: str, action: str) -> HttpResponse:
    """What is decided about the team's month."""
    of = existing(visible_teams().filter(slug=slug).first())
    make = existing(CHANGES.get(action))
    asked = read_form(request)
    if not team_months.may_decide(asked.user, of, asked.now):
        raise PermissionDenied(NOT_THEIRS)
    try:
        messages.success(request, make(asked, of, month))
    except RefusedFieldError as error:
        return _page(request, of, month, errors={error.field: str(error)})
    return redirect("team_statement", slug=of.slug, month=month)


def _approve(asked: Asked, of: Team, month: str) -> str:
    report = _newest(of, month)
    if str(report.version) != asked.text("version"):
        raise RefusedFieldError("There is another version now: look at it first.")
    statement_sending.approve(report, now=asked.now, by=asked.by, note=asked.text("note"))
    return f"Version {report.version} of {months.in_words(month)} is approved."


def _send(asked: Asked, of: Team, month: str) -> str:
    queued = statement_sending.send_now(_newest(of, month), of, now=asked.now)
    return f"On its way to {queued} recipient{'' if queued == 1 else 's'}."


def _add(asked: Asked, of: Team, _: str) -> str:
    channel = offered_channels().filter(pk=asked.number("channel", low=1, high=2**31)).first()
    if channel is None:
        raise RefusedFieldError("Choose a channel, please.", field="channel")
    statement_sending.add_recipient(of, channel, asked.text("address"), now=asked.now, by=asked.by)
    return "It is sent there from the next month on, as soon as it is computed."


def _drop(asked: Asked, of: Team, _: str) -> str:
    rows = StatementRecipient.objects.select_related("team", "channel").filter(team=of)
    statement_sending.drop_recipient(asked.row(rows))
    return "Nothing is sent there any more."


CHANGES: dict[str, Callable[[Asked, Team, str], str]] = {
    "approve": _approve,
    "send": _send,
    "add-recipient": _add,
    "drop-recipient": _drop,
}


def _newest(of: Team, month: str) -> Report:
    """The newest version of the team's month. Raises Http404 where there is none."""
    rows = selectors.visible().filter(kind=STATEMENT, subject=of.slug, content__month=month)
    return get_object_or_404(rows.order_by("-version")[:1])
