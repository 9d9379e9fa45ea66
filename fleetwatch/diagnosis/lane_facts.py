"""What inventory, jobs and the rate book say of the GPUs and jobs of lanes; as rows: objects of
thousands take longer than judging them.
"""

import re
from dataclasses import dataclass, fields
from datetime import datetime
from typing import NamedTuple

import numpy as np

from fleetwatch.costs.rates.book import cheaper_than, prices_of_models
from fleetwatch.diagnosis.judgement.lanes import Offers
from fleetwatch.ledger.judgement.observations import Floats, Ints
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

# A run that ended so fell over by itself; Slurm's and Kubernetes' words.
FAILED = ("FAILED", "OUT_OF_MEMORY")
SHORT_RUN_MS = 1_800_000  # a shorter run that failed did not come far
ALIKE_MS = 6 * HOUR_MS  # before and after it others of its name count

# Names that model servers go by; a pod of KServe or Ray Serve has them in its labels.
SERVING = re.compile(
    r"\b(vllm|triton(server)?|text-generation|tgi|ray[-"
    r" ]?serve|sglang|tensorrt-llm|kserve|inferenceservice|ollama)\b",
    re.I,
)

# What was learned or set of a GPU's idle power counts before its model's. Of an instance's power
# and price nothing is known; how many sevenths of the compute it has its profile says: 3g.40gb,
# 1c.3g.40gb.
_GPUS = """
SELECT
    gpu.id,
    CASE WHEN gpu.parent_id IS NULL THEN gpu.model_id END,
    CASE WHEN gpu.parent_id IS NULL THEN 7 ELSE substring(gpu.mig_profile
    FROM '([1-7])g[.]')::int END,
    CASE WHEN gpu.parent_id IS NULL THEN COALESCE(own.watts, model.idle_w) END,
    CASE WHEN gpu.parent_id IS NULL THEN COALESCE(gpu.power_limit_w, model.limit_w) END,
    gpu.memory_total_bytes
FROM inventory_gpu AS gpu
LEFT JOIN inventory_gpumodel AS model ON model.id = gpu.model_id
LEFT JOIN LATERAL (
    SELECT watts FROM ledger_idlepower WHERE gpu_id = gpu.id ORDER BY from_ms DESC, id DESC LIMIT 1
) AS own ON TRUE
WHERE gpu.id = ANY(%s)
ORDER BY gpu.id
"""
_JOBS = read_statement("diagnosis/sql/facts_of_jobs.sql")


@dataclass(frozen=True, slots=True)
class GPUs:
    """One row per GPU, ascending by id: bare idle watts, limit in watts, bytes of memory; NaN = not
    known. `model_id` 0: none.

    `sevenths`: as Lanes has them.
    """

    ids: Ints
    model_id: Ints
    sevenths: Ints
    idle_w: Floats
    limit_w: Floats
    memory_bytes: Floats

    def at(self, gpu_id: Ints) -> "GPUs":
        """A row for each of these ids, which are all there."""
        row = np.searchsorted(self.ids, gpu_id)
        return GPUs(*(getattr(self, field.name)[row] for field in fields(self)))


def gpus(gpu_ids: Ints) -> GPUs:
    """Those of these ids that there are."""
    rows = fetched(_GPUS, [np.unique(gpu_ids)])
    table = np.array(rows, dtype=np.float64).reshape(-1, len(fields(GPUs)))  # makes None NaN
    return GPUs(*np.nan_to_num(table[:, :3]).astype(np.int64).T, *table[:, 3:].T)


def cheaper(boards: GPUs, at: datetime) -> tuple[Offers, ...]:
    """Lanes.cheaper, by the rate book of that moment: a GPU model's highest price beside the lowest
    of this one's.
    """
    prices = {price.gpu_model_id: price for price in prices_of_models(at)}
    offers = {model: cheaper_than(own, prices.values()) for model, own in prices.items()}
    return tuple(offers.get(model, ()) for model in boards.model_id.tolist())


class JobFacts(NamedTuple):
    """What is said of a job: `life_ms` None: it goes on, or nobody said; `failures` as Lanes has
    them.
    """

    kind: str
    start_ms: int | None
    life_ms: int | None
    is_serving: bool
    failures: int


def jobs(job_id: Ints) -> list[JobFacts]:
    """Of each of these ids, which are all there."""
    limits = {"failed": list(FAILED), "short_ms": SHORT_RUN_MS, "alike_ms": ALIKE_MS}
    rows = fetched(_JOBS, limits | {"job_ids": np.unique(job_id)})
    facts = {
        pk: JobFacts(kind, start_ms, life_ms, bool(SERVING.search(words)), failures)
        for pk, kind, start_ms, life_ms, words, failures in rows
    }
    return [facts[job] for job in job_id.tolist()]
