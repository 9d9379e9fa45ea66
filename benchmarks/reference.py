"""A fixed piece of the kinds of work that posting, sealing and diagnosis are made of: how fast this
machine is now, so that figures of another machine can be compared.

One kernel is what a core of the machine on which the targets were set does in a second.
"""

import numpy as np
import zstandard

from benchmarks.servers import Hub

# a node's day, and what a day of it leaves
WINDOWS, COLUMNS, ROWS = 69_120, 24, 50_000
NUMPY_ROUNDS, ZSTD_ROUNDS = 20, 8
TABLE = """
CREATE TEMPORARY TABLE reference_row (
    id bigserial PRIMARY KEY, gpu_id bigint, start_ms bigint, state varchar(16), spent bigint[]
)
"""
INDEX = "CREATE INDEX ON reference_row (gpu_id, start_ms)"


def kernel_s(hub: Hub) -> float:
    """CPU seconds of one kernel in this process and in Postgres, here and now."""
    return sum(hub.cost(work))


def work() -> None:
    """The kernel; it reads and writes nothing of the hub."""
    generator = np.random.default_rng(1)
    columns = [generator.random(WINDOWS).round(3) for _ in range(COLUMNS)]
    _count(columns)
    _pack(columns)
    _insert()


def _count(columns: list["np.ndarray"]) -> None:
    gpu = np.repeat(np.arange(8), WINDOWS // 8)
    for _ in range(NUMPY_ROUNDS):
        for values in columns:
            busy = np.where(np.isnan(values), 0.0, np.clip(values, 0.02, 0.9))
            edges = np.flatnonzero(np.append(True, busy[1:] > busy[:-1]))
            np.add.reduceat(busy, edges)
            np.bincount(gpu, weights=busy)
            np.cumsum(busy > 0.5)


def _pack(columns: list["np.ndarray"]) -> None:
    packer, opener = zstandard.ZstdCompressor(3), zstandard.ZstdDecompressor()
    for _ in range(ZSTD_ROUNDS):
        for values in columns:
            numbers = np.rint(values * 1000).astype("<i4")
            shuffled = numbers.view(np.uint8).reshape(-1, 4).T.tobytes()
            opener.decompress(packer.compress(shuffled))


def _insert() -> None:
    from django.db import connection, transaction

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute(INDEX)
        with cursor.copy("COPY reference_row (gpu_id, start_ms, state, spent) FROM STDIN") as copy:
            for row in range(ROWS):
                copy.write_row((row % 97, row, "useful", [row, 0, 0, row, 0, 0, 0, 0, 1]))
        transaction.set_rollback(True)


def scaled(spent_s: float, kernel: float) -> float:
    """The CPU seconds that the machine of the targets would have taken."""
    return spent_s / kernel
