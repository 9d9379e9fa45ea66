"""Reads what a month's report says, for one part of a run: a team's statement, or the fleet's
report.
"""

from collections.abc import Iterable
from decimal import Decimal

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.sites import energy
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import WHY, Group, Scope
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import budgeted, corrections, drawn, statement
from fleetwatch.reports.beside import beside
from fleetwatch.reports.models import MonthRun, ReportPart
from fleetwatch.reports.statement import NO_JOB, Held, Shape

GROUPS = ("gpu_model", "job", "project", "cost_centre", "node")  # by which a report tells its time
SAVINGS = 50  # of the fleet's report: beyond these nobody works through a list


def team(part: ReportPart) -> Shape:
    """The statement of one team: lines by job and GPU model, users, waste tiers, what changed
    against the period before.
    """
    month, previous = _intervals(part.run)
    scope = Scope(team=part.subject)
    seen = costs.look(month, *GROUPS, scope=scope)
    models = seen.by("gpu_model")
    lines = statement.statement_lines(_held(seen), part.cost_usd)
    corrected = [line for line in corrections.booked(month) if line["team"] == part.subject]
    return _head(part.run, month) | {
        "team": {"slug": part.subject, "name": _team_name(part.subject)},
        "total": statement.together(lines),
        "unpriced_ms": sum(group.totals.unpriced_ms for group in models),
        "has_example_rates": any(group.totals.has_example_rates for group in models),
        "lines": lines,
        "users": statement.by_user(lines),
        **_owners(seen, part.cost_usd),
        "comparison": _comparison(part, previous, models, scope),
        **budgeted.with_budget(part.subject, month, part.cost_usd),
        "energy": drawn.kept(energy(month, scope=scope, by_node=seen.by("node"))),
        **_free(part),
        **corrections.with_adjustments(corrected, part.cost_usd),
    }


def fleet(part: ReportPart) -> Shape:
    """The fleet's month: every team's total, own lines for what no job held, the biggest
    wasters.
    """
    month, previous = _intervals(part.run)
    seen = costs.look(month, "team", *GROUPS)
    models = seen.by("gpu_model")
    by_team, by_state = statement.split(groups := seen.by("team"))
    held = sorted(
        (group for group in groups if group.key != NO_JOB),
        key=lambda group: (-by_team[group.key], group.key),
    )
    teams = statement.figures(
        [group.totals for group in held], [by_team[group.key] for group in held]
    )
    whole = statement.figures([total := seen.totals()], [part.cost_usd])[0]
    return _head(part.run, month) | {
        "total": whole,
        "unpriced_ms": total.unpriced_ms,
        "has_example_rates": total.has_example_rates,
        **_owners(seen.held(), sum(by_team.values(), statement.NO_USD)),
        "teams": [
            {"slug": group.key, "name": group.label} | shape
            for group, shape in zip(held, teams, strict=True)
        ],
        "own_lines": statement.own_lines(_unheld(seen, by_state), by_state),
        "gpu_models": _models(models, part.cost_usd),
        "savings": _savings(seen, month),
        "comparison": _comparison(part, previous, models, Scope()),
        **budgeted.with_budget("", month, part.cost_usd),
        "energy": drawn.kept(energy(month, by_node=seen.by("node"))),
        **_free_by_team(part),
        **(corrected := corrections.with_adjustments(corrections.booked(month), part.cost_usd)),
        **beside().lines(month, part.run.month, Decimal(corrected["adjusted_usd"])),
    }


def _head(run: MonthRun, month: Interval) -> Shape:
    home = organisation()
    return {
        "organisation": home.name,
        "zone": home.time_zone,
        "month": run.month,
        "from": f"{month.start:%Y-%m-%dT%H:%M:%SZ}",
        "to": f"{month.end:%Y-%m-%dT%H:%M:%SZ}",
        "compared_with": {
            "from": f"{run.previous_start:%Y-%m-%dT%H:%M:%SZ}",
            "to": f"{run.previous_end:%Y-%m-%dT%H:%M:%SZ}",
        },
    }


def _held(seen: costs.Look) -> list[Held]:
    """The time of each job on each GPU model."""
    found = [
        (group, model)
        for model, on_it in seen.each("gpu_model").items()
        for group in on_it.by("job")
    ]
    users = dict(
        Job.objects.filter(key__in={group.key for group, _ in found}).values_list("key", "user")
    )
    return [Held(group, model, users.get(group.key, "")) for group, model in found]


def _unheld(seen: costs.Look, states: Iterable[str]) -> dict[str, list[Group]]:
    """The time that no job held, by state, of each GPU model."""
    unheld = seen.unheld()
    return {state: unheld.within([state]).by("gpu_model") for state in states}


def _comparison(
    part: ReportPart, previous: Interval, models: list[Group], scope: Scope
) -> Shape | None:
    before = costs.totals_by(previous, "gpu_model", scope=scope)
    return statement.comparison(
        before, models, previous_usd=part.previous_usd, cost_usd=part.cost_usd
    )


def _models(models: list[Group], cost_usd: Decimal) -> list[Shape]:
    amounts = pricing.lines([group.totals.cost_usd for group in models], total=cost_usd)
    shapes = statement.figures([group.totals for group in models], amounts)
    return [{"gpu_model": group.key} | shape for group, shape in zip(models, shapes, strict=True)]


def _savings(seen: costs.Look, month: Interval) -> list[Shape]:
    """The jobs that wasted most, certain and probable, with who can change it; what no job held
    comes with its own lines.
    """
    found = seen.held().ranked("job", SAVINGS).groups
    wasters = [group for group in found if group.totals.wasted_usd > 0]
    jobs = into_teams(
        Job.objects.select_related("team").filter(key__in=[group.key for group in wasters]),
        before=month.end,
    )
    owners = {job.key: (job.user, _team_of(job)) for job in jobs}
    shapes = statement.figures(
        [group.totals for group in wasters],
        [pricing.usd(group.totals.cost_usd) for group in wasters],
    )
    nobody = ("", costs.NOBODY)
    return [
        {
            "job": group.key,
            "name": group.label,
            "user": owners.get(group.key, nobody)[0],
            "team": owners.get(group.key, nobody)[1],
        }
        | shape
        for group, shape in zip(wasters, shapes, strict=True)
    ]


def _team_of(job: Job) -> str:
    return (
        (job.team.name or job.team.slug)
        if job.team
        else costs.without("team", is_named=bool(job.user or job.account))[0]
    )


def _owners(seen: costs.Look, cost_usd: Decimal) -> Shape:
    """The same time by project and by cost centre; nothing where no rule names any."""
    wanted = {"projects": "project", "cost_centres": "cost_centre"}
    return {name: statement.breakdown(seen.by(owner), cost_usd) for name, owner in wanted.items()}


def _free(part: ReportPart) -> Shape:
    """What of the free capacity is the team's, beside its own dollars; nothing where it is a line
    of its own.
    """
    if part.free_usd is None:
        return {}
    return {"free": {"way": part.run.free_capacity, **_with_free(part, part.free_usd)}}


def _free_by_team(part: ReportPart) -> Shape:
    """How the free capacity was spread: the teams' parts and what is left sum to it, to the
    micro-dollar.
    """
    if part.free_usd is None:
        return {}
    statements = part.run.parts.exclude(pk=part.pk).order_by("subject")
    teams = [
        {"slug": each.subject, "name": _team_name(each.subject)}
        | _with_free(each, each.free_usd or statement.NO_USD)
        for each in statements
    ]
    return {
        "free": {"way": part.run.free_capacity, "teams": teams, "left_usd": f"{part.free_usd:f}"}
    }


def _with_free(part: ReportPart, free_usd: Decimal) -> Shape:
    return {
        "cost_usd": f"{part.cost_usd:f}",
        "free_usd": f"{free_usd:f}",
        "with_free_usd": f"{part.cost_usd + free_usd:f}",
    }


def _team_name(slug: str) -> str:
    if slug in WHY:
        return f"Jobs without a team: {WHY[slug]}"
    return Team.objects.filter(slug=slug).values_list("name", flat=True).first() or slug


def _intervals(run: MonthRun) -> tuple[Interval, Interval]:
    return Interval(run.start, run.end), Interval(run.previous_start, run.previous_end)
