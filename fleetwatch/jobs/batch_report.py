"""What one batch says, as the writers of jobs take it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire import Batch, Item
from fleetwatch.inventory.extents import newest_ms
from fleetwatch.jobs.records import OUTCOME_LAG_MS, JobFacts, Record


@dataclass(frozen=True, slots=True)
class Report:
    """What one batch says, for the nodes and GPUs that it was registered as; at most one of a node
    at once.
    """

    node_id: int
    batch: Batch
    gpu_ids: Sequence[int]  # by position in batch.gpus
    offset_ms: int
    speaks_for: str = ""  # the cluster whose books its token speaks for; "" = none


# node id, and what the node calls the job: another node may mean another job by it
JobKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job of the batches as stored; `former_kind` is the kind that they changed, None otherwise.

    `records`: all that is said of it, where something of it is new: who holds it now may have told
    its end before.
    """

    pk: int
    kind: str
    team_id: int | None
    former_kind: str | None = None
    records: tuple[Record, ...] = ()


def spoken_ms(batch: Batch) -> int | None:
    """Until when the batch speaks, by its own clock; None for an import of accounting, which speaks
    of no time of its own.
    """
    return batch.end_ms if batch.end_ms is not None else newest_ms(batch, offset_ms=0)


def known_until(facts: JobFacts) -> int:
    """Until when an import knows the job: past what agents may have said of it at its end, but not
    into a later run.
    """
    if facts.end_ms is not None:
        return facts.end_ms + OUTCOME_LAG_MS
    return facts.start_ms or facts.submit_ms or 0


def speaks_for_cluster(report: Report, job: Item) -> bool:
    """Whether its token speaks for the job's cluster."""
    return bool(report.speaks_for) and job["key"].split("/", 2)[1:2] == [report.speaks_for]


def speaks_for_all(report: Report, job: Item) -> bool:
    """Whether what it says of the job is said of all nodes: accounting, or the books of its
    cluster.
    """
    return spoken_ms(report.batch) is None or speaks_for_cluster(report, job)
