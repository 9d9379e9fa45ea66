"""Names to a reader to whom others have pseudonyms: lines of breakdowns, jobs, and what a filter
means. What is the reader's, of the own teams, or a colleague's is called by name.

To every other reader all of it stays as it is.
"""

from collections.abc import Collection, Iterable, Mapping

from django.conf import settings

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.visibility import Sight, pseudonymous
from fleetwatch.figures.totals import NOBODY, UNALLOCATED, WHY, Line
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import own_ids, visible
from fleetwatch.lib.pseudonyms import opened, pseudonym, sealed
from fleetwatch.lib.sql import execute

# what names somebody -> what its pseudonyms begin with
KINDS = {"user": "person", "team": "team", "project": "project", "cost_centre": "cost centre"}
JOB = "job"
_NOT_NAMES = frozenset({UNALLOCATED, NOBODY, *WHY})
_OWNED = {
    "user": 'SELECT DISTINCT "user" FROM costs_owned',
    "project": "SELECT DISTINCT project FROM costs_owned",
    "cost_centre": "SELECT DISTINCT cost_centre FROM costs_owned",
}
_OWN = " WHERE team_id = ANY(%(team_ids)s) OR job_id = ANY(%(job_ids)s)"


def lines_shown(group_by: str, lines: Mapping[int, Line]) -> dict[int, Line]:
    """Key and label of each group as the reader is told of it."""
    if pseudonymous() is None or group_by not in (*KINDS, JOB):
        return dict(lines)
    if group_by == JOB:
        return _jobs_lines(lines)
    public = names_shown(group_by, [key for key, _ in lines.values()])
    return {
        number: (key, label) if public[key] == key else (public[key], public[key])
        for number, (key, label) in lines.items()
    }


def _jobs_lines(lines: Mapping[int, Line]) -> dict[int, Line]:
    own = _visible_ids(lines)
    return {
        pk: line if pk in own or line[0] in _NOT_NAMES else (_sealed(pk), _job_name(pk))
        for pk, line in lines.items()
    }


def names_shown(field: str, names: Collection[str]) -> dict[str, str]:
    """By each of these names of one of KINDS what the reader is told."""
    seen = pseudonymous()
    own = frozenset(names) if seen is None else _own_names(field, seen)
    return {name: name if name in own else _pseudonym(field, name) for name in names}


def job_name_shown(user: str, name: str) -> str:
    """What is told of jobs that somebody else calls by that name."""
    return pseudonym(JOB, f"{user}\0{name}", secret=settings.SECRET_KEY)


def jobs_shown(jobs: Iterable[Job]) -> list[Job]:
    """The jobs as the reader is told of them, in memory alone: of others' neither names nor times
    nor what else leads to whose they are.
    """
    several = list(jobs)
    if pseudonymous() is None or not several:
        return several
    own = _visible_ids(job.pk for job in several)
    hidden = [job for job in several if job.pk not in own]
    users = names_shown("user", [job.user for job in hidden])
    teams = names_shown("team", [job.team.slug for job in hidden if job.team])
    for job in hidden:
        job.user = users[job.user]
        if job.team and teams[job.team.slug] != job.team.slug:
            job.team = Team(slug=teams[job.team.slug], name=teams[job.team.slug])
        _hide(job)
    return several


def _hide(job: Job) -> None:
    """What leads to whose the job is, but for its user and its team."""
    job.key = _sealed(job.pk)
    job.name = _job_name(job.pk)
    job.external_id = job.account = ""
    job.labels = {}
    job.submit_ms = job.start_ms = job.end_ms = None
    job.has_pseudonym = True


def meant(field: str, name: str) -> str | None:
    """The name that a filter by `name` asks for; None where the reader is told of nothing of that
    name.
    """
    seen = pseudonymous()
    if seen is None or field not in (*KINDS, JOB) or name in _NOT_NAMES:
        return name
    if field == JOB:
        return _key_meant(name)
    own = _own_names(field, seen)
    if name in own:
        return name
    others = (each for each in _every_name(field) if each not in own)
    return next((each for each in others if _pseudonym(field, each) == name), None)


def _key_meant(key: str) -> str | None:
    ids = keys_meant([key])
    asked = Job.objects.filter(pk__in=ids) if ids else visible(Job.objects.filter(key=key))
    return asked.values_list("key", flat=True).first()


def keys_meant(keys: Iterable[str]) -> list[int]:
    """The ids of the jobs of which keys are pseudonyms."""
    if pseudonymous() is None:
        return []
    numbers = (opened(JOB, key, secret=settings.SECRET_KEY) for key in keys)
    return [number for number in numbers if number is not None]


def _own_names(field: str, seen: Sight) -> frozenset[str]:
    """What of one of KINDS is called by name."""
    if field == "team":
        teams = Team.objects.filter(pk__in=seen.team_ids).values_list("slug", flat=True)
        return _NOT_NAMES | frozenset(teams)
    own = {"team_ids": sorted(seen.team_ids), "job_ids": own_ids(seen)}
    return _NOT_NAMES | {name for (name,) in execute(_OWNED[field] + _OWN, own)}


def _every_name(field: str) -> Iterable[str]:
    if field == "team":
        return Team.objects.values_list("slug", flat=True)
    return [name for (name,) in execute(_OWNED[field])]


def _visible_ids(ids: Iterable[int]) -> set[int]:
    return set(visible(Job.objects.filter(pk__in=list(ids))).values_list("pk", flat=True))


def _pseudonym(field: str, name: str) -> str:
    return pseudonym(KINDS[field], name, secret=settings.SECRET_KEY)


def _job_name(pk: int) -> str:
    return pseudonym(JOB, str(pk), secret=settings.SECRET_KEY)


def _sealed(pk: int) -> str:
    return sealed(JOB, pk, secret=settings.SECRET_KEY)
