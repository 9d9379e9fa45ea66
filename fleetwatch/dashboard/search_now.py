"""What the GPUs and nodes that a search found do at this moment, and for whom."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.dashboard.search_hits import Hit, Subject
from fleetwatch.figures.fleet_now import CURRENT_RUN_MS
from fleetwatch.inventory.models import GPU
from fleetwatch.inventory.selectors import here
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import to_ms


@dataclass(frozen=True, slots=True)
class Now:
    """How many GPUs are in which state, the most first, and the job that holds them: None of a
    node, and of a GPU that nobody holds.
    """

    states: Sequence[tuple[str, int]]
    job: Job | None = None

    @property
    def gpus(self) -> int:
        return sum(count for _, count in self.states)


def now_of(hits: Iterable[Hit], now: datetime) -> Mapping[Subject, Now]:
    """By the subject of each GPU and node what it does, as it was judged in the last ten minutes;
    of what was not judged since there is nothing.
    """
    by_group: dict[str, dict[int, Subject]] = defaultdict(dict)
    for hit in hits:
        if hit.subject is not None and hit.subject.pk is not None:
            by_group[hit.subject.group_by][hit.subject.pk] = hit.subject
    return _of_gpus(by_group["gpu"], now) | _of_nodes(by_group["node"], now)


def _of_gpus(gpus: Mapping[int, Subject], now: datetime) -> dict[Subject, Now]:
    newest = _newest_runs(gpus, now)
    jobs = _jobs(newest.values(), now)
    return {
        gpus[gpu_id]: Now([(_state(run), 1)], jobs.get(run.job_id or 0))
        for gpu_id, run in newest.items()
    }


def _of_nodes(nodes: Mapping[int, Subject], now: datetime) -> dict[Subject, Now]:
    gpus = here(GPU.objects.filter(node__in=nodes, parent=None)) if nodes else []
    node_of = {gpu.pk: gpu.node_id for gpu in gpus}
    states: dict[int, Counter[str]] = defaultdict(Counter)
    for gpu_id, run in _newest_runs(node_of, now).items():
        states[node_of[gpu_id]][_state(run)] += 1
    return {nodes[node_id]: Now(counted.most_common()) for node_id, counted in states.items()}


def _newest_runs(gpu_ids: Collection[int], now: datetime) -> dict[int, Run]:
    """By GPU the part of a run that ended last; of several at once that of a job."""
    if not gpu_ids:
        return {}
    now_ms = to_ms(now)
    lately = Run.overlapping(now_ms - CURRENT_RUN_MS, now_ms)
    nobody_first = F("job_id").asc(nulls_first=True)
    runs = Run.objects.filter(lately, gpu__in=list(gpu_ids))
    return {run.gpu_id: run for run in runs.order_by("end_ms", nobody_first)}


def _state(run: Run) -> str:
    """The one that holds most of it."""
    spent: dict[str, int] = run.state_ms
    return max(spent, key=lambda state: spent[state])


def _jobs(runs: Iterable[Run], now: datetime) -> dict[int, Job]:
    ids = {run.job_id for run in runs if run.job_id}
    jobs = list(Job.objects.filter(pk__in=ids).select_related("team")) if ids else []
    into_teams(jobs, before=now)
    return {job.pk: job for job in jobs}
