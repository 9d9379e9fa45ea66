"""The thread that speaks to the driver: one reading per GPU and second, who holds the GPUs once per
window.

A call into a sick driver may never return, so nothing else waits for this thread: the loop takes
what is there, and sees by `stuck_s` how long the present call has lasted.
"""

import logging
import math
import threading
import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Callable, Deque, Dict, FrozenSet, List, Optional, Sequence, Tuple, TypeVar

from agent.kmsg import Kmsg
from agent.news import News
from agent.readings import (
    NO_WORKLOAD,
    DriverChangedError,
    Event,
    GPUInfo,
    GPUs,
    PacedSource,
    Processes,
    Reading,
    Source,
    SourceError,
    SourceStatus,
    UnreachableError,
    Workload,
    Workloads,
    unanswered,
)
from agent.window import COUNTS_INTERVALS

log = logging.getLogger("agent.sampler")

FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
Answer = TypeVar("Answer")
# What no window has asked for is kept so long: a loop that waits for a slow disk catches up.
KEPT_MS = 300_000
MAX_READINGS = 320
MAX_HELD = 32
MAX_EVENTS = 1000
MAX_PASSES = 60


@dataclass(frozen=True)
class Observed:
    """What is known of one window; `workload` is NO_WORKLOAD and `processes` empty where nobody
    could be asked.

    Readings are meant to be interval_ms apart.
    """

    gpus: GPUs
    readings: Dict[str, List[Reading]]
    processes: Processes = field(default_factory=dict)
    workload: Workload = NO_WORKLOAD
    interval_ms: int = 1000


class Recorder:
    """Hears everything that was read; does nothing with it."""

    def gpus(self, gpus: GPUs) -> None:
        """The GPUs there are, again whenever they change."""

    def reading(self, uuid: str, reading: Reading) -> None:
        """One reading."""

    def processes(self, end_ms: int, processes: Processes) -> None:
        """The processes at the end of a window."""

    def close(self) -> None:
        """Nothing is told afterwards."""


class Sampler:
    """Reads one source; opens it again when it was lost."""

    name = "none"
    driver = ""
    is_driver_changed = False  # only a new process can read again
    _source: Optional[Source] = None
    _workloads: Optional[Workloads] = None
    _window_end_ms: Optional[int] = None
    _retry_at = 0.0
    _retry_s = 0.0  # more after a source was lost, until one is open
    _released_until: Optional[float] = None
    _call_began: Optional[float] = None
    stuck_gpu: Optional[str] = None  # the GPU that the present call is about
    _statuses: Sequence[SourceStatus] = ()
    _lost: FrozenSet[Optional[str]] = frozenset()  # GPUs told lost, by whatever source

    def __init__(
        self,
        open_source: Callable[[], Source],
        workloads: Callable[[Source], Workloads],
        *,
        window_ms: int,
        interval_ms: int,
        recorder: Recorder,
        kmsg: Optional[Kmsg] = None,
    ) -> None:
        self._open_source = open_source
        self._choose_workloads = workloads
        self._kmsg = kmsg
        self._news = News()
        self._window_ms = window_ms
        self._interval_ms = interval_ms
        self._recorder = recorder
        self._mutex = threading.Lock()
        self._gpus: List[GPUInfo] = []
        self._readings: Dict[str, Deque[Reading]] = {}
        self._held: Dict[int, Tuple[Processes, Workload]] = {}  # by the window's end
        self._events: Deque[Event] = deque(maxlen=MAX_EVENTS)
        self._passes_ms: Deque[float] = deque(maxlen=MAX_PASSES)
        # GPU -> what was asked -> the trouble last logged
        self._troubles: Dict[str, Dict[str, str]] = {}

    @property
    def stuck_s(self) -> float:
        """Seconds that the present call into the source has lasted; 0 between calls.

        A suspend does not count.
        """
        began = self._call_began
        return 0.0 if began is None else time.monotonic() - began

    def tick(self, now_ms: int) -> None:
        """One pass: a reading of each GPU; at a window's end the processes, the jobs and the list
        of GPUs too.
        """
        began = self._call_began = time.monotonic()
        self.hear(now_ms)
        try:
            source = None if self._is_released() else self._source or self._open(now_ms)
            if source is not None:
                self._read_all(source, now_ms, began)
                self._finish_until(now_ms - now_ms % self._window_ms)
        except SourceError as error:
            self._lose(now_ms, error)
        finally:
            with self._mutex:
                self._passes_ms.append((time.monotonic() - began) * 1000)
            self._call_began = self.stuck_gpu = None

    def hear(self, now_ms: int) -> None:
        """What the kernel's log says; also from another thread while a call hangs, when there is
        most to say.
        """
        if self._kmsg is not None:
            for event in self._kmsg.poll(now_ms, self._gpus):
                self._note(event)

    def release(self, seconds: float) -> None:
        """Lets go of the driver at the next pass, for that long: a GPU can be reset and the
        driver's module unloaded.
        """
        self._released_until = time.monotonic() + seconds

    def take(self, start_ms: int, end_ms: int) -> Observed:
        """What was read for the window [start_ms, end_ms), with the readings next to it; older ones
        are forgotten.
        """
        with self._mutex:
            held = self._held.pop(end_ms, None)
            processes, workload = held or ({}, self._unknown_workload())
            kept = {
                uuid: _around(readings, start_ms, end_ms)
                for uuid, readings in self._readings.items()
            }
            since_ms = start_ms - self._margin_ms
            self._keep(since_ms, since_ms - KEPT_MS, math.inf)
            return Observed(list(self._gpus), kept, processes, workload, self._interval_ms)

    def forget_around(self, now_ms: int) -> None:
        """After the clock was set: what bears another time than about now would count again when
        that time comes.
        """
        since_ms = now_ms - 2 * self._window_ms
        until_ms = now_ms + 2 * self._window_ms
        with self._mutex:
            self._keep(since_ms, since_ms, until_ms)

    def has_finished(self, end_ms: int) -> bool:
        """True when the window's processes and jobs were asked for, or no longer will be."""
        with self._mutex:
            is_past = self._window_end_ms is not None and self._window_end_ms >= end_ms
            return end_ms in self._held or is_past or self._source is None

    def take_events(self) -> List[Event]:
        """What happened since the last call."""
        with self._mutex:
            events = list(self._events)
            self._events.clear()
            return events

    def pass_ms_p95(self) -> Optional[float]:
        """What 19 of 20 of the last passes took at most, in milliseconds; None before the first."""
        with self._mutex:
            passes = sorted(self._passes_ms)
        return round(passes[(len(passes) * 19 + 19) // 20 - 1], 3) if passes else None

    def close(self) -> None:
        """Releases the driver, unless a call hangs in it."""
        if self._source is not None and self.stuck_s == 0:
            self._source.close()

    def finish_window(self, end_ms: int) -> None:
        """The window that has just ended: who held its GPUs."""
        source = self._source
        processes: Processes = {
            gpu.uuid: None if source is None else self._ask("processes", source.processes, gpu.uuid)
            for gpu in self._gpus
        }
        self._recorder.processes(end_ms, processes)
        workload = self._resolve(processes, end_ms)
        with self._mutex:
            self._held[end_ms] = (processes, workload)
            for oldest in sorted(self._held)[:-MAX_HELD]:
                del self._held[oldest]
            self._statuses = workload.sources
        if workload.drained is not None:  # else the books do not say
            kind = "drained" if workload.drained else "resumed"
            self._note(Event(end_ms, kind, text=workload.drained))
        try:
            self._refresh_gpus()
        except SourceError as error:
            self._lose(end_ms, error)

    def _resolve(self, processes: Processes, end_ms: int) -> Workload:
        """Who held the GPUs; of no source anything where a bug keeps that from us."""
        start_ms = end_ms - self._window_ms
        if self._workloads is None:
            return NO_WORKLOAD
        try:
            return within(
                self._workloads.resolve(
                    processes, gpus=self._gpus, start_ms=start_ms, end_ms=end_ms
                ),
                start_ms,
                end_ms,
            )
        except Exception as error:
            if self._is_new_trouble("", "jobs", error):
                log.exception("the jobs could not be made out")
            return self._unknown_workload()

    def _unknown_workload(self) -> Workload:
        return Workload(sources=unanswered(self._statuses))

    def _is_released(self) -> bool:
        until = self._released_until
        if until is None:
            return False
        if self._source is not None:
            self._source.close()
            self._source = None
            log.info("the driver is released minutes=%d", round((until - time.monotonic()) / 60))
        if time.monotonic() >= until:
            self._released_until = None
            self._retry_at = 0.0
        return self._released_until is not None

    def _open(self, now_ms: int) -> Optional[Source]:
        """The source; None before it is time to try again. Raises SourceError."""
        if time.monotonic() < self._retry_at:
            return None
        source = self._source = self._open_source()
        self._workloads = self._choose_workloads(source)
        self._refresh_gpus()
        self.name = source.name
        self.driver = source.driver() or ""
        if isinstance(source, PacedSource):
            self._interval_ms = source.interval_ms
        log.info(
            "source opened name=%s driver=%s gpus=%d",
            self.name,
            self.driver or "unknown",
            len(self._gpus),
        )
        # also at the first opening: this process may follow one that told of trouble and could not
        # tell of its end
        self._note(Event(now_ms, "driver_ok", text="driver answers"))
        self._retry_s = 0.0
        self.is_driver_changed = False
        return source

    def _lose(self, now_ms: int, error: SourceError) -> None:
        """The whole source is gone: said once, tried again after 5, 10, … 60 s."""
        if not self._retry_s:
            log.warning("no GPU can be read: %s; trying again", error)
        if isinstance(error, DriverChangedError):
            self.is_driver_changed = True
            self._note(Event(now_ms, "driver_mismatch", text=str(error)))
        elif not isinstance(error, UnreachableError):
            self._note(Event(now_ms, "driver_missing", text=str(error)))
        if self._source is not None:
            self._source.close()
        self._source = None
        self._retry_s = min(LONGEST_RETRY_S, self._retry_s * 2 or FIRST_RETRY_S)
        self._retry_at = time.monotonic() + self._retry_s

    def _read_all(self, source: Source, now_ms: int, began: float) -> None:
        """A reading that took longer than it counts is nobody's; those after a slow one bear their
        own time.
        """
        read = set()
        for gpu in self._gpus:
            asked = time.monotonic()
            # on the full second while it is little later than the pass
            late_ms = (asked - began) * 1000
            at_ms = now_ms + (0 if late_ms < self._interval_ms / 2 else round(late_ms))
            reading = self._ask("reading", source.read, gpu.uuid, at_ms)
            if reading is not None and (time.monotonic() - asked) * 1000 <= self._margin_ms:
                with self._mutex:
                    self._readings.setdefault(gpu.uuid, deque(maxlen=MAX_READINGS)).append(reading)
                self._recorder.reading(gpu.uuid, reading)
                read.add(gpu.uuid)
        self._take_source_events(source, now_ms)
        # lost as an earlier source told, which was opened anew since
        for uuid in self._lost & read:
            self._note(Event(now_ms, "gpu_ok", uuid, text="GPU answers again"))

    def _take_source_events(self, source: Source, now_ms: int) -> None:
        try:
            for event in source.events(now_ms):
                self._note(event)
        except DriverChangedError:
            raise
        except SourceError as error:
            log.warning("events can't be read: %s", error)

    def _finish_until(self, end_ms: int) -> None:
        """At a new window: finishes the one before; also the one that was open when passes hung or
        the clock was set.
        """
        before_ms = self._window_end_ms
        if before_ms is not None:
            if end_ms not in (before_ms, before_ms + self._window_ms):
                self.finish_window(before_ms + self._window_ms)
            if end_ms > before_ms:
                self.finish_window(end_ms)
        self._window_end_ms = end_ms

    def _refresh_gpus(self) -> None:
        if self._source is None:
            return  # what was read of those there were is still to be sent
        gpus = self._source.gpus()
        if gpus != self._gpus:
            self._recorder.gpus(gpus)
        uuids = {gpu.uuid for gpu in gpus}
        with self._mutex:
            self._gpus = gpus
            self._troubles = {
                uuid: troubles
                for uuid, troubles in self._troubles.items()
                if uuid in uuids or not uuid
            }

    def _ask(
        self, about: str, question: Callable[..., Optional[Answer]], uuid: str, *more: int
    ) -> Optional[Answer]:
        """The answer about one GPU; None when it can't be read, which stops no other GPU."""
        # else the loop asks, at the end: then no call lasts when this one is over
        is_in_pass = self._call_began is not None
        self.stuck_gpu = uuid
        self._call_began = time.monotonic()
        try:
            answer = question(uuid, *more)
        except DriverChangedError:
            raise
        except Exception as error:  # a bug in what one GPU said must not blind the others
            if self._is_new_trouble(uuid, about, error):
                if isinstance(error, SourceError):
                    log.warning("GPU can't be read uuid=%s: %s", uuid, error)
                else:
                    log.exception("GPU's answer was not understood uuid=%s", uuid)
            return None
        finally:
            self.stuck_gpu = None
            self._call_began = time.monotonic() if is_in_pass else None
        self._troubles.get(uuid, {}).pop(about, None)
        return answer

    def _is_new_trouble(self, uuid: str, about: str, error: Exception) -> bool:
        """False when the same is the last trouble with this GPU, whatever was asked: it was logged
        then.
        """
        troubles = self._troubles.setdefault(uuid, {})
        is_new = repr(error) not in troubles.values()
        troubles[about] = repr(error)
        return is_new

    def _note(self, event: Event) -> None:
        """Keeps the event, if it is news."""
        with self._mutex:
            if not self._news.is_new(event):
                return
            if event.kind == "gpu_lost":
                self._lost |= {event.uuid}
            elif event.kind == "gpu_ok":
                self._lost -= {event.uuid}
            self._events.append(event)

    @property
    def _margin_ms(self) -> int:
        return int(COUNTS_INTERVALS * self._interval_ms)

    def _keep(self, readings_since_ms: int, held_since_ms: int, until_ms: float) -> None:
        """Forgets the readings and windows of other times, and GPUs that have none left."""
        kept = {
            uuid: [item for item in readings if readings_since_ms <= item.at_ms <= until_ms]
            for uuid, readings in self._readings.items()
        }
        self._readings = {
            uuid: deque(readings, MAX_READINGS) for uuid, readings in kept.items() if readings
        }
        self._held = {
            end_ms: held
            for end_ms, held in self._held.items()
            if held_since_ms <= end_ms <= until_ms
        }


def within(workload: Workload, start_ms: int, end_ms: int) -> Workload:
    """The holders of the window. One that began a little after its end is the next window's: the
    books were read since.

    One that began long after it is held now nevertheless, whatever it says: the clock was set back
    since.
    """
    late_ms = end_ms + (end_ms - start_ms)
    held = []
    for item in workload.allocations:
        began_ms = start_ms if item.start_ms is None else item.start_ms
        if began_ms < end_ms:
            held.append(item)
        elif began_ms >= late_ms:
            held.append(replace(item, start_ms=start_ms, end_ms=None))
    return replace(workload, allocations=held)


def _around(readings: Sequence[Reading], start_ms: int, end_ms: int) -> List[Reading]:
    """The readings of the window with the last before it and the first at or after its end, in
    order of time.
    """
    ordered = sorted(readings, key=lambda reading: reading.at_ms)
    times = [reading.at_ms for reading in ordered]
    first = bisect_left(times, start_ms)
    return ordered[max(0, first - 1) : bisect_left(times, end_ms) + 1]
