"""Reads of reports."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import BooleanField, Count, IntegerField, Min, Q, QuerySet
from django.db.models.fields.json import KT, KeyTextTransform, KeyTransform
from django.db.models.functions import Cast
from django.utils import timezone

from fleetwatch.accounts.models import User
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import sight, visible_teams
from fleetwatch.diagnosis.cause_totals import rest
from fleetwatch.diagnosis.selectors import waste_by_cause
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import EVERYTHING, Group, Scope, Totals, apart
from fleetwatch.ledger.models import Entry
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.actor import actor
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import one_view
from fleetwatch.reports import digest, months
from fleetwatch.reports.models import MonthRun, Report, ReportPart, StatementApproval
from fleetwatch.reports.monthly import FLEET, OPEN, STATEMENT
from fleetwatch.reports.statement import amount_or_none
from fleetwatch.reports.waste import GROUPS, WasteReport

# what a job does not waste, and what none holds, has no cause
NO_CAUSE = ("free", "useful", "starting", "unavailable", "unobserved")
# of what a report says: what was wasted, and what its days cost in the month before
SAID = {
    "wasted": KT("content__total__wasted_usd"),
    "before": KT("content__comparison__cost_usd"),
}


def waste_rows(interval: Interval, group_by: str, *, scope: Scope = EVERYTHING) -> WasteReport:
    """The waste report of the interval by one of GROUPS. Raises ValueError for another group_by."""
    if group_by not in GROUPS:
        raise ValueError(f"can't report by {group_by!r}; there is {', '.join(GROUPS)}")
    if group_by == "cause":
        with one_view():
            total = costs.totals(interval, scope=scope)
            return WasteReport(interval, group_by, tuple(by_cause(interval, scope, total)), total)
    groups = costs.breakdown(interval, group_by, scope=scope)
    return WasteReport(interval, group_by, tuple(groups.lines), groups.totals)


def by_cause(interval: Interval, scope: Scope, total: Totals) -> list[Group]:
    """Causes, and a line for the time that has none: the lines sum to `total`, all there is in the
    interval and scope.
    """
    causes = waste_by_cause(interval, scope=scope)
    without = rest(total, [causes.totals])
    if not without.capacity_ms:
        return list(causes.lines)
    states = [state for state in NO_CAUSE if without.states[state]]
    label = f"no cause: {', '.join(states)} time" if states else "no cause"
    return [*causes.lines, Group("", label, without)]


def is_to_date(report: Report) -> bool:
    """Whether the report is of a month that was not over yet."""
    return months.name_at(report.end, zone()) == months.name_at(report.start, zone())


@dataclass(frozen=True, slots=True)
class MonthLine:
    """A month and how far its reports are: the newest run, and the newest version of the fleet's
    report.
    """

    name: str
    run: Any  # with parts_all and parts_done; None = nobody asked
    fleet: Report | None

    @property
    def is_to_date(self) -> bool:
        """Whether the report's month was not over yet."""
        return self.fleet is not None and is_to_date(self.fleet)

    @property
    def is_open(self) -> bool:
        return self.run is not None and self.run.state in OPEN


def month_lines(now: datetime) -> list[MonthLine]:
    """Every month that the ledger or a report knows, the newest first."""
    fleets = Report.objects.filter(kind=FLEET)
    starts = [rows.aggregate(first=Min("start"))["first"] for rows in (Entry.objects, fleets)]
    first = min(filter(None, starts), default=None)
    names = [] if first is None else months.names(first, now=now, zone=zone())
    run_of = {run.month: run for run in _newest_runs(names)}
    # the newest version of each month's report of the fleet
    newest: Iterable[Any] = (
        fleets.order_by("start", "-version")
        .distinct("start")
        .annotate(
            month=KeyTextTransform("month", "content"),
            own_lines=KeyTransform("own_lines", "content"),
            **SAID,
        )
        .defer("content")
    )
    fleet_of_month = {report.month: report for report in newest}
    return [MonthLine(name, run_of.get(name), fleet_of_month.get(name)) for name in names]


def shown_month(lines: Sequence[MonthLine], now: datetime) -> MonthLine | None:
    """The newest computed month that is over, else the running one as far as it is computed; None
    where none is.
    """
    over = months.last_full(now, zone())
    computed = [line for line in lines if line.fleet]
    return next((line for line in computed if line.name <= over), next(iter(computed), None))


def _newest_runs(names: list[str]) -> Iterable[Any]:
    """The newest run of each month that has one, with the number of its parts."""
    newest = MonthRun.objects.filter(month__in=names).order_by("month", "-pk").distinct("month")
    return MonthRun.objects.filter(pk__in=newest.values("pk")).annotate(
        parts_all=Count("parts"),
        parts_done=Count("parts", filter=Q(parts__done_at__isnull=False)),
    )


def visible() -> QuerySet[Report]:
    """Every report that who asks sees: statements, of who does not see everything those of his own
    teams; and digests.
    """
    is_ours = Q(kind__in=(digest.TEAM, digest.PERSON))
    if sight() is None:
        return Report.objects.filter(~is_ours | _own_digests())
    statements = Q(kind=STATEMENT, subject__in=visible_teams().values("slug"))
    return Report.objects.filter(statements | _own_digests())


def _own_digests() -> Q:
    """A person's digest is his, and a team's its members', whatever else they see."""
    user_id = actor().user_id
    user = None if user_id is None else User.objects.filter(pk=user_id).first()
    if user is None:
        return Q(pk__in=())
    slugs = [team.slug for team in teams_of(user, timezone.now())]
    return Q(kind=digest.PERSON, subject=str(user.pk)) | Q(kind=digest.TEAM, subject__in=slugs)


def digests(limit: int) -> list[Report]:
    """The newest weekly digests that the reader sees."""
    rows = visible().filter(kind__in=digest.KINDS).order_by("-end", "kind", "subject")
    shown = {
        "title": KT("content__message__title"),
        "has_news": Cast(KT("content__has_news"), BooleanField()),
        "sent": Cast(KT("content__sent"), IntegerField()),
        "is_kept": Cast(KT("content__is_kept"), BooleanField()),
    }
    return list(rows.annotate(**shown).defer("content")[:limit])


def own_statements() -> list[Report]:
    """The newest version of each month's statement of the reader's teams, the newest month first;
    without what they say.
    """
    statements = visible().filter(kind=STATEMENT)
    newest = statements.order_by("-start", "subject", "-version").distinct("start", "subject")
    return list(newest.only("subject", "start", "end", "version", "computed_at", "cost_usd"))


def report(pk: int) -> Report | None:
    """A statement or a fleet's report by its number, of those that the reader sees."""
    return visible().filter(pk=pk, kind__in=(FLEET, STATEMENT)).first()


def weekly_digest(pk: int) -> Report | None:
    """A digest by its number, of those that the reader sees."""
    return visible().filter(pk=pk, kind__in=digest.KINDS).first()


def versions(of: Report) -> list[Report]:
    """All versions of the report, the newest first; without what they say."""
    of_all = Report.objects.filter(kind=of.kind, subject=of.subject, start=of.start)
    return list(of_all.order_by("-version").only("version", "computed_at", "cost_usd"))


def statements(fleet: Report) -> dict[str, Report]:
    """The statements, by team, that sum with the fleet's own lines to its cost: those of the newest
    run that made or confirmed it.
    """
    done = ReportPart.objects.filter(report=fleet, run__state=MonthRun.State.DONE)
    run = done.order_by("-run_id").values("run_id")[:1]
    parts = ReportPart.objects.filter(run_id__in=run, kind=STATEMENT)
    reports = Report.objects.filter(pk__in=parts.values("report_id"))
    return {each.subject: each for each in reports}


def fleet_of(statement: Report) -> Report | None:
    """The newest report of the fleet in the same month, as far as the reader sees it."""
    return newest_fleet(statement.start)


def newest_fleet(start: datetime) -> Report | None:
    """The newest report of the fleet in the month that begins then, as far as the reader sees
    it.
    """
    return visible().filter(kind=FLEET, start=start).order_by("-version").first()


def approval_of(report: Report) -> StatementApproval | None:
    """That somebody approved this version; None: nobody did."""
    return StatementApproval.objects.filter(report=report).first()


def figures(content: Any) -> Any:
    """What a stored report says, its dollars as numbers and its states in their order again: jsonb
    keeps neither.

    What is only utilisation stands apart from useful, and what services wait from stalled, as on
    every page; versions from before that was kept have it in stalled.
    """
    if isinstance(content, list):
        return [figures(each) for each in content]
    if not isinstance(content, dict):
        return content
    shown = {key: _figure(key, value) for key, value in content.items()}
    if "states" in shown:
        shown["states"] = _apart(shown)
    return shown


def _figure(key: str, value: Any) -> Any:
    if key == "states":
        return {state: value[state] for state in STATES if state in value}
    return _amounts(value) if key.endswith(("_usd", "usd_per_gpu_hour")) else figures(value)


def _apart(line: dict[str, Any]) -> dict[str, int]:
    parts = (line.get(name, 0) for name in ("busy_unverified_ms", "waiting_ms"))
    return {state: gpu_ms for state, gpu_ms in apart(line["states"], *parts).items() if gpu_ms}


def _amounts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: Decimal(amount) for key, amount in value.items()}
    return amount_or_none(value)
