"""`once` and `check`: one window of this host, as the wire has it or for people."""

import sys
import time
import uuid
from typing import Tuple

from agent import batch, report, wire
from agent.assembly import identity, workloads
from agent.clock import Clock
from agent.config import Config
from agent.host import HostReader
from agent.loop import INTERVAL_MS, WINDOW_S, host_columns, window_of
from agent.reading import SourceError
from agent.sampler import Observed, Recorder, Sampler
from agent.sources.factory import open_source

OK, FAILED = 0, 1
WINDOW_MS = WINDOW_S * 1000
CHECK_MS = 3000  # a look is enough to see what can be read


def once(chosen: Config) -> int:
    """Prints one batch. Raises SourceError when nothing can be read."""
    sampler, observed, start_ms, host = _one_window(chosen, WINDOW_MS)
    windows = [window_of(observed, gpu, start_ms=start_ms, end_ms=start_ms + WINDOW_MS) for gpu in observed.gpus]
    closed = batch.ClosedWindow(start_ms, windows, observed.workload, host_columns(host, observed))
    name = identity(uuid.uuid4().hex)
    sender = batch.Sender(chosen.node, name.boot_id, name.boot_start_ms, WINDOW_S)
    content = batch.build([closed], sender=sender, gpus=observed.gpus, agent={"source": sampler.name}, events=sampler.take_events())
    sys.stdout.write(wire.encode(content).decode("utf-8") + "\n")
    return OK


def check(chosen: Config) -> int:
    """Prints what this host offers; FAILED when nothing can be read."""
    try:
        sampler, observed, start_ms, _ = _one_window(chosen, CHECK_MS)
    except SourceError as error:
        print(report.nothing(str(error)))
        return FAILED
    windows = [window_of(observed, gpu, start_ms=start_ms, end_ms=start_ms + CHECK_MS) for gpu in observed.gpus]
    print(
        report.report(
            source=sampler.name, driver=sampler.driver, gpus=observed.gpus, window=batch.ClosedWindow(start_ms, windows, observed.workload)
        )
    )
    return OK if any(window.columns for window in windows) else FAILED


def _one_window(chosen: Config, window_ms: int) -> Tuple[Sampler, Observed, int, HostReader]:
    """One window of this host: the one just past where time is simulated, else the next whole one. Raises SourceError."""
    clock = Clock()
    host = HostReader(chosen.proc_root)
    is_simulated = chosen.source.startswith("simulated:")
    start_ms = clock.now_ms() // window_ms * window_ms + (-window_ms if is_simulated else window_ms)
    source = open_source(chosen.source, node=chosen.node, start_ms=start_ms - 2 * INTERVAL_MS, gpm=chosen.gpm)
    if not source.gpus():
        raise SourceError("the driver names no GPU")
    if not is_simulated:
        print("reading for up to %d s" % (2 * window_ms // 1000), file=sys.stderr)
    sampler = Sampler(lambda: source, workloads(chosen), window_ms=window_ms, interval_ms=INTERVAL_MS, recorder=Recorder())
    for at_ms in range(start_ms - INTERVAL_MS, start_ms + window_ms + INTERVAL_MS, INTERVAL_MS):
        if not is_simulated:
            time.sleep(max(0, at_ms - clock.now_ms()) / 1000)
        sampler.tick(at_ms)
    observed = sampler.take(start_ms, start_ms + window_ms)
    sampler.close()
    return sampler, observed, start_ms, host
