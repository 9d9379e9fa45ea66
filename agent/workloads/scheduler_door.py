"""What each kind of scheduler has in its detect.py: a small door, which loads the rest when it is
opened.
"""

from dataclasses import dataclass
from typing import Protocol

from agent.readings import Scheduler


@dataclass(frozen=True)
class Place:
    """Where books are read; `cluster` is the operator's word, "" where he gave none."""

    node: str
    cluster: str = ""
    proc_root: str = "/proc"
    docker_all: bool = False  # a container that was given all GPUs holds them all


class Door(Protocol):
    """The module detect.py of a kind of scheduler."""

    def is_here(self, place: Place) -> bool:
        """Cheap: do its socket, its command or its configuration exist?"""

    def open_scheduler(self, place: Place) -> Scheduler:
        """Its books, of which nothing is read yet."""
