"""Readings from one long-running nvidia-smi: the way in where NVML itself can't be loaded.

Two child processes print for ever (GPUs each second, compute processes every ten); none is started
per poll, because each start costs seconds of driver time on a host with many GPUs.
"""

import math
import os
import re
import shutil
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Callable, Deque, Dict, List, Optional, Sequence

from agent import procfs
from agent.readings import Event, GPUInfo, ProcessList, ProcessReading, Reading, SourceError, Values
from agent.sources.measured import throttle_ratios
from agent.sources.nvidia_smi import smi_text
from agent.sources.nvidia_smi.smi_stream import Stream
from agent.sources.nvidia_smi.smi_text import Row

# The first is what a header begins with. Drivers refuse what they do not know, before they touch a
# GPU: then it is left out.
GPU_FIELDS = (
    "uuid", "index", "name", "driver_version", "pci.bus_id", "persistence_mode", "utilization.gpu",
    "utilization.memory", "utilization.encoder", "utilization.decoder", "memory.total",
    "memory.reserved", "memory.used", "power.draw", "enforced.power.limit", "power.limit",
    "temperature.gpu", "temperature.memory", "clocks.current.sm", "clocks.max.sm",
    "ecc.errors.uncorrected.volatile.total", "clocks_event_reasons.active",
    "clocks_event_reasons_counters.sw_power_cap",
    "clocks_event_reasons_counters.hw_power_brake_slowdown",
    "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown", "gpu_recovery_action",
)  # fmt: skip
OLDER_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
PROCESS_FIELDS = ("timestamp", "gpu_uuid", "pid", "used_gpu_memory")
PROCESS_MEMORY = smi_text.Field(("used_gpu_memory",), "MiB")
PROCESS_INTERVAL_S = 10
SETTLED_S = 3.0  # after the header the rows of the first poll come at once
SILENCE_S = 30.0  # a driver that says nothing for this long is stuck
START_S = 20.0  # the first answer without persistence mode takes seconds per GPU
_REFUSED_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
_NO_HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*([0-9a-f:.]+): ", re.IGNORECASE
)
DRIVER_ROOT = "/proc/driver/nvidia"  # names the GPUs without asking them
_KEPT_ROWS = 2  # a poll that comes a moment late still finds both
# NVML: nvmlDeviceGpuRecoveryAction_t, as nvidia-smi words it.
RECOVERY_ACTIONS = {"Reset": 1, "Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4}


@dataclass
class Card:
    """A GPU as its rows tell it."""

    info: GPUInfo
    heard_at: float = 0.0
    rows: Deque[Reading] = field(default_factory=lambda: deque(maxlen=_KEPT_ROWS))
    lost: Optional[str] = None  # why it can't be read
    recovery: str = "None"
    # by the counters, in seconds, and when that was
    throttled_s: Values = field(default_factory=dict)
    throttled_at: float = 0.0

    def throttled_since(self, counters: Values) -> Values:
        """Shares of the time since the last call that clocks were held down; none after a reset."""
        elapsed_s = self.heard_at - self.throttled_at
        shares = throttle_ratios(self.throttled_s, counters, elapsed_s, most=math.inf)
        self.throttled_s = counters
        self.throttled_at = self.heard_at
        return shares


class NvidiaSMI:
    """Every GPU that nvidia-smi lists.

    Raises SourceError when there is no nvidia-smi or it says nothing useful.
    """

    name = "nvidia-smi"

    def __init__(
        self,
        *,
        command: Optional[str] = None,
        start_s: float = START_S,
        silence_s: float = SILENCE_S,
        driver_root: str = DRIVER_ROOT,
    ) -> None:
        program = command or shutil.which("nvidia-smi")
        if program is None:
            raise SourceError("nvidia-smi is not on PATH")
        self._command = program
        self._start_s = start_s
        self._silence_s = silence_s
        self._driver_root = driver_root
        self._mutex = threading.Condition()
        self._cards: Dict[str, Card] = {}
        self._processes: Dict[str, List[ProcessReading]] = {}  # of the last poll
        self._last_poll = ""
        self._driver: Optional[str] = None
        self._events: List[Event] = []
        self._fields = list(GPU_FIELDS)
        # bus ids of GPUs that keep nvidia-smi from telling of the others
        self._left_out: List[str] = []
        self._is_stuck = False
        self._gpu_stream: Stream
        self._process_stream: Stream
        self._start()

    def driver(self) -> Optional[str]:
        """The driver's version, as its rows say it."""
        return self._driver

    def gpus(self) -> List[GPUInfo]:
        """The GPUs seen so far; a child that ended or hangs is started again here, so at most once
        per window.
        """
        if self._is_stuck or not self._gpu_stream.is_alive:
            self.close()
            self._start()
        if (
            not self._process_stream.is_alive
            or self._process_stream.stillness_s > 2.5 * PROCESS_INTERVAL_S
        ):
            self._process_stream.close()
            self._process_stream = self._ask_for_processes()
        with self._mutex:
            return sorted(
                (card.info for card in self._cards.values()),
                key=lambda gpu: (gpu.index is None, gpu.index),
            )

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The oldest row not yet given; None when nothing new was printed.

        Raises SourceError for a GPU that is lost.
        """
        self._refuse_silence(now_ms)
        with self._mutex:
            card = self._cards.get(uuid)
            if card is None:
                raise SourceError("GPU %s is lost: not listed" % uuid)
            if card.lost is None and self._gpu_stream.heard_at - card.heard_at > self._silence_s:
                self._note_lost(card, "nvidia-smi no longer lists it", now_ms)
            if card.lost is not None:
                raise SourceError("GPU %s is lost: %s" % (uuid, card.lost))
            return card.rows.popleft() if card.rows else None

    def _refuse_silence(self, now_ms: int) -> None:
        """Raises SourceError where the child hangs, which is told once, or has ended."""
        stream = self._gpu_stream
        if stream.silence_s > self._silence_s and not self._is_stuck:
            self._is_stuck = True
            text = "nvidia-smi has printed nothing for %d s" % self._silence_s
            self._tell(Event(now_ms, "nvml_stuck", text=text))
            stream.close()
        if self._is_stuck or not stream.is_alive:
            why = "hangs" if self._is_stuck else "ended"
            last_words = " ".join(stream.said or ["without a word"])
            raise SourceError("nvidia-smi %s: %s" % (why, last_words))

    def processes(self, uuid: str) -> ProcessList:
        """The last poll's processes; None before the first poll is surely over, and while the child
        does nothing.

        nvidia-smi prints no row where there is no process: a child that lives and says nothing
        means none.
        """
        stream = self._process_stream
        if (
            not stream.is_alive
            or not stream.has_header
            or not (self._last_poll or stream.silence_s > SETTLED_S)
        ):
            return None
        if stream.silence_s > 1.5 * PROCESS_INTERVAL_S:
            is_awake = (
                stream.stillness_s <= 1.5 * PROCESS_INTERVAL_S
                and self._gpu_stream.silence_s < 1.5 * PROCESS_INTERVAL_S
            )
            return [] if is_awake else None
        with self._mutex:
            return list(self._processes.get(uuid, ()))

    def events(self, now_ms: int) -> List[Event]:
        """Hangs, lost and recovered GPUs since the last call."""
        with self._mutex:
            events = self._events
            self._events = []
            return events

    def close(self) -> None:
        """Ends both children."""
        self._gpu_stream.close()
        self._process_stream.close()

    def _start(self) -> None:
        """Starts the children.

        What keeps nvidia-smi from starting is left out: unknown fields, a GPU without a handle.
        """
        self._is_stuck = False
        for card in self._cards.values():
            card.rows.clear()
        self._open_gpus()
        while not self._has_rows() and (self._drop_refused_field() or self._leave_out_lost()):
            self._gpu_stream.close()
            self._open_gpus()
        if not self._has_rows():
            self._gpu_stream.close()
            raise SourceError(
                "nvidia-smi names no GPU: %s" % " ".join(self._gpu_stream.said or ["no answer"])
            )
        self._process_stream = self._ask_for_processes()

    def _open_gpus(self) -> None:
        """The child, after its first row or its end."""
        self._gpu_stream = self._ask("gpu", self._fields, 1, self._take_gpu)
        deadline = time.monotonic() + self._start_s
        with self._mutex:
            while (
                not self._has_rows() and self._gpu_stream.is_alive and time.monotonic() < deadline
            ):
                self._mutex.wait(0.1)

    def _has_rows(self) -> bool:
        return any(
            card.rows or card.lost
            for card in self._cards.values()
            if card.heard_at >= self._gpu_stream.started_at
        )

    def _drop_refused_field(self) -> bool:
        match = _REFUSED_FIELD.search(" ".join(self._gpu_stream.said))
        refused = "" if match is None else match.group(1)
        if refused not in self._fields:
            return False
        names = [OLDER_NAMES.get(name) if name == refused else name for name in self._fields]
        self._fields = list(filter(None, names))
        return True

    def _leave_out_lost(self) -> bool:
        """Where one GPU has no handle nvidia-smi tells of none: ask for the others alone."""
        lost = _NO_HANDLE.search(" ".join(self._gpu_stream.said))
        bus = "" if lost is None else lost.group(1).lower()
        if lost is None or bus in self._left_out:
            return False
        self._left_out.append(bus)
        now_ms = int(time.time() * 1000)
        self._tell(Event(now_ms, "gpu_lost", self._uuid_at(bus), text=lost.string))
        return bool(self._asked_for())

    def _asked_for(self) -> List[str]:
        """The bus ids to ask for while some are left out."""
        left_out = tuple(self._left_out)
        present = sorted(procfs.names(os.path.join(self._driver_root, "gpus")))
        return [bus for bus in present if not bus.lower().endswith(left_out)]

    def _uuid_at(self, bus: str) -> Optional[str]:
        cards = (card.info for card in self._cards.values())
        uuids = (gpu.uuid for gpu in cards if (gpu.bus_id or "").lower().endswith(bus))
        return next(uuids, None)

    def _ask_for_processes(self) -> Stream:
        return self._ask("compute-apps", PROCESS_FIELDS, PROCESS_INTERVAL_S, self._take_process)

    def _ask(
        self, what: str, fields: Sequence[str], every_s: int, on_row: Callable[[Row], None]
    ) -> Stream:
        query = "--query-%s=%s" % (what, ",".join(fields))
        command = [self._command, query, "--format=csv", "-l", str(every_s)]
        if self._left_out:
            command += ["-i", ",".join(self._asked_for())]
        return Stream(command, first=fields[0], on_row=on_row)

    def _take_gpu(self, row: Row) -> None:
        uuid = smi_text.csv_uuid(row)
        if uuid is None:
            return
        now_ms = int(time.time() * 1000)
        with self._mutex:
            self._driver = row.cells.get("driver_version") or self._driver
            card = self._cards.setdefault(uuid, Card(GPUInfo(uuid, smi_text.csv_index(row))))
            card.heard_at = time.monotonic()
            self._note_recovery(card, row.cells.get("gpu_recovery_action", ""), now_ms)
            reason = smi_text.lost_reason(row)
            if reason is not None:
                self._note_lost(card, reason, now_ms)
            else:
                self._take_reading(card, row, now_ms)
            self._mutex.notify_all()

    def _take_reading(self, card: Card, row: Row, now_ms: int) -> None:
        if card.lost is not None:
            card.lost = None
            self._events.append(Event(now_ms, "gpu_ok", card.info.uuid, text="GPU answers again"))
        card.info = smi_text.csv_gpu(row, uuid=card.info.uuid, index=smi_text.csv_index(row))
        reading = smi_text.csv_reading(row, at_ms=now_ms)
        shares = card.throttled_since(smi_text.throttled_s(row))
        card.rows.append(replace(reading, means={**reading.means, **shares}))

    def _note_lost(self, card: Card, reason: str, now_ms: int) -> None:
        if card.lost is None:
            card.rows.clear()
            self._events.append(Event(now_ms, "gpu_lost", card.info.uuid, text=reason))
        card.lost = reason

    def _note_recovery(self, card: Card, action: str, now_ms: int) -> None:
        code = RECOVERY_ACTIONS.get(action)
        if action != card.recovery and code is not None:
            text = "the driver asks for: " + action
            self._events.append(Event(now_ms, "recovery_action", card.info.uuid, code, text))
        card.recovery = action

    def _tell(self, event: Event) -> None:
        with self._mutex:
            self._events.append(event)

    def _take_process(self, row: Row) -> None:
        cells = row.cells
        if not cells["pid"].isdigit():
            return
        memory = row.value(PROCESS_MEMORY)
        process = ProcessReading(int(cells["pid"]), None if memory is None else round(memory))
        with self._mutex:
            if cells["timestamp"] != self._last_poll:
                self._processes.clear()
                self._last_poll = cells["timestamp"]
            self._processes.setdefault(cells["gpu_uuid"], []).append(process)
