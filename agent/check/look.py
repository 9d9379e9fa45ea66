"""`once` and `check`: one window of this host, as the wire has it or for people."""

import json
import logging
import os
import platform
import sys
import time
import uuid
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from agent import __version__, batch, wire
from agent.assembly import identity_of, source_of, workloads
from agent.check import report
from agent.check.host_probe import look_at_host, look_for_driver, look_for_schedulers
from agent.check.hub_probe import Hub
from agent.check.report import Finding, Look
from agent.clock import Clock
from agent.config import INSTALLED, Config
from agent.host import HostReader
from agent.loop import INTERVAL_MS, WINDOW_S, close_all
from agent.readings import (
    GPUs,
    NotedSource,
    PacedSource,
    Source,
    SourceError,
    SourceStatus,
    VersionedSource,
)
from agent.sampler import Observed, Recorder, Sampler
from agent.sending.enrolment import EnrollingSender

OK = 0
FAILED = 1
WINDOW_MS = WINDOW_S * 1000
CHECK_MS = 6000  # what changes slowly is read every five seconds
NO_PROCESSES = "no list of processes can be read: who holds the GPUs is not known"
HOW_TO_KNOW = (
    "let a scheduler tell it (--jobs), or let dcgm-exporter map pods or batch jobs to GPUs"
)
MAX_NOTES = 10
NO_HUB = (
    "not asked: no --server, no FLEETWATCH_SERVER, and no %s that can be read (it is root's)"
    % INSTALLED
)
# why books that could be read are not, where nobody named the kinds
NOT_ASKED = {"slurm": "no slurmd runs here", "docker": "a scheduler is asked instead"}


class Seen(NamedTuple):
    """One window of this host, and who read it."""

    sampler: Sampler
    source: Source
    gpus: GPUs
    closed: batch.ClosedWindow


def once(chosen: Config) -> int:
    """Prints one batch. Raises SourceError when nothing can be read."""
    name = identity_of(chosen)(uuid.uuid4().hex)
    with _one_window(chosen, WINDOW_MS) as seen:
        content = batch.build(
            [seen.closed],
            sender=batch.Sender(chosen.node, name.boot_id, name.boot_start_ms, WINDOW_S),
            gpus=seen.gpus,
            agent={
                "version": __version__,
                "driver": seen.sampler.driver,
                "source": seen.sampler.name,
            },
            events=seen.sampler.take_events(),
        )
    sys.stdout.write(wire.encode(content).decode("utf-8") + "\n")
    return OK


def check(chosen: Config) -> int:
    """Prints what this host offers; FAILED when nothing can be read, or the hub or its token does
    not work.
    """
    with _listening() as listener:
        look = _host(chosen)
        try:
            look = _gpus(chosen, look, listener.schedulers)
        except SourceError as error:
            look = replace(look, failure=str(error), host=[look_for_driver(), *look.host])
    notes = dict.fromkeys(listener.notes)
    look = replace(look, notes=[*look.notes, *notes][:MAX_NOTES])
    if chosen.is_json:
        print(json.dumps(report.as_json(look), indent=2))
    else:
        print(report.text(look, has_colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    return OK if look.is_ok else FAILED


class _Listener(logging.Handler):
    """Keeps the warnings of the agent's parts for the report."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.schedulers: Dict[str, str] = {}  # kind -> why it does not answer
        self.notes: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """A scheduler's reason goes to its line, everything else to the notes."""
        if (
            str(record.msg).startswith("the scheduler")
            and isinstance(record.args, tuple)
            and len(record.args) == 2
        ):
            self.schedulers[str(record.args[0])] = str(record.args[1])
        else:
            self.notes.append(record.getMessage())


@contextmanager
def _listening() -> Iterator[_Listener]:
    """What the agent's parts log meanwhile is heard, and not printed: a report says it in its
    place.
    """
    listener = _Listener()
    logger = logging.getLogger("agent")
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield listener
    finally:
        logger.propagate = True
        logger.removeHandler(listener)


def _host(chosen: Config) -> Look:
    """What can be said without a GPU."""
    token = EnrollingSender(chosen).token if chosen.token else ""
    findings = (
        Hub(chosen.server, token, ca_file=chosen.ca_file).look()
        if chosen.server
        else [Finding("hub", "-", NO_HUB)]
    )
    versions = {"agent": "%s on Python %s" % (__version__, platform.python_version())}
    return Look(
        node=chosen.node,
        versions=versions,
        host=look_at_host(chosen.spool, proc=Path(chosen.proc_root)),
        hub=findings,
    )


def _gpus(chosen: Config, look: Look, reasons: Dict[str, str]) -> Look:
    """Raises SourceError when there is no GPU."""
    is_here = not chosen.source.startswith(("simulated:", "replay:"))
    with _one_window(chosen, CHECK_MS) as (sampler, source, gpus, closed):
        versions = source.versions() if isinstance(source, VersionedSource) else {}
        return replace(
            look,
            source=sampler.name,
            versions={**look.versions, "driver": sampler.driver or "unknown", **versions},
            gpus=gpus,
            windows=closed.windows,
            jobs=_job_sources(
                closed.workload.sources,
                look_for_schedulers() if is_here else [],
                reasons,
                is_auto="auto" in chosen.jobs,
            ),
            notes=source.notes() if isinstance(source, NotedSource) else [],
        )


def _job_sources(
    statuses: Sequence[SourceStatus],
    here: Sequence[Finding],
    reasons: Dict[str, str],
    *,
    is_auto: bool = True,
) -> List[Finding]:
    """Those that were asked, with their answer; then those that could be, with what keeps them."""
    advice = {"process": HOW_TO_KNOW, **{finding.name: finding.advice for finding in here}}
    asked = [
        _asked(status, reasons.get(status.kind), advice.get(status.kind, "")) for status in statuses
    ]
    names = {finding.name for finding in asked}
    return asked + [
        _left_out(finding, is_auto=is_auto) if finding.state == "ok" else finding
        for finding in here
        if finding.name not in names
    ]


def _asked(status: SourceStatus, reason: Optional[str], advice: str) -> Finding:
    if status.ok:
        state = "ok"
        text = "answers"
    elif reason is not None:
        state = "no"
        text = reason
    else:
        state = "warn"
        text = NO_PROCESSES if status.kind == "process" else "has not answered yet"
    return Finding(status.kind, state, text, advice)


def _left_out(finding: Finding, *, is_auto: bool) -> Finding:
    """Books that are here and are not asked, with the reason."""
    reason = NOT_ASKED.get(finding.name, "not found at once") if is_auto else "--jobs leaves it out"
    return replace(finding, state="-", text="%s; not asked: %s" % (finding.text, reason))


@contextmanager
def _one_window(chosen: Config, window_ms: int) -> Iterator[Seen]:
    """One window of this host: the one just past where time is simulated, else the next whole one.

    Raises SourceError.
    """
    clock = Clock()
    host = HostReader(chosen.proc_root)
    is_simulated = chosen.source.startswith("simulated:")
    start_ms = _whole_before(clock.now_ms(), window_ms)
    source = _opened(chosen, start_ms - 2 * INTERVAL_MS if is_simulated else clock.now_ms())
    if not is_simulated:
        start_ms = _whole_before(clock.now_ms(), window_ms) + 2 * window_ms
        print("reading for up to %d s" % (2 * window_ms // 1000), file=sys.stderr)
    with closing(_sampler(chosen, source, window_ms)) as sampler:
        end_ms = start_ms + window_ms
        observed = _read(sampler, None if is_simulated else clock, start_ms, end_ms)
        closed = close_all(observed, host, start_ms=start_ms, end_ms=end_ms)
        yield Seen(sampler, source, observed.gpus, closed)


def _opened(chosen: Config, start_ms: int) -> Source:
    """Raises SourceError when it names no GPU."""
    source = source_of(chosen, start_ms)
    if not source.gpus():
        source.close()
        raise SourceError("the driver names no GPU")
    if chosen.command == "check" and isinstance(source, PacedSource):
        # a scrape per second, for these seconds, shows what there is
        source.interval_ms = INTERVAL_MS
    return source


def _sampler(chosen: Config, source: Source, window_ms: int) -> Sampler:
    return Sampler(
        lambda: source,
        workloads(chosen),
        window_ms=window_ms,
        interval_ms=INTERVAL_MS,
        recorder=Recorder(),
    )


def _read(sampler: Sampler, clock: Optional[Clock], start_ms: int, end_ms: int) -> Observed:
    """Each second from the one before to the one after, at its time where there is a clock."""
    for at_ms in range(start_ms - INTERVAL_MS, end_ms + INTERVAL_MS, INTERVAL_MS):
        if clock is not None:
            time.sleep(max(0, at_ms - clock.now_ms()) / 1000)
        sampler.tick(at_ms)
    return sampler.take(start_ms, end_ms)


def _whole_before(now_ms: int, window_ms: int) -> int:
    """The start of the last window that is over."""
    return now_ms // window_ms * window_ms - window_ms
