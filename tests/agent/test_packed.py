"""A batch in packed form says what it says as JSON, in half the bytes; nothing else is one."""

import json
import math
import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import packed, wire
from agent.packed import COLUMN, HEAD, MAGIC, TABLE

GOLDEN = Path(__file__).parent / "golden"
FULL = wire.decode((GOLDEN / "full.json").read_bytes())
T0 = 1_795_000_000_000


def batch(host=None, **columns):
    """Two windows of one GPU."""
    windows = {"gpu": [0, 0], "start_ms": [T0, T0 + 10_000], "observed_ms": [10_000, 10_000]}
    return wire.Batch(
        node="n1", boot_id="b", boot_start_ms=T0, sequence=1, window_s=10,
        gpus=[{"uuid": "GPU-1"}], windows=windows | columns, host=host or {},
    )  # fmt: skip


def read(body):
    return packed.unpack(zlib.decompress(body))


def table(*columns, rows=1, planes=1):
    """The bytes of a table; each column is (name, decimals, base, step, its numbers)."""
    heads = [COLUMN.pack(packed.PLACES[name], *head) for name, *head, _ in columns]
    numbers = [number for *_, of_column in columns for number in of_column]
    words = b"".join(number.to_bytes(8, "little") for number in numbers)
    shuffled = [words[plane::8] for plane in range(planes)]
    return TABLE.pack(len(columns), rows, planes) + b"".join(heads + shuffled)


EMPTY = TABLE.pack(0, 0, 1)


def content(windows=EMPTY, host=EMPTY, rest=b"{}"):
    return HEAD.pack(MAGIC, len(rest)) + rest + windows + host


def test_the_golden_batch_comes_back_and_its_bytes_stay_what_they_are():
    body = packed.pack(FULL)

    assert wire.parse(read(body)) == FULL
    assert zlib.decompress(body) == (GOLDEN / "full.packed").read_bytes()
    assert packed.pack(FULL) == body


def test_every_column_of_the_wire_has_its_place():
    assert set(packed.NAMES) == {
        "gpu", "start_ms", "observed_ms", *wire.WINDOW_COLUMNS, *wire.HOST_COLUMNS,
    }  # fmt: skip
    assert len(packed.PLACES) == len(packed.NAMES) < 256


def test_columns_keep_the_places_that_older_agents_and_hubs_know():
    assert packed.PLACES["pending_gpus"] == 64
    assert packed.PLACES["job_memory_bytes"] == 65


def test_a_column_is_whole_numbers_from_a_base_by_a_step():
    numbers = table(
        ("power_w", 1, 705, 5, [1, 3, 0]), ("process_count", 0, 2, 1, [1, 1, 1]), rows=3
    )

    assert packed.unpack(content(numbers))["windows"] == {
        "power_w": [70.5, 71.5, None],
        "process_count": [2, 2, 2],
    }


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.25],
        [None, None],
        [1e15, 1],
        [0.123456, 100.0],
        [0.1234567, 1.0],  # more decimals than are scaled
        [-273.15, 31.5],
        [2**53 - 1, 0],
        [1e-9, None],
        [math.pi, -math.pi],
    ],
)
def test_each_value_comes_back_as_the_same_double(values):
    assert read(packed.pack(batch(temperature_c=values)))["windows"]["temperature_c"] == values


@given(
    st.lists(
        st.none()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.decimals(0, 10**6, places=3).map(float),
        min_size=2,
        max_size=2,
    )
)
@settings(max_examples=200, deadline=None)
def test_any_two_readings_come_back(values):
    assert read(packed.pack(batch(energy_j=values)))["windows"]["energy_j"] == values


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_can_not_be_packed(value):
    with pytest.raises(ValueError, match="not finite"):
        packed.pack(batch(power_w=[value, 1.0]))


def test_host_samples_are_a_table_of_their_own():
    host = {"start_ms": [T0], "cpu_ratio": [0.5]}

    assert read(packed.pack(batch(host=host)))["host"] == host


def test_a_column_that_is_not_known_yet_is_left_out():
    numbers = TABLE.pack(1, 1, 1) + COLUMN.pack(250, 0, 7, 1) + b"\x01"

    assert packed.unpack(content(numbers))["windows"] == {}


def test_a_minute_of_eight_gpus_is_smaller_than_as_json():
    rows = range(48)
    draw = random.Random(1)
    columns = {
        "gpu": [row // 6 for row in rows],
        "start_ms": [T0 + row % 6 * 10_000 for row in rows],
        "observed_ms": [10_000 for row in rows],
        **{name: [draw.randrange(1001) / 1000 for _ in rows] for name in wire.RATIO_COLUMNS[:10]},
        "power_w": [draw.randrange(7_000, 70_000) / 100 for _ in rows],
    }
    minute = batch(**columns)

    assert len(packed.pack(minute)) < 0.75 * len(wire.compress(wire.encode(minute)))


@pytest.mark.parametrize(
    "wrong",
    {
        "nothing": b"",
        "another form": b"FWP2" + content()[4:],
        "a text that is longer than all": HEAD.pack(MAGIC, 99) + b"{}",
        "no JSON": content(rest=b"{"),
        "no object": content(rest=b"[1]"),
        "no UTF-8": content(rest=b'{"node": "\xff"}'),
        "a depth bomb": content(rest=b"[" * 100_000),
        "no tables": HEAD.pack(MAGIC, 2) + b"{}",
        "one table": HEAD.pack(MAGIC, 2) + b"{}" + EMPTY,
        "a table cut off": content(table(("gpu", 0, 0, 1, [1])))[: -len(EMPTY) - 1],
        "something after it": content() + b"x",
        "numbers of three bytes": content(TABLE.pack(0, 0, 3)),
        "a column twice": content(table(("gpu", 0, 0, 1, [1]), ("gpu", 0, 0, 1, [1]))),
        "too many decimals": content(table(("power_w", 7, 0, 1, [1]))),
        "what is no exact double": content(table(("power_w", 0, 2**53, 1, [2]))),
        "a step beyond all": content(table(("power_w", 0, 0, 2**64 - 1, [255]))),
        "bits of no double": content(table(("power_w", packed.RAW, 2**63 - 1, 2**63, [3]))),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_no_packed_batch_is_a_wire_error(wrong):
    with pytest.raises(wire.WireError):
        packed.unpack(wrong[1])


def test_bits_of_a_double_that_is_no_number_are_refused_by_the_wire():
    (bits,) = struct.unpack("<Q", struct.pack("<d", math.nan))
    raw = table(("power_w", packed.RAW, bits - 2**63, 1, [1]), rows=1)
    given_ = json.loads((GOLDEN / "minimal.json").read_text()) | packed.unpack(content(raw))

    with pytest.raises(wire.WireError):
        wire.parse(given_)


def test_a_table_holds_so_many_values_and_no_more():
    most = packed.MAX_VALUES

    packed.unpack(content(table(("gpu", 0, 0, 1, [1] * most), rows=most)))
    with pytest.raises(packed.TooManyError):
        packed.unpack(content(TABLE.pack(1, most + 1, 1)))
    with pytest.raises(packed.TooManyError):
        packed.pack(_long(most))


def _long(most):
    rows = most // 3 + 1
    columns = {"gpu": [0] * rows, "start_ms": [0] * rows, "observed_ms": [0] * rows}
    return wire.Batch(
        node="n", boot_id="b", boot_start_ms=0, sequence=0, window_s=1, gpus=[], windows=columns
    )
