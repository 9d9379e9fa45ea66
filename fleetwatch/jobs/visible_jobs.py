"""Which jobs the reader sees by name: those of the own teams at any time, the own, and those about
which a finding was given to the reader.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from fleetwatch.accounts.models import Identity
from fleetwatch.accounts.names.holders import KUBERNETES
from fleetwatch.accounts.visibility import Sight, sight
from fleetwatch.jobs.models import Job

# ids of the jobs with time that is one of these teams'
_OF_TEAMS = "SELECT job_id FROM costs_owned WHERE team_id = ANY(%s)"
_GIVEN = "SELECT job_id FROM diagnosis_finding WHERE assignee_id = %s AND job_id IS NOT NULL"
_NO_JOB = Q(pk__in=())


def visible(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Those of the jobs that the reader sees by name."""
    seen = sight()
    if seen is None:
        return jobs
    of_teams = RawSQL(_OF_TEAMS, [sorted(seen.team_ids)])  # noqa: S611 - a constant, ids beside it
    return jobs.filter(Q(pk__in=of_teams) | _own(seen))


def is_visible(job: Job) -> bool:
    """Whether the reader sees the job."""
    return sight() is None or visible(Job.objects.filter(pk=job.pk)).exists()


def own_ids(seen: Sight) -> list[int]:
    """The ids of the reader's own jobs, and of those about which a finding was given to him."""
    return list(Job.objects.filter(_own(seen)).values_list("pk", flat=True))


def _own(seen: Sight) -> Q:
    given = RawSQL(_GIVEN, [seen.user_id])  # noqa: S611 - a constant, an id beside it
    return Q(pk__in=given) | under(seen.names)


def under(names: Iterable[Identity]) -> Q:
    """The jobs under one of these names; none where none is given."""
    return reduce(or_, map(_is_held_by, names), _NO_JOB)


def _is_held_by(name: Identity) -> Q:
    is_pod = Q(scheduler=KUBERNETES)
    cluster = Q(cluster=name.cluster) if name.cluster else ~Q(cluster__in=_of_others(name))
    return Q(user=name.name) & cluster & (is_pod if name.system == KUBERNETES else ~is_pod)


def _of_others(name: Identity) -> QuerySet[Identity, Any]:
    """The clusters on which the name was given to somebody else: there that comes first."""
    given = Identity.objects.filter(
        system=name.system, name=name.name, confirmed_at__isnull=False, user__is_active=True
    )
    return given.exclude(cluster="").exclude(user=name.user_id).values("cluster")
