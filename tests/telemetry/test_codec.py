import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fleetwatch.telemetry import codec, directory

any_float = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True, width=64)
decimals = st.integers(-(10**12), 10**12).map(lambda number: number / 1000)
float_columns = st.one_of(
    arrays.arrays(np.float64, st.shared(st.integers(0, 200), key="rows"), elements=any_float),
    arrays.arrays(
        np.float64,
        st.shared(st.integers(0, 200), key="rows"),
        elements=st.one_of(decimals, st.just(np.nan)),
    ),
    arrays.arrays(np.float64, st.shared(st.integers(0, 200), key="rows"), elements=st.just(np.nan)),
)
steps = st.integers(1, 10**9).flatmap(
    lambda step: st.integers(-(2**63) // step + 1, (2**63 - 1) // step).map(
        lambda count: count * step
    )
)
int_columns = arrays.arrays(
    np.int64,
    st.shared(st.integers(0, 200), key="rows"),
    elements=st.one_of(st.integers(-(2**63), 2**63 - 1), steps),
)


def same_bits(one, other):
    """True when dtype and every value agree to the bit, all NaN being one value."""
    if one.dtype != other.dtype or len(one) != len(other):
        return False
    if one.dtype == np.float64:
        one, other = (np.where(np.isnan(part), np.nan, part) for part in (one, other))
    return bool((one.view(np.uint64) == other.view(np.uint64)).all())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(float_columns, int_columns), max_size=4))
def test_any_columns_come_back_bit_for_bit(columns):
    given_columns = {f"c{number}": values for number, values in enumerate(columns)}

    back = codec.unpack(codec.pack(given_columns))

    assert list(back) == list(given_columns)
    assert all(same_bits(back[name], values) for name, values in given_columns.items())


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.0, -0.0, 0.0]),
        np.array([np.inf, -np.inf, 1.5]),
        np.array([np.nan, np.nan, 3.25, np.nan, 4.0, np.nan]),
        np.array([-np.nan, 1.0]),
        np.array([5e-324, -5e-324, 1.7976931348623157e308]),
        np.array([0.1, 0.2, 0.30000000000000004]),
        np.array([2.0**53, 2.0**53 + 2, -(2.0**53)]),
        np.array([1e300, 1.0]),
        np.array([42.0]),
        np.array([]),
    ],
)
def test_awkward_floats_come_back_bit_for_bit(values):
    assert same_bits(codec.unpack(codec.pack({"c": values}))["c"], values)


@pytest.mark.parametrize(
    "values",
    [[-(2**63), 2**63 - 1], [2**63 - 1, -(2**63), 0], [10**18, 10**18 + 1, 10**18], [7], []],
)
def test_huge_counters_come_back_exactly(values):
    assert codec.unpack(codec.pack({"c": np.array(values, dtype=np.int64)}))["c"].tolist() == values


def test_a_column_of_one_value_or_none_costs_only_its_entry():
    rows = 10_000
    nothing = len(codec.pack({}))

    missing = len(codec.pack({"a": np.full(rows, np.nan)}))
    constant = len(codec.pack({"a": np.full(rows, 612.5)}))

    assert missing - nothing < 40
    assert constant - nothing < 40


def test_round_decimals_cost_less_than_a_third_of_their_eight_bytes():
    values = np.random.default_rng(7).integers(0, 1000, 5_000) / 1000

    assert len(codec.pack({"a": values})) < 5_000 * 8 / 3


def test_a_value_in_steps_costs_what_its_number_of_steps_costs():
    count = np.random.default_rng(7).integers(0, 250, 5_000)

    in_steps = len(codec.pack({"clock_hz": 1.2e9 + 1e5 * count}))
    by_itself = len(codec.pack({"clock_hz": 1.0 * count}))

    assert abs(in_steps - by_itself) < 20


@pytest.mark.parametrize("place", [0, 1, 7_777, 9_999])
def test_one_value_between_the_steps_comes_back_too(place):
    values = 1000 * np.random.default_rng(7).integers(0, 250, 10_000)
    values[place] += 1

    assert codec.unpack(codec.pack({"a": values}))["a"].tolist() == values.tolist()


def test_rare_values_that_a_sample_misses_come_back_too():
    values = np.zeros(10_000, dtype=np.int64)
    values[[5_001, 7_003]] = 2**62, -6

    assert codec.unpack(codec.pack({"a": values}))["a"].tolist() == values.tolist()


def test_noise_costs_hardly_more_than_its_entropy():
    milliwatts = np.rint(np.random.default_rng(7).normal(600_000, 2_000, 17_280)).astype(np.int64)
    # bytes of a normal distribution in steps of 1
    entropy = np.log2(2_000 * np.sqrt(2 * np.pi * np.e)) / 8

    assert len(codec.pack({"a": milliwatts})) < 1.03 * entropy * len(milliwatts)


def test_only_the_wanted_columns_are_read_and_an_unknown_one_is_left_out():
    data = codec.pack({"a": np.arange(3.0), "b": np.arange(3), "c": np.array([1.5, 2.5, 0.1])})

    assert list(codec.unpack(data, ["c", "x"])) == ["c"]
    found = directory.read_directory(data, len(data))
    assert list(found) == ["a", "b", "c"]
    assert found.rows == 3


def test_a_column_is_read_from_the_beginning_of_the_bytes_and_its_own_body():
    whole = {"gpu_id": np.full(9, 7), "start_ms": np.arange(9) * 10_000, "a": np.arange(9) / 10}
    data = codec.pack(whole)
    found = directory.read_directory(data[:-1], len(data))
    bodies = {name: data[slice(*found.place(name))] for name in ("gpu_id", "start_ms")}

    assert {
        name: values.tolist() for name, values in codec.unpack_bodies(found, bodies).items()
    } == {name: whole[name].tolist() for name in bodies}
    assert list(codec.unpack_bodies(found, bodies, ["start_ms", "a"])) == ["start_ms"]
    with pytest.raises(codec.CodecError, match="do not hold the directory"):
        directory.read_directory(data[:20], len(data))


def test_a_damaged_column_does_not_keep_the_others_from_being_read():
    data = bytearray(codec.pack({"a": np.arange(300.0), "b": np.random.default_rng(1).random(300)}))
    data[-300:] = bytes(300)

    assert codec.unpack(bytes(data), ["a"])["a"].tolist() == list(range(300))


def test_what_it_does_not_know_is_refused():
    data = codec.pack({"a": np.arange(3.0)})

    with pytest.raises(codec.CodecError, match="version 3"):
        codec.unpack(b"\x03" + data[1:])
    with pytest.raises(codec.CodecError, match="too few"):
        codec.unpack(b"")
    with pytest.raises(codec.CodecError, match="expected"):
        codec.unpack(data + b"x")
    with pytest.raises(ValueError, match="rows"):
        codec.pack({"a": np.arange(3.0), "b": np.arange(2.0)})
    with pytest.raises(ValueError, match="float32"):
        codec.pack({"a": np.zeros(3, dtype=np.float32)})


@pytest.mark.parametrize("bit", range(32))
def test_a_flipped_count_of_rows_is_refused_before_memory_is_asked_for(bit):
    data = bytearray(codec.pack({"gpu_id": np.full(300, 7), "start_ms": np.arange(300) * 10_000}))
    data[1 + bit // 8] ^= 1 << bit % 8

    for names in (None, ["gpu_id"], ["start_ms"]):
        with pytest.raises(codec.CodecError, match="rows|damaged"):
            codec.unpack(bytes(data), names)


def test_rows_that_nothing_but_the_header_tells_of_are_so_many_at_most():
    data = bytearray(codec.pack({"a": np.full(3, 7), "b": np.full(3, np.nan)}))
    data[1:5] = (2**24 + 1).to_bytes(4, "little")

    with pytest.raises(codec.CodecError, match="16777217 rows"):
        codec.unpack(bytes(data))


def test_version_1_bytes_written_long_ago_are_still_read():
    data = bytes.fromhex(GOLDEN)

    columns = codec.unpack(data)

    assert columns["power_w"].tolist()[:2] == [612.5, 121.0]
    assert np.isnan(columns["power_w"][2])
    assert columns["start_ms"].tolist() == [1794000000000, 1794000010000, 1794000020000]
    assert columns["noise"].tolist() == [0.1 + 0.2, 1 / 3, -0.0]


def test_threads_pack_and_unpack_side_by_side():
    values = np.random.default_rng(3).random(2_000)
    wrong = []

    def work():
        for _ in range(30):
            if not same_bits(codec.unpack(codec.pack({"a": values}))["a"], values):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


GOLDEN = (
    "010300000003005000000020535d0200140407706f7765725f7700020102ba040011000000060000000873746172745f6d730102ff020094bbb2a101"
    "00000b00056e6f6973650001ff08001500000000000000031000d93fce55072001090000202006310000330000130000200631000000102000274e20"
    "188500005034550033d3d5003f3f800100ca8e08"
)


def test_whatever_is_damaged_is_an_error_of_ours():
    chance = random.Random(4)
    whole = codec.pack(
        {
            "power_w": np.arange(300) / 7,
            "start_ms": np.arange(300) * 10_000,
            "util": np.full(300, np.nan),
        }
    )
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[chance.randrange(5, len(whole))] ^= 1 << chance.randrange(8)
        try:
            codec.unpack(
                bytes(damaged[: chance.choice([len(whole), chance.randrange(len(whole))])])
            )
        except codec.CodecError:
            refused += 1

    # what is cut off is, half of them; of the others the bit may have been in a number, which is
    # for the database's checksums
    assert 200 <= refused < 400


def test_what_many_chunks_have_alike_is_unpacked_once_and_given_to_each_as_its_own():
    starts = np.tile(np.arange(360, dtype=np.int64) * 10_000, 8)
    chunks = [
        codec.pack({"start_ms": starts + base, "util_mean": (starts % 70_000) / 1000 + place})
        for place, base in enumerate((0, 7, 7))
    ]
    codec._pattern.cache_clear()

    found = [codec.unpack(chunk) for chunk in chunks]
    found[1]["start_ms"][:] = 0
    found[1]["util_mean"][:] = 0

    assert codec._pattern.cache_info().misses == 2
    for place, base in ((0, 0), (2, 7)):
        assert found[place]["start_ms"].tolist() == (starts + base).tolist()
        assert found[place]["util_mean"].tolist() == ((starts % 70_000) / 1000 + place).tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        float_columns,
        arrays.arrays(np.float64, st.integers(0, 300), elements=st.integers(0, 10**5).map(float)),
        st.lists(st.integers(-500, 500), max_size=300).map(
            lambda steps: np.cumsum(np.array(steps, dtype=np.float64)) / 1000
        ),
    ),
    st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 0.001, 0.05, 0.7, 100.0])),
)
def test_what_is_below_a_limit_are_the_unpacked_values_that_are(values, limit):
    data = codec.pack({"c": values, "row": np.arange(len(values))})
    head, bodies = opened(data)

    is_below = codec.is_below(head, bodies, "c", limit)

    np.testing.assert_array_equal(is_below, values < limit)
    assert not codec.is_below(head, bodies, "absent", limit).any()


def opened(data):
    head = directory.read_directory(data, len(data))
    return head, {name: memoryview(data)[slice(*head.place(name))] for name in head}


def test_whole_numbers_of_several_bytes_are_compared_by_each_of_their_bytes():
    # around 0x010000, which is where a higher byte is more and lower ones are less
    values = np.array([0x01_00_00, 0x00_FF_FF, 0x01_00_01, 0x02_00_00, 0x00_00_01, 0x00_00_00])
    head, bodies = opened(codec.pack({"c": values.astype(np.float64)}))

    assert head.entry("c").width == 3
    assert codec.is_below(head, bodies, "c", 0x01_00_00 + 0.5).tolist() == [
        *(True, True, False, False, True, True)
    ]


@pytest.mark.parametrize(
    "numbers", [[5, 5, 5], [7, 3, 9, 3], list(range(-4, 4000, 3)), [3, 2, 2**62, -(2**62)]]
)
def test_steps_and_the_number_they_are_counted_from_are_the_column(numbers):
    column = np.array(numbers, dtype=np.int64)
    head, bodies = opened(codec.pack({"c": column, "same": column + 0}))

    steps, first = codec.steps_of(head, bodies, "c")

    assert (steps.numbers() + first).tolist() == numbers
    assert codec.steps_of(head, bodies, "same") == (steps, first)


def test_steps_are_equal_where_columns_differ_in_their_first_number_alone():
    one, other, third = (
        opened(codec.pack({"c": np.array(numbers)}))
        for numbers in ([10, 20, 40], [1010, 1020, 1040], [10, 20, 30])
    )

    steps, _ = codec.steps_of(*one, "c")

    assert codec.steps_of(*other, "c") == (steps, 1010)
    assert codec.steps_of(*third, "c")[0] != steps


def test_columns_of_other_names_whose_directory_is_as_long_are_read_by_their_own():
    one, other = (
        {name: np.arange(5.0) + at for at, name in enumerate(names)} for names in ("ab", "cd")
    )

    back = [codec.unpack(codec.pack(columns)) for columns in (one, other, one)]

    assert [list(columns) for columns in back] == [["a", "b"], ["c", "d"], ["a", "b"]]
    assert back[1]["d"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_damaged_column_is_not_compared():
    data = bytearray(codec.pack({"c": np.random.default_rng(1).random(1000)}))
    data[-40:] = b"\xff" * 40
    head, bodies = opened(bytes(data))

    with pytest.raises(codec.CodecError):
        codec.is_below(head, bodies, "c", 0.5)
