"""The daemon: closes windows on the clock, puts them in the spool, sees to it that the driver's thread is alive.

Three threads that never wait for each other: the sampler's (may hang in the driver), the pump's (may hang in the
network) and this one, which goes on reporting the host whatever the others suffer.
"""

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence

from agent import __version__, batch, wire
from agent.clock import Clock
from agent.host import HostReader, own_rss_bytes
from agent.reading import Event, GPUInfo
from agent.sampler import Observed, Sampler
from agent.sender import Pump
from agent.spool import Spool, SpoolError
from agent.window import COUNTS_INTERVALS, GPUWindow, close_window

log = logging.getLogger("agent.loop")

WINDOW_S = 10
INTERVAL_MS = 1000
GRACE_MS = int(COUNTS_INTERVALS * INTERVAL_MS) + 100  # until the reading after a window's end is surely there
PATIENCE_MS = 5000  # for a sampler that is late with a window's processes
STUCK_S = 30.0
FAREWELL_S = 5.0  # for sending what waits before the exit


@dataclass(frozen=True)
class Parts:
    """What the daemon is made of."""

    sender: batch.Sender
    sampler: Sampler
    spool: Spool
    pump: Pump
    host: HostReader
    clock: Clock
    phase_ms: int = 0  # how much later than it could this node closes its windows: a fleet must not call at one moment


class Loop:
    """Runs the parts until it is told to stop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._window_ms = parts.sender.window_s * 1000
        self._grace_ms = GRACE_MS + parts.phase_ms
        self._closed: List[batch.ClosedWindow] = []
        self._seen: Optional[Observed] = None
        self._events: List[Event] = []
        self._is_stuck = False

    def run(self, stop: threading.Event) -> None:
        """Until stop is set; then sends what it has and returns."""
        sampling = threading.Thread(target=self._sample, args=(stop,), name="sampler", daemon=True)
        pumping = threading.Thread(target=self._parts.pump.run, args=(stop,), name="pump", daemon=True)
        sampling.start()
        pumping.start()
        end_ms = self._end_after(self._parts.clock.now_ms())
        while not stop.wait(self._wait_s(end_ms)):
            now_ms = self._parts.clock.now_ms()
            if now_ms >= end_ms + self._grace_ms and self._is_read(end_ms, now_ms):
                self.close(end_ms, now_ms=now_ms)
                end_ms += self._window_ms
            if not -self._window_ms <= now_ms - end_ms <= 2 * self._window_ms:  # the clock was set, or we slept
                end_ms = self._end_after(now_ms)
        self._leave(end_ms, sampling, pumping)

    def close(self, end_ms: int, *, now_ms: int) -> None:
        """Closes the window that ends at end_ms (now_ms, when that is earlier) and flushes when it is time."""
        start_ms = end_ms - self._window_ms
        self._watch(now_ms)
        observed = self._parts.sampler.take(start_ms, end_ms)
        if _differs(observed, self._closed, self._seen):
            self.flush()
        self._seen = observed
        windows = [window_of(observed, gpu, start_ms=start_ms, end_ms=min(end_ms, now_ms)) for gpu in observed.gpus]
        self._closed.append(batch.ClosedWindow(start_ms, windows, observed.workload, host_columns(self._parts.host, observed)))
        self._events.extend(self._parts.sampler.take_events())
        if len(self._closed) * self._parts.sender.window_s >= self._parts.pump.flush_s:
            self.flush()

    def flush(self) -> None:
        """Puts the closed windows into the spool as one batch."""
        if not self._closed or self._seen is None:
            return
        content = batch.build(self._closed, sender=self._parts.sender, gpus=self._seen.gpus, agent=self._about_agent(), events=self._events)
        count = len(content.windows["start_ms"])
        try:
            self._parts.spool.append(lambda sequence: wire.compress(wire.encode(replace(content, sequence=sequence))), windows=count)
        except SpoolError as error:
            log.error("windows lost, the spool takes nothing windows=%d: %s", count, error)
        self._closed, self._events = [], []
        self._parts.pump.wake()

    def _sample(self, stop: threading.Event) -> None:
        while not stop.wait(_until_next_second(self._parts.clock.now_ms())):
            try:
                self._parts.sampler.tick(self._parts.clock.now_ms())
            except Exception:  # the one place: a bug in one reading must not blind the node
                log.exception("a reading failed")

    def _watch(self, now_ms: int) -> None:
        """Says once that the driver hangs, and about which GPU."""
        is_stuck = self._parts.sampler.stuck_s > STUCK_S
        if is_stuck and not self._is_stuck:
            log.error("the driver hangs gpu=%s seconds=%d", self._parts.sampler.stuck_gpu, self._parts.sampler.stuck_s)
            self._events.append(Event(now_ms, "nvml_stuck", self._parts.sampler.stuck_gpu, text="a call into the driver does not return"))
        self._is_stuck = is_stuck

    def _is_read(self, end_ms: int, now_ms: int) -> bool:
        """False while it is worth waiting a little for the sampler to finish this window."""
        return self._parts.sampler.has_finished(end_ms) or now_ms > end_ms + self._grace_ms + PATIENCE_MS or self._is_stuck

    def _leave(self, end_ms: int, sampling: threading.Thread, pumping: threading.Thread) -> None:
        now_ms = self._parts.clock.now_ms()
        sampling.join(timeout=2)
        if not sampling.is_alive():
            self._parts.sampler.finish_window(self._end_after(now_ms))
        while end_ms - self._window_ms < now_ms:
            self.close(end_ms, now_ms=now_ms)
            end_ms += self._window_ms
        self.flush()
        self._parts.sampler.close()
        pumping.join(timeout=FAREWELL_S)
        if not pumping.is_alive():
            self._parts.pump.drain(deadline=time.monotonic() + FAREWELL_S)
        log.info("stopped batches_waiting=%d", self._parts.spool.waiting)

    def _about_agent(self) -> Dict[str, Any]:
        return {
            "version": __version__,
            "driver": batch.clipped(self._parts.sampler.driver, 64) or None,
            "source": self._parts.sampler.name,
            "dropped_windows": self._parts.spool.dropped_windows,
            "spool_bytes": self._parts.spool.size_bytes,
            "cpu_s": round(time.process_time(), 3),
            "rss_bytes": own_rss_bytes(),
        }

    def _end_after(self, now_ms: int) -> int:
        return now_ms - now_ms % self._window_ms + self._window_ms

    def _wait_s(self, end_ms: int) -> float:
        """Until the window can be closed: half a second at least, a window at most, so that a set clock is noticed."""
        left_ms = end_ms + self._grace_ms - self._parts.clock.now_ms()
        return min(self._window_ms, max(500, left_ms)) / 1000


def _differs(observed: Observed, closed: Sequence[batch.ClosedWindow], before: Optional[Observed]) -> bool:
    """True when one batch can't speak for these windows: other GPUs, or a job source that answered and no longer does."""
    if not closed or before is None:
        return False
    same_gpus = [gpu.uuid for gpu in observed.gpus] == [gpu.uuid for gpu in before.gpus]
    states = [{(source.kind, source.ok) for source in workload.sources} for workload in (observed.workload, closed[-1].workload)]
    return not same_gpus or states[0] != states[1]


def window_of(observed: Observed, gpu: GPUInfo, *, start_ms: int, end_ms: int) -> GPUWindow:
    """The GPU's window, with its number of processes and its holder's facts where they were read."""
    window = close_window(observed.readings.get(gpu.uuid, []), gpu=gpu, start_ms=start_ms, end_ms=end_ms, interval_ms=observed.interval_ms)
    columns: Dict[str, float] = {**window.columns, **observed.workload.facts.get(gpu.uuid, {})}
    processes = observed.processes.get(gpu.uuid)
    if processes is not None:
        columns["process_count"] = len(processes)
    return replace(window, columns=columns)


def host_columns(host: HostReader, observed: Observed) -> Dict[str, float]:
    """What the host did since the last call, with the queue's demand where a scheduler tells it."""
    pending = observed.workload.pending_gpus
    return host.read() if pending is None else {**host.read(), "pending_gpus": pending}


def _until_next_second(now_ms: int) -> float:
    return (INTERVAL_MS - now_ms % INTERVAL_MS) / 1000
