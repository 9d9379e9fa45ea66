"""XIDs as the driver tells them: a thread of its own waits, because the wait blocks.

What happened before the GPU was registered is not told (the kernel's log has it), nor anything
while no agent runs.
"""

import ctypes
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Deque, Dict, List, Optional, Tuple

from agent.readings import Event
from agent.sources.nvml.library import LOST, NO_INSTANCE, TIMEOUT

# nvmlEventType*
DOUBLE_BIT = 0x2
XID_CRITICAL = 0x8
XID_DOUBLE_BIT = 48
WAIT_MS = 2000  # until the thread looks whether it should end: how long a release may take
# the same XID of the same GPU within it is one event; a double-bit error comes as both types
SAME_S = 5.0
MAX_WAITING = 256  # events that nobody has taken yet; a broken GPU may repeat itself for ever


class XIDWatch:
    """Registers GPUs, and hears of their XIDs from then on."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._set: Any = None
        self._thread: Optional[threading.Thread] = None
        self._ending = threading.Event()
        self._uuids: Dict[Any, str] = {}  # address of the handle -> GPU
        self._heard: Deque[Tuple[float, str, int, int]] = deque(maxlen=MAX_WAITING)
        self._last_s: Dict[Tuple[str, int], float] = {}

    def add(self, uuid: str, handle: Any) -> None:
        """Listens to this GPU too, if its driver can tell (not in a container without the rights,
        not on Windows).
        """
        nvml = self._nvml
        try:
            wanted = nvml.nvmlDeviceGetSupportedEventTypes(handle) & (XID_CRITICAL | DOUBLE_BIT)
            if not wanted:
                return
            if self._set is None:
                self._set = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        except nvml.NVMLError:
            return  # the kernel's log remains
        self._uuids[_address(handle)] = uuid
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="xid", daemon=True)
            self._thread.start()

    def take(self, now_ms: int) -> List[Event]:
        """What was heard since the last call, each at the time it came."""
        events = []
        while self._heard:
            heard_s, uuid, code, instance = self._heard.popleft()
            text = "" if instance == NO_INSTANCE else "MIG GPU instance %d" % instance
            ago_ms = round((time.monotonic() - heard_s) * 1000)
            events.append(Event(now_ms - ago_ms, "xid", uuid, code, text))
        return events

    def close(self) -> bool:
        """Ends the thread and frees the set; False where the wait does not return, so that NVML
        must stay open.
        """
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout=WAIT_MS / 1000 + 0.5)
            if self._thread.is_alive():
                return False
        lent = self._set
        self._set = None
        self._thread = None
        if lent is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(lent)
        return True

    def _listen(self) -> None:
        nvml = self._nvml
        while not self._ending.is_set():
            try:
                self._hear(nvml.nvmlEventSetWait_v2(self._set, WAIT_MS))
            except nvml.NVMLError as error:
                if error.value == TIMEOUT:
                    continue
                if error.value not in LOST:
                    return  # a driver that went away comes back with a new watch
                self._ending.wait(WAIT_MS / 1000)  # one GPU fell off the bus; the others go on

    def _hear(self, event: Any) -> None:
        uuid = self._uuids.get(_address(event.device))
        code = XID_DOUBLE_BIT if event.eventType & DOUBLE_BIT else int(event.eventData)
        now_s = time.monotonic()
        if uuid is None or now_s - self._last_s.get((uuid, code), -SAME_S) < SAME_S:
            return
        if len(self._last_s) >= MAX_WAITING:
            self._last_s.clear()
        self._last_s[(uuid, code)] = now_s
        self._heard.append((now_s, uuid, code, int(event.gpuInstanceId)))


def _address(handle: Any) -> int:
    """Where the handle points: two handles of one GPU are different objects of ctypes."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
