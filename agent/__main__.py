"""The agent's door: run | once | check | replay. Exit 0: ok; 1: nothing to read, or the hub refused; 2: bad arguments."""

import logging
import os
import random
import signal
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Callable, Optional, Sequence

from agent import batch, config, report, wire
from agent.clock import Clock
from agent.config import Config, ConfigError, JobOptions
from agent.enrolment import Access, EnrollingSender
from agent.host import HostReader, boot_start_ms, kernel_boot_id
from agent.loop import INTERVAL_MS, WINDOW_S, Loop, Parts, host_columns, window_of
from agent.reading import Job, Source, SourceError, Workloads
from agent.recording import FileRecorder
from agent.replay import ReplayError, replay
from agent.sampler import Observed, Recorder, Sampler
from agent.sender import Pump
from agent.sources.factory import open_source
from agent.sources.replay import LogError
from agent.sources.simulated import Simulated
from agent.spool import Identity, Spool, SpoolError
from agent.workloads import Resolver

OK, FAILED, BAD_ARGUMENTS = 0, 1, 2
WINDOW_MS = WINDOW_S * 1000
MAX_PHASE_MS = 3000
CHECK_MS = 3000  # a look is enough to see what can be read


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The exit status; every failure is one clear line on standard error."""
    if sys.version_info < (3, 8):
        return _fail("Python 3.8 or newer is needed, this is %d.%d" % sys.version_info[:2], BAD_ARGUMENTS)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        chosen = config.parse(sys.argv[1:] if arguments is None else arguments, os.environ)
        logging.getLogger().setLevel(logging.INFO if chosen.command == "run" else logging.WARNING)
        return {"run": _run, "once": _once, "check": _check, "replay": _replay}[chosen.command](chosen)
    except (ConfigError, ValueError) as error:
        return _fail(str(error), BAD_ARGUMENTS)
    except (SourceError, SpoolError, LogError, ReplayError, OSError) as error:
        return _fail(str(error), FAILED)
    except KeyboardInterrupt:
        return FAILED


def _run(chosen: Config) -> int:
    stop = threading.Event()
    clock = Clock()
    recorder = _recorder(chosen)
    sampler = _sampler(chosen, clock, recorder)
    if chosen.source.startswith(("simulated:", "replay:")):  # what is wrong with these, time does not mend
        open_source(chosen.source, node=chosen.node, start_ms=clock.now_ms()).close()
    spool = Spool(chosen.spool, identity=_identity, max_bytes=chosen.spool_bytes)
    try:
        pump = Pump(spool, _hub(chosen).send, flush_s=chosen.flush_s)
        sender = batch.Sender(chosen.node, spool.identity.boot_id, spool.identity.boot_start_ms, WINDOW_S, chosen.labels)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: (stop.set(), pump.wake()))  # type: ignore[func-returns-value]
        logging.info("agent started node=%s source=%s server=%s spool=%s", chosen.node, chosen.source, chosen.server, chosen.spool)
        Loop(Parts(sender, sampler, spool, pump, HostReader(), clock, random.randrange(MAX_PHASE_MS))).run(stop)
    finally:
        spool.close()
        if isinstance(recorder, FileRecorder):
            recorder.close()
    return OK


def _once(chosen: Config) -> int:
    sampler, observed, start_ms, host = _one_window(chosen, WINDOW_MS)
    windows = [window_of(observed, gpu, start_ms=start_ms, end_ms=start_ms + WINDOW_MS) for gpu in observed.gpus]
    closed = batch.ClosedWindow(start_ms, windows, observed.workload, host_columns(host, observed))
    identity = _identity(uuid.uuid4().hex)
    sender = batch.Sender(chosen.node, identity.boot_id, identity.boot_start_ms, WINDOW_S)
    content = batch.build([closed], sender=sender, gpus=observed.gpus, agent={"source": sampler.name}, events=sampler.take_events())
    sys.stdout.write(wire.encode(content).decode("utf-8") + "\n")
    return OK


def _check(chosen: Config) -> int:
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


def _replay(chosen: Config) -> int:
    for done in replay(chosen, _hub(chosen).send):
        print("%s: %d windows of %d GPUs in %d batches, all at the hub" % (done.path, done.windows, done.gpus, done.batches), flush=True)
    return OK


def _hub(chosen: Config) -> EnrollingSender:
    return EnrollingSender(Access(chosen.server, chosen.node, chosen.token, chosen.spool, chosen.ca_file))


def _one_window(chosen: Config, window_ms: int) -> "tuple[Sampler, Observed, int, HostReader]":
    """One window of this host: the one just past where time is simulated, else the next whole one. Raises SourceError."""
    clock = Clock()
    host = HostReader()
    is_simulated = chosen.source.startswith("simulated:")
    start_ms = clock.now_ms() // window_ms * window_ms + (-window_ms if is_simulated else window_ms)
    source = open_source(chosen.source, node=chosen.node, start_ms=start_ms - 2 * INTERVAL_MS)
    if not source.gpus():
        raise SourceError("the driver names no GPU")
    if not is_simulated:
        print("reading for up to %d s" % (2 * window_ms // 1000), file=sys.stderr)
    sampler = Sampler(lambda: source, _workloads(chosen), window_ms=window_ms, interval_ms=INTERVAL_MS, recorder=Recorder())
    for at_ms in range(start_ms - INTERVAL_MS, start_ms + window_ms + INTERVAL_MS, INTERVAL_MS):
        if not is_simulated:
            time.sleep(max(0, at_ms - clock.now_ms()) / 1000)
        sampler.tick(at_ms)
    observed = sampler.take(start_ms, start_ms + window_ms)
    sampler.close()
    return sampler, observed, start_ms, host


def _sampler(chosen: Config, clock: Clock, recorder: Recorder) -> Sampler:
    def open_now() -> Source:
        return open_source(chosen.source, node=chosen.node, start_ms=clock.now_ms())

    return Sampler(open_now, _workloads(chosen), window_ms=WINDOW_MS, interval_ms=INTERVAL_MS, recorder=recorder)


def _workloads(chosen: Config) -> Callable[[Source], Workloads]:
    """A simulated node brings its own scheduler; every other one is asked through /proc."""
    job = None if chosen.job is None else _declared(chosen.job)

    def choose(source: Source) -> Workloads:
        return source if isinstance(source, Simulated) else Resolver(node=chosen.node, declared=job)

    return choose


def _declared(job: JobOptions) -> Job:
    """The job that the operator names, from now on."""
    return Job(
        key=job.key, scheduler="declared", id=job.key, user=job.user, account=job.account, kind=job.kind, start_ms=int(time.time() * 1000)
    )


def _recorder(chosen: Config) -> Recorder:
    return Recorder() if chosen.record is None else FileRecorder(Path(chosen.record), interval_ms=INTERVAL_MS)


def _identity(spool_id: str) -> Identity:
    """One spool's life within one boot of the kernel; without a kernel that says, this start's."""
    boot = kernel_boot_id() or uuid.uuid4().hex
    return Identity("%s-%s" % (boot, spool_id[:12]), boot_start_ms() or int(time.time() * 1000))


def _fail(text: str, status: int) -> int:
    print("fleetwatch-agent: %s" % " ".join(text.split()), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
