"""Reads what a weekly digest says: the same for the fleet, a team and a person, each of its own
time.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import urlencode

from django.db.models import Count, F, Q, Sum

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import seeing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.budgets import selectors as budgets
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.cause_totals import Caused
from fleetwatch.diagnosis.causes import OF_CAPACITY
from fleetwatch.diagnosis.findings import fixes, inbox, noted_facts
from fleetwatch.diagnosis.findings.inbox import UNDECIDED, Inbox
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.diagnosis.selectors import with_jobs
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import UNALLOCATED
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import digest
from fleetwatch.reports.audiences import Audience
from fleetwatch.reports.digest import TOP_CAUSES, Digest
from fleetwatch.reports.statement import Shape, rounded

OPERATORS = "operators"
NO_TEAM = {
    UNALLOCATED: "unallocated GPUs",
    costs.NOBODY: "jobs without a team",
    costs.UNMAPPED: "jobs that no rule gives a team",
}
NO_PERSON = {
    UNALLOCATED: "unallocated GPUs",
    costs.NOBODY: "jobs without an owner",
    costs.UNMAPPED: "jobs without an owner",
}
MS = timedelta(milliseconds=1)


def read(audience: Audience, week: Interval, now: datetime) -> Digest | None:
    """The week's digest; None when no GPU was capacity in it."""
    with seeing(lambda: audience.sight):
        this = costs.totals(week)
        if not this.capacity_ms:
            return None
        week_before = digest.last_week(week.start, audience.zone)
        before = costs.totals(week_before)
        causes = _causes(week, now)
        has_dollars = this.unpriced_ms < this.capacity_ms
        lines = _lines(audience, week) if has_dollars else {}
    return Digest(
        kind=audience.kind,
        name=audience.name,
        week=digest.week_name(week, audience.zone),
        zone=str(audience.zone),
        this=this,
        before=before if before.capacity_ms else None,
        before_from=_began_in(week_before),
        causes=causes,
        budget=_budget(audience, week.end - MS) if audience.has_budget else None,
        won=_won(audience, week, now),
        incidents=_incidents(audience, week),
        **lines,
    )


def _lines(audience: Audience, week: Interval) -> dict[str, list[Shape]]:
    """Whose dollars they are: of the fleet by team, of a team by person."""
    if audience.kind == digest.FLEET:
        return {"teams": _teams(week)}
    return {"people": _people(audience.team, week)} if audience.team else {}


def _teams(week: Interval) -> list[Shape]:
    """A line per team, and one of what is no team's; they sum to what was spent."""
    groups = costs.totals_by(week, "team")
    lines = pricing.lines([group.totals.cost_usd for group in groups])
    rows = [
        {
            "slug": group.key,
            "is_team": group.key not in NO_TEAM,
            "name": NO_TEAM.get(group.key, group.label),
            "cost_usd": cost_usd,
            "wasted_usd": pricing.usd(group.totals.wasted_usd),
        }
        for group, cost_usd in zip(groups, lines, strict=True)
    ]
    return sorted(rows, key=lambda row: (row["slug"] in NO_TEAM, -row["cost_usd"], row["slug"]))


def _people(team: Team, week: Interval) -> list[Shape]:
    """A line per person of a team, with the page of its costs, and one of what is nobody's."""
    groups = costs.totals_by(week, "user")
    cost_lines = pricing.lines([group.totals.cost_usd for group in groups])
    rows = [
        {
            "name": NO_PERSON.get(group.key, group.label),
            "page": "" if group.key in NO_PERSON else _costs_of(team, group.key, week),
            "cost_usd": cost_usd,
            "wasted_usd": pricing.usd(group.totals.wasted_usd),
        }
        for group, cost_usd in zip(groups, cost_lines, strict=True)
    ]
    return sorted(rows, key=lambda row: (not row["page"], -row["wasted_usd"], row["name"]))


def _costs_of(team: Team, user: str, week: Interval) -> str:
    """Where the person's dollars of the week stand by job, below where our pages are."""
    narrowed = {"team": team.slug, "user": user, "group_by": "job"}
    return f"/costs?{urlencode(narrowed | {'from': week.start_ms, 'to': week.end_ms})}"


def _began_in(week: Interval) -> datetime | None:
    """When recording began, if that was within the week."""
    began = costs.ledger_began()
    return began if began is not None and week.start < began < week.end else None


def with_time(week: Interval) -> dict[str, set[str]]:
    """Which teams (slugs) and users held GPUs in the week."""
    seen = costs.look(week, "team", "user")
    return {group: {line.key for line in seen.by(group)} for group in ("team", "user")}


def _causes(week: Interval, now: datetime) -> list[Shape]:
    """What could save most and nobody decided against, of jobs and machines."""
    every = _with_step_savings(week, now)
    jobs = every.of_jobs.of_status(*UNDECIDED)[:TOP_CAUSES]
    places = [
        line
        for line in every.of_places
        if line.status in UNDECIDED and line.finding.cause not in OF_CAPACITY
    ]
    several = [*with_jobs(jobs, before=week.end), *places]
    several.sort(key=lambda line: line.caused.order)
    return [
        _of_job(line) if line.finding.job else _of_place(line, week, now)
        for line in several[:TOP_CAUSES]
    ]


def _with_step_savings(week: Interval, now: datetime) -> Inbox:
    """What is found of the week, what could save most measured by its step where that can be: a
    digest may be due before that was noted.
    """
    measured: set[int] = set()
    while True:
        every = inbox.inbox(week, now=now)
        first = every.of_jobs.of_status(*UNDECIDED)[: 2 * TOP_CAUSES]
        due = [line.finding for line in first if line.finding.pk not in measured]
        if not noted_facts.keep_savings(due):
            return every
        measured |= {finding.pk for finding in due}


def _of_job(line: Line) -> Shape:
    job = line.job
    advice = noted_facts.measured_advice_of(line)
    name = job.name or job.key
    return _shape(line.caused, name, _owner(job), advice.cause.title, advice.first) | {
        "job": job.key,
        "is_over": job.end_ms is not None,
        "finding": line.finding.pk,
    }


def _of_place(line: Line, week: Interval, now: datetime) -> Shape:
    finding = line.finding
    advised = inbox.explained(finding, week, now=now).advice
    steps = (*advised.steps, Step(""))
    name = finding.node.name if finding.node else finding.cluster
    step = Step(steps[0].text, advised.command)
    return _shape(line.caused, name, OPERATORS, advised.cause.title, step) | {
        "node": finding.node.name if finding.node else "",
        "finding": finding.pk,
    }


def _shape(caused: Caused, name: str, owner: str, title: str, step: Step) -> Shape:
    return {
        "cause": caused.cause,
        "title": title,
        "name": name,
        "owner": owner,
        "low_usd": pricing.usd(caused.saving.low_usd),
        "high_usd": pricing.usd(caused.saving.high_usd),
        "step": step.text,
        "command": step.code,
    }


def _owner(job: Job) -> str:
    """User and team, as far as there are any."""
    team = job.team.label if job.team else ""
    if job.user and team:
        return f"{job.user} ({team})"
    return job.user or team or "nobody known"


def _budget(audience: Audience, last: datetime) -> Shape | None:
    """That of the month in which the week's last moment lies, until then."""
    line = budgets.line(audience.team, last)
    if line.budget_usd is None:
        return None
    ends = None if line.end is None else line.end.end
    return {
        "month": f"{budgets.running_month(last).first:%Y-%m}",
        "until": f"{last.astimezone(audience.zone):%Y-%m-%d}",
        "spent_usd": pricing.usd(line.spent_usd),
        "budget_usd": rounded(line.budget_usd),
        "expected_usd": None if ends is None else _cents(ends.expected_usd),
        "low_usd": None if ends is None else _cents(ends.low_usd),
        "high_usd": None if ends is None else _cents(ends.high_usd),
        "is_partial": line.recorded_since is not None,
        "is_set_later": line.limit is not None and line.limit.budget.created_at > last,
        "risk": line.risk,
    }


def _cents(usd: float) -> Decimal:
    return pricing.usd(Decimal(usd), pricing.CENT)


def _won(audience: Audience, week: Interval, now: datetime) -> Shape | None:
    """What the fixes of the week's quarter brought until `now`, to which all runs since are
    measured, of those made by the week's end. None without one that helped.
    """
    quarter = _quarter_until(week.end)
    several = _fixes_seen(audience, quarter)
    helped = [
        each for each in several if each.saving.high_ms or each.fix.outcome == Outcome.IMPROVED
    ]
    saving = fixes.realised(helped)
    if not helped:
        return None
    return {
        "fixes": len(helped),
        "came_back": sum(each.fix.outcome == Outcome.REGRESSED for each in helped),
        "quarter": f"Q{(quarter.start.astimezone(zone()).month + 2) // 3}",
        "low_usd": pricing.usd(saving.low_usd),
        "high_usd": pricing.usd(saving.high_usd),
        "low_ms": saving.low_ms,
        "high_ms": saving.high_ms,
        "made_by": _day(week.end - MS, audience),
        "measured_to": _day(now, audience),
    }


def _fixes_seen(audience: Audience, interval: Interval) -> list[fixes.Realised]:
    """Those of that time: a person's own, or what the audience sees."""
    if audience.names:
        return fixes.own(fixes.top_fixes(interval), audience.names)
    with seeing(lambda: audience.sight):
        return fixes.top_fixes(interval)


def _day(at: datetime, audience: Audience) -> str:
    return at.astimezone(audience.zone).date().isoformat()


def _quarter_until(end: datetime) -> Interval:
    """The part of its quarter that is before it."""
    return Interval(fixes.quarter(end - MS, zone()).start, end)


def _incidents(audience: Audience, week: Interval) -> Shape:
    """Those that fired in the week and were told: how many, how many of them somebody
    acknowledged, and after how long in sum; and whether any rule watched by then.
    """
    fired = Incident.objects.filter(
        audience.incidents, fired_ms__gte=week.start_ms, fired_ms__lt=week.end_ms, is_late=False
    )
    sums = fired.aggregate(
        count=Count("pk"),
        acknowledged=Count("pk", filter=Q(acknowledged_at__isnull=False)),
        after=Sum(F("acknowledged_at") - F("opened_at")),
    )
    after = sums["after"] or timedelta()
    return {
        "count": sums["count"],
        "acknowledged": sums["acknowledged"],
        "acknowledge_ms": after // MS,
        "is_watched": Rule.objects.filter(evaluated_ms__isnull=False)
        .exclude(begun_ms__gte=week.end_ms)
        .exists(),
    }
