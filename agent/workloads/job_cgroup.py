"""A job's control group in /sys/fs/cgroup, v1 or v2: CPU used and given, bytes read, memory."""

import os
import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Set, Tuple

from agent import procfs

LIMITS_S = 60.0  # between two looks at what a job may use
MAX_DEPTH = 16
NANOSECONDS = 1e9
MICROSECONDS = 1e6
# Where a job's group lies while no process of it shows: it prepares data, or does nothing at all.
PLACES = {
    "slurm": ("/system.slice/slurmstepd.scope/job_%(uid)s",),
    "kubernetes": (
        "/kubepods.slice/kubepods-pod%(under)s.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%(under)s.slice",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod%(under)s.slice",
        "/kubepods/pod%(uid)s",
        "/kubepods/burstable/pod%(uid)s",
        "/kubepods/besteffort/pod%(uid)s",
    ),
}
# Per disk: `8:0 rbytes=1 wbytes=2 …`; in v1 also per direction, `8:0 Read 4096`.
_READ_V2 = re.compile(r"^(\d+:\d+) .*?\brbytes=(\d+)", re.MULTILINE)
_READ_V1 = re.compile(r"^(\d+:\d+) Read (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Usage:
    """Counters as they stand at `at_s`. `cores` is what the group may use at most; None: not read.

    `periods` counts the scheduler's periods under a CPU limit, `throttled` those in which the limit
    was hit.
    """

    at_s: float
    cpu_s: float
    cores: Optional[float] = None
    read_bytes: Optional[int] = None
    periods: int = 0
    throttled: int = 0


class Cgroups:
    """The hierarchy under `sys_root`/fs/cgroup."""

    def __init__(self, sys_root: str = "/sys") -> None:
        self._sys = sys_root
        self._root = os.path.join(sys_root, "fs/cgroup")
        self._is_v2 = os.path.exists(os.path.join(self._root, "cgroup.controllers"))
        self._cores: Dict[str, Tuple[float, Optional[float]]] = {}  # path -> (read at, cores)
        self._found: Dict[str, Tuple[float, str]] = {}  # job -> (looked at, path)
        self._stacked: Dict[str, bool] = {}  # "8:0" -> lies on another disk

    def usage(self, path: str, key: str, *, now_s: float) -> Optional[Usage]:
        """The job's counters; `path` is its group where one is known.

        None where there is no group to be read.
        """
        path = self._place(path, key, now_s)
        if not path:
            return None
        stat = procfs.numbers(self._read("cpu", path, "cpu.stat"))
        used_s = self._used_s(path, stat)
        if used_s is None:
            return None
        return Usage(
            now_s,
            used_s,
            self.cores(path, now_s=now_s),
            self._read_bytes(path),
            stat.get("nr_periods", 0),
            stat.get("nr_throttled", 0),
        )

    def memory_bytes(self, path: str, key: str, *, now_s: float) -> Optional[int]:
        """Host memory that the job uses at this moment, without file pages that the kernel can drop
        at once; None where it can't be read.

        https://docs.kernel.org/admin-guide/cgroup-v2.html#memory: current, stat's inactive_file.
        """
        path = self._place(path, key, now_s)
        if not path:
            return None
        used, dropped = (
            ("memory.current", "inactive_file")
            if self._is_v2
            # total_: with the groups inside it, as the usage is
            else ("memory.usage_in_bytes", "total_inactive_file")
        )
        total = procfs.whole(self._read("memory", path, used))
        cache = procfs.numbers(self._read("memory", path, "memory.stat")).get(dropped)
        # two files, read one after the other: the cache may have grown in between
        return None if total is None or cache is None else max(0, total - cache)

    def forget_others(self, jobs: Set[str]) -> None:
        """Keeps what is known of these jobs only."""
        self._found = {key: group for key, group in self._found.items() if key in jobs}
        if len(self._cores) > 4 * len(jobs) + 64:
            self._cores = {}

    def _used_s(self, path: str, stat: Mapping[str, int]) -> Optional[float]:
        """CPU seconds."""
        if self._is_v2:
            return stat["usage_usec"] / MICROSECONDS if "usage_usec" in stat else None
        used = procfs.whole(self._read("cpuacct", path, "cpuacct.usage"))
        return None if used is None else used / NANOSECONDS

    def cores(self, path: str, *, now_s: float) -> Optional[float]:
        """CPUs that the group may use: those it is bound to, and the tightest limit of it and of
        what it lies in. Without a path those of this host that are switched on.
        """
        read_s, cores = self._cores.get(path, (-LIMITS_S, None))
        if now_s - read_s < LIMITS_S:
            return cores
        quotas = [self._quota(level) for level in _levels(path)]
        bound = count_cpus(self._cpus(path)) or count_cpus(
            procfs.read(self._sys, "devices/system/cpu/online")
        )
        limits = [limit for limit in (*quotas, float(bound)) if limit]
        cores = min(limits, default=None)
        self._cores[path] = (now_s, cores)
        return cores

    def _quota(self, path: str) -> Optional[float]:
        """The limit of CPU time per time; None where there is none."""
        if self._is_v2:
            words = (self._read("cpu", path, "cpu.max") or "").split()
        else:
            words = [
                self._read("cpu", path, name) or ""
                for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            ]
        numbers = [procfs.whole(word) for word in words]
        quota, period = numbers if len(numbers) == 2 else (None, None)
        return quota / period if quota and period else None

    def _cpus(self, path: str) -> Optional[str]:
        """The list of CPUs, of the group itself or of the nearest above it that has one."""
        name = "cpuset.cpus.effective" if self._is_v2 else "cpuset.effective_cpus"
        lists = (self._read("cpuset", level, name) for level in _levels(path))
        return next((text for text in lists if text and text.strip()), None)

    def _read_bytes(self, path: str) -> Optional[int]:
        """An empty file: nothing read yet; no file: not known."""
        name = "io.stat" if self._is_v2 else "blkio.throttle.io_service_bytes_recursive"
        text = self._read("blkio", path, name)
        if text is None:
            return None
        lines = (_READ_V2 if self._is_v2 else _READ_V1).findall(text)
        return sum(int(count) for disk, count in lines if not self._is_stacked(disk))

    def _is_stacked(self, device: str) -> bool:
        """True for a disk that is made of others (LVM, RAID, loop): those count the same bytes
        again.
        """
        if device not in self._stacked:
            folder = os.path.join(self._sys, "dev/block", device)
            self._stacked[device] = bool(
                procfs.names(os.path.join(folder, "slaves"))
            ) or os.path.exists(os.path.join(folder, "loop"))
        return self._stacked[device]

    def _place(self, path: str, key: str, now_s: float) -> str:
        """Where the job's group lies; "" where nobody says: a path from above the root is as
        another cgroup namespace sees it.
        """
        path = path or self._look_for(key, now_s)
        return "" if ".." in path.split("/") else path

    def _look_for(self, key: str, now_s: float) -> str:
        """Where the job's group should lie, tried once a minute; "" where it does not."""
        looked_s, path = self._found.get(key, (-LIMITS_S, ""))
        if not path and now_s - looked_s >= LIMITS_S:
            places = _places(key) if self._is_v2 else ()
            path = next((place for place in places if os.path.isdir(self._root + place)), "")
            self._found[key] = (now_s, path)
        return path

    def _read(self, controller: str, path: str, name: str) -> Optional[str]:
        """A file of the group; v1 has a hierarchy for each controller."""
        root = self._root if self._is_v2 else os.path.join(self._root, controller)
        return procfs.read(root, path, name)


def count_cpus(text: Optional[str]) -> int:
    """How many CPUs a list such as 0-3,8 names; 0 where it is none."""
    total = 0
    for part in (text or "").strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return 0
        total += int(last) - int(first) + 1 if dash else 1
    return total


def _levels(path: str) -> List[str]:
    """The group and those it lies in, from the inside; not the root, which has no limit."""
    parts = [part for part in path.split("/") if part][:MAX_DEPTH]
    return ["/" + "/".join(parts[:length]) for length in range(len(parts), 0, -1)]


def _places(key: str) -> List[str]:
    scheduler, _, rest = key.partition("/")
    identity = rest.rpartition("/")[2]
    if not identity or not identity.replace("-", "").isalnum():
        return []
    names = {"uid": identity, "under": identity.replace("-", "_")}
    return [place % names for place in PLACES.get(scheduler, ())]
