"""`once` and `check`: one window of this host, as the wire has it or for people."""

import json
import logging
import os
import platform
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from agent import __version__, batch, report, wire
from agent.assembly import identity, source, workloads
from agent.clock import Clock
from agent.config import INSTALLED, Config
from agent.enrolment import EnrollingSender
from agent.host import HostReader
from agent.host_probe import look_at_host, look_for_driver, look_for_schedulers
from agent.hub_probe import Hub
from agent.loop import INTERVAL_MS, WINDOW_S, close_all
from agent.readings import (
    Events,
    NotedSource,
    PacedSource,
    Source,
    SourceError,
    SourceStatus,
    VersionedSource,
)
from agent.report import Finding, Look
from agent.sampler import Observed, Recorder, Sampler

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
    """One window of this host, and what its source says of itself."""

    source: str
    driver: str
    observed: Observed
    closed: batch.ClosedWindow
    versions: Dict[str, str]
    notes: List[str]
    events: Events


def once(chosen: Config) -> int:
    """Prints one batch. Raises SourceError when nothing can be read."""
    seen = _one_window(chosen, WINDOW_MS)
    name = identity(uuid.uuid4().hex)
    sender = batch.Sender(chosen.node, name.boot_id, name.boot_start_ms, WINDOW_S)
    agent = {
        "version": __version__,
        "driver": seen.driver,
        "source": seen.source,
    }
    content = batch.build(
        [seen.closed], sender=sender, gpus=seen.observed.gpus, agent=agent, events=seen.events
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
            look = _gpus(chosen, look, listener)
        except SourceError as error:
            host = [look_for_driver(), *look.host]
            look = replace(look, failure=str(error), host=host, notes=listener.notes())
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
        self._lines: List[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """A scheduler's reason goes to its line, everything else to the notes."""
        if (
            str(record.msg).startswith("the scheduler")
            and isinstance(record.args, tuple)
            and len(record.args) == 2
        ):
            self.schedulers[str(record.args[0])] = str(record.args[1])
        else:
            self._lines.append(record.getMessage())

    def notes(self) -> List[str]:
        """Each once."""
        return list(dict.fromkeys(self._lines))[:MAX_NOTES]


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


def _gpus(chosen: Config, look: Look, listener: _Listener) -> Look:
    """Raises SourceError when there is no GPU."""
    seen = _one_window(chosen, CHECK_MS)
    is_here = not chosen.source.startswith(("simulated:", "replay:"))
    return replace(
        look,
        source=seen.source,
        versions={**look.versions, "driver": seen.driver or "unknown", **seen.versions},
        gpus=seen.observed.gpus,
        windows=seen.closed.windows,
        jobs=_job_sources(
            seen.observed.workload.sources,
            look_for_schedulers() if is_here else [],
            listener.schedulers,
            is_auto="auto" in chosen.jobs,
        ),
        notes=[*seen.notes, *listener.notes()][:MAX_NOTES],
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


def _opened(chosen: Config, start_ms: int) -> Source:
    """Raises SourceError when it names no GPU."""
    opened = source(chosen, start_ms)
    if not opened.gpus():
        opened.close()
        raise SourceError("the driver names no GPU")
    return opened


def _one_window(chosen: Config, window_ms: int) -> Seen:
    """One window of this host: the one just past where time is simulated, else the next whole one.

    Raises SourceError.
    """
    clock = Clock()
    host = HostReader(chosen.proc_root)
    is_simulated = chosen.source.startswith("simulated:")
    start_ms = _whole_before(clock.now_ms(), window_ms)
    opened = _opened(chosen, start_ms - 2 * INTERVAL_MS if is_simulated else clock.now_ms())
    if window_ms == CHECK_MS and isinstance(opened, PacedSource):
        # a scrape per second, for these seconds, shows what there is
        opened.interval_ms = INTERVAL_MS
    if not is_simulated:
        start_ms = _whole_before(clock.now_ms(), window_ms) + 2 * window_ms
        print("reading for up to %d s" % (2 * window_ms // 1000), file=sys.stderr)
    sampler = _sampler(chosen, opened, window_ms)
    end_ms = start_ms + window_ms
    _tick(sampler, None if is_simulated else clock, start_ms, end_ms)
    return _seen(sampler, opened, start_ms, end_ms, host)


def _tick(sampler: Sampler, clock: Optional[Clock], start_ms: int, end_ms: int) -> None:
    """Each second from the one before to the one after, at its time where there is a clock."""
    for at_ms in range(start_ms - INTERVAL_MS, end_ms + INTERVAL_MS, INTERVAL_MS):
        if clock is not None:
            time.sleep(max(0, at_ms - clock.now_ms()) / 1000)
        sampler.tick(at_ms)


def _sampler(chosen: Config, opened: Source, window_ms: int) -> Sampler:
    return Sampler(
        lambda: opened,
        workloads(chosen),
        window_ms=window_ms,
        interval_ms=INTERVAL_MS,
        recorder=Recorder(),
    )


def _whole_before(now_ms: int, window_ms: int) -> int:
    """The start of the last window that is over."""
    return now_ms // window_ms * window_ms - window_ms


def _seen(sampler: Sampler, opened: Source, start_ms: int, end_ms: int, host: HostReader) -> Seen:
    """The window that was read; the sampler is closed."""
    observed = sampler.take(start_ms, end_ms)
    seen = Seen(
        source=sampler.name,
        driver=sampler.driver,
        observed=observed,
        closed=close_all(observed, host, start_ms=start_ms, end_ms=end_ms),
        versions=opened.versions() if isinstance(opened, VersionedSource) else {},
        notes=opened.notes() if isinstance(opened, NotedSource) else [],
        events=sampler.take_events(),
    )
    sampler.close()
    return seen
