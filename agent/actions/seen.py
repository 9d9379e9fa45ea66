"""What this agent itself saw of its host, which orders are held against."""

from agent.actions.faults import Faults
from agent.actions.rest import Rests
from agent.batch import ClosedWindow
from agent.readings import Events


class Seen:
    """Which GPUs rest, and which can't work; not for several threads."""

    def __init__(self, window_ms: int) -> None:
        self.rests = Rests(window_ms)
        self.faults = Faults(window_ms)

    def note(self, closed: ClosedWindow, events: Events) -> None:
        """One more window, in their order, and what was told meanwhile."""
        self.rests.note(closed)
        self.faults.note(closed, events)
