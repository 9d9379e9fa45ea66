"""Whose jobs held GPUs as these broke: nobody owns a GPU, but somebody may have lost a run."""

from collections.abc import Iterable, Mapping, Sequence

from fleetwatch.alerts.breach import Line, named
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring.job_labels import owner_of
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import Holding, holdings_of
from fleetwatch.lib.intervals import MINUTE_MS, from_ms

JUST_BEFORE_MS = 2 * MINUTE_MS  # a GPU that breaks ends its job with it
HELD_BY = "Held by"

Holders = Mapping[tuple[int, int], Job]  # by GPU's id and when its breach began


def last_holders(episodes: Iterable[Episode], gpus: Mapping[str, GPU]) -> Holders:
    """The job that held each GPU (by UUID) last, as its episode began or just before."""
    moments = [(gpus[each.subject], each.since_ms) for each in episodes if each.subject in gpus]
    if not moments:
        return {}
    starts = [since_ms for _, since_ms in moments]
    nodes = sorted({gpu.node_id for gpu, _ in moments})
    held = holdings_of(nodes, min(starts) - JUST_BEFORE_MS, max(starts) + 1)
    last = {(gpu.pk, at_ms): _last(held[gpu.node_id], gpu.pk, at_ms) for gpu, at_ms in moments}
    return _with_jobs(last, before_ms=max(starts) + 1)


def _with_jobs(last: Mapping[tuple[int, int], int | None], *, before_ms: int) -> Holders:
    """The jobs in the place of their ids, each in the team that it was in then."""
    jobs = Job.objects.select_related("team").in_bulk([pk for pk in last.values() if pk])
    into_teams(jobs.values(), before=from_ms(before_ms))
    return {moment: jobs[pk] for moment, pk in last.items() if pk is not None and pk in jobs}


def _last(held: Sequence[Holding], gpu_id: int, at_ms: int) -> int | None:
    """The id of the job whose hold ended last, of those up to then; None where there is none."""
    ends = [
        (end_ms, each.job_id)
        for each in held
        if each.gpu_id == gpu_id
        for start_ms, end_ms in each.spans
        if start_ms <= at_ms and end_ms > at_ms - JUST_BEFORE_MS
    ]
    return max(ends)[1] if ends else None


def holder_lines(job: Job | None) -> tuple[Line, ...]:
    """Who held it, and by which job; () where nobody did."""
    if job is None:
        return ()
    held = f"job {named(job.key, job.name)}"
    owner = owner_of(job)
    return ((HELD_BY, f"{owner}, by {held}" if owner else held),)
