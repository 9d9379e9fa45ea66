"""Packed batches read as arrays are what agent.packed reads one value after the other."""

import math
import random
import zlib

import numpy as np
import pytest

from agent import packed, wire
from fleetwatch.telemetry import packed_columns

T0 = 1_795_000_000_000
KINDS = (
    lambda draw: draw.randrange(1001) / 1000,
    lambda draw: draw.randrange(10**15),
    lambda draw: draw.random(),  # of too many decimals: its bits are kept
    lambda draw: 5.0,
    lambda _: None,
)


def drawn(draw):
    """A batch of any shape."""
    rows = draw.choice((0, 1, 6, 6, 6, 48))
    names = draw.sample(wire.AMOUNT_COLUMNS, draw.choice((3, 3, 3, 0, 7)))
    columns = {}
    for name in names:
        kind = draw.choice(KINDS)
        columns[name] = [None if draw.random() < 0.1 else kind(draw) for _ in range(rows)]
    hosts = draw.choice((0, 2))
    host = {"start_ms": [T0] * hosts, "cpu_ratio": [draw.random() for _ in range(hosts)]}
    return wire.Batch(
        node="n1", boot_id="b", boot_start_ms=T0, sequence=1, window_s=10, gpus=[],
        windows={
            "gpu": [draw.randrange(8) for _ in range(rows)],
            "start_ms": [T0 + draw.randrange(3_600_000) for _ in range(rows)],
            "observed_ms": [draw.randrange(10_001) for _ in range(rows)],
            **columns,
        },
        host=host if hosts else {},
    )  # fmt: skip


def tables(batches, at):
    contents = [zlib.decompress(packed.pack(batch)) for batch in batches]
    return [
        list(packed_columns.tables(content, packed.rest_of(content)[1]))[at] for content in contents
    ]


def joined(batches, name, room="windows"):
    """As agent.packed reads it, NaN for null and for a batch without it."""
    values = []
    for batch in batches:
        columns = packed.unpack(zlib.decompress(packed.pack(batch)))[room]
        rows = len(next(iter(columns.values()), ()))
        values += columns.get(name, [None] * rows)
    return [math.nan if value is None else value for value in values]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_batches_say_is_read_alike(seed):
    draw = random.Random(seed)
    batches = [drawn(draw) for _ in range(draw.randrange(30))]

    read = packed_columns.runs(tables(batches, 0))
    columns = packed_columns.floats(read, wire.WINDOW_COLUMNS)
    hosts = packed_columns.floats(packed_columns.runs(tables(batches, 1)), wire.HOST_COLUMNS)

    for name in ("gpu", "start_ms", "observed_ms"):
        assert packed_columns.whole_numbers(read, name).tolist() == joined(batches, name)
    with_rows = [batch for batch in batches if batch.windows["gpu"]]
    assert columns.keys() == {
        name for batch in with_rows for name in batch.windows if name in wire.WINDOW_COLUMNS
    }
    for name, values in columns.items():
        assert np.array_equal(values, joined(batches, name), equal_nan=True)
    for name, values in hosts.items():
        assert np.array_equal(values, joined(batches, name, "host"), equal_nan=True)
