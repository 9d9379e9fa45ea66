"""`replay`: recorded logs through the real pipeline: readings -> windows -> spool -> hub.

Everything that names a batch derives from node, file and options, so that a second run is a no-op
on the hub and a run that was killed is simply started again.
"""

import hashlib
import logging
import math
import shutil
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from agent import __version__, batch, wire
from agent.assembly import hub
from agent.config import Config
from agent.errors import AgentError
from agent.readings import Allocation, Job, Reading, SourceStatus, Workload
from agent.sender import Outcome, Pump
from agent.sources.recorded_logs import Log, LogError, Options, moment_ms, scan
from agent.spool import Identity, Spool
from agent.window import COUNTS_INTERVALS, close_window

log = logging.getLogger("agent.replay")

WINDOW_S = 10
MAX_ROWS = 4000  # of a batch: about 2 MB of JSON, well under the hub's 8
PATIENCE_S = 120.0  # without a single answer that helps
STEP_S = 30.0  # between batches when it is not sent as fast as possible


class ReplayError(AgentError):
    """The hub did not take it; the text says why."""


@dataclass(frozen=True)
class Done:
    """What one file became."""

    path: Path
    windows: int
    batches: int
    gpus: int
    first_ms: int
    last_ms: int
    refused: Optional[str] = None  # what the hub said of windows that it does not count


def send(chosen: Config) -> int:
    """The command: sends the files, and says of each what it became; 0.

    Raises what replay raises, and for windows that don't count.
    """
    for done in replay(chosen, hub(chosen).send):
        if done.refused is not None:
            raise ReplayError("%s: %s" % (done.path, done.refused))
        sent = (
            done.path,
            done.windows,
            done.gpus,
            _minute(done.first_ms),
            _minute(done.last_ms),
            done.batches,
        )
        sys.stdout.write(
            "%s: %d windows of %d GPUs, %s to %s UTC, in %d batches, all at the hub\n" % sent
        )
        sys.stdout.flush()
    return 0


def _minute(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at_ms // 1000))


def replay(config: Config, send: Callable[[bytes], Outcome]) -> Iterator[Done]:
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
    window_ms = window_s * 1000
    kept: Dict[str, List[Reading]] = {gpu.uuid: [] for gpu in recorded.gpus.values()}
    counts: Dict[int, Mapping[str, Optional[int]]] = {}
    reach_ms = COUNTS_INTERVALS * max(recorded.interval_ms.values())
    start_ms = recorded.first_ms - recorded.first_ms % window_ms
    skipped = 0
    for uuid, reading, process_counts in recorded.readings():
        while reading.at_ms >= start_ms + window_ms + reach_ms:
            yield from _closed(recorded, kept, counts, start_ms, window_ms)
            start_ms = _next_start(kept, start_ms + window_ms, window_ms, reading.at_ms, reach_ms)
        if process_counts:
            counts[reading.at_ms - 1 - (reading.at_ms - 1) % window_ms] = process_counts
        elif reading.at_ms < start_ms:
            skipped += 1
        else:
            kept[uuid].append(reading)
    while start_ms < recorded.last_ms:
        yield from _closed(recorded, kept, counts, start_ms, window_ms, is_end=True)
        start_ms += window_ms
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


def _closed(
    recorded: Log,
    kept: Dict[str, List[Reading]],
    counts: Dict[int, Mapping[str, Optional[int]]],
    start_ms: int,
    window_ms: int,
    *,
    is_end: bool = False,
) -> Iterator[batch.ClosedWindow]:
    """The window of all GPUs, if any of them was read in it; forgets what no later window needs."""
    known = counts.pop(start_ms, {})
    windows = []
    for gpu in recorded.gpus.values():
        readings = kept[gpu.uuid]
        interval_ms = recorded.interval_ms[gpu.uuid]
        end_ms = start_ms + window_ms
        # the log's last reading counts one interval: nothing after it says more
        if is_end and readings:
            end_ms = min(end_ms, readings[-1].at_ms + round(interval_ms))
        window = close_window(
            readings,
            gpu=gpu,
            start_ms=start_ms,
            end_ms=max(start_ms, end_ms),
            interval_ms=interval_ms,
        )
        count = known.get(gpu.uuid)
        windows.append(
            window
            if count is None
            else replace(window, columns={**window.columns, "process_count": count})
        )
        before = [reading for reading in readings if reading.at_ms < start_ms + window_ms][-1:]
        kept[gpu.uuid] = before + [
            reading for reading in readings if reading.at_ms >= start_ms + window_ms
        ]
    observed = [window for window in windows if window.observed_ms > 0]
    if observed:
        yield batch.ClosedWindow(start_ms, observed)


def _next_start(
    kept: Mapping[str, Sequence[Reading]],
    start_ms: int,
    window_ms: int,
    now_ms: int,
    reach_ms: float,
) -> int:
    """The next window, past a gap in one step: nothing that is kept reaches beyond reach_ms."""
    newest_ms = max((readings[-1].at_ms for readings in kept.values() if readings), default=0)
    if newest_ms + reach_ms > start_ms:
        return start_ms
    return max(start_ms, now_ms - now_ms % window_ms)


def _send_log(
    recorded: Log, config: Config, job: Optional[Job], send: Callable[[bytes], Outcome]
) -> Done:
    window_s = window_seconds(recorded)
    identity = Identity(_boot_id(recorded, config), recorded.first_ms)
    sender = batch.Sender(
        config.node, identity.boot_id, identity.boot_start_ms, window_s, config.labels
    )
    workload = _workload(recorded, job, window_s)
    folder = Path(tempfile.mkdtemp(prefix="fleetwatch-replay-"))
    spool = Spool(folder, identity=lambda _: identity)
    pump = Pump(spool, send, flush_s=30, ends_at_refusal=True)
    windows = batches = 0
    started = time.monotonic()
    try:
        for closed in _batches(windows_of(recorded, window_s), window_s, config.speed):
            content = batch.build(
                [replace(window, workload=workload) for window in closed],
                sender=sender,
                gpus=list(recorded.gpus.values()),
                agent={"version": __version__, "source": "replay"},
                events=[],
            )
            count = len(content.windows["start_ms"])
            spool.append(maker(content), windows=count)
            send_all(pump)
            windows += count
            batches += 1
            _keep_pace(
                config.speed, started, recorded.first_ms, closed[-1].start_ms + window_s * 1000
            )
    finally:
        spool.close()
        shutil.rmtree(folder, ignore_errors=True)
    return Done(
        recorded.path,
        windows,
        batches,
        len(recorded.gpus),
        recorded.first_ms,
        recorded.last_ms,
        pump.last_refusal,
    )


def maker(content: wire.Batch) -> Callable[[int], bytes]:
    """The payload of the batch, once the spool has given it a sequence."""
    return lambda sequence: wire.compress(wire.encode(replace(content, sequence=sequence)))


def _batches(
    windows: Iterator[batch.ClosedWindow], window_s: int, speed: Optional[float]
) -> Iterator[List[batch.ClosedWindow]]:
    """Windows in batches within the wire's span and a comfortable size; cut by nothing but the
    windows themselves.
    """
    span_ms = (
        wire.MAX_SPAN_MS
        if speed is None
        else min(wire.MAX_SPAN_MS, max(window_s * 1000, round(STEP_S * speed * 1000)))
    )
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


def send_all(pump: Pump) -> None:
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
            raise ReplayError(outcome.text)
        if delay and time.monotonic() + delay > deadline:
            raise ReplayError("given up after %d s: %s" % (PATIENCE_S, outcome.text))
        if not delay:
            deadline = time.monotonic() + PATIENCE_S
        time.sleep(delay)


def _keep_pace(speed: Optional[float], started: float, first_ms: int, now_ms: int) -> None:
    if speed is not None:
        time.sleep(max(0.0, (now_ms - first_ms) / 1000 / speed - (time.monotonic() - started)))


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
    scheduler, cluster, number = _key_parts(declared.key)
    return replace(
        declared,
        scheduler=scheduler,
        cluster=cluster,
        id=number,
        state="COMPLETED",
        start_ms=min(recorded.first_ms for recorded in logs),
        end_ms=max(recorded.last_ms for recorded in logs),
    )


def _key_parts(key: str) -> Tuple[str, str, str]:
    """Scheduler, cluster and id of a full key; a bare name is declared."""
    parts = key.split("/", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("declared", "", key)


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
