"""The chunk format as docs/store.md tells it: a decoder written from that page alone, and bytes
that mean the same for ever.
"""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwatch.telemetry import codec, directory
from tests.telemetry.test_codec import float_columns, int_columns, same_bits

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(path.stem for path in GOLDEN.glob("*.bin"))
# An entry of the directory after its name; version 1 has no step.
ENTRIES = {1: "<BBBBQII", 2: "<BBBBQIIQ"}


def decompressed(frame):
    return zstandard.ZstdDecompressor().decompress(b"\x28\xb5\x2f\xfd" + frame)


def decoded(data):
    """The columns in the bytes, by docs/store.md; what was not read is NaN."""
    version, rows, count, length = struct.unpack_from("<BIHI", data)
    directory, body = decompressed(data[11 : 11 + length]), 11 + length
    columns, at = {}, 0
    for _ in range(count):
        name_end = at + 1 + directory[at]
        name = directory[at + 1 : name_end].decode()
        kind, encoding, scale, width, base, size, mask_size, *rest = struct.unpack_from(
            ENTRIES[version], directory, name_end
        )
        at = name_end + struct.calcsize(ENTRIES[version])
        mask, numbers = data[body : body + mask_size], data[body + mask_size : body + size]
        body += size
        columns[name] = values_of(
            words_of(encoding, numbers, rows, width=width, base=base, step=rest[0] if rest else 1),
            kind,
            scale,
            mask,
        )
    assert body == len(data)
    return columns


def words_of(encoding, numbers, rows, *, width, base, step):
    if encoding == 0:
        return [base] * rows
    planes = decompressed(numbers)
    small = [
        sum(planes[plane * rows + row] << (8 * plane) for plane in range(width))
        for row in range(rows)
    ]
    if encoding == 1:
        return small
    if encoding == 2:
        return [(base + step * one) % 2**64 for one in small]
    total, words = 0, []
    for one in small:
        total += (one >> 1) ^ -(one & 1)
        words.append((base + step * total) % 2**64)
    return words


def values_of(words, kind, scale, mask):
    bits = np.array(words, dtype=np.uint64)
    if kind == 1:
        return bits.view(np.int64)
    values = bits.view(np.float64).copy() if scale == 255 else bits.view(np.int64) / 10.0**scale
    if mask:
        missing = decompressed(mask)
        values[[row for row in range(len(words)) if missing[row // 8] >> (7 - row % 8) & 1]] = (
            np.nan
        )
    return values


def expected(version):
    """The golden columns: int64 as whole numbers, float64 as the hexadecimal of Python's float.hex,
    null = not read.
    """
    said = json.loads((GOLDEN / f"{version}.json").read_text())
    return {
        name: np.array(column, dtype=np.int64) if kind == "int" else floats(column)
        for name, (kind, column) in said.items()
    }


def floats(column):
    return np.array(
        [np.nan if value is None else float.fromhex(value) for value in column], dtype=np.float64
    )


def agree(one, other):
    return list(one) == list(other) and all(same_bits(one[name], other[name]) for name in one)


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_of_every_version_mean_what_they_meant(version):
    data = (GOLDEN / f"{version}.bin").read_bytes()

    assert agree(codec.unpack(data), expected(version))


def test_there_is_a_golden_file_of_the_version_that_is_written():
    assert f"chunk_v{directory.VERSION}" in VERSIONS
    assert codec.pack(expected(f"chunk_v{directory.VERSION}"))[0] == directory.VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_files_show_every_encoding(version):
    entries = golden_entries(version)

    assert {entry.encoding for entry in entries} == {
        codec.CONSTANT,
        codec.RAW,
        codec.PLAIN,
        codec.DELTA,
    }
    assert {entry.width for entry in entries} >= {0, 1, 2, 3, 8}
    assert any(entry.mask_length for entry in entries)


def test_the_golden_file_of_version_2_shows_steps_of_both_encodings():
    stepped = {
        (entry.encoding, entry.dtype) for entry in golden_entries("chunk_v2") if entry.step > 1
    }

    assert stepped >= {
        (codec.PLAIN, codec.FLOAT),
        (codec.DELTA, codec.FLOAT),
        (codec.DELTA, codec.INT),
    }


def golden_entries(version):
    data = (GOLDEN / f"{version}.bin").read_bytes()
    found = directory.read_directory(data, len(data))
    return [found.entry(name) for name in found]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_documented_decoder_reads_the_golden_files(version):
    assert agree(decoded((GOLDEN / f"{version}.bin").read_bytes()), expected(version))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(float_columns, int_columns), max_size=4))
def test_the_documented_decoder_reads_what_is_packed(columns):
    given_columns = {f"c{number}": values for number, values in enumerate(columns)}

    assert agree(decoded(codec.pack(given_columns)), given_columns)


def test_bytes_of_a_version_to_come_are_refused_by_name():
    data = b"\x03" + (GOLDEN / "chunk_v2.bin").read_bytes()[1:]

    with pytest.raises(
        codec.CodecError, match="packed columns of version 3; this FleetWatch reads versions 1 to 2"
    ):
        codec.unpack(data)
