"""`replay`: recorded logs through the real pipeline: readings -> windows -> spool -> hub.

Everything that names a batch derives from node, file and options, so that a second run is a no-op
on the hub and a run that was killed is simply started again.
"""

import hashlib
import logging
import math
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from agent import __version__, batch, wire
from agent.config import Config
from agent.errors import AgentError
from agent.readings import Allocation, GPUInfo, Job, Reading, SourceStatus, Workload
from agent.sending.enrolment import EnrollingSender
from agent.sending.sender import Pump, Send
from agent.sending.spool import Identity, Spool
from agent.sources.recorded_logs import Log, LogError, Options, moment_ms, scan
from agent.window import COUNTS_INTERVALS, GPUWindow, close_window

log = logging.getLogger("agent.replay")

WINDOW_S = 10
MAX_ROWS = 4000  # of a batch: about 2 MB of JSON, well under the hub's 8
PATIENCE_S = 120.0  # without a single answer that helps
STEP_S = 30.0  # between batches when it is not sent as fast as possible


class ReplayError(AgentError):
    """The hub did not take it; the text says why, `status` what it answered at last."""

    def __init__(self, text: str, status: Optional[int] = None) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Done:
    """What one file became."""

    log: Log
    windows: int = 0
    batches: int = 0
    refused: Optional[str] = None  # what the hub said of windows that it does not count


def send(chosen: Config) -> int:
    """The command: sends the files, and says of each what it became; 0.

    Raises what replay raises, and for windows that don't count.
    """
    for done in replay(chosen, EnrollingSender(chosen).send):
        recorded = done.log
        if done.refused is not None:
            raise ReplayError("%s: %s" % (recorded.path, done.refused))
        sys.stdout.write(
            "%s: %d windows of %d GPUs, %s to %s UTC, in %d batches, all at the hub\n"
            % (
                recorded.path,
                done.windows,
                len(recorded.gpus),
                _minute(recorded.first_ms),
                _minute(recorded.last_ms),
                done.batches,
            )
        )
        sys.stdout.flush()
    return 0


def _minute(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at_ms // 1000))


def replay(config: Config, send: Send) -> Iterator[Done]:
    """Sends one file after the other. Raises LogError for a file and ReplayError for the hub."""
    start_ms = None if config.start is None else moment_ms(config.start, config.zone)
    options = Options(
        node=config.node, gpus=config.gpus, model=config.model, zone=config.zone, start_ms=start_ms
    )
    logs = [scan(path, options) for path in config.files]
    job = _job(config.job, logs)
    for recorded in logs:
        yield _send_log(recorded, config, job, send)


def windows_of(recorded: Log, window_s: int) -> Iterator[batch.ClosedWindow]:
    """The log's windows, in order; spans that no reading covers have none."""
    windows = _Windows(recorded, window_s * 1000)
    skipped = 0
    for uuid, reading, process_counts in recorded.readings():
        yield from windows.until(reading.at_ms)
        if process_counts:
            newest_ms = reading.at_ms - 1  # of the window that ends then
            windows.counts[newest_ms - newest_ms % (window_s * 1000)] = process_counts
        elif reading.at_ms < windows.start_ms:
            skipped += 1
        else:
            windows.kept[uuid].append(reading)
    yield from windows.rest()
    if skipped:
        log.warning("rows out of order left out file=%s rows=%d", recorded.path, skipped)


def window_seconds(recorded: Log) -> int:
    """10, or the longest interval rounded up when that is longer.

    Raises LogError beyond what a window holds.
    """
    longest_s = math.ceil(max(recorded.interval_ms.values()) / 1000)
    if longest_s > wire.MAX_WINDOW_S:
        raise LogError(
            "%s has a reading each %d s, more than the %d s a window holds"
            % (recorded.path, longest_s, wire.MAX_WINDOW_S)
        )
    return max(WINDOW_S, longest_s)


class _Windows:
    """The window that is open, `kept` the readings that it or a later one needs."""

    def __init__(self, recorded: Log, window_ms: int) -> None:
        self.kept: Dict[str, List[Reading]] = {gpu.uuid: [] for gpu in recorded.gpus.values()}
        self.start_ms = recorded.first_ms - recorded.first_ms % window_ms
        self._log = recorded
        self._window_ms = window_ms
        self._reach_ms = COUNTS_INTERVALS * max(recorded.interval_ms.values())
        # by the window's start, how many processes each GPU had at its end
        self.counts: Dict[int, Mapping[str, Optional[int]]] = {}

    def until(self, now_ms: int) -> Iterator[batch.ClosedWindow]:
        """Closes what a reading of this time leaves behind."""
        while now_ms >= self.start_ms + self._window_ms + self._reach_ms:
            yield from self._close()
            newest_ms = max((kept[-1].at_ms for kept in self.kept.values() if kept), default=0)
            if newest_ms + self._reach_ms <= self.start_ms:  # past a gap in one step
                self.start_ms = max(self.start_ms, now_ms - now_ms % self._window_ms)

    def rest(self) -> Iterator[batch.ClosedWindow]:
        """Closes all that are left, up to the log's end."""
        while self.start_ms < self._log.last_ms:
            yield from self._close(is_end=True)

    def _close(self, *, is_end: bool = False) -> Iterator[batch.ClosedWindow]:
        """The window of all GPUs, if any was read in it; forgets what no later one needs."""
        start_ms = self.start_ms
        self.start_ms += self._window_ms
        counts = self.counts.pop(start_ms, {})
        windows = []
        for gpu in self._log.gpus.values():
            window = self._window(gpu, start_ms, is_end=is_end)
            count = counts.get(gpu.uuid)
            if count is not None:
                window.columns["process_count"] = count
            if window.observed_ms > 0:
                windows.append(window)
            readings = self.kept[gpu.uuid]
            before = sum(reading.at_ms < self.start_ms for reading in readings)
            self.kept[gpu.uuid] = readings[max(0, before - 1) :]
        if windows:
            yield batch.ClosedWindow(start_ms, windows)

    def _window(self, gpu: GPUInfo, start_ms: int, *, is_end: bool) -> GPUWindow:
        readings = self.kept[gpu.uuid]
        interval_ms = self._log.interval_ms[gpu.uuid]
        end_ms = start_ms + self._window_ms
        # the log's last reading counts one interval: nothing after it says more
        if is_end and readings:
            end_ms = max(start_ms, min(end_ms, readings[-1].at_ms + round(interval_ms)))
        return close_window(
            readings, gpu=gpu, start_ms=start_ms, end_ms=end_ms, interval_ms=interval_ms
        )


def _send_log(recorded: Log, config: Config, job: Optional[Job], send: Send) -> Done:
    window_s = window_seconds(recorded)
    identity = Identity(_boot_id(recorded, config), recorded.first_ms)
    done = Done(recorded)
    started = time.monotonic()
    contents = _contents(recorded, config, job, identity, window_s)
    for content, refusal in deliver(contents, identity, send):
        starts = content.windows["start_ms"]
        done.windows += len(starts)
        done.batches += 1
        done.refused = refusal
        if config.speed is not None:
            past_s = (starts[-1] - recorded.first_ms) / 1000 + window_s
            time.sleep(max(0.0, past_s / config.speed - (time.monotonic() - started)))
    return done


def _contents(
    recorded: Log, config: Config, job: Optional[Job], identity: Identity, window_s: int
) -> Iterator[wire.Batch]:
    """The log's batches, their sequence still 0."""
    sender = batch.Sender(
        config.node, identity.boot_id, identity.boot_start_ms, window_s, config.labels
    )
    workload = _workload(recorded, job, window_s)
    for closed in _batches(windows_of(recorded, window_s), window_s, config.speed):
        yield batch.build(
            [replace(window, workload=workload) for window in closed],
            sender=sender,
            gpus=list(recorded.gpus.values()),
            agent={"version": __version__, "source": "replay"},
            events=[],
        )


def deliver(
    contents: Iterable[wire.Batch], identity: Identity, send: Send
) -> Iterator[Tuple[wire.Batch, Optional[str]]]:
    """Each batch once the hub has it, and what the hub said last of windows that it does not count;
    by a spool of its own, in a folder that is gone afterwards.

    Raises ReplayError.
    """
    with tempfile.TemporaryDirectory(prefix="fleetwatch-") as folder:
        spool = Spool(Path(folder), identity=lambda _: identity)
        with closing(spool):
            pump = Pump(spool, send, flush_s=30, ends_at_refusal=True)
            for content in contents:
                spool.append(partial(batch.entry, content))
                _send_all(pump)
                yield content, pump.last_refusal


def _batches(
    windows: Iterator[batch.ClosedWindow], window_s: int, speed: Optional[float]
) -> Iterator[List[batch.ClosedWindow]]:
    """Windows in batches within the wire's span and a comfortable size; cut by nothing but the
    windows themselves.
    """
    step_ms = STEP_S * 1000 * (speed or math.inf)
    span_ms = min(wire.MAX_SPAN_MS, max(window_s * 1000, step_ms))
    waiting: List[batch.ClosedWindow] = []
    rows = 0
    for window in windows:
        is_full = rows + len(window.windows) > MAX_ROWS
        if waiting and (
            is_full or window.start_ms + window_s * 1000 - waiting[0].start_ms > span_ms
        ):
            yield waiting
            waiting = []
            rows = 0
        waiting.append(window)
        rows += len(window.windows)
    if waiting:
        yield waiting


def _send_all(pump: Pump) -> None:
    """Sends until nothing waits.

    Raises ReplayError for a refusal, or when the hub can't be reached for PATIENCE_S.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        delay = pump.step()
        outcome = pump.last
        if delay is None or outcome is None:
            return
        if pump.rejected or outcome.is_refusal:
            raise ReplayError(outcome.text, outcome.status)
        if delay and time.monotonic() + delay > deadline:
            text = "given up after %d s: %s" % (PATIENCE_S, outcome.text)
            raise ReplayError(text, outcome.status)
        if not delay:
            deadline = time.monotonic() + PATIENCE_S
        time.sleep(delay)


def _boot_id(recorded: Log, config: Config) -> str:
    """Another file, another reading of it or another declared job is another boot: its batches are
    not duplicates.
    """
    job = config.job
    identity = (
        recorded.digest,
        astuple(recorded.options),
        None if job is None else (job.key, job.user, job.account, job.kind),
        config.speed,
    )
    return "replay-" + hashlib.sha256(repr(identity).encode()).hexdigest()[:32]


def _job(declared: Optional[Job], logs: Sequence[Log]) -> Optional[Job]:
    """The declared job, from the first log's beginning to the last one's end."""
    if declared is None:
        return None
    # a full key; a bare name is declared
    parts = declared.key.split("/", 2)
    scheduler, cluster, number = parts if len(parts) == 3 else ("declared", "", declared.key)
    return replace(
        declared,
        scheduler=scheduler,
        cluster=cluster,
        id=number,
        state="COMPLETED",
        start_ms=min(recorded.first_ms for recorded in logs),
        end_ms=max(recorded.last_ms for recorded in logs),
    )


def _workload(recorded: Log, job: Optional[Job], window_s: int) -> Workload:
    """The job on all GPUs, for every window that the log touches."""
    if job is None:
        return Workload()
    window_ms = window_s * 1000
    start_ms = recorded.first_ms - recorded.first_ms % window_ms
    end_ms = recorded.last_ms + -recorded.last_ms % window_ms
    held = [
        Allocation(gpu.uuid, job.key, "declared", start_ms, end_ms)
        for gpu in recorded.gpus.values()
    ]
    return Workload(
        jobs=[job], allocations=held, sources=[SourceStatus("declared", ok=True, seen_ms=end_ms)]
    )
