"""GPUs whose five-minute pieces and runs say how much they worked."""

from collections import defaultdict

import numpy as np

from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS, KEYS, NAMES
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS
from tests.alerts.factories import ms, ran


def worked(
    gpu: GPU, start: float, end: float, *, job: Job, condition: str = "active", **shares: float
) -> Run:
    """From minute `start` to minute `end` these shares of the GPU's time were in these states: its
    run, and the ledger's five-minute pieces.
    """
    shares = shares or {"useful": 1.0}
    labels = {"stalled": "stalled_probable", "underused": "underused_potential"}
    labels |= {"idle": "idle_certain"}
    starts = list(range(ms(start), ms(end), CELL_MS))
    rows = [
        dict.fromkeys(NAMES, 0)
        | {"gpu_id": gpu.pk, "job_id": job.pk, "start_ms": start_ms}
        | {
            labels.get(state, state): int(share * (min(start_ms + CELL_MS, ms(end)) - start_ms))
            for state, share in shares.items()
        }
        for start_ms in starts
    ]
    _add_cells(gpu.node_id, rows)
    state_ms = {
        state: int(share * (ms(end) - ms(start)))
        for state, share in shares.items()
        if state != "unobserved"
    }
    return ran(gpu, condition, start, end, job=job, state_ms=state_ms)


def _add_cells(node_id: int, rows: list[dict[str, int]]) -> None:
    by_hour = defaultdict(list)
    for row in rows:
        by_hour[row["start_ms"] // HOUR_MS * HOUR_MS].append(row)
    for hour_ms, several in by_hour.items():
        fresh = {name: np.array([row[name] for row in several]) for name in (*KEYS, *NAMES)}
        before = hour_cells.read([node_id], hour_ms, hour_ms + HOUR_MS).get(node_id)
        table = cell_states.joined([fresh, *([before] if before else [])])
        hour_cells.write({node_id: (table, [hour_ms])}, start_ms=hour_ms, end_ms=hour_ms + HOUR_MS)
