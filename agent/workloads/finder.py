"""Which books of this host are read: what `--jobs` names, or what is found here."""

from typing import Dict, List, Sequence, Tuple

from agent.clock import Timer, elapsed_s
from agent.readings import Scheduler
from agent.workloads.docker import detect as docker
from agent.workloads.kubernetes import detect as kubernetes
from agent.workloads.scheduler_door import Door, Place
from agent.workloads.slurm import detect as slurm

AUTO = "auto"
# In the order in which they are believed: the first books that name a process's job win.
DOORS: Tuple[Tuple[str, Door], ...] = (
    ("slurm", slurm),
    ("kubernetes", kubernetes),
    ("docker", docker),
)
CONTAINERS = "docker"  # beside a scheduler these books allocate nothing: not worth asking
# A host's daemons start in any order, so what is not here yet is looked for again: often at first,
# then now and then.
SOON_S = 60.0
LATER_S = 600.0
SETTLED_S = 900.0


class Finder:
    """The schedulers named in `kinds`, here or not; with "auto" those that are here, or
    come to be.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        place: Place,
        *,
        doors: Sequence[Tuple[str, Door]] = DOORS,
        clock_s: Timer = elapsed_s,
    ) -> None:
        self._kinds = kinds
        self._place = place
        self._doors = doors
        self._clock_s = clock_s
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
            for kind, door in self._doors:
                if kind not in self._found and self._is_here(kind, door):
                    self._found[kind] = door.open_scheduler(self._place)
        return [self._found[kind] for kind, _ in self._doors if kind in self._found]

    def _is_here(self, kind: str, door: Door) -> bool:
        """Whether its books can be read and shall be: those that are named, without a look."""
        if AUTO not in self._kinds:
            return kind in self._kinds
        is_wanted = kind in self._kinds or kind != CONTAINERS or not self._found
        return is_wanted and door.is_here(self._place)
