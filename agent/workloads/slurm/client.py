"""Slurm's books for this node: which job holds which GPU, with or without a process on it.

A slurmctld serves thousands of nodes, so little is asked. Each time one record, this node's; the
queue only when that record, the jobs' control groups or the prolog's files changed, and every few
minutes; a job's own record once per run.
"""

from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from agent import procfs
from agent.readings import Allocation, GPUs, Holdings, Job, SchedulerError
from agent.workloads.proc import user_name
from agent.workloads.slurm import devices, queue
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.granted import Order, Share, granted, uuid_at, uuid_of
from agent.workloads.slurm.hpc_files import Claim, HPCFiles
from agent.workloads.slurm.job_books import Answer, Doubts, JobBooks, Records
from agent.workloads.slurm.job_runs import Run, Runs
from agent.workloads.slurm.queue import RecordError
from agent.workloads.slurm.scontrol import NodeRecord, Record
from agent.workloads.slurm.traces import Traces, Watch

INTERVAL_S = 30.0

Claims = Sequence[Claim]
Held = Dict[str, Dict[int, Share]]  # GPU -> job -> share


class Slurm:
    """Who holds this node's GPUs by Slurm.

    `nodes` are the names that the node may have, the likeliest first.
    """

    kind = "slurm"
    interval_s = INTERVAL_S

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        cluster: str = "",
        commands: Optional[Commands] = None,
        files: Optional[HPCFiles] = None,
        conf_folders: Sequence[str] = devices.FOLDERS,
        cgroup_root: str = "/sys/fs/cgroup",
    ) -> None:
        self._wanted_cluster = cluster
        self._files = files or HPCFiles()
        self._watch = Watch(self._files, cgroup_root)
        self._queue = queue.Queue(commands or Commands())
        self._books = JobBooks(self._queue, nodes)
        self._conf_folders = conf_folders
        self._cluster = ""
        self._traces = Traces()
        self._is_changed = False
        self._runs = Runs()
        self._order: List[Optional[str]] = []
        self._granted_gpus: Optional[int] = None

    def has_changed(self) -> bool:
        """Whether a job came to this node or went since the last list of jobs, both perhaps.

        Asks nobody.
        """
        self._is_changed = self._is_changed or self._watch.look() != self._traces
        return self._is_changed

    def poll(self, gpus: GPUs, now_ms: int) -> Holdings:
        """Every job that holds a GPU of this node, and those that ended during the last minute.

        Raises SchedulerError.
        """
        self._traces = self._watch.look()
        claims = self._files.claims()
        cluster = self._cluster_name()
        try:
            answer = self._ask(claims, now_ms)
        except SchedulerError:
            if not claims:
                raise
            records = {number: run.record for number, run in self._runs.current.items()}
            return self._holdings(gpus, Answer(records=records), claims, cluster, now_ms)
        holdings = self._holdings(gpus, answer, claims, cluster, now_ms)
        return replace(
            holdings, drained=answer.node.drained, pending_gpus=self._queue.pending_gpus(now_ms)
        )

    def _ask(self, claims: Claims, now_ms: int) -> Answer:
        """What Slurm's commands tell now. Raises SchedulerError."""
        node = self._books.node()
        self._books.refresh((node.used, self._traces), now_ms, is_changed=self._is_changed)
        self._is_changed = False
        noted = {claim.job_id for claim in self._watch.noted}
        answer = self._books.answer(node, noted, self._runs)
        is_named = (
            claims or answer.unread or any(record.is_holding for record in answer.records.values())
        )
        if node.used_gpus and not is_named:  # that is not an empty node
            text = (
                "Slurm says that %d GPUs are in use and names no job: with PrivateData=jobs the"
                " agent's user needs to be an operator"
            )
            raise SchedulerError(text % node.used_gpus)
        return answer

    def _holdings(
        self,
        gpus: GPUs,
        answer: Answer,
        claims: Claims,
        cluster: str,
        now_ms: int,
    ) -> Holdings:
        """The prolog's files say which GPU; Slurm's records everything else, and of GPUs without a
        file that too.
        """
        held, doubts = self._held(gpus, answer, claims)
        holding = self._holding(held, answer, claims)
        for number in answer.missed:
            self._add_missed(answer.records[number], gpus, now_ms)
        self._runs.see(holding, answer.records, now_ms)
        runs = [run for run in self._runs.ended(now_ms) if run.shares] + list(holding.values())
        jobs = {run.record.id: run.record.job(cluster) for run in runs}
        for number in doubts:
            jobs[number] = self._books.record_of(number, answer).job(cluster)
        return _holdings_of(runs, jobs, answer.records, doubts)

    def _held(self, gpus: GPUs, answer: Answer, claims: Claims) -> Tuple[Held, Doubts]:
        """Who holds which GPU; and the jobs of which that can't be told, with the reason."""
        is_needed = bool(answer.records or answer.unread or claims)
        order = self._devices(gpus, answer.node, is_needed=is_needed)
        held, doubts = self._granted_to(answer, order)
        self._claim(held, claims, gpus, answer.node)
        return held, self._place_rest(held, doubts, answer.node)

    def _granted_to(self, answer: Answer, order: Order) -> Tuple[Held, Doubts]:
        """GPU -> who was given it; and the jobs of which that can't be told, with the reason."""
        held: Held = {}
        doubts = dict(answer.unread)
        for record in answer.records.values():
            if not record.is_holding:
                continue
            try:
                shares = granted(record, answer.node, order) or self._runs.holds(record)
            except RecordError as error:
                self._books.complain(str(record.id), error)
                doubts[record.id] = str(error)
                continue
            for uuid, share in shares.items():
                held.setdefault(uuid, {})[record.id] = share
        return held, doubts

    def _claim(self, held: Held, claims: Claims, gpus: GPUs, node: NodeRecord) -> None:
        """Puts what the prolog's files say in the place of what Slurm says; a file knows nothing of
        parts of a GPU.
        """
        for uuid, ids in self._claimed(
            [claim for claim in claims if not self._books.is_stale(claim)], gpus
        ).items():
            shares = held.get(uuid, {})
            if all(share == 1.0 for share in shares.values()):
                held[uuid] = {
                    number: shares.get(number, 1.0 if len(ids) == 1 and not node.parts else None)
                    for number in ids
                }

    def _place_rest(self, held: Held, doubts: Doubts, node: NodeRecord) -> Doubts:
        """The jobs that are still in doubt: not one whose GPUs a file names, or that alone can hold
        what else is in use.
        """
        placed = {number for ids in held.values() for number in ids}
        doubts = {number: why for number, why in doubts.items() if number not in placed}
        if not doubts:
            return {}
        if node.used_indices is None:
            return {} if node.used_gpus <= len(held) else doubts
        rest = [
            uuid
            for uuid in (uuid_at(self._order, index) for index in node.used_indices)
            if uuid is not None and uuid not in held
        ]
        if rest and len(doubts) > 1:
            return doubts
        held.update((uuid, dict.fromkeys(doubts, 1.0)) for uuid in rest)
        return {}

    def _holding(self, held: Held, answer: Answer, claims: Claims) -> Dict[int, Run]:
        """The runs that hold GPUs now."""
        shares: Dict[int, Dict[str, Share]] = {}
        for uuid, ids in held.items():
            for number, share in ids.items():
                shares.setdefault(number, {})[uuid] = share
        by_claim = {claim.job_id: _record_of_claim(claim) for claim in claims}
        records = {**by_claim, **answer.records}
        holding: Dict[int, Run] = {}
        for number, uuids in shares.items():
            record = records.get(number) or self._books.record_of(number, answer)
            holding[number] = Run(record, uuids, record.end_ms)
        return holding

    def _add_missed(self, record: Record, gpus: GPUs, now_ms: int) -> None:
        """A job that was over before it was asked for, while its prolog's files were seen."""
        claims = [claim for claim in self._watch.noted if claim.job_id == record.id]
        shares = dict.fromkeys(self._claimed(claims, gpus), 1.0)
        if shares and record.start_ms is not None and record.end_ms is not None:
            self._runs.add_ended(Run(record, shares, record.end_ms), now_ms)

    def _claimed(self, claims: Claims, gpus: GPUs) -> Dict[str, List[int]]:
        """GPU -> the jobs that the files name on it."""
        jobs: Dict[Optional[str], Dict[int, Claim]] = {}
        for claim in claims:
            jobs.setdefault(uuid_of(claim, self._order, gpus), {})[claim.job_id] = claim
        return {gpu.uuid: list(jobs[gpu.uuid]) for gpu in gpus if gpu.uuid in jobs}

    def _devices(self, gpus: GPUs, node: NodeRecord, *, is_needed: bool) -> Order:
        """UUIDs by Slurm's index. Raises SchedulerError when the driver shows other GPUs than Slurm
        grants.

        A GPU that fell off the bus would move all indices behind it; the order from before it fell
        still holds.
        """
        conf = _read_first(self._conf_folders, "gres.conf")
        minors = None if conf is None else devices.minors(conf, self._books.nodes)
        order = devices.order(gpus, minors)
        if node.gpus is not None:
            self._granted_gpus = node.gpus
        if self._granted_gpus in (None, len(order)):
            self._order = order
        elif len(self._order) != self._granted_gpus and is_needed:
            text = "Slurm grants %s GPUs here, the driver shows %d: which is which can't be told"
            raise SchedulerError(text % (self._granted_gpus, len(order)))
        return self._order

    def _cluster_name(self) -> str:
        """ClusterName, asked for once; on a host without Slurm's commands what the operator said.
        Raises SchedulerError.

        A name that is only a guess would make a second job of every job as soon as the right one is
        known.
        """
        try:
            self._cluster = (
                self._cluster
                or self._queue.cluster(_read_first(self._conf_folders, "slurm.conf"))
                or ""
            )
        except SchedulerError:
            if self._queue.is_installed and not self._wanted_cluster:
                raise
        return self._cluster or self._wanted_cluster or "default"


def _holdings_of(
    runs: Sequence[Run],
    jobs: Mapping[int, Job],
    records: Records,
    doubts: Doubts,
) -> Holdings:
    """What the runs hold or held; nothing of one that ended nobody knows when."""
    return Holdings(
        jobs=list(jobs.values()),
        allocations=[
            Allocation(
                uuid, jobs[run.record.id].key, "slurm", run.record.start_ms, run.end_ms, share
            )
            for run in runs
            if run.ended_ms is None or run.end_ms is not None
            for uuid, share in run.shares.items()
        ],
        aliases=_aliases(jobs, records),
        unplaced=frozenset(jobs[number].key for number in doubts),
        doubt="; ".join(
            "which GPUs job %d holds is not known: %s" % doubt for doubt in doubts.items()
        ),
    )


def _aliases(jobs: Mapping[int, Job], records: Records) -> Dict[str, str]:
    """Control groups call jobs by their ids, and from Slurm 26.05 on by their SLUIDs."""
    numbers = {str(number): job.key for number, job in jobs.items()}
    named = (record for record in records.values() if record.sluid and record.id in jobs)
    return {**numbers, **{record.sluid: jobs[record.id].key for record in named}}


def _record_of_claim(claim: Claim) -> Record:
    """All that a file tells of a job that Slurm's list does not name yet."""
    return Record(
        claim.job_id,
        user="" if claim.uid is None else user_name(claim.uid),
        states=("RUNNING",),
        start_ms=claim.written_ms or None,
    )


def _read_first(folders: Iterable[str], name: str) -> Optional[str]:
    texts = (procfs.read(folder, name, limit=devices.MAX_BYTES) for folder in folders)
    return next((text for text in texts if text is not None), None)
