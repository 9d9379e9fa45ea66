"""Slurm's books for this node: which job holds which GPU, with or without a process on it.

A slurmctld serves thousands of nodes, so little is asked. Each time one record, this node's; the queue only when that
record, the jobs' control groups or the prolog's files changed, and every few minutes; a job's own record once per run.
"""

import logging
import os
from dataclasses import dataclass, replace
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from agent.reading import Allocation, GPUInfo, Holdings, Job, SchedulerError
from agent.workloads import slurm_devices, slurm_queue
from agent.workloads.hpc_files import Claim, HPCFiles, user_name
from agent.workloads.slurm_command import CommandError, Commands
from agent.workloads.slurm_lists import SHARED, grants
from agent.workloads.slurm_queue import Listed
from agent.workloads.slurm_records import NodeRecord, Record, node_from_text

log = logging.getLogger("agent.workloads")

INTERVAL_S = 30.0
LIST_MS = 300_000  # between two looks at the whole queue when nothing seems to have changed
STALE_MS = 60_000  # a prolog's file may be this much older than a list of jobs that does not name its job yet
MAX_JOBS = 512  # on one node
CGROUPS = ("system.slice", "devices", "memory", "")

Share = Optional[float]


@dataclass(frozen=True)
class Sights:
    """What tells without asking the controller much that something changed on this node."""

    used: str
    cgroups: FrozenSet[str]
    claims: FrozenSet[Claim]


class Slurm:
    """Who holds this node's GPUs by Slurm. `nodes` are the names that the node may have, the likeliest first."""

    kind = "slurm"
    interval_s = INTERVAL_S

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        cluster: str = "",
        commands: Optional[Commands] = None,
        files: Optional[HPCFiles] = None,
        conf_folders: Sequence[str] = slurm_devices.FOLDERS,
        cgroup_root: str = "/sys/fs/cgroup",
    ) -> None:
        self._nodes, self._wanted_cluster = list(nodes), cluster
        self._files = files or HPCFiles()
        self._queue = slurm_queue.Queue(commands or Commands())
        self._conf_folders, self._cgroup_root = conf_folders, cgroup_root
        self._cluster = ""
        self._sights: Optional[Sights] = None
        self._listed: Dict[int, Listed] = {}
        self._listed_ms: Optional[int] = None
        self._records: Dict[int, Tuple[Listed, Record]] = {}
        self._order: List[Optional[str]] = []
        self._granted_gpus: Optional[int] = None

    def poll(self, gpus: Sequence[GPUInfo], now_ms: int) -> Holdings:
        """Every job that holds a GPU of this node now, and those that have just ended. Raises SchedulerError."""
        claims = self._files.read()
        cluster = self._cluster_name()
        try:
            node = self._node()
            self._list(Sights(node.used, self._job_cgroups(), frozenset(claims)), now_ms)
            records = self._asked_records()
            self._check(node, records, claims)
        except SchedulerError:
            if not claims:
                raise
            known = {number: record for number, (_, record) in self._records.items() if record.is_holding}
            return self._holdings(gpus, NodeRecord(), claims, known, cluster)
        holdings = self._holdings(gpus, node, claims, records, cluster)
        return replace(holdings, drained=node.drained, pending_gpus=self._queue.pending_gpus(now_ms))

    def _node(self) -> NodeRecord:
        """This node's record, by the first of its names that Slurm knows. Raises SchedulerError."""
        for name in list(self._nodes):
            try:
                record = node_from_text(self._queue.node(name))
            except CommandError as error:
                if "not found" not in error.output:
                    raise
                continue
            self._nodes = [name]
            return record
        raise SchedulerError("Slurm knows no node called %s" % " or ".join(self._nodes))

    def _list(self, sights: Sights, now_ms: int) -> None:
        """Brings the list of jobs up to date, where something changed or it is old."""
        if sights == self._sights and self._listed_ms is not None and 0 <= now_ms - self._listed_ms < LIST_MS:
            return
        listed = self._queue.on_node(self._nodes[0])
        if len(listed) > MAX_JOBS:
            raise SchedulerError("Slurm names %d jobs on one node" % len(listed))
        self._listed = {one.id: one for one in listed}
        self._sights, self._listed_ms = sights, now_ms

    def _holdings(
        self, gpus: Sequence[GPUInfo], node: NodeRecord, claims: Sequence[Claim], records: Mapping[int, Record], cluster: str
    ) -> Holdings:
        """The prolog's files say which GPU; Slurm's records everything else, and of GPUs without a file that too."""
        order = self._devices(gpus, node, is_needed=bool(records or claims))
        claimed = self._claimed(claims, gpus, order)
        held: Dict[str, Dict[int, Share]] = {}
        for record in records.values():
            if record.is_holding:
                for uuid, share in self._granted(record, node, order).items():
                    held.setdefault(uuid, {})[record.id] = share
        for uuid, ids in claimed.items():
            found = held.get(uuid, {})
            if all(share == 1.0 for share in found.values()):  # a file knows nothing of parts of a GPU
                held[uuid] = {number: found.get(number, 1.0 if len(ids) == 1 and not node.parts else None) for number in ids}
        jobs = self._jobs(records, held, claims, cluster)
        return Holdings(
            jobs=list(jobs.values()),
            allocations=[
                Allocation(uuid, jobs[number].key, self.kind, jobs[number].start_ms, None, share)
                for uuid, shares in held.items()
                for number, share in shares.items()
            ],
            aliases={name: job.key for number, job in jobs.items() for name in self._names(number, records)},
        )

    def _asked_records(self) -> Dict[int, Record]:
        """The records of the jobs here, asked again when a job's state or start changed; those of jobs that ended once more."""
        records: Dict[int, Record] = {}
        for listed in self._listed.values():
            before = self._records.get(listed.id)
            if before is not None and before[0] == listed:
                if before[1].is_holding:
                    records[listed.id] = before[1]
                continue
            if not listed.is_holding and before is None:
                continue  # ended before anybody here saw it
            record = self._queue.record(listed, self._nodes)
            if record is not None:
                self._records[listed.id] = (listed, record)
                records[listed.id] = record
        self._records = {number: known for number, known in self._records.items() if number in self._listed}
        return records

    def _check(self, node: NodeRecord, records: Mapping[int, Record], claims: Sequence[Claim]) -> None:
        """Raises SchedulerError when GPUs are in use and no job is named: that is not an empty node."""
        if node.used_gpus and not claims and not any(record.is_holding for record in records.values()):
            text = "Slurm says that %d GPUs are in use and names no job: with PrivateData=jobs the agent's user needs to be an operator"
            raise SchedulerError(text % node.used_gpus)

    def _granted(self, record: Record, node: NodeRecord, order: Sequence[Optional[str]]) -> Dict[str, Share]:
        """GPU -> what the job has of it here. Raises SchedulerError where Slurm says how many, but not which."""
        shares: Dict[int, Share] = {}
        for grant in grants(record.gres or ""):
            if grant.name != "gpu" and grant.name not in SHARED:
                continue
            if not grant.shares and grant.count:
                if grant.name != "gpu" or grant.count < len(order):
                    raise SchedulerError("Slurm does not say which %d %s job %d holds" % (grant.count, grant.name, record.id))
                shares.update(dict.fromkeys(range(len(order)), 1.0))
            for index, share in grant.shares.items():
                shares[index] = _share_of(share, grant.count, len(grant.shares), node.part(grant.name, len(order)))
        if not shares and record.is_exclusive and record.gres is not None:
            shares = dict.fromkeys(range(len(order)), 1.0)  # nobody else can have them
        return {uuid: share for index, share in shares.items() for uuid in [_at(order, index)] if uuid is not None}

    def _claimed(self, claims: Iterable[Claim], gpus: Sequence[GPUInfo], order: Sequence[Optional[str]]) -> Dict[str, List[int]]:
        """GPU -> the jobs that the prolog's files name on it, without those that Slurm says hold nothing here."""
        by_index = slurm_devices.by_index(gpus)
        known = {gpu.uuid for gpu in gpus}
        found: Dict[str, List[int]] = {}
        for claim in claims:
            uuid = _uuid_of(claim, by_index, order, gpus)
            if uuid in known and uuid is not None and not self._is_stale(claim) and claim.job_id not in found.get(uuid, ()):
                found.setdefault(uuid, []).append(claim.job_id)
        return found

    def _is_stale(self, claim: Claim) -> bool:
        """A file that an epilog left behind: Slurm's list was made well after it, and the job holds nothing in it."""
        if self._listed_ms is None or claim.written_ms > self._listed_ms - STALE_MS:
            return False
        listed = self._listed.get(claim.job_id)
        return listed is None or not listed.is_holding

    def _jobs(
        self, records: Mapping[int, Record], held: Mapping[str, Mapping[int, Share]], claims: Iterable[Claim], cluster: str
    ) -> Dict[int, Job]:
        """The holders, and the jobs that ended since they were last asked for, by id."""
        users = {claim.job_id: user_name(claim.uid) for claim in claims}
        holders = {number for shares in held.values() for number in shares}
        ended = {number for number, record in records.items() if not record.is_holding}
        jobs: Dict[int, Job] = {}
        for number in sorted(holders | ended):
            record = records.get(number) or Record(number, user=users.get(number, ""), states=("RUNNING",))
            jobs[number] = Job(
                key="slurm/%s/%d" % (cluster, number),
                scheduler=self.kind,
                cluster=cluster,
                id=str(number),
                name=record.name,
                user=record.user,
                account=record.account,
                kind="batch" if record.is_batch else "interactive",
                state=record.state,
                submit_ms=record.submit_ms,
                start_ms=record.start_ms,
                end_ms=record.end_ms,
                restarts=record.restarts,
                labels=record.labels,
            )
        return jobs

    def _names(self, number: int, records: Mapping[int, Record]) -> List[str]:
        """What control groups call the job: its id, and from Slurm 26.05 on its SLUID."""
        record = records.get(number)
        return [str(number)] + ([record.sluid] if record is not None and record.sluid else [])

    def _devices(self, gpus: Sequence[GPUInfo], node: NodeRecord, *, is_needed: bool) -> List[Optional[str]]:
        """UUIDs by Slurm's index. Raises SchedulerError when the driver shows other GPUs than Slurm grants.

        A GPU that fell off the bus would move all indices behind it; the order from before it fell still holds.
        """
        order = slurm_devices.order(gpus, self._minors())
        self._granted_gpus = node.gpus if node.gpus is not None else self._granted_gpus
        if self._granted_gpus in (None, len(order)):
            self._order = order
        elif len(self._order) != self._granted_gpus and is_needed:
            text = "Slurm grants %s GPUs here, the driver shows %d: which is which can't be told"
            raise SchedulerError(text % (self._granted_gpus, len(order)))
        return self._order

    def _minors(self) -> Optional[List[int]]:
        conf = _read_first(self._conf_folders, "gres.conf")
        return None if conf is None else slurm_devices.minors(conf, self._nodes)

    def _cluster_name(self) -> str:
        """ClusterName, asked for once; on a host without Slurm's commands what the operator said. Raises SchedulerError.

        A name that is only a guess would make a second job of every job as soon as the right one is known.
        """
        try:
            self._cluster = self._cluster or self._queue.cluster(_read_first(self._conf_folders, "slurm.conf")) or ""
        except SchedulerError:
            if self._queue.is_installed and not self._wanted_cluster:
                raise
        return self._cluster or self._wanted_cluster or "default"

    def _job_cgroups(self) -> FrozenSet[str]:
        """The names of the jobs' control groups, of either version: a changed set is a job that came or went."""
        found: Set[str] = set()
        for folder in CGROUPS:
            path = os.path.join(self._cgroup_root, folder)
            for scope in _folders(path):
                if scope.endswith("slurmstepd.scope"):
                    found.update(name for name in _folders(os.path.join(path, scope)) if name != "system")
                elif scope == "slurm" or scope.startswith("slurm_"):
                    for user in _folders(os.path.join(path, scope)):
                        found.update(_folders(os.path.join(path, scope, user)))
        return frozenset(found)


def _share_of(share: Share, count: int, devices: int, part: Optional[float]) -> Share:
    """The granted share; of parts that one device holds it follows from their number, where all GPUs have as many."""
    if share is not None or part is None or devices != 1:
        return share
    return min(1.0, count * part)


def _at(order: Sequence[Optional[str]], index: int) -> Optional[str]:
    return order[index] if 0 <= index < len(order) else None


def _uuid_of(claim: Claim, by_index: Mapping[int, str], order: Sequence[Optional[str]], gpus: Sequence[GPUInfo]) -> Optional[str]:
    if claim.uuid:
        return claim.uuid
    if claim.slurm_index is not None:
        return _at(order, claim.slurm_index)
    parent = by_index.get(-1 if claim.driver_index is None else claim.driver_index)
    if claim.instance is None:
        return parent
    return next((gpu.uuid for gpu in gpus if gpu.parent_uuid == parent and gpu.gpu_instance == claim.instance), None)


def _read_first(folders: Iterable[str], name: str) -> Optional[str]:
    for folder in folders:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                return file.read(slurm_devices.MAX_BYTES)
        except OSError:
            continue
    return None


def _folders(path: str) -> List[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
