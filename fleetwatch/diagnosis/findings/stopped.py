"""Reads which jobs may be ended: those that do nothing on any GPU, as far as they were
judged last, and have none that nobody sees.
"""

import json
from collections.abc import Collection

from fleetwatch.diagnosis.judgement.rules import MEDIUM
from fleetwatch.jobs.scheduled import reaches_beyond
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_STOPPED = read_statement("diagnosis/sql/stopped.sql")


def stopped(job_ids: Collection[int]) -> set[tuple[int, str]]:
    """(job, cause) of each of these jobs whose last cell has that cause on every GPU, with medium
    confidence at least; none of a job that its scheduler gave more than was judged.
    """
    rows = fetched(_STOPPED, {"job_ids": list(job_ids), "sure": MEDIUM})
    return {
        (job_id, cause)
        for job_id, cause, gpus, nodes, labels in rows
        if not reaches_beyond(json.loads(labels), gpus=gpus, nodes=nodes)
    }
