"""Whose jobs held GPUs as these broke: nobody owns a GPU, but somebody may have lost a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import Line, named
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring.job_labels import owner_of
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import Holding, holdings_of
from fleetwatch.lib.intervals import MINUTE_MS, from_ms
from fleetwatch.notify import wording

JUST_BEFORE_MS = 2 * MINUTE_MS  # a GPU that breaks ends its job with it
HELD_BY = "Held by"


@dataclass(frozen=True, slots=True)
class LastHolder:
    """A job that held a GPU as it broke or just before; `until_ms` is until when, None: its end is
    not known.
    """

    job: Job
    until_ms: int | None


Holders = Mapping[tuple[int, int], LastHolder]  # by GPU's id and when its breach began


def last_holders(episodes: Iterable[Episode], gpus: Mapping[str, GPU]) -> Holders:
    """The job that held each GPU (by UUID) last, as its episode began or just before."""
    moments = [(gpus[each.subject], each.since_ms) for each in episodes if each.subject in gpus]
    if not moments:
        return {}
    starts = [since_ms for _, since_ms in moments]
    nodes = sorted({gpu.node_id for gpu, _ in moments})
    held = holdings_of(nodes, min(starts) - JUST_BEFORE_MS, max(starts) + 1)
    last = {(gpu.pk, at_ms): _last(held[gpu.node_id], gpu.pk, at_ms) for gpu, at_ms in moments}
    newest_ms = {gpu.pk: gpu.newest_ms or 0 for gpu, _ in moments}
    return _with_jobs(last, newest_ms, before_ms=max(starts) + 1)


def _with_jobs(
    last: Mapping[tuple[int, int], tuple[int, int] | None],
    newest_ms: Mapping[int, int],
    *,
    before_ms: int,
) -> Holders:
    """The jobs in the place of their ids, each in the team that it was in then; `newest_ms`: until
    when each GPU is known.
    """
    held = {moment: each for moment, each in last.items() if each is not None}
    jobs = Job.objects.select_related("team").in_bulk([pk for _, pk in held.values()])
    into_teams(jobs.values(), before=from_ms(before_ms))
    return {
        moment: LastHolder(jobs[pk], _until_ms(jobs[pk], end_ms, newest_ms[moment[0]]))
        for moment, (end_ms, pk) in held.items()
        if pk in jobs
    }


def _until_ms(job: Job, held_ms: int, newest_ms: int) -> int | None:
    """A GPU that is lost is not heard after its job's end: the job's own end says more."""
    if job.end_ms is not None:
        return min(job.end_ms, held_ms)
    return held_ms if held_ms < newest_ms else None


def _last(held: Sequence[Holding], gpu_id: int, at_ms: int) -> tuple[int, int] | None:
    """When the hold ended that ended last, of those up to then, and the id of its job; None where
    there is none.
    """
    ends = [
        (end_ms, each.job_id)
        for each in held
        if each.gpu_id == gpu_id
        for start_ms, end_ms in each.spans
        if start_ms <= at_ms and end_ms > at_ms - JUST_BEFORE_MS
    ]
    return max(ends, default=None)


def is_ended_by_fault(until_ms: int | None, since_ms: int) -> bool:
    """Whether a hold until then ended with the fault of its GPU, which began at `since_ms`."""
    return until_ms is not None and abs(until_ms - since_ms) <= JUST_BEFORE_MS


def holder_lines(holder: LastHolder | None, since_ms: int, now_ms: int) -> tuple[Line, ...]:
    """Who held it by which job, until when, and whether the fault that began at `since_ms` ended
    that, as the incident's page says it; () where nobody did.
    """
    if holder is None:
        return ()
    job = holder.job
    held = f"job {named(job.key, job.name)}, which {_until(holder.until_ms, since_ms, now_ms)}"
    owner = owner_of(job)
    return ((HELD_BY, f"{owner}, by {held}" if owner else held),)


def _until(until_ms: int | None, since_ms: int, now_ms: int) -> str:
    if until_ms is None:
        return "held it as it broke"
    at = wording.dated(from_ms(until_ms), zone(), now=from_ms(now_ms))
    end = ", ended by the fault" if is_ended_by_fault(until_ms, since_ms) else ""
    return f"held it until {at}{end}"
