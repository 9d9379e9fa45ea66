"""Readings from one long-running nvidia-smi: the way in where NVML itself can't be loaded.

Two child processes print for ever (GPUs each second, compute processes every ten); none is started per poll, because
each start costs seconds of driver time on a host with many GPUs.
"""

import logging
import re
import shutil
import subprocess
import threading
import time
from collections import deque
from typing import IO, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from agent.reading import Event, GPUInfo, ProcessReading, Reading, SourceError
from agent.sources import smi_text

log = logging.getLogger("agent.nvidia_smi")

GPU_FIELDS = (
    "uuid", "index", "name", "driver_version", "pci.bus_id", "persistence_mode", "utilization.gpu", "utilization.memory",
    "utilization.encoder", "utilization.decoder", "memory.total", "memory.reserved", "memory.used", "power.draw",
    "enforced.power.limit", "power.limit", "temperature.gpu", "temperature.memory", "clocks.current.sm", "clocks.max.sm",
)  # fmt: skip
PROCESS_FIELDS = ("timestamp", "gpu_uuid", "pid", "used_gpu_memory")
PROCESS_INTERVAL_S = 10
SILENCE_S = 30.0  # a driver that says nothing for this long is stuck
START_S = 20.0  # the first answer without persistence mode takes seconds per GPU
_REFUSED_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
_KEPT_ROWS = 2  # a poll that comes a moment late still finds both


class Stream:
    """A child that prints one CSV for ever, read by a thread so that a hang is noticed here and not suffered."""

    def __init__(self, command: Sequence[str], *, first: str, on_row: Callable[[smi_text.Table, Dict[str, str]], None]) -> None:
        self.heard_at = self.started_at = time.monotonic()
        self.said: List[str] = []  # what was no row: the reason, when it ends
        self.has_header = False
        self._first, self._on_row = first, on_row
        try:
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        except OSError as error:
            raise SourceError("%s can't be started: %s" % (command[0], error.strerror or error)) from error
        self._reader = threading.Thread(target=self._read, args=(self._child.stdout,), daemon=True)
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        """Until its last word was read."""
        return self._reader.is_alive()

    @property
    def silence_s(self) -> float:
        return time.monotonic() - self.heard_at

    def _read(self, output: IO[str]) -> None:
        with output:
            self._read_lines(output)

    def _read_lines(self, output: IO[str]) -> None:
        columns: Optional[smi_text.Table] = None
        for line in output:
            self.heard_at = time.monotonic()
            if columns is None and line.startswith(self._first + ","):
                columns = smi_text.table(line)
                self.has_header = True
                continue
            row = columns.row(line) if columns is not None else None
            if columns is not None and row is not None:
                self._on_row(columns, row)
            elif line.strip():
                self.said = [*self.said, line.strip()][-5:]

    def close(self) -> None:
        """Ends the child; one that is stuck in the driver is left to the kernel."""
        self._child.kill()
        try:
            self._child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            log.warning("nvidia-smi does not end, it hangs in the driver pid=%d", self._child.pid)


class NvidiaSMI:
    """Every GPU that nvidia-smi lists. Raises SourceError when there is no nvidia-smi or it says nothing useful."""

    name = "nvidia-smi"

    def __init__(self, *, command: Optional[str] = None, start_s: float = START_S, silence_s: float = SILENCE_S) -> None:
        found = command or shutil.which("nvidia-smi")
        if found is None:
            raise SourceError("nvidia-smi is not on PATH")
        self._command, self._start_s, self._silence_s = found, start_s, silence_s
        self._mutex = threading.Condition()
        self._gpus: Dict[str, GPUInfo] = {}
        self._rows: Dict[str, Deque[Reading]] = {}
        self._processes: Dict[str, List[Tuple[str, ProcessReading]]] = {}
        self._last_poll = ""
        self._driver: Optional[str] = None
        self._events: List[Event] = []
        self._fields = list(GPU_FIELDS)
        self._is_stuck = False
        self._gpu_stream: Stream
        self._process_stream: Stream
        self._start()

    def driver(self) -> Optional[str]:
        """The driver's version, as its rows say it."""
        return self._driver

    def gpus(self) -> List[GPUInfo]:
        """The GPUs seen so far; a child that ended or hangs is started again here, so at most once per window."""
        if self._is_stuck or not self._gpu_stream.is_alive:
            self.close()
            self._start()
        if not self._process_stream.is_alive:
            self._process_stream.close()
            self._process_stream = self._open_processes()
        with self._mutex:
            return sorted(self._gpus.values(), key=lambda gpu: (gpu.index is None, gpu.index))

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The oldest row not yet given; None when nothing new was printed."""
        if self._gpu_stream.silence_s > self._silence_s and not self._is_stuck:
            self._is_stuck = True
            self._events.append(Event(now_ms, "nvml_stuck", text="nvidia-smi has printed nothing for %d s" % self._silence_s))
            self._gpu_stream.close()
        if self._is_stuck or not self._gpu_stream.is_alive:
            raise SourceError("nvidia-smi ended: %s" % " ".join(self._gpu_stream.said or ["without a word"]))
        with self._mutex:
            rows = self._rows.get(uuid)
            return rows.popleft() if rows else None

    def processes(self, uuid: str) -> Optional[Sequence[ProcessReading]]:
        """The last poll's processes. No rows at all for longer than a poll takes means no processes; None before the first."""
        stream = self._process_stream
        settled = time.monotonic() - stream.started_at > 1.5 * PROCESS_INTERVAL_S
        if not stream.is_alive or not stream.has_header or not (settled or self._last_poll):
            return None
        if stream.silence_s > 1.5 * PROCESS_INTERVAL_S:
            return []
        with self._mutex:
            return [process for poll, process in self._processes.get(uuid, []) if poll == self._last_poll]

    def events(self, now_ms: int) -> List[Event]:
        """Hangs since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Ends both children."""
        self._gpu_stream.close()
        self._process_stream.close()

    def _start(self) -> None:
        """Starts the children; a field that this driver does not know is left out and the rest asked again."""
        self._is_stuck = False
        self._rows.clear()
        while True:
            self._gpu_stream = Stream(self._query("gpu", self._fields, 1), first=self._fields[0], on_row=self._take_gpu)
            self._wait_for_row()
            refused = _REFUSED_FIELD.search(" ".join(self._gpu_stream.said))
            if refused is None or refused.group(1) not in self._fields:
                break
            self._gpu_stream.close()
            self._fields.remove(refused.group(1))
        if not self._gpu_stream.is_alive or not self._gpus:
            self._gpu_stream.close()
            raise SourceError("nvidia-smi names no GPU: %s" % " ".join(self._gpu_stream.said or ["no answer"]))
        self._process_stream = self._open_processes()

    def _wait_for_row(self) -> None:
        deadline = time.monotonic() + self._start_s
        with self._mutex:
            while not any(self._rows.values()) and self._gpu_stream.is_alive and time.monotonic() < deadline:
                self._mutex.wait(0.1)

    def _open_processes(self) -> Stream:
        return Stream(self._query("compute-apps", PROCESS_FIELDS, PROCESS_INTERVAL_S), first=PROCESS_FIELDS[0], on_row=self._take_process)

    def _query(self, what: str, fields: Sequence[str], every_s: int) -> List[str]:
        return [self._command, "--query-%s=%s" % (what, ",".join(fields)), "--format=csv", "-l", str(every_s)]

    def _take_gpu(self, columns: smi_text.Table, row: Dict[str, str]) -> None:
        uuid = smi_text.csv_uuid(row)
        if uuid is None:
            return
        with self._mutex:
            self._driver = row.get("driver_version") or self._driver
            self._gpus[uuid] = smi_text.csv_gpu(columns, row, uuid=uuid, index=smi_text.csv_index(row))
            rows = self._rows.setdefault(uuid, deque(maxlen=_KEPT_ROWS))
            rows.append(smi_text.csv_reading(columns, row, at_ms=int(time.time() * 1000)))
            self._mutex.notify_all()

    def _take_process(self, columns: smi_text.Table, row: Dict[str, str]) -> None:
        if not row["pid"].isdigit():
            return
        memory = columns.count(row, smi_text.Field(("used_gpu_memory",), "MiB"))
        with self._mutex:
            if row["timestamp"] != self._last_poll:
                self._processes.clear()
                self._last_poll = row["timestamp"]
            listed = self._processes.setdefault(row["gpu_uuid"], [])
            listed.append((row["timestamp"], ProcessReading(int(row["pid"]), memory)))
