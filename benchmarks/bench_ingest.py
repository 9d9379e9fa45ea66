"""Ingest with sealing: what a server core takes in of agents' batches, beside the remote write of
VictoriaMetrics and Prometheus.

Each system gets the same windows of the same hours: one request of each node per 60 s, alone and
with who holds which GPU, and per 30 s and 10 s. An hour's requests are sent over kept connections;
then our worker seals it. CPU is of all server processes.
"""

import dataclasses
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agent import packed, wire
from benchmarks import fleet, remote_write
from benchmarks.apart import apart, say
from benchmarks.client import post_all
from benchmarks.peers import Peer, running_peers
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import BenchError, Cell, Goal, Size, Table

GPUS = {Size.QUICK: (100,), Size.FULL: (100, 1000)}


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """How the nodes send: so many windows in a request; with who holds which GPU, or the windows
    alone.
    """

    name: str
    windows: int
    with_jobs: bool = False


ROUNDS = 3  # an hour each
CONNECTIONS = 16
# The target's: agents flush each 30 s, and may be asked for longer batches.
TARGET = Kind("60 s, with jobs", 6, with_jobs=True)
KINDS = (Kind("60 s", 6), TARGET, Kind("30 s, with jobs", 3, with_jobs=True), Kind("10 s", 1))
OURS = "FleetWatch"
WINDOW_MS, HOUR_MS = fleet.WINDOW_MS, 3_600_000
PEER = "VictoriaMetrics"
NOTES = (
    f"medians of {ROUNDS} rounds (an hour of all nodes each) with the range; the systems take"
    " turns, the first hour is not counted",
    "our answer follows a commit that is synced to disk, the peers' does not",
    "our agents pack and compress what the peers unpack, sort and compress in the server; that work"
    " is on the GPU hosts",
    "with jobs: our batches name jobs and who holds which GPU, the peers get one more series for"
    " each hold (not counted as values)",
    "ours includes sealing the hour (worker and Postgres); re-sealing at 6 hours, posting and the"
    " peers' later merges not",
)


@dataclasses.dataclass(slots=True)
class Rate:
    """Values per second of a server core, round by round, and how long the median answer took."""

    per_core: list[float] = dataclasses.field(default_factory=list)
    answer_s: list[float] = dataclasses.field(default_factory=list)
    # CPU seconds by process
    parts: dict[str, list[float]] = dataclasses.field(default_factory=lambda: defaultdict(list))


Hour = list[tuple[wire.Batch, list[fleet.Columns]]]  # one node's facts and windows each


def run(size: Size) -> list[Table]:
    """Values per second of a server core, sealing included, beside the peers' remote write."""
    return [apart(measure, gpus) for gpus in GPUS[size]]


def measure(gpus: int) -> Table:
    """One size of fleet, each kind of request; the systems take turns hour by hour."""
    found: dict[tuple[str, str], Rate] = defaultdict(Rate)
    with running_hub(with_web=True) as hub, running_peers() as peers:
        tokens: dict[str, str] = {}
        first_ms = _first_hour()
        for kind in KINDS:
            # round 0 is not measured: nodes, series and partitions become known
            for at in range(ROUNDS + 1):
                hour = _hour(gpus, first_ms, at)
                values = sum(fleet.values_in(columns) for _, told in hour for columns in told)
                for name, measured in _systems(hub, peers, hour, tokens, kind=kind, at=at):
                    if at:
                        _note(found[kind.name, name], values, *measured)
                say(f"{gpus:,} GPUs, requests of {kind.name}: hour {at + 1} of {ROUNDS + 1}")
            first_ms += (ROUNDS + 1) * HOUR_MS
    return _table(gpus, found, [OURS, *(peer.name for peer in peers)])


def _first_hour() -> int:
    """So that all hours are closed and none is final."""
    first = datetime.now(UTC) - timedelta(hours=len(KINDS) * (ROUNDS + 1) + 2)
    return int(first.timestamp() * 1000) // HOUR_MS * HOUR_MS


def _hour(gpus: int, first_ms: int, at: int) -> Hour:
    """The nodes' windows of that hour: from the fleet's first six hours, told as of then."""
    from benchmarks import bulk
    from fleetwatch.demo.blocks import Block, Fill
    from fleetwatch.demo.fleet import nodes

    start_ms = first_ms + at * HOUR_MS
    block = Block(
        Fill(start_ms, start_ms + HOUR_MS), start_ms, start_ms + HOUR_MS, WINDOW_MS // 1000
    )
    return [
        voice
        for group in bulk.groups(nodes(gpus), 16)
        for voice in bulk.voices(group, block, [0], fleet.COLUMNS)
    ]


def _systems(
    hub: Hub, peers: Sequence[Peer], hour: Hour, tokens: dict[str, str], *, kind: Kind, at: int
) -> Iterator[tuple[str, tuple[list[float], dict[str, float]]]]:
    """(name, (seconds of each answer, CPU seconds by process)) of each system, ours first in even
    rounds and last in odd ones.
    """
    turns = [(OURS, lambda: _ours(hub, hour, tokens, kind))]
    bodies = [_bodies(batch, told, kind) for batch, told in hour]
    turns += [(peer.name, lambda peer=peer: _theirs(peer, bodies)) for peer in peers]
    for name, turn in turns if at % 2 == 0 else reversed(turns):
        yield name, turn()


def _ours(
    hub: Hub, hour: Hour, tokens: dict[str, str], kind: Kind
) -> tuple[list[float], dict[str, float]]:
    from django.utils import timezone

    from fleetwatch.ingest.tokens import create_agent_token
    from fleetwatch.telemetry.seal import seal_closed_hours

    for batch, _ in hour:
        if batch.node not in tokens:
            tokens[batch.node] = create_agent_token(batch.node, timezone.now())
    queues = _queues(
        [
            [
                _batch(batch, told, rows, tokens[batch.node], kind)
                for rows in _cuts(told, kind.windows)
            ]
            for batch, told in hour
        ]
    )
    before = hub.web_s(), hub.postgres_s()
    assert hub.port is not None
    took = post_all(hub.port, queues)
    web_s, stored_s = hub.web_s() - before[0], hub.postgres_s() - before[1]
    # in this order, and below the other way round: asking after Postgres takes CPU too
    before_s = hub.postgres_s(), time.process_time()
    sealed = seal_closed_hours(timezone.now(), 10**6)
    worker_s = time.process_time() - before_s[1]
    if sealed.get("failed") or sealed["windows"] < sum(
        len(columns["start_ms"]) for _, told in hour for columns in told
    ):
        raise BenchError(f"the hour was not sealed whole: {sealed}")
    parts = {
        "web": web_s,
        "Postgres": stored_s,
        "sealing": worker_s + hub.postgres_s() - before_s[0],
    }
    return took, parts


def _theirs(peer: Peer, bodies: Sequence[Sequence[bytes]]) -> tuple[list[float], dict[str, float]]:
    queues = _queues(
        [[remote_write.http(peer.write_path, body) for body in of_node] for of_node in bodies]
    )
    before = peer.cpu_s()
    took = post_all(peer.port, queues)
    if not peer.is_ordered:
        time.sleep(2)  # VictoriaMetrics writes its buffers a second later
    return took, {"server": peer.cpu_s() - before}


def _bodies(batch: wire.Batch, told: Sequence[fleet.Columns], kind: Kind) -> list[bytes]:
    """The node's hour as remote write, cut as our agent's batches are."""
    columns, holds = fleet.series_of(batch, told, run=kind.name)
    starts = told[0]["start_ms"]
    edges = [int(starts[rows.start]) for rows in _cuts(told, kind.windows)]
    return remote_write.requests(
        [*columns, *holds] if kind.with_jobs else columns, [*edges, int(starts[-1]) + 1]
    )


def _cuts(told: Sequence[fleet.Columns], windows: int) -> list[slice]:
    """Rows of each request of so many windows; all GPUs of a node have the same starts."""
    return [slice(first, first + windows) for first in range(0, len(told[0]["start_ms"]), windows)]


def _queues(requests: Sequence[Sequence[bytes]]) -> list[list[bytes]]:
    """All nodes' requests in order of time, each node's on one connection."""
    queues: list[list[bytes]] = [[] for _ in range(min(CONNECTIONS, len(requests)))]
    for at in range(max(map(len, requests))):
        for place, of_node in enumerate(requests):
            if at < len(of_node):
                queues[place % len(queues)].append(of_node[at])
    return queues


def _batch(
    batch: wire.Batch, told: Sequence[fleet.Columns], rows: slice, token: str, kind: Kind
) -> bytes:
    """The HTTP request in which an agent sends these windows."""
    cut = [{name: values[rows].tolist() for name, values in columns.items()} for columns in told]
    start_ms, end_ms = cut[0]["start_ms"][0], cut[0]["start_ms"][-1] + WINDOW_MS
    windows: dict[str, list[Any]] = {
        "gpu": [place for place, columns in enumerate(cut) for _ in columns["start_ms"]]
    }
    for name in (*("start_ms", "observed_ms"), *fleet.COLUMNS):
        if name in cut[0]:
            windows[name] = [
                None if math.isnan(value) else value for columns in cut for value in columns[name]
            ]
    held = [
        item
        for item in batch.allocations
        if kind.with_jobs
        and (item["start_ms"] or 0) < end_ms
        and (item["end_ms"] or end_ms) > start_ms
    ]
    places = sorted({item["job"] for item in held})
    allocations = [
        item
        | {
            "job": places.index(item["job"]),
            "end_ms": item["end_ms"] if (item["end_ms"] or end_ms) < end_ms else None,
        }
        for item in held
    ]
    made = dataclasses.replace(
        batch,
        boot_id=f"bench {kind.name}",
        boot_start_ms=1_600_000_000_000,
        sequence=start_ms // (kind.windows * WINDOW_MS),  # one after the other, as agents count
        windows=windows,
        jobs=[_as_of(batch.jobs[place], end_ms) for place in places],
        allocations=allocations,
        sources=batch.sources if kind.with_jobs else [],
        events=[],
    )
    body = packed.pack(made)
    head = (
        "POST /api/v1/batches HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer"
        f" {token}\r\nContent-Type: {packed.CONTENT_TYPE}\r\nContent-Encoding: deflate\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _as_of(job: wire.Item, end_ms: int) -> wire.Item:
    """What is known of the job by then: no end that is to come."""
    is_over = (job.get("end_ms") or end_ms) < end_ms
    return job if is_over else job | {"end_ms": None, "state": "RUNNING"}


def _note(rate: Rate, values: int, took: list[float], parts: dict[str, float]) -> None:
    rate.per_core.append(values / sum(parts.values()))
    rate.answer_s.append(statistics.median(took))
    for name, used_s in parts.items():
        rate.parts[name].append(used_s)


def _table(gpus: int, found: dict[tuple[str, str], Rate], systems: Sequence[str]) -> Table:
    names = [kind.name for kind in KINDS]
    in_order = sorted(found, key=lambda key: (names.index(key[0]), systems.index(key[1])))
    return Table(
        f"Ingest: {gpus:,} GPUs, requests of one node each, {CONNECTIONS} connections",
        [
            "request, system",
            "million values/s of a server core",
            "CPU-s of an hour",
            "median answer, ms",
        ],
        [_row(*key, found[key]) for key in in_order],
        notes=NOTES,
        goals=(
            Goal(
                "ingest incl. sealing, batches of 60 s with jobs, per core",
                _ratio(found, TARGET.name),
                1.5,
                3,
                "x VM",
                is_more_better=True,
                where=f"{gpus:,} GPUs",
            ),
        ),
    )


def _row(kind: str, system: str, rate: Rate) -> list[Cell]:
    low, median, high = (of(rate.per_core) / 1e6 for of in (min, statistics.median, max))
    parts = [f"{part} {statistics.median(used_s):.2f}" for part, used_s in rate.parts.items()]
    return [
        f"{kind}, {system}",
        f"{median:.2f} ({low:.2f}–{high:.2f})",
        ", ".join(parts),
        f"{statistics.median(rate.answer_s) * 1000:.1f}",
    ]


def _ratio(found: dict[tuple[str, str], Rate], kind: str) -> float:
    return statistics.median(found[kind, OURS].per_core) / statistics.median(
        found[kind, PEER].per_core
    )
