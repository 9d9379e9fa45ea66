"""Whose jobs were slowed by heat or power on GPUs: who holds them, and can't mend it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring.job_labels import owner_of
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import gpus_held
from fleetwatch.lib.intervals import floor_hour, from_ms, to_ms


@dataclass(frozen=True, slots=True)
class SlowedHolder:
    """Whose job it is, as messages say it ("" = nobody known), and how many GPUs it held."""

    owner: str
    gpus: int


def slowed_holders(episodes: Sequence[tuple[Episode, int]]) -> Mapping[Episode, SlowedHolder]:
    """Of each (of the GPU with that id) whose job was slowed last in it."""
    if not episodes:
        return {}
    until_ms = max(each.until_ms for each, _ in episodes)
    since_ms = min(each.since_ms for each, _ in episodes)
    slowed = _jobs_slowed({gpu_id for _, gpu_id in episodes}, since_ms, until_ms)
    last = {each: _last(slowed.get(gpu_id, ()), each.until_ms) for each, gpu_id in episodes}
    jobs = Job.objects.select_related("team").in_bulk([pk for pk in last.values() if pk])
    into_teams(jobs.values(), before=from_ms(until_ms))
    holders = _holders(jobs)
    return {each: holders[pk] for each, pk in last.items() if pk is not None and pk in holders}


def _holders(jobs: Mapping[int, Job]) -> Mapping[int, SlowedHolder]:
    gpus = gpus_held(jobs)
    return {pk: SlowedHolder(owner_of(job), gpus.get(pk, 0)) for pk, job in jobs.items()}


def _jobs_slowed(
    gpu_ids: Collection[int], since_ms: int, until_ms: int
) -> Mapping[int, Sequence[tuple[int, int]]]:
    """By GPU's id the hours in which a job was slowed there, and the job's id; in order of time."""
    hours = CauseEntry.objects.filter(
        gpu__in=gpu_ids,
        cause=SLOWED,
        start__gte=floor_hour(from_ms(since_ms)),
        start__lt=from_ms(until_ms),
    ).order_by("start")
    slowed: dict[int, list[tuple[int, int]]] = {}
    for gpu_id, start, job_id in hours.values_list("gpu_id", "start", "job_id"):
        slowed.setdefault(gpu_id, []).append((to_ms(start), job_id))
    return slowed


def _last(hours: Sequence[tuple[int, int]], until_ms: int) -> int | None:
    """The job of the last hour that began before then; None where there is none."""
    return next((job_id for start_ms, job_id in reversed(hours) if start_ms < until_ms), None)
