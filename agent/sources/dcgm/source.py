"""Readings from a dcgm-exporter that is already there: one scrape per window, nothing else to
install.

An exporter collects every 10 to 30 s and answers every scrape in between with the same values. A
value counts from the scrape that brought it until the next, but no longer than one and a half of
the exporter's own periods: when it stops collecting, nothing more is observed.
"""

import http.client
import logging
import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple
from urllib.parse import urlsplit

from agent.readings import (
    Allocation,
    Event,
    GPUInfo,
    Job,
    Processes,
    ProcessList,
    Reading,
    SourceError,
    SourceStatus,
    UnreachableError,
    Values,
    Workload,
    Workloads,
)
from agent.sources.dcgm.dcgm_text import Holder, Scrape, cards_of, reading_of, throttle_ratios
from agent.sources.dcgm.prometheus_text import parse

log = logging.getLogger("agent.dcgm")

SCRAPE_MS = 10_000
TIMEOUT_S = 5.0  # for each step; twice that for the whole answer
MAX_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
SCHEDULERS = ("slurm", "kubernetes", "declared")  # contract.md: the sources that name every holder
# The exporter's period is learnt from its own changes, within these; 30 s is its default.
FIRST_PERIOD_MS = 30_000
LEAST_PERIOD_MS = 10_000
MOST_PERIOD_MS = 60_000
HOLDS_PERIODS = 1.5
# without any label for this long after the last one: nobody holds anything, and the mapping works
FORGOTTEN_MS = 60_000


class DCGMSource:
    """The GPUs of one exporter.

    Raises UnreachableError where it does not answer, or names no GPU.
    """

    name = "dcgm"

    def __init__(self, url: str, *, cluster: str, now_ms: int) -> None:
        self.interval_ms = SCRAPE_MS
        self._url = url
        self._scrape = Scrape()
        self._notes: List[str] = []
        self._slot: Optional[int] = None
        self._trouble: Optional[str] = None
        self._changed_ms: Optional[int] = None
        # when the values of the first scrape were collected nobody knows
        self._is_change_seen = False
        self._period_ms = FIRST_PERIOD_MS
        self._pending: Dict[str, Reading] = {}
        self._xids: Dict[str, float] = {}
        self._events: List[Event] = []
        self.labels = Labels(cluster)
        self._take(self._ask(), now_ms)
        self._pending = {}

    def driver(self) -> Optional[str]:
        """The driver's version, where the exporter has it as a label."""
        return self._scrape.driver

    def notes(self) -> List[str]:
        """What an operator should know of the exporter's answers."""
        return self._notes

    def gpus(self) -> List[GPUInfo]:
        """Every GPU of the last scrape that came."""
        return [card.info for card in self._scrape.cards.values()]

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The GPU by the newest scrape, given once.

        Raises SourceError while the exporter does not answer or stands still.
        """
        if now_ms // self.interval_ms != self._slot:
            self._slot = now_ms // self.interval_ms
            self._pending = {}
            self._trouble = None  # kept for every GPU that is asked for in this interval
            try:
                self._take(self._ask(), now_ms)
            except SourceError as error:
                self._trouble = str(error)
                self.labels.is_answering = False
        if self._trouble is not None:
            raise SourceError(self._trouble)
        return self._pending.pop(uuid, None)

    def processes(self, uuid: str) -> ProcessList:
        """The exporter does not tell of processes."""
        return None

    def events(self, now_ms: int) -> List[Event]:
        """XIDs since the last call."""
        events = self._events
        self._events = []
        return events

    def close(self) -> None:
        """Nothing is held between two scrapes."""

    def workloads(self, otherwise: Callable[[], Workloads]) -> Workloads:
        """Who holds the GPUs: as on any other host, or by the exporter's labels where the host does
        not know.
        """
        self.labels.otherwise = otherwise()
        return self.labels

    def _ask(self) -> Scrape:
        parsed = parse(fetch_text(self._url))
        self._notes = []
        if parsed.unparsed:
            self._notes = [
                "%d lines of the exporter's answer can't be understood, the first: %.60s"
                % (parsed.unparsed, parsed.first_unparsed)
            ]
        scrape = cards_of(parsed.samples)
        if not scrape.cards:
            raise UnreachableError("%s names no GPU: is it a dcgm-exporter?" % self._url)
        if self._scrape.cards and not self._scrape.cards.keys() & scrape.cards.keys():
            raise UnreachableError(
                "%s now answers for other GPUs: give the address of this node's own exporter"
                % self._url
            )
        return scrape

    def _take(self, scrape: Scrape, now_ms: int) -> None:
        before = self._scrape
        self._scrape = scrape
        self.labels.take(scrape, now_ms)
        self._note_xids(scrape, now_ms)
        is_fresh = _has_changed(before, scrape)
        elapsed_ms = None if self._changed_ms is None else now_ms - self._changed_ms
        if is_fresh:
            self._note_change(now_ms, elapsed_ms)
        elif elapsed_ms is not None and elapsed_ms > HOLDS_PERIODS * self._period_ms:
            # without the seconds: a text that changes with each scrape would be logged with each
            # scrape
            raise SourceError(
                "%s answers with the same values again and again: it no longer collects" % self._url
            )
        for uuid, card in scrape.cards.items():
            ratios: Values = {}
            if is_fresh and elapsed_ms and uuid in before.cards:
                ratios = throttle_ratios(before.cards[uuid].values, card.values, elapsed_ms / 1000)
            self._pending[uuid] = reading_of(card, at_ms=now_ms, is_fresh=is_fresh, ratios=ratios)

    def _note_change(self, now_ms: int, elapsed_ms: Optional[int]) -> None:
        if elapsed_ms is not None and self._is_change_seen:
            self._period_ms = max(LEAST_PERIOD_MS, min(MOST_PERIOD_MS, elapsed_ms))
        self._is_change_seen = self._changed_ms is not None
        self._changed_ms = now_ms

    def _note_xids(self, scrape: Scrape, now_ms: int) -> None:
        """The gauge holds the last XID for ever: only its change is an event, and what stood there
        at our start is old.
        """
        for uuid, card in scrape.cards.items():
            xid = card.values.get("xid", 0)
            if uuid in self._xids and xid not in (0, self._xids[uuid]):
                self._events.append(
                    Event(now_ms, "xid", uuid, int(xid), "XID %d by dcgm-exporter's gauge" % xid)
                )
            self._xids[uuid] = xid


class Labels:
    """Who holds which GPU, by the labels of the newest scrape, and whether that can be believed.

    As Workloads: where there are labels and the host itself has no scheduler's books: those tell
    more.
    """

    def __init__(self, cluster: str) -> None:
        self.otherwise: Workloads  # the host's own
        self.is_answering = False
        self._cluster = cluster
        self._seen_ms: Dict[str, int] = {}  # scheduler -> when a label of it was last there
        self._now_ms = 0
        self._holders: Mapping[str, Set[Holder]] = {}
        self._since_ms: Dict[Tuple[str, Holder], int] = {}

    def take(self, scrape: Scrape, now_ms: int) -> None:
        """A scrape that came."""
        self.is_answering = True
        self._now_ms = now_ms
        self._seen_ms.update(dict.fromkeys(scrape.schedulers, now_ms))
        self._holders = {uuid: card.holders for uuid, card in scrape.cards.items()}

    def resolve(
        self, processes: Processes, *, gpus: Sequence[GPUInfo], start_ms: int, end_ms: int
    ) -> Workload:
        """Every holder of the newest scrape, from the window that saw it first."""
        statuses = self._statuses()
        of_host = self.otherwise.resolve(processes, gpus=gpus, start_ms=start_ms, end_ms=end_ms)
        if not statuses or any(status.kind in SCHEDULERS for status in of_host.sources):
            return of_host
        held = self._held({status.kind for status in statuses if status.ok})
        self._since_ms = {hold: self._since_ms.get(hold, start_ms) for hold in held}
        jobs = [self._job(holder) for _, holder in held]
        allocations = [
            Allocation(hold[0], job.key, job.scheduler, self._since_ms[hold])
            for hold, job in zip(held, jobs)
        ]
        by_key = {job.key: job for job in jobs}
        return Workload(jobs=list(by_key.values()), allocations=allocations, sources=statuses)

    def _held(self, answering: Set[str]) -> List[Tuple[str, Holder]]:
        return [
            (uuid, holder)
            for uuid, holders in self._holders.items()
            for holder in sorted(holders)
            if holder.scheduler in answering
        ]

    def _statuses(self) -> List[SourceStatus]:
        """The schedulers that ever had a label.

        The exporter leaves labels out where nobody holds a GPU, but for a moment also while it
        can't ask the kubelet: no label on any GPU is believed only after FORGOTTEN_MS.
        """
        ages_ms = {kind: self._now_ms - seen_ms for kind, seen_ms in self._seen_ms.items()}
        return [
            SourceStatus(
                kind,
                ok=self.is_answering and (not age_ms or age_ms >= FORGOTTEN_MS),
                seen_ms=self._now_ms,
            )
            for kind, age_ms in sorted(ages_ms.items())
        ]

    def _job(self, holder: Holder) -> Job:
        return Job(
            key="%s/%s/%s" % (holder.scheduler, self._cluster, holder.id),
            scheduler=holder.scheduler,
            cluster=self._cluster,
            id=holder.id,
            name=holder.name,
            account=holder.account,
            state="RUNNING",
        )


def _has_changed(before: Scrape, after: Scrape) -> bool:
    """True unless every GPU says what it said before; where no energy counter runs that may be a
    new collection too.
    """
    has_counter = any("energy_j" in card.values for card in after.cards.values())
    return not has_counter or any(
        uuid not in before.cards or before.cards[uuid].values != card.values
        for uuid, card in after.cards.items()
    )


def fetch_text(url: str) -> str:
    """The body at the URL.

    Raises UnreachableError, at the latest after 2 x TIMEOUT_S and a step.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request(
            "GET",
            (parts.path or "/metrics") + ("?" + parts.query if parts.query else ""),
            headers={"Accept": "text/plain"},
        )
        response = connection.getresponse()
        if response.status != 200:
            raise UnreachableError("%s answers %d %.60s" % (url, response.status, response.reason))
        return _body(response, url)
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            "%s does not answer: %s" % (url, getattr(error, "strerror", None) or error)
        ) from error
    finally:
        connection.close()


def _body(response: http.client.HTTPResponse, url: str) -> str:
    """A peer that sends a byte now and then never times out by itself: the whole answer has its own
    limit.
    """
    deadline = time.monotonic() + 2 * TIMEOUT_S
    body = bytearray()
    while True:
        chunk = response.read1(CHUNK_BYTES)
        if not chunk:
            return body.decode("utf-8", "replace")
        body += chunk
        if len(body) > MAX_BYTES:
            raise UnreachableError(
                "%s answers with more than %d MiB" % (url, MAX_BYTES // 1024 // 1024)
            )
        if time.monotonic() > deadline:
            raise UnreachableError("%s is too slow: no whole answer in %d s" % (url, 2 * TIMEOUT_S))
