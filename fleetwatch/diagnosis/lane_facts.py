"""What inventory, jobs and the rate book say of the GPUs and jobs of lanes; as rows: objects of
thousands take longer than judging them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
from django.db.models import F

from fleetwatch.costs.rates.book import cheaper_than, prices_of_models
from fleetwatch.diagnosis.judgement.lanes import Offers
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.judgement.observations import Floats, Ints
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.rows import fetched

# A run that ended so fell over by itself; Slurm's and Kubernetes' words.
FAILED = ("FAILED", "OUT_OF_MEMORY")
SHORT_RUN_MS = 1_800_000  # a shorter run that failed did not come far
ALIKE_MS = 6 * HOUR_MS  # before and after it others of its name count
Series = tuple[str, str]  # user and name

# Names that model servers go by; a pod of KServe or Ray Serve has them in its labels.
SERVING = re.compile(
    r"\b(vllm|triton(server)?|text-generation|tgi|ray[-"
    r" ]?serve|sglang|tensorrt-llm|kserve|inferenceservice|ollama)\b",
    re.I,
)

# What was learned or set of a GPU's idle power counts before its model's.
# Of an instance's power and price nothing is known; how many sevenths of the compute it has its
# profile says: 3g.40gb, 1c.3g.40gb.
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
_JOBS = (
    'SELECT id, kind, start_ms, end_ms, end_ms - start_ms, state, "user", name, labels::text FROM'
    " jobs_job WHERE id = ANY(%s)"
)
_PROCESSES = "SELECT DISTINCT job_id, name FROM jobs_gpuprocess WHERE job_id = ANY(%s)"


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


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is said of a job."""

    kind: str
    start_ms: int | None
    is_serving: bool
    series: Series
    life_ms: int | None  # None: it goes on, or nobody said
    failed_ms: int | None  # when it failed, soon after it began; None: it did not


def jobs(job_ids: Ints) -> dict[int, JobFacts]:
    """By id."""
    wanted = np.unique(job_ids)
    serving = {job_id for job_id, name in fetched(_PROCESSES, [wanted]) if SERVING.search(name)}
    facts = {}
    for pk, kind, start_ms, end_ms, life_ms, state, user, name, labels in fetched(_JOBS, [wanted]):
        words = " ".join(map(str, json.loads(labels).values()))
        has_failed = state in FAILED and life_ms is not None and life_ms < SHORT_RUN_MS
        is_serving = pk in serving or bool(SERVING.search(f"{name} {words}"))
        facts[pk] = JobFacts(
            kind, start_ms, is_serving, (user, name), life_ms, end_ms if has_failed else None
        )
    return facts


def failures(job_id: Ints, jobs: Mapping[int, JobFacts]) -> Ints:
    """Lanes.failures, with runs on any node."""
    failed = {pk: job.failed_ms for pk, job in jobs.items() if job.failed_ms and job.series[1]}
    if not failed:
        return np.zeros(len(job_id), dtype=np.int64)
    names = {jobs[pk].series[1] for pk in failed}
    ends = _ends_of_failed(names, min(failed.values()) - ALIKE_MS, max(failed.values()) + ALIKE_MS)
    counts = {
        pk: sum(abs(end_ms - failed_ms) <= ALIKE_MS for end_ms in ends[jobs[pk].series])
        for pk, failed_ms in failed.items()
    }
    return np.array([counts.get(pk, 0) for pk in job_id.tolist()], dtype=np.int64)


def _ends_of_failed(
    names: Collection[str], first_ms: int, last_ms: int
) -> Mapping[Series, list[int]]:
    """When short runs of these names failed, in that time."""
    runs = Job.objects.filter(
        name__in=names,
        state__in=FAILED,
        end_ms__gte=first_ms,
        end_ms__lte=last_ms,
        end_ms__lt=F("start_ms") + SHORT_RUN_MS,
    )
    ends: dict[Series, list[int]] = defaultdict(list)
    for user, name, end_ms in runs.values_list("user", "name", "end_ms"):
        ends[user, name].append(end_ms or 0)
    return ends
