"""What keeps each GPU from working, by what its driver told this agent: the last word on whether
the node is drained. What was not heard is no fault, nor is one after which the GPU did something.
"""

from typing import Dict, NamedTuple, Optional

from agent.actions.rest import FRESH_MS, works
from agent.batch import ClosedWindow
from agent.readings import Event, Events

# after them only a reset or a reboot helps, as the ledger has it
RESET_XIDS = frozenset(
    (48, 62, 64, 74, 79, 95, 109, 119, 120, 136, 140, 143, *range(144, 151), 156, 158)
)
OF_DRIVER = ("driver_missing", "driver_mismatch")


class Fault(NamedTuple):
    """Why a GPU, or every GPU of the node, can't work since then."""

    since_ms: int
    what: str


class Faults:
    """What events and closed windows say; not for several threads."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._by_gpu: Dict[str, Fault] = {}
        self._of_driver: Optional[Fault] = None
        self._worked_ms: Dict[str, int] = {}  # start of each GPU's last window with activity
        self._until_ms = 0

    def note(self, closed: ClosedWindow, events: Events) -> None:
        """One more window, in their order, and what was told meanwhile."""
        for event in events:
            self._hear(event)
        for window in closed.windows:
            if works(window):
                self._worked_ms[window.uuid] = window.start_ms
        self._until_ms = closed.start_ms + self._window_ms

    def fault(self, uuid: str, now_ms: int) -> str:
        """Why the GPU can't work now; "" where it may, or nobody knows."""
        if now_ms - self._until_ms > FRESH_MS:
            return ""
        worked_ms = self._worked_ms.get(uuid, 0)
        for fault in (self._by_gpu.get(uuid), self._of_driver):
            if fault is not None and fault.since_ms > worked_ms:
                return fault.what
        return ""

    def _hear(self, event: Event) -> None:
        if event.kind in OF_DRIVER:
            self._of_driver = Fault(event.at_ms, event.kind)
        elif event.kind == "driver_ok":
            self._of_driver = None
        elif event.uuid is not None:
            self._hear_of_gpu(event.uuid, event)

    def _hear_of_gpu(self, uuid: str, event: Event) -> None:
        if event.kind == "gpu_lost":
            self._by_gpu[uuid] = Fault(event.at_ms, event.kind)
        elif event.kind == "xid" and event.code is not None and event.code in RESET_XIDS:
            self._by_gpu[uuid] = Fault(event.at_ms, "xid %d" % event.code)
        elif event.kind == "recovery_action" and event.code:
            self._by_gpu[uuid] = Fault(event.at_ms, event.kind)
        elif event.kind == "gpu_ok" or (event.kind, event.code) == ("recovery_action", 0):
            self._by_gpu.pop(uuid, None)
