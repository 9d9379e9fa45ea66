"""What a GPU's holder does with the CPUs, disks and memory of its host meanwhile: the columns that
tell a starved GPU from a badly used one.

By the job's control group, which includes all its workers: one read per job and window. A job
without a group of its own is the tree of its processes, whose memory is not read: they share pages.
Of memory the window says what the job used at its end, the last and only reading: the largest of a
run's windows is what its request is compared with.
"""

import os
from dataclasses import dataclass, field
from typing import (
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from agent import procfs
from agent.clock import Timer, elapsed_s
from agent.readings import Values
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
Key = TypeVar("Key")
Item = TypeVar("Item")


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
    chosen_s: float = -THREADS_S


@dataclass
class _Tree:
    """The processes of a job: pid -> CPU ticks when last read.

    `workers` is None where the kernel names no children.
    """

    seen_s: float
    workers: Optional[int]
    ticks: Dict[int, int]


@dataclass
class _Load:
    """What is kept of a job: its group, also while no process of it is on a GPU, its counters when
    last read, and its processes.
    """

    path: str = ""
    before: Optional[Usage] = None
    tree: Optional[_Tree] = None


class FactsReader:
    """Each call tells of the time since the one before; a job seen for the first time has no rates
    yet.
    """

    def __init__(self, proc_root: str = "/proc", *, clock_s: Timer = elapsed_s) -> None:
        self._root = proc_root
        self._clock_s = clock_s
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._cgroups = Cgroups(procfs.sys_root(proc_root))
        self._loads: Dict[str, _Load] = {}  # by job
        self._threads: Dict[int, _Threads] = {}  # by pid

    def read(
        self,
        members: Sequence[Member],
        *,
        holders: Mapping[str, str],
        with_others: Collection[str] = (),
    ) -> Dict[str, Values]:
        """GPU -> the job_* columns of its holder (`holders`: GPU -> job key), as far as they could
        be read.

        On the GPUs `with_others` a process is not known to be the holder's: it may be all of its
        work, in a container that it started, whose memory is not in its group.
        """
        now_s = self._clock_s()
        jobs = set(holders.values())
        self._remember(jobs, members)
        on_gpu = grouped(((member.uuid, member.job_key), member.pid) for member in members)
        hidden = {holders[uuid] for uuid in with_others if uuid in holders}
        of_jobs = self._of_jobs(members, hidden, now_s)
        columns = {
            uuid: {**of_jobs[key], **self._busiest(on_gpu.get((uuid, key), ()), now_s)}
            for uuid, key in holders.items()
        }
        return {uuid: values for uuid, values in columns.items() if values}

    def _of_jobs(
        self, members: Sequence[Member], hidden: Set[str], now_s: float
    ) -> Dict[str, Values]:
        """By job; the work of `hidden` ones may be elsewhere than in their group."""
        pids = grouped((member.job_key, member.pid) for member in members)
        of_jobs = {}
        for key, load in self._loads.items():
            of_jobs[key] = self._of_job(key, load, pids.get(key, set()), now_s)
            if load.path or key not in hidden:
                of_jobs[key].update(self._memory(key, load, now_s))
        return of_jobs

    def _of_job(self, key: str, load: _Load, pids: Set[int], now_s: float) -> Values:
        tree = self._tree(load, pids, now_s) if pids else None
        usage = self._cgroups.usage(load.path, key, now_s=now_s)
        if usage is None and tree is not None:
            usage = self._tree_usage(load.before, tree, now_s)
        columns = _rates(load.before, usage)
        load.before = usage or load.before
        if tree is not None and tree.workers is not None:
            columns["job_workers"] = tree.workers
        return columns

    def _memory(self, key: str, load: _Load, now_s: float) -> Values:
        memory_bytes = self._cgroups.memory_bytes(load.path, key, now_s=now_s)
        return {} if memory_bytes is None else {"job_memory_bytes": memory_bytes}

    def _tree(self, load: _Load, pids: Set[int], now_s: float) -> _Tree:
        """The job's processes and their descendants, looked for once a minute, and when another
        process came to a GPU.
        """
        tree = load.tree
        if tree is None or now_s - tree.seen_s >= TREE_S or not pids <= tree.ticks.keys():
            before = {} if tree is None else tree.ticks
            workers, descendants = self._descendants(pids)
            ticks = {pid: before.get(pid, -1) for pid in descendants}
            tree = load.tree = _Tree(now_s, workers, ticks)
        return tree

    def _descendants(self, pids: Set[int]) -> Tuple[Optional[int], Iterable[int]]:
        """How many of the processes' children load data, None where the kernel names no children;
        and all of them, these too.
        """
        workers: Optional[int] = 0
        seen = dict.fromkeys(pids)
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
            seen.update(dict.fromkeys(fresh))
            waiting.extend(fresh)
        return workers, seen

    def _children(self, pid: int) -> Optional[List[int]]:
        """The processes that this one's main thread started; None where the kernel does not tell
        (CONFIG_PROC_CHILDREN).
        """
        text = procfs.read(self._root, pid, "task", pid, "children")
        return None if text is None else [int(word) for word in text.split() if word.isdigit()]

    def _count_workers(self, pid: int, children: Sequence[int]) -> int:
        """How many of the children load data: those that say so, else those that run the same
        program.
        """
        parent = read_stat(self._root, pid)
        stats = {child: read_stat(self._root, child) for child in children}
        names = {child: stat.name for child, stat in stats.items() if stat is not None}
        named = sum(name.startswith(DATA_WORKER) for name in names.values())
        if named or parent is None:
            return named
        return sum(
            name == parent.name and not self._is_helper(child) for child, name in names.items()
        )

    def _is_helper(self, pid: int) -> bool:
        command = procfs.text(self._root, pid, "cmdline", limit=4096)
        return any(helper in command for helper in HELPERS)

    def _tree_usage(self, earlier: Optional[Usage], tree: _Tree, now_s: float) -> Usage:
        """CPU seconds that go on counting while processes come and go: what each one gained, added
        up.
        """
        ticks = _ticks(tree.ticks, self._root)
        before = tree.ticks
        gained = sum(max(0, ticks[pid] - before[pid]) for pid in ticks if before[pid] >= 0)
        tree.ticks = ticks
        total_s = (earlier.cpu_s if earlier is not None else 0.0) + gained / self._ticks_per_s
        return Usage(now_s, total_s, self._cgroups.cores("", now_s=now_s))

    def _busiest(self, pids: Iterable[int], now_s: float) -> Values:
        """The share of one core that the busiest thread on this GPU used."""
        ratios = [self._busiest_of(pid, now_s) for pid in pids]
        read = [ratio for ratio in ratios if ratio is not None]
        return {"job_main_thread_ratio": min(1.0, max(read))} if read else {}

    def _busiest_of(self, pid: int, now_s: float) -> Optional[float]:
        before = self._threads.get(pid, _Threads(now_s))
        elapsed_s = now_s - before.read_s
        threads: Iterable[int] = before.ticks
        chosen_s = before.chosen_s
        if now_s - chosen_s >= THREADS_S:
            threads = self._choose_threads(pid)
            chosen_s = now_s
        ticks = _ticks(threads, self._root, pid, "task")
        self._threads[pid] = _Threads(now_s, ticks, chosen_s)
        gained = [ticks[tid] - before.ticks[tid] for tid in ticks.keys() & before.ticks.keys()]
        if not gained or elapsed_s < MIN_ELAPSED_S:
            return None
        return max(0, *gained) / self._ticks_per_s / elapsed_s

    def _choose_threads(self, pid: int) -> List[int]:
        """The main thread and those that have used most CPU so far: a process of PyTorch has
        hundreds that sleep.
        """
        names = procfs.names(os.path.join(self._root, str(pid), "task"))[:MAX_THREADS]
        ticks = _ticks([int(name) for name in names if name.isdigit()], self._root, pid, "task")
        busiest = sorted(ticks.keys() - {pid}, key=lambda tid: (ticks[tid], tid), reverse=True)
        return [pid, *busiest[: BUSY_THREADS - 1]]

    def _remember(self, jobs: Set[str], members: Sequence[Member]) -> None:
        """Where the jobs' groups lie; nothing of other jobs and processes."""
        pids = {member.pid for member in members}
        self._loads = {key: self._loads.get(key, _Load()) for key in jobs}
        for member in members:
            if member.path and member.job_key in jobs:
                self._loads[member.job_key].path = member.path
        self._threads = {pid: threads for pid, threads in self._threads.items() if pid in pids}
        self._cgroups.forget_others(jobs)


def grouped(pairs: Iterable[Tuple[Key, Item]]) -> Dict[Key, Set[Item]]:
    """What belongs to each key."""
    groups: Dict[Key, Set[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, set()).add(item)
    return groups


def _ticks(ids: Iterable[int], *folder: object) -> Dict[int, int]:
    """CPU ticks of the processes or threads in the folder that are still there."""
    stats = {number: read_stat(*folder, number) for number in ids}
    return {number: stat.cpu_ticks for number, stat in stats.items() if stat is not None}


def _rates(before: Optional[Usage], after: Optional[Usage]) -> Values:
    """Columns of the time between two readings; a counter that fell (another group of the same
    name) tells nothing.
    """
    if after is None:
        return {}
    columns: Values = {} if after.cores is None else {"job_cores": after.cores}
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
