"""Which books of this host are read: what `--jobs` names, or what is found here.

A scheduler's door is a small module with two functions: `is_here(place: Place) -> bool`, cheap
(does its socket, its command or its configuration exist?), and `open_scheduler(place: Place) ->
agent.readings.Scheduler`, which reads nothing yet and imports the rest.
"""

import importlib
from dataclasses import dataclass
from typing import Callable, Dict, List, Sequence, Tuple

from agent.clock import elapsed_s
from agent.readings import Scheduler

AUTO = "auto"
# In the order in which they are believed: the first books that name a process's job win.
DOORS: Tuple[Tuple[str, str], ...] = (
    ("slurm", "agent.workloads.slurm_door"),
    ("kubernetes", "agent.workloads.kubernetes"),
    ("docker", "agent.workloads.docker"),
)
CONTAINERS = "docker"  # beside a scheduler these books allocate nothing: not worth asking
# A host's daemons start in any order, so what is not here yet is looked for again: often at first,
# then now and then.
SOON_S, LATER_S, SETTLED_S = 60.0, 600.0, 900.0


@dataclass(frozen=True)
class Place:
    """Where books are read; `cluster` is the operator's word, "" where he gave none."""

    node: str
    cluster: str = ""
    proc_root: str = "/proc"
    docker_all: bool = False  # a container that was given all GPUs holds them all


class Finder:
    """The schedulers named in `kinds`, here or not; with "auto" those that are here, or
    come to be.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        place: Place,
        *,
        doors: Sequence[Tuple[str, str]] = DOORS,
        clock_s: Callable[[], float] = elapsed_s,
    ) -> None:
        self._kinds, self._place, self._doors, self._clock_s = kinds, place, doors, clock_s
        self._found: Dict[str, Scheduler] = {}
        self._began_s = clock_s()
        self._looked_s = float("-inf")

    def schedulers(self) -> List[Scheduler]:
        """All that were found until now, in the order in which they are believed; one that was here
        stays.
        """
        now_s = self._clock_s()
        pause_s = SOON_S if now_s - self._began_s < SETTLED_S else LATER_S
        if now_s - self._looked_s >= pause_s:
            self._looked_s = now_s
            self._look()
        return [self._found[kind] for kind, _ in self._doors if kind in self._found]

    def _look(self) -> None:
        for kind, name in self._doors:
            is_wanted = kind in self._kinds or (
                AUTO in self._kinds and (kind != CONTAINERS or not self._found)
            )
            if kind in self._found or not is_wanted:
                continue
            door = importlib.import_module(name)
            if AUTO not in self._kinds or door.is_here(self._place):
                self._found[kind] = door.open_scheduler(self._place)
