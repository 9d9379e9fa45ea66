"""The daemon: closes windows on the clock, puts them in the spool, sees to it that the driver's
thread is alive.

Three threads that never wait for each other: the sampler's (may hang in the driver), the pump's
(may hang in the network) and this one, which goes on reporting the host whatever the others suffer.
"""

import logging
import queue
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

from agent import __version__, batch, wire
from agent.actions.order_taking import OrderTaker
from agent.clock import Clock
from agent.host import HostReader, own_rss_bytes
from agent.readings import Event, Events, GPUInfo, GPUs, Values
from agent.restart import ALIVE_S
from agent.sampler import KEPT_MS, Observed, Sampler
from agent.sending.sender import Pump
from agent.sending.spool import Maker, Spool
from agent.window import COUNTS_INTERVALS, GPUWindow, close_window

log = logging.getLogger("agent.loop")

WINDOW_S = 10
INTERVAL_MS = 1000
# until the reading after a window's end is surely there
GRACE_MS = int(COUNTS_INTERVALS * INTERVAL_MS) + 100
PATIENCE_MS = 5000  # for a sampler that is late with a window's processes
# so far behind (a disk that hung), windows are closed one by one; beyond it the clock was set, or
# we slept
LAG_MS = KEPT_MS
STUCK_S = 30.0
REMIND_S = 600.0  # the same bug, at each second, is logged again after this long
FAREWELL_S = 5.0  # for sending what waits before the exit
MAX_EVENTS = wire.MAX_LIST


@dataclass(eq=False)
class Loop:
    """The daemon's parts; runs them until it is told to stop."""

    sender: batch.Sender
    sampler: Sampler
    spool: Spool
    pump: Pump
    host: HostReader
    clock: Clock
    # how much later than it could this node closes its windows: a fleet must not call at one moment
    phase_ms: int = 0
    release_s: float = 300.0  # how long the driver is let go of when that is asked for
    runner: Optional[OrderTaker] = None  # of what the hub may have done here

    _drafted_events = 0
    _is_stuck = False
    _is_stopping = False
    _mishap = ""  # the bug last logged
    _mishap_until = 0.0

    def __post_init__(self) -> None:
        self._window_ms = self.sender.window_s * 1000
        self._grace_ms = GRACE_MS + self.phase_ms
        self._gpus: GPUs = ()  # of the closed windows
        self._closed: List[batch.ClosedWindow] = []
        self._events: List[Event] = []
        self._end_ms = self._end_after(self.clock.now_ms())  # of the window that is open
        self._began = time.monotonic()
        # Orders come from signal handlers, which may interrupt any line of this thread:
        # SimpleQueue.put is made for that, while Event.set would wait for ever for a lock that the
        # interrupted line holds.
        self._orders: "queue.SimpleQueue[str]" = queue.SimpleQueue()

    def stop(self) -> None:
        """Makes run come back. For signal handlers and other threads."""
        self._orders.put("stop")

    def release(self) -> None:
        """Lets go of the driver for a while. For signal handlers and other threads."""
        self._orders.put("release")

    def run(self) -> bool:
        """Until it is told to stop; then sends what it has.

        True when a new process must take over: the driver changed.
        """
        stopping = threading.Event()
        sampling = threading.Thread(
            target=self._sample, args=(stopping,), name="sampler", daemon=True
        )
        pumping = threading.Thread(target=self.pump.run, args=(stopping,), name="pump", daemon=True)
        sampling.start()
        pumping.start()
        while True:
            order = self._next_order()
            if order == "stop" or self.must_restart:
                break
            if order == "release":
                self.sampler.release(self.release_s)
            self._safely(self.advance)
        self._is_stopping = order == "stop"
        stopping.set()
        self.pump.wake()
        self._leave(sampling, pumping)
        return order != "stop"

    @property
    def must_restart(self) -> bool:
        """True when the driver was changed under this process, and it is old enough to replace
        itself.
        """
        return self.sampler.is_driver_changed and time.monotonic() - self._began >= ALIVE_S

    def advance(self) -> None:
        """Closes the window that is due, if any."""
        now_ms = self.clock.now_ms()
        if self._follow(now_ms):
            return
        end_ms = self._end_ms
        late_ms = now_ms - end_ms - self._grace_ms
        is_read = self.sampler.has_finished(end_ms) or self._is_stuck
        # it is worth waiting a little for the sampler to finish the window
        if late_ms > PATIENCE_MS or (late_ms >= 0 and is_read):
            self._end_ms += self._window_ms
            self.close(end_ms, now_ms=now_ms)

    def close(self, end_ms: int, *, now_ms: int) -> None:
        """Closes the window that ends at end_ms (now_ms, when that is earlier) and flushes when it
        is time.
        """
        start_ms = end_ms - self._window_ms
        self._watch(now_ms)
        self.sampler.hear(now_ms)
        observed = self.sampler.take(start_ms, end_ms)
        if self._closed and not self._joins(observed, start_ms):
            self.flush()
        self._gpus = observed.gpus
        until_ms = min(end_ms, max(start_ms, now_ms))
        self._closed.append(close_all(observed, self.host, start_ms=start_ms, end_ms=until_ms))
        self._events = [*self._events, *self._fresh_events()][-MAX_EVENTS:]
        if len(self._closed) * self.sender.window_s >= self.pump.flush_s:
            self.flush()
        else:
            self._draft()

    def _fresh_events(self) -> List[Event]:
        """Of the window that was closed last, and of what the hub had done here."""
        events = list(self.sampler.take_events())
        if self.runner is not None:
            self.runner.note(self._closed[-1], tuple(events))
            events += self.runner.events()
        return events

    def flush(self) -> None:
        """Puts the closed windows into the spool as one batch."""
        closed = self._closed
        events = self._events
        if not closed:
            return
        self._closed = []
        self._events = []
        self._drafted_events = 0
        windows = sum(len(window.windows) for window in closed)
        bare = [replace(window, workload=window.workload.unknown()) for window in closed]
        # a fact that can't be written must not end the agent, nor cost the windows it came with
        for parts, kept, trouble in (
            (closed, events, "a batch could not be made, trying without its jobs"),
            (bare, events, "windows can't be written, trying without their events"),
            (bare, [], "windows can't be written"),
        ):
            try:
                self.spool.append(self._maker(parts, kept))
                break
            except Exception:
                log.exception("%s windows=%d events=%d", trouble, windows, len(kept))
        else:
            self.spool.count_lost(windows)
        self.pump.wake()

    def _draft(self) -> None:
        """Notes the newest window, so that a kill -9 before the flush does not take it."""
        events = self._events[self._drafted_events :]
        self._drafted_events = len(self._events)
        self.spool.draft(self._maker(self._closed[-1:], events))

    def _maker(self, closed: Sequence[batch.ClosedWindow], events: Events) -> Maker:
        content = batch.build(
            closed, sender=self.sender, gpus=self._gpus, agent=self._about_agent(), events=events
        )
        # jobs alone would be an import of accounting
        if not content.windows["start_ms"] and not content.host:
            content = replace(content, jobs=[], allocations=[], processes=[])
        return partial(batch.entry, content)

    def _follow(self, now_ms: int) -> bool:
        """True where the clock was set, or the host slept: what was open by the old time is closed
        then, and a window of the new one has begun.
        """
        end_ms = self._end_ms
        if -self._window_ms <= now_ms - end_ms <= LAG_MS:
            return False
        log.info("the clock jumped seconds=%d", round((now_ms - end_ms) / 1000))
        self._end_ms = self._end_after(now_ms)
        self.close(end_ms, now_ms=end_ms)
        self.sampler.forget_around(now_ms)
        return True

    def _joins(self, observed: Observed, start_ms: int) -> bool:
        """False when one batch can't speak for this window and the closed ones: other GPUs, a job
        source that answered and no longer does, or (the clock was set) hours between them.
        """
        last = self._closed[-1]
        return (
            [gpu.uuid for gpu in observed.gpus] == [gpu.uuid for gpu in self._gpus]
            and observed.workload.answers() == last.workload.answers()
            and 0 < start_ms - last.start_ms <= LAG_MS
        )

    def _sample(self, stopping: threading.Event) -> None:
        while not stopping.wait((INTERVAL_MS - self.clock.now_ms() % INTERVAL_MS) / 1000):
            self._safely(lambda: self.sampler.tick(self.clock.now_ms()))

    def _safely(self, step: Callable[[], None]) -> None:
        try:
            step()
        # the top of two threads: a bug in one reading or one window must not blind the node
        except Exception as error:
            if repr(error) != self._mishap or time.monotonic() >= self._mishap_until:
                log.exception("a step failed")
                self._mishap = repr(error)
                self._mishap_until = time.monotonic() + REMIND_S

    def _watch(self, now_ms: int) -> None:
        """Says once that the driver hangs, and about which GPU."""
        stuck_s = self.sampler.stuck_s
        uuid = self.sampler.stuck_gpu
        is_stuck = stuck_s > STUCK_S
        if is_stuck and not self._is_stuck:
            log.error("the driver hangs gpu=%s seconds=%d", uuid, stuck_s)
            self._events.append(
                Event(now_ms, "nvml_stuck", uuid, text="a call into the driver does not return")
            )
        if self._is_stuck and not is_stuck:
            log.info("the driver answers again")
        self._is_stuck = is_stuck

    def _leave(self, sampling: threading.Thread, pumping: threading.Thread) -> None:
        sampling.join(timeout=2)
        self._safely(lambda: self._close_rest(is_read=not sampling.is_alive()))
        self.flush()
        pumping.join(timeout=FAREWELL_S)
        if not pumping.is_alive():
            self.pump.drain(deadline=time.monotonic() + FAREWELL_S)
        self.sampler.close()
        log.info("stopped batches_waiting=%d", self.spool.waiting)

    def _close_rest(self, *, is_read: bool) -> None:
        """Closes what is still open, up to now."""
        now_ms = self.clock.now_ms()
        self._follow(now_ms)
        if is_read:
            self.sampler.finish_window(self._end_after(now_ms))
        while self._end_ms - self._window_ms < now_ms:
            self.close(self._end_ms, now_ms=now_ms)
            self._end_ms += self._window_ms

    def _about_agent(self) -> Dict[str, Any]:
        return {
            "version": __version__,
            "driver": self.sampler.driver,
            "source": self.sampler.name,
            "dropped_windows": self.spool.dropped_windows,
            "spool_bytes": self.spool.size_bytes,
            "set_aside_batches": self.pump.rejected,
            "passed_over_batches": self.spool.passed_over,
            "last_refusal": self.pump.last_refusal,
            "cpu_s": round(time.process_time(), 3),
            "rss_bytes": own_rss_bytes(),
            "poll_ms_p95": self.sampler.pass_ms_p95(),
            "clock_steps": self.clock.steps,
            # told to stop, not killed: the last word of an elastic node
            "stopping": self._is_stopping or None,
        }

    def _end_after(self, now_ms: int) -> int:
        return now_ms - now_ms % self._window_ms + self._window_ms

    def _next_order(self) -> Optional[str]:
        try:
            # until the window can be closed: half a second at least, a window at most, so that a
            # set clock is noticed
            left_ms = self._end_ms + self._grace_ms - self.clock.now_ms()
            return self._orders.get(timeout=min(self._window_ms, max(500, left_ms)) / 1000)
        except queue.Empty:
            return None


def close_all(
    observed: Observed, host: HostReader, *, start_ms: int, end_ms: int
) -> batch.ClosedWindow:
    """The windows of all GPUs, with what their host did since its last reading and the queue's
    demand where a scheduler tells it.
    """
    workload = observed.workload
    columns = host.read() if workload.host is None else dict(workload.host)
    if workload.pending_gpus is not None:
        columns["pending_gpus"] = workload.pending_gpus
    windows = [window_of(observed, gpu, start_ms=start_ms, end_ms=end_ms) for gpu in observed.gpus]
    return batch.ClosedWindow(start_ms, windows, workload, columns)


def window_of(observed: Observed, gpu: GPUInfo, *, start_ms: int, end_ms: int) -> GPUWindow:
    """The GPU's window, with its number of processes and its holder's facts where they were read.

    A value that the wire does not take (NaN, infinity, no reading of its kind) is left out: the hub
    would refuse the whole batch for it.
    """
    readings = observed.readings.get(gpu.uuid, [])
    window = close_window(
        readings, gpu=gpu, start_ms=start_ms, end_ms=end_ms, interval_ms=observed.interval_ms
    )
    columns: Values = {**window.columns, **observed.workload.facts.get(gpu.uuid, {})}
    processes = observed.processes.get(gpu.uuid)
    if processes is not None:
        columns["process_count"] = len(processes)
    sendable = {
        name: value
        for name, value in columns.items()
        if name in _COLUMNS and wire.LIMITS[name][0] <= value <= wire.LIMITS[name][1]
    }
    return replace(window, columns=sendable)


_COLUMNS = frozenset(wire.WINDOW_COLUMNS)
