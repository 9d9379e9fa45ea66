"""`run`: builds the daemon's parts and runs the loop until it is told to stop."""

import logging
import random
import signal
import threading

from agent import batch, memory
from agent.actions.order_taking import OrderTaker, Refuser
from agent.assembly import identity_of, source_of, workloads
from agent.clock import Clock
from agent.config import SOURCES, Config
from agent.host import HostReader
from agent.kmsg import Kmsg
from agent.loop import INTERVAL_MS, WINDOW_S, Loop
from agent.recording import FileRecorder
from agent.restart import restart
from agent.sampler import Recorder, Sampler
from agent.sending.enrolment import EnrollingSender
from agent.sending.sender import Pump
from agent.sending.spool import Spool

WINDOW_MS = WINDOW_S * 1000
MAX_PHASE_MS = 3000
SETTLE_S = 75.0  # by then every part has run, sending too


def run(chosen: Config) -> int:
    """0 once it was told to stop.

    Raises AgentError, OSError or BadArgumentError when it can't start.
    """
    clock = Clock()
    recorder = Recorder()
    if chosen.record is not None:
        recorder = FileRecorder(chosen.record, interval_ms=INTERVAL_MS)
    sampler = _sampler(chosen, clock, recorder)
    # what is wrong with these, time does not mend
    if chosen.source.startswith(("simulated:", "replay:")):
        source_of(chosen, clock.now_ms()).close()
    spool = Spool(chosen.spool, identity=identity_of(chosen), max_bytes=chosen.spool_bytes)
    try:
        loop = _loop(chosen, spool, sampler, clock)
        _listen(loop)
        _settle_later()
        logging.info(
            "agent started node=%s source=%s server=%s spool=%s",
            chosen.node,
            chosen.source,
            chosen.server,
            chosen.spool,
        )
        must_restart = loop.run()
    finally:
        spool.close()
        recorder.close()
    if must_restart:
        restart()
    return 0


def _listen(loop: Loop) -> None:
    """Orders come as signals."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    signal.signal(signal.SIGUSR1, lambda *_: loop.release())


def _settle_later() -> None:
    memory.give_back()
    settling = threading.Timer(SETTLE_S, memory.settle)
    settling.daemon = True
    settling.start()


def _loop(chosen: Config, spool: Spool, sampler: Sampler, clock: Clock) -> Loop:
    boot = spool.identity
    sender = EnrollingSender(chosen)
    runner = _runner(chosen, sender, clock)
    return Loop(
        batch.Sender(chosen.node, boot.boot_id, boot.boot_start_ms, WINDOW_S, chosen.labels),
        sampler,
        spool,
        Pump(spool, sender.send, flush_s=chosen.flush_s, obey=runner.take),
        HostReader(chosen.proc_root),
        clock,
        phase_ms=random.randrange(MAX_PHASE_MS),
        release_s=chosen.release_min * 60,
        runner=runner,
    )


def _runner(chosen: Config, sender: EnrollingSender, clock: Clock) -> OrderTaker:
    """What carries out the hub's orders, or, where the operator allows none, says so."""
    if not chosen.allow_actions:
        return Refuser(clock.now_ms)
    from agent.actions.runner import Runner

    return Runner(
        chosen.node,
        frozenset(chosen.allow_actions),
        chosen.spool,
        token=lambda: sender.token,
        window_ms=WINDOW_MS,
    )


def _sampler(chosen: Config, clock: Clock, recorder: Recorder) -> Sampler:
    # what is simulated, replayed or scraped is not this host's kernel's to tell of
    kmsg = Kmsg() if chosen.source in SOURCES else None
    return Sampler(
        lambda: source_of(chosen, clock.now_ms()),
        workloads(chosen),
        window_ms=WINDOW_MS,
        interval_ms=INTERVAL_MS,
        recorder=recorder,
        kmsg=kmsg,
    )
