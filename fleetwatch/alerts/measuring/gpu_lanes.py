"""What GPUs did by the runs of the ledger, whoever held them: what conditions of GPUs measure."""

from collections.abc import Mapping, Sequence

import numpy as np

from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.episodes import End, Level, Measured, Span, extend
from fleetwatch.alerts.measuring.job_lanes import (
    RETIRED,
    UNKNOWN,
    UNSEEN,
    Counts,
    Ints,
    Parts,
    counted,
)
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_GPU_RUNS = read_statement("alerts/sql/gpu_runs.sql")

UUIDs = Sequence[str]


def measured(watch: Watch, condition: str, *, cleared: str) -> Measured:
    """The spans of each GPU that was in that condition in the period, or fires: in breach while it
    is, clear while it is seen in another one. Of a MIG instance the spans are its own.
    """
    rows = _rows(watch, condition)
    gpus = GPU.objects.only("uuid", "retired_ms").in_bulk(np.unique(rows[:, 0]).tolist())
    living = {pk: gpu.uuid for pk, gpu in gpus.items() if gpu.retired_ms is None}
    uuids = sorted(set(living.values()))
    counts = counted(_parts(rows, living, uuids, condition))
    gone = {gpu.uuid for gpu in gpus.values()} - set(uuids)
    ends = {uuid: End(watch.end_ms, RETIRED) for uuid in gone}
    return Measured(_spans(counts, uuids), ends, cleared=cleared)


def _rows(watch: Watch, condition: str) -> Ints:
    """GPU, condition (a place in CONDITIONS), start and end of each part of a run that matters."""
    asked = {
        "conditions": list(CONDITIONS),
        "wanted": condition,
        "unseen": list(UNSEEN),
        # the first of them says that it is over, unless it is to be clear for longer
        "following": None if watch.settings.clear_minutes else 1,
        "looks_on_ms": 0 if watch.settings.clear_minutes else watch.looks_on_ms,
        "subjects": list(watch.firing),
        "start_ms": watch.start_ms,
        "end_ms": watch.end_ms,
    }
    return np.array(fetched(_GPU_RUNS, asked), dtype=np.int64).reshape(-1, 4)


def _parts(rows: Ints, living: Mapping[int, str], uuids: UUIDs, condition: str) -> Parts:
    """The rows of GPUs that are there; a lane is a GPU by UUID, with whatever node it was."""
    place = {uuid: place for place, uuid in enumerate(uuids)}
    there = rows[np.isin(rows[:, 0], list(living))]
    gpu_id, done, start_ms, end_ms = there.T
    lane = np.array([place[living[pk]] for pk in gpu_id.tolist()], dtype=np.int64)
    none = np.zeros(len(there), dtype=np.int64)
    parts = Parts(lane, gpu_id, done, start_ms, end_ms, none, none, none)
    return parts.marked(parts.within((condition,)), ~parts.within((condition, *UNSEEN)))


def _spans(counts: Counts, uuids: UUIDs) -> dict[str, list[Span]]:
    levels = np.select(
        [counts.breaching > 0, counts.clear > 0], [Level.BREACH, Level.CLEAR], UNKNOWN
    )
    spans: dict[str, list[Span]] = {}
    columns = (counts.job_id, counts.start_ms, counts.end_ms, levels)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for lane, start_ms, end_ms, level in rows:
        if level != UNKNOWN:
            extend(spans.setdefault(uuids[lane], []), Span(start_ms, end_ms, Level(level)))
    return spans
