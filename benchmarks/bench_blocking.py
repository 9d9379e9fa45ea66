"""Blocking: what a request waits while hours are sealed, joined, posted, and what is old is
dropped, all at once.

Agents send and somebody asks, at a steady pace, with the workers' work beside them and without, in
turns. Locks are looked at in Postgres 50 times a second: how long somebody waited, who, and for
what.
"""

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from agent import packed, wire
from benchmarks.client import Reader, post_all
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import BenchError, Goal, Size, Table

SECONDS = {Size.QUICK: 8, Size.FULL: 30}
ROUNDS = 2
NODES, GPUS, SENDERS = 24, 8, 3
# where agents begin: their hours are closed, so sealing and joining follow them at once
HOURS_BACK = 30
PAUSE_S, ASK_S, LOOK_S = 0.03, 0.2, 0.02
WORKERS = ("seal, join", "post", "partitions", "retention")
COLUMNS = (
    "util_mean",
    "util_max",
    "memory_used_bytes",
    "power_w",
    "energy_j",
    "sm_active",
    "dram_active",
    "temperature_c",
)
PAGES = ("/fleet", "/nodes/node-1", "/jobs", "/status")
ALONE, BESIDE = "requests alone", "beside all background work"
BACKGROUND = "background"
LIMIT_MS = 100.0

WAITING = """
SELECT activity.application_name, locks.locktype, locks.mode,
coalesce(locks.relation::regclass::text, ''),
       extract(epoch FROM clock_timestamp() - locks.waitstart) * 1000
FROM pg_locks AS locks
JOIN pg_stat_activity AS activity USING (pid)
WHERE NOT locks.granted AND locks.waitstart IS NOT NULL
"""


@dataclass
class Phase:
    """What was seen in all rounds of one kind."""

    sent_s: list[float] = field(default_factory=list)
    asked_s: list[float] = field(default_factory=list)
    # who -> the longest wait (ms), for what
    waits: dict[str, tuple[float, str]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)  # of background work


@dataclass
class Sender:
    """One node's agent, some hours ago."""

    node: str
    token: str
    boot_ms: int
    sequence: int = 0

    def request(self) -> bytes:
        """Its next minute, as an HTTP request."""
        begin_ms = self.boot_ms + self.sequence * 60_000
        draw = random.Random(f"{self.node}/{self.sequence}")
        rows = range(6 * GPUS)
        windows = {
            "gpu": [row % GPUS for row in rows],
            "start_ms": [begin_ms + row // GPUS * 10_000 for row in rows],
            "observed_ms": [10_000 for _ in rows],
            **{name: [round(draw.random(), 3) for _ in rows] for name in COLUMNS},
        }
        gpus = [
            {"uuid": f"GPU-{self.node}-{index}", "index": index, "memory_total_bytes": 80 * 2**30}
            for index in range(GPUS)
        ]
        body = packed.pack(
            wire.Batch(self.node, "bench", self.boot_ms, self.sequence, 10, gpus, windows)
        )
        self.sequence += 1
        head = (
            "POST /api/v1/batches HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer"
            f" {self.token}\r\nContent-Type: {packed.CONTENT_TYPE}\r\n"
        )
        return (
            f"{head}Content-Encoding: deflate\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )


def run(size: Size) -> list[Table]:
    """The longest that a request or a lock had to wait, with sealing, joining, posting, partitions
    and retention beside it.
    """
    phases = {ALONE: Phase(), BESIDE: Phase()}
    with running_hub(with_web=True) as hub:
        senders = _senders()
        assert hub.port is not None
        post_all(hub.port, [[sender.request()] for sender in senders])
        for _ in range(ROUNDS):
            _round(hub, senders, phases[ALONE], seconds=SECONDS[size])
            with _background(phases[BESIDE]):
                _round(hub, senders, phases[BESIDE], seconds=SECONDS[size])
    return [_table(phases)]


def _senders() -> list[Sender]:
    from django.utils import timezone

    from fleetwatch.ingest.tokens import create_agent_token

    now = timezone.now()
    boot = datetime.now(UTC) - timedelta(hours=HOURS_BACK)
    names = [f"node-{number}" for number in range(NODES)]
    return [
        Sender(name, create_agent_token(name, now), int(boot.timestamp() * 1000)) for name in names
    ]


def _round(hub: Hub, senders: Sequence[Sender], phase: Phase, *, seconds: float) -> None:
    """Everything at once for that long; raises BenchError when a request is refused."""
    until = time.monotonic() + seconds
    failed: list[BaseException] = []
    work = [
        *(
            lambda part=part: _send(hub, senders[part::SENDERS], phase, until)
            for part in range(SENDERS)
        ),
        lambda: _ask(Reader(hub), phase, until),
        lambda: _look(phase, until),
    ]
    threads = [threading.Thread(target=_noting(one, failed)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise BenchError(f"a round failed: {failed[0]!r}") from failed[0]


def _noting(work: Callable[[], None], failed: list[BaseException]) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        except Exception as error:
            failed.append(error)

    return run


def _send(hub: Hub, senders: Sequence[Sender], phase: Phase, until: float) -> None:
    assert hub.port is not None
    for sender in itertools.cycle(senders):
        if time.monotonic() > until:
            return
        phase.sent_s += post_all(hub.port, [[sender.request()]])
        time.sleep(PAUSE_S)


def _ask(reader: Reader, phase: Phase, until: float) -> None:
    for path in itertools.cycle(PAGES):
        if time.monotonic() > until:
            return
        phase.asked_s.append(reader.get(path).clock_s)
        time.sleep(ASK_S)


def _look(phase: Phase, until: float) -> None:
    """Who waits for which lock, again and again."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        while time.monotonic() < until:
            for application, kind, mode, relation, waited_ms in connection.execute(
                WAITING, prepare=True
            ):
                who = "background work" if application == BACKGROUND else "requests"
                if waited_ms > phase.waits.get(who, (0.0, ""))[0]:
                    phase.waits[who] = (float(waited_ms), f"{kind} {mode} {relation}".strip())
            time.sleep(LOOK_S)


@contextmanager
def _background(phase: Phase) -> Iterator[None]:
    """Every kind of work in a process of its own, until the block ends."""
    environment = {**os.environ, "PGAPPNAME": BACKGROUND}
    workers: dict[str, subprocess.Popen[bytes]] = {
        name: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.background", name],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for name in WORKERS
    }
    try:
        for name, worker in workers.items():
            assert worker.stdout is not None
            # it is at work; an empty line: it is not
            phase.rounds[name] = phase.rounds.get(name, 0) + worker.stdout.readline().count(b"done")
        yield
    finally:
        for name, worker in workers.items():
            worker.kill()
            told, _ = worker.communicate()
            phase.rounds[name] = phase.rounds.get(name, 0) + told.count(b"done")
    if missing := [name for name in workers if not phase.rounds[name]]:
        raise BenchError(f"no round of background work was finished: {', '.join(missing)}")


def _table(phases: dict[str, Phase]) -> Table:
    rows: list[list[Any]] = []
    for name, phase in phases.items():
        rows.append([f"{name}: batches", len(phase.sent_s), *_quantiles_ms(phase.sent_s)])
        rows.append([f"{name}: pages", len(phase.asked_s), *_quantiles_ms(phase.asked_s)])
    waits = {
        name: {who: longest for who, (longest, _) in phase.waits.items()}
        for name, phase in phases.items()
    }
    done = ", ".join(f"{name} {count}" for name, count in phases[BESIDE].rounds.items())
    said = [
        f"longest wait for a lock, {name}: {who} {ms:.0f} ms ({what})"
        for name, phase in phases.items()
        for who, (ms, what) in phase.waits.items()
    ]
    goal = Goal(
        "longest wait of a request for a lock",
        waits[BESIDE].get("requests", 0.0),
        LIMIT_MS,
        None,
        "ms",
        where=f"{NODES * GPUS} GPUs",
    )
    return Table(
        f"Blocking: {NODES} nodes x {GPUS} GPUs, {SENDERS} connections",
        ["", "requests", "median ms", "99 % ms", "longest ms"],
        rows,
        notes=(
            f"rounds of background work: {done}",
            *said,
            f"locks are looked at every {LOOK_S * 1000:.0f} ms: a shorter wait may be missed",
            (
                "all processes share the machine's cores: what a request takes longer without"
                " waiting for a lock, it waits for a core"
            ),
        ),
        goals=(goal,),
    )


def _quantiles_ms(took_s: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(took_s)
    return tuple(
        1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99, 1)
    )  # type: ignore[return-value]
