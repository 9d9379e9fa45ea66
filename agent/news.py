"""Which events are news: each is told once, whoever and however many saw it."""

from collections import deque
from typing import Deque, Dict

from agent.readings import Event

# the same XID of the same GPU, seen by NVML and by the kernel's log, or told for each of its
# channels
SAME_MS = 5000
# Events that say how things stand from now on -> of what: the same is not said again before it
# changes. The first word after a start is told either way: it may have changed while no agent was
# there to see it.
STANDING = {
    "driver_missing": "driver",
    "driver_mismatch": "driver",
    "driver_ok": "driver",
    "drained": "node",
    "resumed": "node",
}


class News:
    """What was told so far. Not for several threads."""

    def __init__(self) -> None:
        self._xids: Deque[Event] = deque(maxlen=256)
        self._standing: Dict[str, str] = {}

    def is_new(self, event: Event) -> bool:
        """False for an XID of the same GPU and code within SAME_MS of one that was new, and for
        what stands already.
        """
        subject = STANDING.get(event.kind)
        if subject is not None:
            before = self._standing.get(subject)
            self._standing[subject] = event.kind
            return event.kind != before
        if event.kind != "xid":
            return True
        for earlier in self._xids:
            is_alike = (earlier.uuid, earlier.code) == (event.uuid, event.code)
            if is_alike and abs(event.at_ms - earlier.at_ms) <= SAME_MS:
                return False
        self._xids.append(event)
        return True
