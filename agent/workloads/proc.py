"""What /proc says of a process: who it is, and by its control group to which job or container it belongs.

Never the command line or the environment: they hold secrets.
"""

import os
import pwd
import re
from dataclasses import dataclass
from typing import List, Optional, Pattern, Tuple

DEAD_STATES = ("Z", "X")  # a zombie holds no context that anybody uses
STUCK_STATE = "D"


@dataclass(frozen=True)
class Owner:
    """To whom a control group belongs: `kind` is docker, podman, kubernetes, slurm; `id` the job's or container's."""

    kind: str
    id: str


# In this order: Slurm before containers (pyxis and enroot run inside Slurm), pods before the containers they are made
# of. Never a bare hex string: it may be anything. Examples: domain notes on cgroup v1, v2, systemd and cgroupfs drivers.
PATTERNS: Tuple[Tuple[str, Pattern[str]], ...] = (
    ("slurm", re.compile(r"slurmstepd\.scope/job_(\d+)")),
    ("slurm", re.compile(r"slurmstepd\.scope/(s[0-9A-HJKMNP-TV-Z]{13})(?=/|$)")),  # Slurm >= 26.05: the SLUID
    ("slurm", re.compile(r"/slurm(?:_[^/]+)?/(?:.*/)?job_(\d+)")),
    ("kubernetes", re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[/.]|$)")),
    ("docker", re.compile(r"docker[-/]([0-9a-f]{64})")),
    ("podman", re.compile(r"libpod-(?:payload-)?([0-9a-f]{64})")),
)
# cgroup v1 names a path per controller; these are the ones that every job and container gets.
V1_CONTROLLERS = ("devices", "memory", "cpu", "pids")


@dataclass(frozen=True)
class ProcessFacts:
    """A process of this host; (boot, pid, start_ticks) is its identity: pids are used again."""

    pid: int
    start_ticks: int
    started_ms: Optional[int]
    name: str
    state: str
    user: str
    owner: Optional[Owner]


def owner_of(cgroup: str) -> Optional[Owner]:
    """The owner named in the text of /proc/<pid>/cgroup; None for a process of the host itself.

    Where containers are nested the innermost one counts.
    """
    paths = _paths(cgroup)
    for kind, pattern in PATTERNS:
        for path in paths:
            found = pattern.findall(path)
            if found:
                return Owner(kind, found[-1].replace("_", "-"))
    return None


def _paths(cgroup: str) -> List[str]:
    """The paths to look at: that of v2, then those of the controllers that count, then the others."""
    lines = [line.strip().split(":", 2) for line in cgroup.splitlines()]
    entries = [(set(line[1].split(",")), line[2]) for line in lines if len(line) == 3]
    first = [path for controllers, path in entries if controllers == {""}]
    counted = [path for controllers, path in entries if controllers & set(V1_CONTROLLERS)]
    return first + counted + [path for _, path in entries if path not in first and path not in counted]


class Proc:
    """The process table under `root`, which is /proc but in tests and in containers that mount the host's elsewhere."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = root
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")

    def boot_id(self) -> str:
        """This boot's id; "" where the kernel does not tell."""
        return (self._read("sys", "kernel", "random", "boot_id") or "").strip()

    def facts(self, pid: int) -> Optional[ProcessFacts]:
        """The process; None when it is gone, hidden (hidepid), or of another pid namespace."""
        stat = self._read(str(pid), "stat")
        parsed = _parse_stat(stat) if stat else None
        if parsed is None:
            return None
        name, state, start_ticks = parsed
        return ProcessFacts(
            pid=pid,
            start_ticks=start_ticks,
            started_ms=self._started_ms(start_ticks),
            name=name,
            state=state,
            user=_user(self._read(str(pid), "status") or ""),
            owner=owner_of(self._read(str(pid), "cgroup") or ""),
        )

    def _started_ms(self, start_ticks: int) -> Optional[int]:
        found = re.search(r"^btime (\d+)$", self._read("stat") or "", re.MULTILINE)
        return None if found is None else int(found.group(1)) * 1000 + start_ticks * 1000 // self._ticks_per_s

    def _read(self, *parts: str) -> Optional[str]:
        try:
            with open(os.path.join(self._root, *parts), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None


def _parse_stat(text: str) -> Optional[Tuple[str, str, int]]:
    """(name, state, start in ticks since boot); the name stands in brackets and may hold brackets and spaces itself."""
    before, bracket, after = text.rpartition(")")
    fields = after.split()
    if not bracket or len(fields) < 20 or not fields[19].isdigit():
        return None
    return before.partition("(")[2], fields[0], int(fields[19])


def _user(status: str) -> str:
    """The name of the process's real user; his number where this host does not know it (a container's)."""
    found = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    if found is None:
        return ""
    try:
        return pwd.getpwuid(int(found.group(1))).pw_name
    except KeyError:
        return found.group(1)
