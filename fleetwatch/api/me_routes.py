"""Whoever asks, in the API: who the token speaks for, and the jobs under that person's names."""

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from fleetwatch.accounts.models import Identity, User
from fleetwatch.accounts.names.holders import holders_of
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import role_of
from fleetwatch.api.answer_types import Answer, Joined
from fleetwatch.api.finding_routes import Savings
from fleetwatch.api.money_figures import figures
from fleetwatch.api.request_period import asked
from fleetwatch.api.routes import job_rows
from fleetwatch.api.schemas import JobRow, ListedWithTotals, Paging, PeriodAsked
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.jobs.selectors import held_by
from fleetwatch.lib.intervals import Interval

router = Router(tags=["jobs"])

OWN = "7d"  # as the page's
OF_JOBS = Scope(is_allocated=True)


class OwnName(Schema):
    """A user of a scheduler whose jobs are the asker's; cluster "": of every one."""

    system: str
    cluster: str
    name: str


class OwnToken(Schema):
    """The token that was asked with; an end of null: until it is revoked."""

    name: str
    scope: str
    expires_at: datetime | None


class Me(ListedWithTotals[JobRow]):
    """Whoever asks, and the own jobs with GPU time in the period, by wasted dollars: a job without
    an `end_at` still runs. `totals` and `recoverable` are of all of them, on every page.
    """

    username: str
    role: str
    teams: list[str]
    names: list[OwnName]
    token: OwnToken | None
    recoverable: Savings


@router.get("/me", operation_id="getMe", response=Me)
def me(request: HttpRequest, period: PeriodAsked, paging: Paging) -> Answer:
    """Who you are here, and your jobs in the last 7 days unless asked otherwise."""
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    wanted = asked(request, default=OWN)
    names = holders_of(user)
    held = held_by(names, since_ms=wanted.interval.start_ms)
    jobs = costs.look(wanted.interval, "job", scope=OF_JOBS).of("job", held)
    page = jobs.ranked("job", paging.limit, start=wanted.offset)
    return wanted.answer(
        **_person(user, names),
        totals=figures(jobs.totals()),
        recoverable=_recoverable(wanted.interval, held),
        rows=job_rows(page, wanted.interval, OF_JOBS),
        next_cursor=wanted.following(paging.limit, more=page.after.groups > 0),
    )


def _recoverable(interval: Interval, job_ids: list[int]) -> Saving:
    """What could be saved of these jobs by what nobody decided about."""
    findings = inbox.inbox(interval, now=timezone.now(), scope=OF_JOBS).of_jobs.only(job_ids)
    return findings.of_status(*inbox.RECOVERABLE).lines.whole().saving


def _person(user: User, names: list[Identity]) -> Answer:
    return {
        "username": user.username,
        "role": role_of(user),
        "teams": [team.slug for team in teams_of(user, timezone.now())],
        "names": names,
        "token": user.token and Joined(user.token),
    }
