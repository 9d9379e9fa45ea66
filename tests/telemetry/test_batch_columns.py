import zlib

import numpy as np
import pytest

from agent import packed, wire
from fleetwatch.telemetry import batch_columns
from fleetwatch.telemetry.batch_columns import BatchRow

GPUS = [{"uuid": "a"}, {"uuid": "b"}]
IDS = {"a": 7, "b": 9}


def body(*, sequence=1, offset_ms=0, gpus=GPUS, host=None, packs=packed.pack, **windows):
    """A batch of two windows, one of each GPU, unless told otherwise."""
    columns = {"gpu": [0, 1], "start_ms": [1_000, 2_000], "observed_ms": [10_000, 9_000], **windows}
    batch = wire.Batch(
        node="n1", boot_id="b", boot_start_ms=5, sequence=sequence, window_s=10, gpus=gpus,
        windows={name: column for name, column in columns.items() if column is not None},
        host=host or {},
    )  # fmt: skip
    return batch_columns.opened(BatchRow(sequence, packs(batch), offset_ms, 5, sequence, 3))


def windows(*found, names=("util_mean", "power_w")):
    gpu_ids = {
        naming: [IDS[uuid] for uuid in uuids]
        for naming, uuids in batch_columns.uuids(found).items()
    }
    return {
        name: np.where(np.isnan(values), -1, values).tolist()
        for name, values in batch_columns.windows(found, gpu_ids, names)[0].items()
    }


def test_what_batches_say_alike_and_not_alike_comes_back_in_order():
    texts = ([0.5, 1], [0.5, 1], [0.25, None], [0.25, None], [0.5, 1])

    table = windows(*(body(util_mean=text, sequence=number) for number, text in enumerate(texts)))

    assert table["util_mean"] == [0.5, 1, 0.5, 1, 0.25, -1, 0.25, -1, 0.5, 1]
    assert table["sequence"] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert table["gpu_id"] == [7, 9] * 5


def test_a_column_that_some_batches_lack_is_not_read_in_these():
    table = windows(body(power_w=[70, 80]), body(), body(power_w=None), body(power_w=[90, None]))

    assert table["power_w"] == [70, 80, -1, -1, -1, -1, 90, -1]
    assert "util_mean" not in table


def test_batches_of_other_lengths_and_without_windows_stand_between():
    one = {"gpu": [1], "start_ms": [7_000], "observed_ms": [1]}
    none = {"gpu": [], "start_ms": [], "observed_ms": [], "util_mean": []}

    table = windows(
        body(util_mean=[0.5, 0.5]),
        body(**none),
        body(**one, util_mean=[0.5]),
        body(util_mean=[0.5, 0.5]),
    )

    assert table["start_ms"] == [1_000, 2_000, 7_000, 1_000, 2_000]
    assert table["util_mean"] == [0.5] * 5
    assert table["gpu_id"] == [7, 9, 9, 7, 9]


def test_positions_are_those_of_each_batchs_own_list():
    assert windows(body(), body(gpus=GPUS[::-1]), body(gpus=GPUS[1:], gpu=[0, 0]))["gpu_id"] == [
        7,
        9,
        9,
        7,
        9,
        9,
    ]


def test_what_an_earlier_hub_stored_as_json_is_read_alike():
    of_before = body(packs=lambda batch: wire.compress(wire.encode(batch)), util_mean=[0.1, None])

    table = windows(of_before, body())

    assert (table["util_mean"], table["gpu_id"]) == ([0.1, -1, -1, -1], [7, 9, 7, 9])


def test_host_samples_are_read_with_their_batchs_clock():
    found = [
        body(offset_ms=500, host={"start_ms": [1_000, 2_000], "cpu_ratio": [0.5, None]}),
        body(),
        body(host={"start_ms": [], "cpu_ratio": []}),
    ]

    table, counts = batch_columns.host(found, wire.HOST_COLUMNS)

    assert table["start_ms"].tolist() == [1_500, 2_500]
    assert counts.tolist() == [2, 0, 0]
    assert np.nan_to_num(table["cpu_ratio"], nan=-1).tolist() == [0.5, -1]


def test_no_batch_is_an_empty_table():
    assert {len(values) for values in windows().values()} == {0}
    assert len(batch_columns.host([], wire.HOST_COLUMNS)[0]["start_ms"]) == 0


@pytest.mark.parametrize(
    "payload", [b"", b"no deflate", zlib.compress(b"no batch"), wire.compress(b"{}")]
)
def test_what_is_no_batch_is_refused(payload):
    with pytest.raises((zlib.error, ValueError)):
        batch_columns.opened(BatchRow(1, payload, 0, 0, 1, 1))
