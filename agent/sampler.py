"""The thread that speaks to the driver: one reading per GPU and second, who holds the GPUs once per window.

A call into a sick driver may never return, so nothing else waits for this thread: the loop takes what is there, and
sees by `stuck_s` how long the present call has lasted.
"""

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Callable, Dict, List, Optional, Sequence, TypeVar

from agent.reading import (
    NO_WORKLOAD,
    Event,
    GPUInfo,
    Processes,
    Reading,
    Source,
    SourceError,
    SourceStatus,
    UnreachableError,
    Workload,
    Workloads,
)
from agent.window import COUNTS_INTERVALS

log = logging.getLogger("agent.sampler")

FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 60.0
Answer = TypeVar("Answer")
KEPT_MS = 60_000  # readings that no window has asked for by then never will be


@dataclass(frozen=True)
class Observed:
    """What is known of one window; `workload` is NO_WORKLOAD and `processes` empty where nobody could be asked.

    Readings are meant to be interval_ms apart.
    """

    gpus: Sequence[GPUInfo]
    readings: Dict[str, List[Reading]]
    processes: Processes = field(default_factory=dict)
    workload: Workload = NO_WORKLOAD
    interval_ms: int = 1000


class Recorder:
    """Hears everything that was read; does nothing with it."""

    def gpus(self, gpus: Sequence[GPUInfo]) -> None:
        """The GPUs there are, again whenever they change."""

    def reading(self, uuid: str, reading: Reading) -> None:
        """One reading."""

    def processes(self, end_ms: int, processes: Processes) -> None:
        """The processes at the end of a window."""


class Sampler:
    """Reads one source; opens it again when it was lost."""

    def __init__(
        self,
        open_source: Callable[[], Source],
        workloads: Callable[[Source], Workloads],
        *,
        window_ms: int,
        interval_ms: int,
        recorder: Recorder,
    ) -> None:
        self._open_source, self._choose_workloads = open_source, workloads
        self._window_ms, self._interval_ms, self._recorder = window_ms, interval_ms, recorder
        self._mutex = threading.Lock()
        self._source: Optional[Source] = None
        self._workloads: Optional[Workloads] = None
        self._gpus: List[GPUInfo] = []
        self._readings: Dict[str, List[Reading]] = {}
        self._held: Dict[int, Observed] = {}  # by the window's end
        self._events: List[Event] = []
        self._statuses: Sequence[SourceStatus] = ()
        self._asked: Dict[str, str] = {}  # GPU -> the trouble last logged
        self._window_end_ms: Optional[int] = None
        self._retry_at = self._retry_s = 0.0
        self._was_missing = False
        self._call_began: Optional[float] = None
        self._call_about: Optional[str] = None
        self.name, self.driver = "none", ""

    @property
    def stuck_s(self) -> float:
        """Seconds that the present call into the source has lasted; 0 between calls."""
        began = self._call_began
        return 0.0 if began is None else time.monotonic() - began

    @property
    def stuck_gpu(self) -> Optional[str]:
        """The GPU that the present call is about."""
        return self._call_about

    def tick(self, now_ms: int) -> None:
        """One pass: a reading of each GPU; at a window's end the processes, the jobs and the list of GPUs too."""
        self._call_began = time.monotonic()
        try:
            if self._source is None and not self._open(now_ms):
                return
            self._read_all(now_ms)
            end_ms = now_ms - now_ms % self._window_ms
            if self._window_end_ms is not None and end_ms != self._window_end_ms:
                self.finish_window(end_ms)
            self._window_end_ms = end_ms
        finally:
            self._call_began = self._call_about = None

    def take(self, start_ms: int, end_ms: int) -> Observed:
        """What was read for the window [start_ms, end_ms), with the readings next to it; older ones are forgotten."""
        with self._mutex:
            held = self._held.pop(end_ms, None)
            kept = {uuid: _around(readings, start_ms, end_ms) for uuid, readings in self._readings.items()}
            self._forget_before(start_ms)
            statuses = [replace(status, ok=False) for status in self._statuses]
            workload = held.workload if held is not None else Workload(sources=statuses)
            return Observed(list(self._gpus), kept, held.processes if held is not None else {}, workload, self._interval_ms)

    def has_finished(self, end_ms: int) -> bool:
        """True when the window's processes and jobs were asked for, or nobody can be asked."""
        with self._mutex:
            return end_ms in self._held or self._source is None

    def take_events(self) -> List[Event]:
        """What happened since the last call."""
        with self._mutex:
            events, self._events = self._events, []
            return events

    def close(self) -> None:
        """Releases the driver, unless a call hangs in it."""
        if self._source is not None and self.stuck_s == 0:
            self._source.close()

    def _open(self, now_ms: int) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._source = self._open_source()
            self._workloads = self._choose_workloads(self._source)
            self._refresh_gpus()
        except SourceError as error:
            self._lose(now_ms, error)
            return False
        self.name, self.driver = self._source.name, self._source.driver() or ""
        self._interval_ms = getattr(self._source, "interval_ms", self._interval_ms)
        log.info("source opened name=%s driver=%s gpus=%d", self.name, self.driver or "unknown", len(self._gpus))
        if self._was_missing:
            self._add_event(Event(now_ms, "driver_ok"))
        self._was_missing, self._retry_s = False, 0.0
        return True

    def _lose(self, now_ms: int, error: SourceError) -> None:
        """The whole source is gone: said once, tried again after 5, 10, … 60 s."""
        if not self._was_missing:
            log.warning("no GPU can be read: %s; trying again", error)
            if not isinstance(error, UnreachableError):
                self._add_event(Event(now_ms, "driver_missing", text=str(error)))
        if self._source is not None:
            self._source.close()
        self._was_missing, self._source = True, None
        self._retry_s = min(LONGEST_RETRY_S, self._retry_s * 2 or FIRST_RETRY_S)
        self._retry_at = time.monotonic() + self._retry_s

    def _read_all(self, now_ms: int) -> None:
        for gpu in self._gpus:
            reading = self._ask(gpu.uuid, lambda source, uuid: source.read(uuid, now_ms))
            if reading is not None:
                with self._mutex:
                    self._readings.setdefault(gpu.uuid, []).append(reading)
                self._recorder.reading(gpu.uuid, reading)
        if self._source is not None:
            for event in self._source.events(now_ms):
                self._add_event(event)

    def finish_window(self, end_ms: int) -> None:
        """The window that has just ended: who held its GPUs."""
        processes = {gpu.uuid: self._ask(gpu.uuid, lambda source, uuid: source.processes(uuid)) for gpu in self._gpus}
        self._recorder.processes(end_ms, processes)
        workload = NO_WORKLOAD
        if self._workloads is not None:
            workload = self._workloads.resolve(processes, gpus=self._gpus, start_ms=end_ms - self._window_ms, end_ms=end_ms)
        with self._mutex:
            self._held[end_ms] = Observed([], {}, processes, workload)
            self._statuses = workload.sources
        try:
            self._refresh_gpus()
        except SourceError as error:
            self._lose(end_ms, error)

    def _refresh_gpus(self) -> None:
        gpus = self._source.gpus() if self._source is not None else []
        if gpus != self._gpus:
            self._recorder.gpus(gpus)
        with self._mutex:
            self._gpus = gpus

    def _ask(self, uuid: str, question: Callable[[Source, str], Optional[Answer]]) -> Optional[Answer]:
        """The answer about one GPU; None when it can't be read, which stops no other GPU."""
        if self._source is None:
            return None
        self._call_about, self._call_began = uuid, time.monotonic()
        try:
            answer = question(self._source, uuid)
        except SourceError as error:
            if self._asked.get(uuid) != str(error):
                log.warning("GPU can't be read uuid=%s: %s", uuid, error)
            self._asked[uuid] = str(error)
            return None
        self._asked.pop(uuid, None)
        return answer

    def _add_event(self, event: Event) -> None:
        with self._mutex:
            self._events.append(event)

    def _forget_before(self, start_ms: int) -> None:
        margin = int(COUNTS_INTERVALS * self._interval_ms)
        for uuid, readings in self._readings.items():
            self._readings[uuid] = [reading for reading in readings if reading.at_ms >= start_ms - margin]
        for end_ms in [end_ms for end_ms in self._held if end_ms < start_ms - KEPT_MS]:
            del self._held[end_ms]


def _around(readings: Sequence[Reading], start_ms: int, end_ms: int) -> List[Reading]:
    """The readings of the window with the last before it and the first at or after its end, in order of time."""
    ordered = sorted(readings, key=lambda reading: reading.at_ms)
    inside = [place for place, reading in enumerate(ordered) if start_ms <= reading.at_ms < end_ms]
    before = [place for place, reading in enumerate(ordered) if reading.at_ms < start_ms][-1:]
    after = [place for place, reading in enumerate(ordered) if reading.at_ms >= end_ms][:1]
    return [ordered[place] for place in (*before, *inside, *after)]
