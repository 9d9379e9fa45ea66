"""`run`: builds the daemon's parts and runs the loop until it is told to stop."""

import logging
import random
import signal
import threading
from pathlib import Path

from agent import batch
from agent.assembly import hub, identity, workloads
from agent.clock import Clock
from agent.config import Config
from agent.host import HostReader
from agent.loop import INTERVAL_MS, WINDOW_S, Loop, Parts
from agent.reading import Source
from agent.recording import FileRecorder
from agent.sampler import Recorder, Sampler
from agent.sender import Pump
from agent.sources.factory import open_source
from agent.spool import Spool

WINDOW_MS = WINDOW_S * 1000
MAX_PHASE_MS = 3000


def run(chosen: Config) -> int:
    """0 once it was told to stop. Raises AgentError, OSError or ValueError when it can't start."""
    stop = threading.Event()
    clock = Clock()
    recorder = _recorder(chosen)
    sampler = _sampler(chosen, clock, recorder)
    if chosen.source.startswith(("simulated:", "replay:")):  # what is wrong with these, time does not mend
        open_source(chosen.source, node=chosen.node, start_ms=clock.now_ms()).close()
    spool = Spool(chosen.spool, identity=identity, max_bytes=chosen.spool_bytes)
    try:
        pump = Pump(spool, hub(chosen).send, flush_s=chosen.flush_s)
        sender = batch.Sender(chosen.node, spool.identity.boot_id, spool.identity.boot_start_ms, WINDOW_S, chosen.labels)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: (stop.set(), pump.wake()))  # type: ignore[func-returns-value]
        logging.info("agent started node=%s source=%s server=%s spool=%s", chosen.node, chosen.source, chosen.server, chosen.spool)
        Loop(Parts(sender, sampler, spool, pump, HostReader(), clock, random.randrange(MAX_PHASE_MS))).run(stop)
    finally:
        spool.close()
        if isinstance(recorder, FileRecorder):
            recorder.close()
    return 0


def _sampler(chosen: Config, clock: Clock, recorder: Recorder) -> Sampler:
    def open_now() -> Source:
        return open_source(chosen.source, node=chosen.node, start_ms=clock.now_ms())

    return Sampler(open_now, workloads(chosen), window_ms=WINDOW_MS, interval_ms=INTERVAL_MS, recorder=recorder)


def _recorder(chosen: Config) -> Recorder:
    return Recorder() if chosen.record is None else FileRecorder(Path(chosen.record), interval_ms=INTERVAL_MS)
