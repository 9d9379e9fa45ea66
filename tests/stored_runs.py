"""Runs as the ledger stores them: cut at clock hours, what they have spread evenly."""

import itertools
from collections.abc import Iterable, Iterator

from fleetwatch.ledger import run_rows
from fleetwatch.ledger.models import HourRuns, Run
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms


def store(*runs: Run) -> None:
    """Stores these runs, of which none need be in one hour."""
    for node_id in {run.node_id for run in runs}:
        parts = [part for run in runs if run.node_id == node_id for part in _parts(run)]
        run_rows.copy({node_id: run_rows.rows(run_rows.as_parts(parts))})


def replace(run: Run) -> None:
    """Stores the run in the place of all that its GPU and holder had from its start on."""
    lane = {"gpu_id": run.gpu_id, "job_id": run.job_id, "cut_ms__gte": floor_hour_ms(run.start_ms)}
    before = list(Run.objects.filter(start_ms__lt=run.start_ms, **lane))
    HourRuns.objects.filter(**lane).delete()
    store(*before, run)


def _parts(run: Run) -> Iterator[Run]:
    bounds = [run.start_ms, *_hours(run.start_ms, run.end_ms), run.end_ms]
    for start_ms, end_ms in itertools.pairwise(bounds):
        yield Run(
            node_id=run.node_id,
            gpu_id=run.gpu_id,
            job_id=run.job_id,
            condition=run.condition,
            cut_ms=floor_hour_ms(start_ms),
            start_ms=start_ms,
            end_ms=end_ms,
            continues=run.continues or start_ms > run.start_ms,
            state_ms={
                state: _until(run, gpu_ms, end_ms) - _until(run, gpu_ms, start_ms)
                for state, gpu_ms in run.state_ms.items()
            },
            figures={
                name: value * (end_ms - start_ms) / (run.end_ms - run.start_ms)
                for name, value in run.figures.items()
            },
        )


def _hours(start_ms: int, end_ms: int) -> Iterable[int]:
    return range(floor_hour_ms(start_ms) + HOUR_MS, end_ms, HOUR_MS)


def _until(run: Run, gpu_ms: int, moment_ms: int) -> int:
    """What of it lies before the moment."""
    return gpu_ms * (moment_ms - run.start_ms) // (run.end_ms - run.start_ms)
