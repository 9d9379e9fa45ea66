"""What Slurm's controller says of this node and its jobs, asked as little as will do."""

import logging
from dataclasses import dataclass, field
from typing import AbstractSet, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from agent.clock import is_recent
from agent.readings import SchedulerError
from agent.workloads.slurm.command import CommandError
from agent.workloads.slurm.hpc_files import Claim
from agent.workloads.slurm.job_runs import Runs
from agent.workloads.slurm.queue import Listed, Queue, RecordError
from agent.workloads.slurm.scontrol import NodeRecord, Record, epoch_ms, node_from_text
from agent.workloads.slurm.traces import Traces

log = logging.getLogger("agent.workloads")

LIST_MS = 300_000  # between two looks at the whole queue when nothing seems to have changed
# a prolog's file may be this much older than a list of jobs that does not name its job yet
STALE_MS = 60_000
MAX_JOBS = 512  # on one node

Records = Mapping[int, Record]  # by the job's number
Doubts = Dict[int, str]  # why a job, by its number, is not understood
Sights = Tuple[str, Traces]  # the node's record and the traces that a list was made with


@dataclass(frozen=True)
class Answer:
    """What Slurm's commands told: the records of the jobs here, and why others could not be read,
    by their numbers.

    `missed` are those that were over when they were asked for first.
    """

    node: NodeRecord = NodeRecord()  # noqa: RUF009 - frozen
    records: Records = field(default_factory=dict)
    unread: Doubts = field(default_factory=dict)
    missed: AbstractSet[int] = frozenset()


class JobBooks:
    """The list of the node's jobs and their records, kept until something changes.

    `nodes` are the names that the node may have, the likeliest first.
    """

    def __init__(self, queue: Queue, nodes: Sequence[str]) -> None:
        self.nodes = list(nodes)
        self._queue = queue
        self._sights: Optional[Sights] = None
        self._listed: Dict[int, Listed] = {}
        self._listed_ms: Optional[int] = None
        self._records: Dict[int, Tuple[Listed, Record]] = {}
        self._complaints: Set[str] = set()

    def node(self) -> NodeRecord:
        """This node's record, by the first of its names that Slurm knows. Raises SchedulerError."""
        for name in self.nodes:
            try:
                record = node_from_text(self._queue.node(name))
            except CommandError as error:
                if "not found" not in error.output:
                    raise
                continue
            self.nodes = [name]
            return record
        raise SchedulerError("Slurm knows no node called %s" % " or ".join(self.nodes))

    def refresh(self, sights: Sights, now_ms: int, *, is_changed: bool) -> None:
        """Brings the list of jobs up to date, where something changed or it is old.

        A job that completes holds nothing any more, so nothing here will change when it is over.
        Raises SchedulerError.
        """
        completes = any(job.is_passing for job in self._listed.values())
        is_same = sights == self._sights and not is_changed and not completes
        if is_same and is_recent(self._listed_ms, now_ms, LIST_MS):
            return
        listed = self._queue.on_node(self.nodes[0])
        if len(listed) > MAX_JOBS:
            raise SchedulerError("Slurm names %d jobs on one node" % len(listed))
        self._listed = {job.id: job for job in listed}
        self._sights = sights
        self._listed_ms = now_ms

    def answer(self, node: NodeRecord, noted: AbstractSet[int], runs: Runs) -> Answer:
        """The records of the jobs here, asked again when a job's state or start changed; of one
        that is gone once more. `noted` are the jobs that the prolog's files name, or named.
        """
        records: Dict[int, Record] = {}
        unread: Doubts = {}
        missed: Set[int] = set()
        for listed in self._listed_or_gone(runs):
            record = self._kept(listed)
            if record is None and self._is_of_interest(listed, noted, runs):
                record = self._record(listed, unread)
                if record is not None and not (record.is_holding or runs.knows(record.id)):
                    missed.add(listed.id)
            if record is not None:
                records[listed.id] = record
                self._records[listed.id] = (listed, record)
        self._forget_gone()
        return Answer(node, records, unread, missed & noted)

    def _forget_gone(self) -> None:
        for number in self._records.keys() - self._listed.keys():
            del self._records[number]

    def _kept(self, listed: Listed) -> Optional[Record]:
        """The record that was read when the list said the same of the job."""
        listed_then, record = self._records.get(listed.id, (None, None))
        return record if listed_then == listed and listed.id in self._listed else None

    def _is_of_interest(self, listed: Listed, noted: AbstractSet[int], runs: Runs) -> bool:
        """False for a job that ended before anybody here saw it."""
        was_seen = listed.id in self._records or listed.id in noted or runs.knows(listed.id)
        return listed.is_holding or was_seen

    def _listed_or_gone(self, runs: Runs) -> List[Listed]:
        """The jobs in the list, and those that held GPUs and are in it no more."""
        gone = [
            self._records[number][0]
            for number in runs.current
            if number not in self._listed and number in self._records
        ]
        return [*self._listed.values(), *gone]

    def record_of(self, number: int, answer: Answer) -> Record:
        """The job's record; where that can't be read, what the list tells."""
        if number in answer.records:
            return answer.records[number]
        listed = self._listed[number]
        return Record(number, states=(listed.state,), start_ms=epoch_ms(listed.start))

    def is_stale(self, claim: Claim) -> bool:
        """A file that an epilog left behind: Slurm's list was made after it, and the job holds
        nothing in it.

        A list that does not name the job at all may be a little older than what slurmctld knows by
        now.
        """
        if self._listed_ms is None:
            return False
        listed = self._listed.get(claim.job_id)
        if listed is None:
            return claim.written_ms <= self._listed_ms - STALE_MS
        return not listed.is_holding and claim.written_ms <= self._listed_ms

    def complain(self, name: str, error: RecordError) -> None:
        """Says once that a job can't be read."""
        text = "job %s: %s" % (name, error)
        if text not in self._complaints:
            log.warning("a job can't be read: %s", text)
            self._complaints = {*[*self._complaints][-MAX_JOBS:], text}

    def _record(self, listed: Listed, unread: Doubts) -> Optional[Record]:
        """The job's record; None where Slurm has forgotten it, and where one that runs can't be
        read, which is noted.
        """
        try:
            return self._queue.record(listed, self.nodes)
        except RecordError as error:
            self.complain(listed.ask, error)
            if not listed.is_holding:
                return Record(listed.id, states=(listed.state,))
            unread[listed.id] = str(error)
            return None
