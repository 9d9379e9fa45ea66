"""Chaos: processes killed by kill -9, GPUs that move, a thief beside them; the ledger must equal
that of an undisturbed fleet.

    python -m benchmarks.chaos --minutes 4

Two fleets of one hub live the same 36 hours: `calm` is told first and in peace, `storm` while
processes die, a tenth of its batches is sent twice, and a node with a token of its own claims
storm's GPUs, over time that storm observed and ahead of now.
"""

import argparse
import contextlib
import gzip
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from fleetwatch.lib import env
from tests.stack.living import Living, living_stack

# a batch is twenty minutes of windows of ten seconds
NODES, GPUS, BATCHES, WINDOWS = 4, 4, 108, 120
STAY = 18  # batches that a GPU is with a node: six hours
WINDOW_MS = 10_000
BATCH_MS = WINDOWS * WINDOW_MS
VICTIMS = ("fleetwatch.front", "--quiet worker", "--quiet beat", "valkey-server", "bin/postgres")
ENTRIES = """
    SELECT replace(replace(gpu.uuid, 'storm', ''), 'calm', ''), replace(replace(node.name,
    'storm', ''), 'calm', ''), entry.start,
           entry.state, entry.kind, entry.reason, entry.signal, entry.tier, entry.gpu_ms,
           round(entry.energy_j::numeric, 3)
    FROM ledger_entry AS entry
    JOIN inventory_gpu AS gpu ON gpu.id = entry.gpu_id
    JOIN inventory_node AS node ON node.id = entry.node_id
    WHERE node.name LIKE %s
"""


@dataclass
class Fleet:
    """One of the two fleets: who it is, the tokens of its nodes, and how far each node was
    acknowledged.
    """

    name: str
    url: str
    begin_ms: int
    tokens: list[str] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=lambda: [0] * NODES)
    answers: Counter[int] = field(default_factory=Counter)

    def batch(self, node: int, number: int) -> dict[str, Any]:
        """The node's batch; GPUs change to the next node after each stay, one of them each time."""
        here = [gpu for gpu in range(NODES * GPUS) if home(gpu, number) == node]
        return self.body(
            f"{self.name}-{node}", number, here, self.begin_ms + number * BATCH_MS, boot="boot"
        )

    def body(
        self, node: str, number: int, gpus: list[int], start_ms: int, *, boot: str
    ) -> dict[str, Any]:
        draw = random.Random(f"{gpus} {start_ms - self.begin_ms}")
        starts = [start_ms + step * WINDOW_MS for step in range(WINDOWS)]
        util = [[draw.choice((0.0, 0.0, 0.4, 1.0))] * WINDOWS for _ in gpus]
        return {
            "version": 1,
            "node": node,
            "boot_id": boot,
            "boot_start_ms": self.begin_ms - 3_600_000,
            "sequence": number,
            "window_s": WINDOW_MS // 1000,
            "gpus": [
                {"uuid": f"GPU-{self.name}-{gpu}", "index": gpu, "model": "NVIDIA H100 80GB HBM3"}
                for gpu in gpus
            ],
            "windows": {
                "gpu": [place for place in range(len(gpus)) for _ in starts],
                "start_ms": [start for _ in gpus for start in starts],
                "observed_ms": [WINDOW_MS] * WINDOWS * len(gpus),
                "util_mean": [value for column in util for value in column],
                "util_max": [value for column in util for value in column],
                "power_w": [90.0 + 400.0 * value for column in util for value in column],
            },
        }

    def post(self, token: str, body: dict[str, Any]) -> int:
        """The status of the answer; 0 where there is none."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/batches",
            data=gzip.compress(json.dumps(body).encode()),
            method="POST",
        )
        for name, value in (
            ("Authorization", f"Bearer {token}"),
            ("Content-Type", "application/json"),
            ("Content-Encoding", "gzip"),
        ):
            request.add_header(name, value)
        status = 0
        with contextlib.suppress(OSError):
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    status = answer.status
            except urllib.error.HTTPError as error:
                status = error.code
        self.answers[status] += 1
        return status

    def send(self, node: int, *, pause_s: float, twice: float) -> None:
        """All batches of a node in their order, each until it is acknowledged, as an agent sends
        them.
        """
        draw = random.Random(node)
        for number in range(BATCHES):
            body = self.batch(node, number)
            while self.post(self.tokens[node], body) != 200:
                time.sleep(0.5)
            self.acknowledged[node] = number + 1
            if draw.random() < twice:
                self.post(self.tokens[node], body)
            time.sleep(pause_s)


def home(gpu: int, number: int) -> int:
    """The node that has the GPU in the batch of that number: a quarter of all GPUs moves on with
    each stay.
    """
    moves = sum(1 for stay in range(1, number // STAY + 1) if stay % GPUS == gpu % GPUS)
    return (gpu // GPUS + moves) % NODES


def steal(fleet: Fleet, token: str, over: threading.Event) -> None:
    """A node that claims the fleet's GPUs: time that was acknowledged of them, and time ahead of
    now.
    """
    draw = random.Random(7)
    number = 0
    while not over.is_set():
        number += 1
        gpus = draw.sample(range(NODES * GPUS), 4)
        least = min(fleet.acknowledged)
        ahead = draw.random() < 0.3 or least == 0
        start_ms = (
            int(time.time() * 1000) - 900_000
            if ahead
            else fleet.begin_ms + draw.randrange(least) * BATCH_MS
        )
        if ahead:
            start_ms += 0 - start_ms % WINDOW_MS
        fleet.post(token, fleet.body("thief", number, gpus, start_ms, boot="thief"))
        over.wait(0.5)


def kill(stack: Living, over: threading.Event) -> Counter[str]:
    """Processes of the hub die by kill -9, one each quarter to half a minute, until it is over; how
    often each did.
    """
    draw, killed = random.Random(11), Counter[str]()
    while not over.wait(draw.uniform(15.0, 30.0)):
        victim = draw.choice(VICTIMS)
        with contextlib.suppress(AssertionError, ProcessLookupError, IndexError):
            stack.kill(victim)
            killed[victim] += 1
    return killed


def entries(stack: Living, name: str) -> Counter[tuple[Any, ...]]:
    runtime = env.read_runtime(stack.data)
    assert runtime is not None
    with psycopg.connect(runtime.database_url) as connection:
        return Counter(connection.execute(ENTRIES, [f"{name}-%"]).fetchall())


def told(fleet: Fleet, *, pause_s: float, twice: float) -> Iterator[threading.Thread]:
    for node in range(NODES):
        thread = threading.Thread(
            target=fleet.send, args=(node,), kwargs={"pause_s": pause_s, "twice": twice}
        )
        thread.start()
        yield thread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=4.0, help="how long the storm's batches take at least"
    )
    minutes = parser.parse_args().minutes
    begin_ms = (int(time.time()) // 3600 - 40) * 3_600_000
    with living_stack() as stack:
        stack.start()
        fleets = [Fleet(name, stack.url, begin_ms) for name in ("calm", "storm")]
        for fleet in fleets:
            fleet.tokens = [
                stack.manage("create_agent_token", f"{fleet.name}-{node}").stdout.strip()
                for node in range(NODES)
            ]
        thief = stack.manage("create_agent_token", "thief").stdout.strip()
        calm, storm = fleets
        for thread in list(told(calm, pause_s=0.0, twice=0.0)):
            thread.join()
        over = threading.Event()
        killed: list[Counter[str]] = []
        others = [
            threading.Thread(target=steal, args=(storm, thief, over)),
            threading.Thread(target=lambda: killed.append(kill(stack, over))),
        ]
        for thread in others:
            thread.start()
        for thread in list(told(storm, pause_s=minutes * 60 / BATCHES, twice=0.1)):
            thread.join()
        over.set()
        for thread in others:
            thread.join()
        stack.wait_until(lambda: stack.answers("/readyz"), what="ready again", seconds=120)
        settled, checked = stack.manage("settle"), stack.manage("check_ledger")
        expected, found = entries(stack, "calm"), entries(stack, "storm")
        print(f"killed: {dict(killed[0])}")
        print(f"answers to storm and thief: {dict(storm.answers)}")
        print(
            f"settle {settled.returncode}, check_ledger {checked.returncode}:"
            f" {checked.stdout.strip().splitlines()[-1:]}"
        )
        print(
            f"entries: {sum(expected.values())} calm, {sum(found.values())} storm; lost"
            f" {sum((expected - found).values())}, doubled or other"
            f" {sum((found - expected).values())}"
        )
        print(
            f"GPU-milliseconds: {sum(row[8] for row in expected.elements())} calm,"
            f" {sum(row[8] for row in found.elements())} storm"
        )
        for row in list(expected - found)[:5] + list(found - expected)[:5]:
            print("differs:", row)


if __name__ == "__main__":
    main()
