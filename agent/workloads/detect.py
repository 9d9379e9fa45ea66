"""Which books of this host are read: what `--jobs` names, or what is found here.

A scheduler's module has two functions, and is imported only when it may be needed:
`is_here() -> bool`, cheap (does its socket, its command or its configuration exist?), and
`open_scheduler(place: Place) -> agent.reading.Scheduler`, which reads nothing yet.
"""

import importlib
from dataclasses import dataclass
from typing import List, Sequence, Tuple

from agent.reading import Scheduler

AUTO, PROCESS = "auto", "process"
# In the order in which they are believed: the first books that name a process's job win.
MODULES: Tuple[Tuple[str, str], ...] = (
    ("slurm", "agent.workloads.slurm"),
    ("kubernetes", "agent.workloads.kubernetes"),
    ("docker", "agent.workloads.docker"),
)


@dataclass(frozen=True)
class Place:
    """Where books are read; `cluster` is the operator's word, "" where he gave none."""

    node: str
    cluster: str = ""
    proc_root: str = "/proc"
    docker_all: bool = False  # a container that was given all GPUs holds them all


def open_schedulers(kinds: Sequence[str], place: Place) -> List[Scheduler]:
    """The schedulers named in `kinds`, here or not; with "auto" those that are here."""
    found: List[Scheduler] = []
    for kind, name in MODULES:
        if AUTO not in kinds and kind not in kinds:
            continue
        module = importlib.import_module(name)
        if AUTO not in kinds or module.is_here():
            found.append(module.open_scheduler(place))
    return found
