"""The tables of a group's batches, judged together: when their rows start, and which are not valid."""

import random
import zlib

import pytest

from agent import packed, wire
from fleetwatch.ingest import group_columns
from fleetwatch.ingest.group_columns import Tables, read_rows
from fleetwatch.telemetry import packed_columns
from tests.ingest.factories import T0

GPUS = 4


def drawn(draw):
    """A batch of any layout, most of which are valid."""
    rows = draw.choice((1, 6, 6, 24, 24))
    late = draw.choice((0, 0, 3_600_000))
    starts = [T0 + late * draw.randrange(2) + draw.randrange(6) * 10_000 for _ in range(rows)]
    names = draw.sample(wire.WINDOW_COLUMNS, draw.choice((0, 2, 5)))
    hosts = draw.choice((0, 1, 6))
    return wire.Batch(
        node="n1", boot_id="b", boot_start_ms=T0, sequence=1, window_s=10,
        gpus=[{"uuid": f"GPU-{place}"} for place in range(GPUS)],
        windows={
            "gpu": [draw.randrange(GPUS + (draw.random() < 0.01)) for _ in range(rows)],
            "start_ms": starts,
            "observed_ms": [draw.randrange(10_001) for _ in range(rows)],
            **{name: [draw.choice((None, 0, 0.5, 1, 2**40)) for _ in range(rows)] for name in names},
        },
        host={
            "start_ms": [T0 + draw.randrange(6) * 10_000 for _ in range(hosts)],
            "cpu_ratio": [draw.choice((0.5, 1, 1.5)) for _ in range(hosts)],
        }
        if hosts
        else {},
    )  # fmt: skip


def tables(batch):
    content = zlib.decompress(packed.pack(batch))
    _, place = packed.rest_of(content)
    return Tables(*packed_columns.tables(content, place), GPUS, 10_000)


def is_valid(batch):
    try:
        return bool(wire.parse(packed.unpack(zlib.decompress(packed.pack(batch)))))
    except wire.WireError:
        return False


@pytest.mark.parametrize("seed", range(20))
def test_each_batch_of_a_group_is_judged_as_the_wire_judges_it(seed):
    draw = random.Random(seed)
    batches = [drawn(draw) for _ in range(draw.randrange(1, 30))]

    group = read_rows([tables(batch) for batch in batches])

    assert [each is not None for each in group] == [is_valid(batch) for batch in batches]
    for batch, each in zip(batches, group, strict=True):
        if each is None:
            continue
        starts = batch.windows["start_ms"]
        at_last = {
            gpu
            for gpu, start in zip(batch.windows["gpu"], starts, strict=True)
            if start == max(starts)
        }
        assert (each.windows, each.starts) == (len(starts), sorted(set(starts)))
        assert each.layout.last == at_last
        assert each.host_starts == sorted(set(batch.host.get("start_ms", [])))
        assert each.has_process_count == ("process_count" in batch.windows)


def test_a_batch_of_nothing_is_none():
    nothing = wire.Batch(
        node="n1", boot_id="b", boot_start_ms=T0, sequence=1, window_s=10, gpus=[],
        windows={"gpu": [], "start_ms": [], "observed_ms": []},
    )  # fmt: skip

    assert read_rows([]) == []
    assert read_rows([tables(nothing)]) == [None]


def test_how_a_large_table_is_laid_out_is_not_kept():
    rows = group_columns.MAX_KEPT_LAYOUT + 1
    long = packed.TABLE.pack(3, rows, 1) + b"".join(
        packed.COLUMN.pack(packed.PLACES[name], 0, base, 1)
        for name, base in (("gpu", 0), ("start_ms", T0), ("observed_ms", 0))
    )
    content = long + bytes([1]) * (3 * rows) + packed.TABLE.pack(0, 0, 1)
    kept = group_columns._kept_layout.cache_info().currsize

    (read,) = read_rows([Tables(*packed_columns.tables(content, 0), GPUS, 10_000)])

    assert (read.windows, read.starts) == (rows, [T0])
    assert group_columns._kept_layout.cache_info().currsize == kept
