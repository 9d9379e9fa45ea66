"""Reads what a month's report says, for one part of a run: a team's statement, or the fleet's
report.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.mapping.attribution import jobs_by_key
from fleetwatch.costs.sites import energy
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import EVERYTHING, WHY, Group, Scope
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import budgeted, corrections, drawn, statement
from fleetwatch.reports.advised import advised, apart_from_dismissed
from fleetwatch.reports.beside import beside
from fleetwatch.reports.daily import days_by_key, with_days
from fleetwatch.reports.models import ReportPart
from fleetwatch.reports.statement import MOMENT, NO_JOB, Shape

GROUPS = ("gpu_model", "job", "project", "cost_centre", "node")  # by which a report tells its time
OWNERS = ("project", "cost_centre")
OwnersOfJobs = Mapping[str, Mapping[str, str]]  # by one of OWNERS, by the job's key
SAVINGS = 50  # of the fleet's report: beyond these nobody works through a list


def team(part: ReportPart) -> Shape:
    """The statement of one team: lines by job and GPU model, users, waste tiers, what changed
    against the period before.
    """
    month = part.run.interval
    scope = Scope(team=part.subject)
    seen = costs.look(month, *GROUPS, scope=scope, step="day")
    lines = _lines(seen, part.cost_usd)
    users = statement.by_user(lines)
    corrected = [line for line in corrections.booked(month) if line["team"] == part.subject]
    return {
        **_of_both(part, seen, scope),
        "team": _team(part.subject),
        "total": statement.together(users),
        "lines": lines,
        "users": users,
        **_owners(seen, part.cost_usd),
        **_free(part),
        **corrections.with_adjustments(corrected, part.cost_usd),
    }


def fleet(part: ReportPart) -> Shape:
    """The fleet's month: every team's total, own lines for what no job held, the biggest
    wasters.
    """
    month = part.run.interval
    seen = costs.look(month, "team", *GROUPS, step="day")
    groups = seen.by("team")
    by_team, by_state = statement.split(groups)
    corrected = corrections.with_adjustments(corrections.booked(month), part.cost_usd)
    return {
        **_of_both(part, seen, EVERYTHING),
        "total": statement.figures(seen.totals(), part.cost_usd),
        **_owners(seen.held(), statement.summed(by_team.values())),
        "teams": _teams(groups, by_team),
        "own_lines": _own_lines(seen, by_state),
        "gpu_models": statement.by_model(seen.by("gpu_model"), part.cost_usd),
        **_savings(seen, month),
        **_free(part),
        **corrected,
        **beside().lines(month, part.run.month, corrected["adjusted_usd"]),
    }


def _of_both(part: ReportPart, seen: costs.Look, scope: Scope) -> Shape:
    run = part.run
    total = seen.totals()
    before = costs.totals_by(run.previous, "gpu_model", scope=scope)
    home = organisation()
    since = costs.not_recorded_before(run.start, run.asked_at)
    return {
        "organisation": home.name,
        "zone": home.time_zone,
        "month": run.month,
        **_bounds(run.interval),
        "compared_with": _bounds(run.previous),
        "recorded_since": since and f"{since:{MOMENT}}",
        "unpriced_ms": total.unpriced_ms,
        "has_example_rates": total.has_example_rates,
        "comparison": statement.comparison(
            before,
            seen.by("gpu_model"),
            previous_usd=part.previous_usd,
            cost_usd=part.cost_usd,
        ),
        "budget": budgeted.budget(
            part.subject, run.interval, part.cost_usd, is_partial=since is not None
        ),
        "energy": drawn.kept(energy(run.interval, scope=scope, of_nodes=seen)),
    }


def _bounds(interval: Interval) -> Shape:
    return {"from": f"{interval.start:{MOMENT}}", "to": f"{interval.end:{MOMENT}}"}


def _lines(seen: costs.Look, cost_usd: Decimal) -> list[Shape]:
    """One line per job and GPU model, dearest first; their dollars sum to cost_usd."""
    models = seen.each("gpu_model")
    held = [(job, model) for model, on_it in models.items() for job in on_it.by("job")]
    held.sort(key=lambda each: (-each[0].totals.cost_usd, each[0].key, each[1]))
    owners = {model: _owners_of_jobs(on_it) for model, on_it in models.items()}
    lines = statement.lines_of(_heads(held, owners), [job for job, _ in held], cost_usd)
    days = {model: days_by_key(on_it, "job") for model, on_it in models.items()}
    return with_days(lines, [days[model][job.key] for job, model in held])


def _owners_of_jobs(seen: costs.Look) -> OwnersOfJobs:
    """By project and by cost centre whose each job's time is, by the job's key, where a rule names
    any: of several all, "search, ranking".
    """
    return {owner: _names_of_jobs(seen.each(owner)) for owner in OWNERS}


def _names_of_jobs(by_name: Mapping[str, costs.Look]) -> dict[str, str]:
    names: dict[str, list[str]] = defaultdict(list)
    for name, of_name in sorted(by_name.items()):
        for job in of_name.by("job") if name not in WHY else ():
            names[job.key].append(name)
    return {key: ", ".join(several) for key, several in names.items()}


def _heads(held: Sequence[tuple[Group, str]], owners: Mapping[str, OwnersOfJobs]) -> list[Shape]:
    """Of jobs, each on a GPU model, what their lines say first; `owners` by that model."""
    keys = {job.key for job, _ in held}
    users = dict(Job.objects.filter(key__in=keys).values_list("key", "user"))
    return [
        {
            "job": job.key,
            "name": job.label,
            "user": users.get(job.key, ""),
            "gpu_model": model,
            **{owner: named.get(job.key) for owner, named in owners[model].items()},
        }
        for job, model in held
    ]


def _own_lines(seen: costs.Look, by_state: dict[str, Decimal]) -> list[Shape]:
    """What no job held, one line per state and GPU model; those of a state sum to its dollars."""
    unheld = seen.unheld()
    lines: list[Shape] = []
    for state, cost_usd in by_state.items():
        of_state = unheld.within([state])
        models = sorted(of_state.by("gpu_model"), key=lambda group: group.key)
        days = days_by_key(of_state, "gpu_model")
        by_model = statement.by_model(models, cost_usd)
        lines += [
            {"state": state} | line
            for line in with_days(by_model, [days[model.key] for model in models])
        ]
    return lines


def _teams(groups: list[Group], by_team: dict[str, Decimal]) -> list[Shape]:
    """Every team's line, dearest first."""
    held = sorted(
        (group for group in groups if group.key != NO_JOB),
        key=lambda group: (-by_team[group.key], group.key),
    )
    heads = [{"slug": group.key, "name": group.label} for group in held]
    return statement.with_figures(heads, held, [by_team[group.key] for group in held])


def _savings(seen: costs.Look, month: Interval) -> Shape:
    """The jobs that wasted most, certain and probable, with who can change it; those whose finding
    was dismissed are told as one. What no job held comes with its own lines.
    """
    largest = seen.held().ranked("job", SAVINGS).groups
    wasters = [group for group in largest if group.totals.wasted_usd > 0]
    keys = [group.key for group in wasters]
    jobs = jobs_by_key(keys, before=month.end)
    causes = advised(keys, month)
    heads = [
        {
            "job": group.key,
            "name": group.label,
            **_owner(jobs.get(group.key)),
            "cause": asdict(causes[group.key]) if group.key in causes else None,
        }
        for group in wasters
    ]
    usd = [pricing.usd(group.totals.cost_usd) for group in wasters]
    savings, agreed = apart_from_dismissed(statement.with_figures(heads, wasters, usd))
    return {"savings": savings, **_agreed(agreed)}


def _agreed(lines: Sequence[Shape]) -> Shape:
    """How many jobs the savings list leaves out as no waste, and their dollars; nothing without
    any.
    """
    if not lines:
        return {}
    wasted_usd = statement.summed(line["wasted_usd"] for line in lines)
    return {"savings_agreed": {"jobs": len(lines), "wasted_usd": wasted_usd}}


def _owner(job: Job | None) -> Shape:
    if job is None:
        return {"user": "", "team": costs.NOBODY}
    if job.team:
        return {"user": job.user, "team": job.team.label}
    is_named = bool(job.user or job.account)
    return {"user": job.user, "team": costs.without("team", is_named=is_named)[0]}


def _owners(seen: costs.Look, cost_usd: Decimal) -> Shape:
    """The same time by project and by cost centre; nothing where no rule names any."""
    return {f"{owner}s": statement.breakdown(seen.by(owner), cost_usd) for owner in OWNERS}


def _free(part: ReportPart) -> Shape:
    """What of the free capacity is the team's, beside its own dollars; of the fleet how it was
    spread: the teams' parts and what is left sum to it, to the micro-dollar. Nothing where it is a
    line of its own.
    """
    if part.free_usd is None:
        return {}
    way = {"way": part.run.free_capacity}
    if part.subject:
        return {"free": way | _with_free(part, part.free_usd)}
    teams = [
        _team(each.subject) | _with_free(each, each.free_usd or statement.NO_USD)
        for each in part.run.parts.exclude(pk=part.pk).order_by("subject")
    ]
    return {"free": way | {"teams": teams, "left_usd": part.free_usd}}


def _with_free(part: ReportPart, free_usd: Decimal) -> Shape:
    return {
        "cost_usd": part.cost_usd,
        "free_usd": free_usd,
        "with_free_usd": part.cost_usd + free_usd,
    }


def _team(slug: str) -> Shape:
    if slug in WHY:
        return {"slug": slug, "name": f"Jobs without a team: {WHY[slug]}"}
    name = Team.objects.filter(slug=slug).values_list("name", flat=True).first()
    return {"slug": slug, "name": name or slug}
