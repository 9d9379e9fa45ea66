"""Time of jobs to which no rule gives a team, a project or a cost centre, by what a rule could ask
of them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.selectors import held_by_job
from fleetwatch.figures.totals import NOBODY, OWNERS, UNMAPPED, Scope
from fleetwatch.jobs.models import Job
from fleetwatch.lib.any_of import any_id
from fleetwatch.lib.intervals import Interval

ASKED = ("account", "user")  # the first that a job has names it
ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Unmapped:
    """GPU time and dollars of jobs with that account, or that user where they name no account ("" =
    neither), that are without an owner.
    """

    condition: str
    name: str
    jobs: int
    gpu_ms: int
    usd: Decimal


def unmapped_time(interval: Interval) -> dict[str, list[Unmapped]]:
    """By team, project and cost centre what is without one, the dearest first."""
    return {owner: _without(interval, owner) for owner in OWNERS}


def _without(interval: Interval, owner: str) -> list[Unmapped]:
    sums: dict[tuple[str, str], list[tuple[int, Decimal]]] = defaultdict(list)
    for key, gpu_ms, usd in _jobs_without(interval, owner):
        sums[key].append((gpu_ms, usd))
    lines = [
        Unmapped(*key, len(held), sum(ms for ms, _ in held), sum((usd for _, usd in held), ZERO))
        for key, held in sums.items()
    ]
    return sorted(lines, key=lambda line: (-line.usd, -line.gpu_ms, line.condition, line.name))


def _jobs_without(interval: Interval, owner: str) -> Iterator[tuple[tuple[str, str], int, Decimal]]:
    """Of each job what names it, its GPU time and dollars."""
    for reason in (UNMAPPED, NOBODY):
        held = held_by_job(interval, _scope(owner, reason))
        for job in Job.objects.filter(pk__in=any_id(held)).only("pk", *ASKED):
            yield _name(job), *held[job.pk]


def _scope(owner: str, key: str) -> Scope:
    of = {"team": Scope(team=key), "project": Scope(project=key)}
    return of.get(owner, Scope(cost_centre=key))


def _name(job: Job) -> tuple[str, str]:
    named = ((asked, getattr(job, asked)) for asked in ASKED)
    return next(((asked, name) for asked, name in named if name), ("", ""))
