"""What /proc says of a process: who it is, whose, and by its control group to which job or
container it belongs.

Never more of its environment than the listed variables, never its command line: they hold secrets.
"""

import os
import pwd
import re
from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, Mapping, Optional, Tuple

from agent import procfs
from agent.clock import Timer, elapsed_s
from agent.host import boot_start_ms
from agent.workloads import environment, programs
from agent.workloads.cgroup import MAX_BYTES, Owner, owner_of

DEAD_STATES = ("Z", "X")  # a zombie holds no context that anybody uses
STUCK_STATE = "D"
# Control group, user and title are read again after a minute: schedulers adopt processes that are
# already running (pam_slurm_adopt, systemd-run), and servers give themselves a title when they are
# up.
IDENTITY_S = 60.0
NAMES_S = 3600.0
MAX_LAUNCHERS = 4  # one above the other: mpirun, a wrapper, torchrun, a process that spawns
LAUNCHERS = frozenset(
    (
        "torchrun",
        "pt_elastic",
        "accelerate",
        "deepspeed",
        "horovodrun",
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "orterun",
        "prterun",
        "hydra_pmi_proxy",
    )
)
# Between this file and a thread's own: comm (2), state, ppid, ... utime (14), stime (15), ...
# starttime (22): proc(5)
_PPID = 1
_UTIME = 11
_STIME = 12
_START = 19

Identity = Tuple[int, int]  # pid, start in ticks: within one boot


@dataclass(frozen=True)
class Stat:
    """One line of /proc/<pid>/stat; times are in ticks, the start since boot, the CPU's of this
    process alone.
    """

    name: str
    state: str
    parent: int
    cpu_ticks: int
    start_ticks: int


@dataclass(frozen=True)
class ProcessFacts:
    """A process of this host; (boot, pid, start_ticks) is its identity: pids are used again.

    `kind` is None where its program is not one that is known; `environment` holds only listed
    variables. `launcher` is the program that started it and its like, one per GPU (torchrun,
    mpirun, a Python that spawns): itself where none did.
    """

    pid: int
    start_ticks: int
    started_ms: Optional[int]
    name: str
    state: str
    user: str
    owner: Optional[Owner] = None
    kind: Optional[str] = None
    environment: Mapping[str, str] = field(default_factory=dict)
    launcher: Identity = (0, 0)
    launched_ms: Optional[int] = None

    @property
    def identity(self) -> Identity:
        """What no other process of this boot has."""
        return (self.pid, self.start_ticks)


class Proc:
    """The process table under `root`, which is /proc but in tests and in containers that mount the
    host's elsewhere.
    """

    def __init__(self, root: str = "/proc", *, clock_s: Timer = elapsed_s) -> None:
        self._root = root
        self._clock_s = clock_s
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        # -> (read at, what does not change by the second)
        self._facts: Dict[Identity, Tuple[float, ProcessFacts]] = {}
        self._users: Dict[int, Tuple[float, str]] = {}

    def read(self, pids: Iterable[int]) -> Dict[int, ProcessFacts]:
        """The processes by pid, without those that are gone, hidden (hidepid), or of another pid
        namespace. Of others nothing is kept.
        """
        stats = {pid: read_stat(self._root, pid) for pid in pids}
        processes = {
            pid: replace(self._identified(pid, stat), name=stat.name, state=stat.state)
            for pid, stat in stats.items()
            if stat is not None
        }
        self._facts = {facts.identity: self._facts[facts.identity] for facts in processes.values()}
        return processes

    def _identified(self, pid: int, stat: Stat) -> ProcessFacts:
        identity = (pid, stat.start_ticks)
        now_s = self._clock_s()
        read_s, facts = self._facts.get(identity, (0.0, None))
        if facts is None:
            facts = self._first_facts(pid, stat)
        elif now_s - read_s < IDENTITY_S:
            return facts
        owner = owner_of(procfs.text(self._root, pid, "cgroup", limit=MAX_BYTES))
        command = procfs.text(self._root, pid, "cmdline", limit=programs.MAX_BYTES)
        is_notebook = environment.NOTEBOOK in facts.environment
        facts = replace(
            facts,
            user=self._user(pid, owner),
            owner=owner,
            kind=programs.kind_of(command.split("\0")) or ("interactive" if is_notebook else None),
        )
        self._facts[identity] = (now_s, facts)
        return facts

    def _first_facts(self, pid: int, stat: Stat) -> ProcessFacts:
        """What never changes, as the environment of the start (proc(5)), and who launched it, which
        can be seen only while he lives.
        """
        launcher = self._launcher(pid, stat)
        return ProcessFacts(
            pid,
            stat.start_ticks,
            self._started_ms(stat.start_ticks),
            stat.name,
            stat.state,
            user="",
            environment=environment.parse(
                procfs.text(self._root, pid, "environ", limit=environment.MAX_BYTES)
            ),
            launcher=launcher,
            launched_ms=self._started_ms(launcher[1]),
        )

    def _launcher(self, pid: int, stat: Stat) -> Identity:
        """The topmost of the programs above the process that are known to start one process per
        GPU.
        """
        identity = (pid, stat.start_ticks)
        for _ in range(MAX_LAUNCHERS):
            parent = read_stat(self._root, stat.parent) if stat.parent > 1 else None
            if parent is None or not _is_launching(parent.name, stat.name):
                break
            identity = (stat.parent, parent.start_ticks)
            stat = parent
        return identity

    def _started_ms(self, start_ticks: int) -> Optional[int]:
        boot_ms = boot_start_ms(self._root)
        return None if boot_ms is None else boot_ms + start_ticks * 1000 // self._ticks_per_s

    def _user(self, pid: int, owner: Optional[Owner]) -> str:
        """The process's real user; behind sudo, the one whose session it is.

        "" where nobody says.
        """
        status = procfs.text(self._root, pid, "status")
        match = re.search(r"^Uid:\s+(\d{1,10})", status, re.MULTILINE)
        if match is None:
            return ""
        uid = int(match.group(1))
        if uid == 0 and owner is not None and owner.user_id is not None:
            uid = owner.user_id
        return self._user_name(uid)

    def _user_name(self, uid: int) -> str:
        """The user's name, looked up once an hour (it may be a question to a directory server);
        else his number.
        """
        now_s = self._clock_s()
        read_s, name = self._users.get(uid, (0.0, ""))
        if not name or now_s - read_s >= NAMES_S:
            name = self._look_up(uid)
            self._users[uid] = (now_s, name)
        return name

    def _look_up(self, uid: int) -> str:
        """By this system's own means; where the process table is another system's, by that one's
        file of users.
        """
        if uid == 0:
            return "root"
        if os.path.abspath(self._root) == "/proc":
            return user_name(uid)
        users = procfs.text(self._root, "1/root/etc/passwd", limit=1024 * 1024)
        entries = (line.split(":") for line in users.splitlines())
        names = (entry[0] for entry in entries if len(entry) > 2 and entry[2] == str(uid))
        return next(names, str(uid))


def user_name(uid: int) -> str:
    """By this system's own means; the number where it does not know the user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def _is_launching(parent: str, child: str) -> bool:
    """True for a launcher, and for a Python that started another; a shell, a notebook server or a
    scheduler is none.
    """
    return parent in LAUNCHERS or (
        parent.startswith("python") and (child.startswith(("python", "pt_")) or child in LAUNCHERS)
    )


def read_stat(*folder: object) -> Optional[Stat]:
    """The stat of a process or a thread, whose folder is given in parts; None when it is gone.

    The name stands in brackets and may hold any character.
    """
    before, bracket, after = procfs.text(*folder, "stat", limit=4096).rpartition(")")
    fields = after.split()
    if (
        not bracket
        or len(fields) <= _START
        or not all(fields[place].isdigit() for place in (_PPID, _UTIME, _STIME, _START))
    ):
        return None
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    return Stat(before.partition("(")[2], fields[0], int(fields[_PPID]), ticks, int(fields[_START]))
