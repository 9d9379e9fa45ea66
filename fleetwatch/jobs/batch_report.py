"""What one batch says, as the writers of jobs take it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire import Batch, Item
from fleetwatch.inventory.extents import newest_ms
from fleetwatch.jobs.records import OUTCOME_LAG_MS, JobFacts, Record
from fleetwatch.lib.spans import Span


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
    # (boot start, sequence) of its node's newest batch before; () = none
    former_order: Sequence[int] = ()

    @property
    def spoken_ms(self) -> int | None:
        """Until when the batch speaks, by its own clock; None for an import of accounting, which
        speaks of no time of its own.
        """
        end_ms = self.batch.end_ms
        return newest_ms(self.batch, offset_ms=0) if end_ms is None else end_ms

    def is_of_cluster(self, job: Item) -> bool:
        """Whether its token speaks for the job's cluster."""
        return bool(self.speaks_for) and job["key"].split("/", 2)[1:2] == [self.speaks_for]

    def run_ms(self, allocation: Item) -> int | None:
        """When the run began to which the allocation belongs, by the hub's clock; None where nobody
        says.
        """
        start_ms: int | None = allocation.get("start_ms")
        if start_ms is None:
            start_ms = self.batch.jobs[allocation["job"]].get("start_ms")
        return None if start_ms is None else start_ms + self.offset_ms

    def extent(self, allocation: Item) -> Span | None:
        """What the batch says of when the allocation was, by the hub's clock; None of a batch
        without windows.
        """
        first_ms = self.batch.start_ms
        last_ms = self.batch.end_ms
        if first_ms is None or last_ms is None:
            return None
        start_ms = allocation.get("start_ms")
        end_ms = allocation.get("end_ms")
        start_ms = first_ms if start_ms is None else start_ms
        end_ms = last_ms if end_ms is None else min(end_ms, last_ms)
        return start_ms + self.offset_ms, end_ms + self.offset_ms


# node id, and what the node calls the job: another node may mean another job by it
JobKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job of the batches as stored; `has_new_kind`: they changed what kind it is.

    `records`: all that is said of it, where something of it is new: who holds it now may have told
    its end before.
    """

    pk: int
    has_new_kind: bool = False
    records: tuple[Record, ...] = ()


def known_until(facts: JobFacts) -> int:
    """Until when an import knows the job: past what agents may have said of it at its end, but not
    into a later run.
    """
    if facts.end_ms is not None:
        return facts.end_ms + OUTCOME_LAG_MS
    return facts.start_ms or facts.submit_ms or 0
