"""What a GPU's holder does with the CPUs and disks meanwhile: the columns that tell a starved GPU
from a badly used one.

By the job's control group, which includes all its workers: one read per job and window. A job
without a group of its own is the tree of its processes.
"""

import os
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from agent import procfs
from agent.clock import elapsed_s
from agent.workloads.job_cgroup import Cgroups, Usage
from agent.workloads.proc import read_stat

MAX_TREE = 512  # processes of one job that are looked at
MAX_THREADS = 512  # of one process
BUSY_THREADS = 4  # followed per process, the main thread among them
TREE_S = 60.0
THREADS_S = 300.0  # between two looks at who is there
MIN_ELAPSED_S = 1.0  # a rate over less is mostly the clock's ticks
# Children that serve the process, but load nothing.
HELPERS = (
    "multiprocessing.resource_tracker",
    "_inductor/compile_worker",
    "compile_worker",
    "multiprocessing.forkserver",
)
# what PyTorch calls them since 2.6; before, they have their parent's name
DATA_WORKER = "pt_data_worker"


class Member(NamedTuple):
    """A process of a job on a GPU; `path` is the job's control group, "" where it has none of its
    own.
    """

    uuid: str
    job_key: str
    pid: int
    path: str


@dataclass
class _Threads:
    """The busiest threads of a process: thread -> CPU ticks when last read."""

    read_s: float
    ticks: Dict[int, int] = field(default_factory=dict)
    chosen_s: float = 0.0


@dataclass
class _Tree:
    """The processes of a job: pid -> CPU ticks when last read.

    `workers` is None where the kernel names no children.
    """

    seen_s: float
    workers: Optional[int] = None
    ticks: Dict[int, int] = field(default_factory=dict)


class FactsReader:
    """Each call tells of the time since the one before; a job seen for the first time has no rates
    yet.
    """

    def __init__(
        self, proc_root: str = "/proc", *, clock_s: Callable[[], float] = elapsed_s
    ) -> None:
        self._root = proc_root
        self._clock_s = clock_s
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._cgroups = Cgroups(procfs.sys_root(proc_root))
        self._before: Dict[str, Usage] = {}  # by job
        self._trees: Dict[str, _Tree] = {}  # by job
        self._threads: Dict[int, _Threads] = {}  # by pid
        # by job: its group, also while no process of it is on a GPU
        self._paths: Dict[str, str] = {}

    def read(
        self, members: Sequence[Member], *, holders: Mapping[str, str]
    ) -> Dict[str, Dict[str, float]]:
        """GPU -> the job_* columns of its holder (`holders`: GPU -> job key), as far as they could
        be read.
        """
        now_s = self._clock_s()
        jobs = set(holders.values())
        self._forget_others(jobs, {member.pid for member in members})
        self._paths.update((member.job_key, member.path) for member in members if member.path)
        by_job: Dict[str, List[Member]] = {key: [] for key in jobs}
        for member in members:
            if member.job_key in jobs:
                by_job[member.job_key].append(member)
        of_jobs = {key: self._of_job(key, of_job, now_s) for key, of_job in by_job.items()}
        busiest = {
            uuid: self._busiest(
                [process.pid for process in by_job[key] if process.uuid == uuid], now_s
            )
            for uuid, key in holders.items()
        }
        columns_by_gpu = {uuid: {**of_jobs[key], **busiest[uuid]} for uuid, key in holders.items()}
        return {uuid: columns for uuid, columns in columns_by_gpu.items() if columns}

    def _of_job(self, key: str, members: Sequence[Member], now_s: float) -> Dict[str, float]:
        pids = {member.pid for member in members}
        tree = self._tree(key, pids, now_s) if pids else None
        usage = self._cgroups.usage(self._paths.get(key, ""), key, now_s=now_s)
        if usage is None:
            usage = None if tree is None else self._tree_usage(key, tree, now_s)
        columns = _rates(self._before.get(key), usage)
        if usage is not None:
            self._before[key] = usage
        if tree is not None and tree.workers is not None:
            columns["job_workers"] = tree.workers
        return columns

    def _tree(self, key: str, pids: Set[int], now_s: float) -> _Tree:
        """The job's processes and their descendants, looked for once a minute, and when another
        process came to a GPU.
        """
        known = self._trees.get(key)
        if known is not None and now_s - known.seen_s < TREE_S and pids <= known.ticks.keys():
            return known
        workers: Optional[int] = 0
        seen = dict.fromkeys(pids, 0)
        waiting = list(pids)
        while waiting and len(seen) < MAX_TREE:
            pid = waiting.pop()
            children = self._children(pid)
            if children is None:
                workers = None
                continue
            fresh = [child for child in children if child not in seen][: MAX_TREE - len(seen)]
            if workers is not None and pid in pids:
                workers += self._count_workers(pid, fresh)
            seen.update(dict.fromkeys(fresh, 0))
            waiting.extend(fresh)
        before = {} if known is None else known.ticks
        self._trees[key] = _Tree(now_s, workers, {pid: before.get(pid, -1) for pid in seen})
        return self._trees[key]

    def _children(self, pid: int) -> Optional[List[int]]:
        """The processes that this one's main thread started; None where the kernel does not tell
        (CONFIG_PROC_CHILDREN).
        """
        text = procfs.read(os.path.join(self._root, str(pid), "task", str(pid), "children"))
        return None if text is None else [int(word) for word in text.split() if word.isdigit()]

    def _count_workers(self, pid: int, children: Sequence[int]) -> int:
        """How many of the children load data: those that say so, else those that run the same
        program.
        """
        parent = read_stat(os.path.join(self._root, str(pid)))
        names = {
            child: stat.name
            for child in children
            for stat in [read_stat(os.path.join(self._root, str(child)))]
            if stat is not None
        }
        named = sum(name.startswith(DATA_WORKER) for name in names.values())
        if named or parent is None:
            return named
        return sum(
            name == parent.name and not self._is_helper(child) for child, name in names.items()
        )

    def _is_helper(self, pid: int) -> bool:
        command = procfs.read(os.path.join(self._root, str(pid), "cmdline"), 4096) or ""
        return any(helper in command for helper in HELPERS)

    def _tree_usage(self, key: str, tree: _Tree, now_s: float) -> Usage:
        """CPU seconds that go on counting while processes come and go: what each one gained, added
        up.
        """
        gained = 0
        for pid, before in list(tree.ticks.items()):
            stat = read_stat(os.path.join(self._root, str(pid)))
            if stat is None:
                del tree.ticks[pid]
            else:
                gained += max(0, stat.cpu_ticks - before) if before >= 0 else 0
                tree.ticks[pid] = stat.cpu_ticks
        earlier = self._before.get(key)
        total_s = (earlier.cpu_s if earlier is not None else 0.0) + gained / self._ticks_per_s
        return Usage(now_s, total_s, self._cgroups.host_cores(now_s=now_s))

    def _busiest(self, pids: Sequence[int], now_s: float) -> Dict[str, float]:
        """The share of one core that the busiest thread on this GPU used."""
        ratios = [
            ratio for pid in pids for ratio in [self._busiest_of(pid, now_s)] if ratio is not None
        ]
        return {"job_main_thread_ratio": min(1.0, max(ratios))} if ratios else {}

    def _busiest_of(self, pid: int, now_s: float) -> Optional[float]:
        known = self._threads.get(pid)
        folder = os.path.join(self._root, str(pid), "task")
        is_due = known is None or now_s - known.chosen_s >= THREADS_S
        chosen = self._choose_threads(folder, pid) if known is None or is_due else list(known.ticks)
        ticks = {
            tid: stat.cpu_ticks
            for tid in chosen
            for stat in [read_stat(os.path.join(folder, str(tid)))]
            if stat is not None
        }
        self._threads[pid] = _Threads(
            now_s, ticks, now_s if known is None or is_due else known.chosen_s
        )
        if known is None or now_s - known.read_s < MIN_ELAPSED_S:
            return None
        gained = [ticks[tid] - known.ticks[tid] for tid in ticks if tid in known.ticks]
        return max(0, *gained) / self._ticks_per_s / (now_s - known.read_s) if gained else None

    def _choose_threads(self, folder: str, pid: int) -> List[int]:
        """The main thread and those that have used most CPU so far: a process of PyTorch has
        hundreds that sleep.
        """
        tids = [
            int(name)
            for name in procfs.names(folder)[:MAX_THREADS]
            if name.isdigit() and int(name) != pid
        ]
        used = [
            (stat.cpu_ticks, tid)
            for tid in tids
            for stat in [read_stat(os.path.join(folder, str(tid)))]
            if stat is not None
        ]
        return [pid, *(tid for _, tid in sorted(used, reverse=True)[: BUSY_THREADS - 1])]

    def _forget_others(self, jobs: Set[str], pids: Set[int]) -> None:
        self._before = {key: usage for key, usage in self._before.items() if key in jobs}
        self._trees = {key: tree for key, tree in self._trees.items() if key in jobs}
        self._paths = {key: path for key, path in self._paths.items() if key in jobs}
        self._threads = {pid: threads for pid, threads in self._threads.items() if pid in pids}
        self._cgroups.forget_others(jobs)


def _rates(before: Optional[Usage], after: Optional[Usage]) -> Dict[str, float]:
    """Columns of the time between two readings; a counter that fell (another group of the same
    name) tells nothing.
    """
    if after is None:
        return {}
    columns: Dict[str, float] = {} if after.cores is None else {"job_cores": after.cores}
    if before is None or after.at_s - before.at_s < MIN_ELAPSED_S:
        return columns
    elapsed = after.at_s - before.at_s
    if after.cores and after.cpu_s >= before.cpu_s:
        columns["job_cpu_ratio"] = max(
            (after.cpu_s - before.cpu_s) / (after.cores * elapsed), _throttled(before, after)
        )
    if (
        before.read_bytes is not None
        and after.read_bytes is not None
        and after.read_bytes >= before.read_bytes
    ):
        columns["job_io_read_bytes_s"] = (after.read_bytes - before.read_bytes) / elapsed
    return columns


def _throttled(before: Usage, after: Usage) -> float:
    """The share of the scheduler's periods in which the job had used up its CPUs before their end;
    0 without a limit.

    A job that works in bursts hits its limit while its mean is far below it.
    """
    periods = after.periods - before.periods
    return min(1.0, max(0, after.throttled - before.throttled) / periods) if periods > 0 else 0.0
