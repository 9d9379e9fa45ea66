"""Packed columns: named arrays of float64 and int64 to bytes and back, bit for bit.

NaN stands for "not read", whatever its bits; every other float64 comes back
with the bits it had (-0.0, infinities and denormals too), every int64 exactly.
A column can be read without decoding the others.

Layout, little-endian:

    offset  bytes  what
    0       1      format version (1)
    1       4      rows, u32
    5       2      columns, u16
    7       4      length of the directory as stored, u32
    11      ...    directory, zstd (frame without magic)
    ...     ...    the columns' bodies, one after the other

One directory entry per column:

    1 + n   length of the name, the name in UTF-8
    1       dtype: 0 float64, 1 int64
    1       encoding: CONSTANT, RAW, PLAIN, DELTA
    1       scale: decimals d of a float column kept as whole numbers v * 10^d; NO_SCALE: the bits as they are
    1       width: bytes per value after the offset was taken off
    8       base: the constant's bits, or the smallest number taken off
    4       length of the body, u32
    4       length of the missing mask's part of the body, u32; 0 = none missing

A body is the missing mask (packed bits, zstd), then the numbers: PLAIN minus the
smallest, DELTA as zigzag differences to the row before; `width` bytes each, byte
planes one after the other (shuffle), zstd 3. RAW is the 8 bytes of each value,
shuffled. Missing values are carried forward before packing, so they cost
nothing but their bit. Of all that fit, the smallest is kept.
"""

import struct
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

VERSION = 1
CONSTANT, RAW, PLAIN, DELTA = range(4)
FLOAT, INT = 0, 1
NO_SCALE = 255
MAX_DECIMALS = 6
LEVEL = 3

Array = NDArray[Any]  # float64 or int64
Words = NDArray[np.uint64]

_HEADER = struct.Struct("<BIHI")
_ENTRY = struct.Struct("<BBBBQII")
# Whole numbers up to 2^53 are exact in float64.
_EXACT = float(2**53)
_PROBE = 32
_MISSING_BITS = int(np.array(np.nan, dtype=np.float64).view(np.uint64))


class CodecError(ValueError):
    """The bytes are no packed columns, or of a version this code does not know."""


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    dtype: int
    encoding: int
    scale: int
    width: int
    base: int
    length: int
    mask_length: int


class _Engines(threading.local):
    """A compressor and a decompressor per thread: they are not safe to share."""

    def __init__(self) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_content_size=True, write_checksum=False
        )
        self.compressor = zstandard.ZstdCompressor(compression_params=parameters)
        self.decompressor = zstandard.ZstdDecompressor(format=zstandard.FORMAT_ZSTD1_MAGICLESS)


_engines = _Engines()


def pack(columns: Mapping[str, Array]) -> bytes:
    """The columns, all of one length, as bytes. Raises ValueError for other dtypes or lengths."""
    rows = len(next(iter(columns.values()), ()))
    directory, bodies = [], []
    for name, values in columns.items():
        if len(values) != rows:
            raise ValueError(f"{name} has {len(values)} rows, not {rows}")
        entry, body = _pack_column(name, values)
        label = name.encode()
        directory.append(bytes([len(label)]) + label + _packed_entry(entry))
        bodies.append(body)
    head = _engines.compressor.compress(b"".join(directory))
    return b"".join([_HEADER.pack(VERSION, rows, len(directory), len(head)), head, *bodies])


def unpack(data: bytes, names: Iterable[str] | None = None) -> dict[str, Array]:
    """The named columns that are there (None: all), each an array of its own. Raises CodecError."""
    rows, places = _directory(data)
    wanted = places if names is None else [name for name in names if name in places]
    return {name: _unpack_column(places[name][0], data, places[name][1], rows) for name in wanted}


def row_count(data: bytes) -> int:
    """Rows of every column. Raises CodecError."""
    return _header(data)[0]


def column_names(data: bytes) -> list[str]:
    """Names of the columns, in the order in which they were packed. Raises CodecError."""
    return list(_directory(data)[1])


def _pack_column(name: str, values: Array) -> tuple[_Entry, bytes]:
    if values.dtype == np.int64:
        return _pack_words(name, values.view(np.uint64), dtype=INT, scale=NO_SCALE, mask=b"")
    if values.dtype != np.float64:
        raise ValueError(f"{name} is {values.dtype}, expected float64 or int64")
    return _pack_floats(name, values.view(np.float64))


def _pack_floats(name: str, values: NDArray[np.float64]) -> tuple[_Entry, bytes]:
    missing = np.isnan(values)
    mask = b""
    if missing.any():
        if missing.all():
            return _Entry(name, FLOAT, CONSTANT, NO_SCALE, 0, _MISSING_BITS, 0, 0), b""
        mask = _compress(np.packbits(missing).tobytes())
        values = _carried_forward(values, missing)
    scaled = _as_whole_numbers(values)
    if scaled is None:
        return _pack_words(name, values.view(np.uint64), dtype=FLOAT, scale=NO_SCALE, mask=mask)
    numbers, decimals = scaled
    return _pack_words(name, numbers.view(np.uint64), dtype=FLOAT, scale=decimals, mask=mask)


def _pack_words(name: str, words: Words, *, dtype: int, scale: int, mask: bytes) -> tuple[_Entry, bytes]:
    """The smallest of the encodings of 64-bit words (whole numbers in two's complement, or a float's bits)."""
    if len(words) == 0:
        return _Entry(name, dtype, CONSTANT, scale, 0, 0, 0, 0), b""
    if (words == words[0]).all():
        return _Entry(name, dtype, CONSTANT, scale, 0, int(words[0]), len(mask), len(mask)), mask
    if dtype == FLOAT and scale == NO_SCALE:
        body = mask + _compress(_shuffled(words, 8))
        return _Entry(name, dtype, RAW, scale, 8, 0, len(body), len(mask)), body
    candidates = [(PLAIN, *_plain(words)), (DELTA, *_delta(words))]
    encoding, base, width, packed = min(candidates, key=lambda candidate: len(candidate[3]))
    body = mask + packed
    return _Entry(name, dtype, encoding, scale, width, base, len(body), len(mask)), body


def _plain(words: Words) -> tuple[int, int, bytes]:
    base = words.view(np.int64).min().view(np.uint64)
    above = words - base
    width = _width(above)
    return int(base), width, _compress(_shuffled(above, width))


def _delta(words: Words) -> tuple[int, int, bytes]:
    """Zigzag differences, modulo 2^64: exact for any int64. The first row's is to `base`, so it is 0."""
    steps = np.zeros(len(words), dtype=np.int64)
    np.subtract(words[1:], words[:-1], out=steps[1:].view(np.uint64))
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    width = _width(zigzag)
    return int(words[0]), width, _compress(_shuffled(zigzag, width))


def _as_whole_numbers(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], int] | None:
    """(v * 10^d as int64, d) for the fewest decimals d that give every value back bit for bit; None: none does."""
    if np.isinf(values).any() or (np.signbit(values) & (values == 0)).any():
        return None
    probe = values[:: max(1, len(values) // _PROBE)]
    for decimals in range(MAX_DECIMALS + 1):
        if _scale(probe, decimals) is not None and (numbers := _scale(values, decimals)) is not None:
            return numbers, decimals
    return None


def _scale(values: NDArray[np.float64], decimals: int) -> NDArray[np.int64] | None:
    factor = 10.0**decimals
    with np.errstate(over="ignore"):
        rounded = np.rint(values * factor)
    # equal and no -0.0 on either side: the same bits
    is_exact = (np.abs(rounded) <= _EXACT).all() and (rounded / factor == values).all()
    return rounded.astype(np.int64) if is_exact else None


def _carried_forward(values: NDArray[np.float64], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The values with each missing one replaced by the last before it (at the start: by the first there is)."""
    source = np.where(missing, 0, np.arange(len(values)))
    np.maximum.accumulate(source, out=source)
    source[: int(np.argmin(missing))] = int(np.argmin(missing))
    return values[source]


def _width(words: Words) -> int:
    """Bytes that the largest word needs, at least 1."""
    return max(1, (int(words.max()).bit_length() + 7) // 8)


def _shuffled(words: Words, width: int) -> bytes:
    planes = words.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, :width]
    return np.ascontiguousarray(planes.T).tobytes()


def _unshuffled(planes: bytes, rows: int, width: int) -> Words:
    words = np.zeros((rows, 8), dtype=np.uint8)
    words[:, :width] = np.frombuffer(planes, dtype=np.uint8).reshape(width, rows).T
    return words.view("<u8").reshape(rows).astype(np.uint64, copy=False)


def _unpack_column(entry: _Entry, data: bytes, offset: int, rows: int) -> Array:
    words = _unpack_words(entry, data[offset + entry.mask_length : offset + entry.length], rows)
    if entry.dtype == INT:
        return words.view(np.int64)
    values = words.view(np.float64) if entry.scale == NO_SCALE else words.view(np.int64) / 10.0**entry.scale
    if entry.mask_length:
        bits = np.frombuffer(_decompress(data[offset : offset + entry.mask_length]), dtype=np.uint8)
        values[np.unpackbits(bits, count=rows).view(np.bool_)] = np.nan
    return values


def _unpack_words(entry: _Entry, body: bytes, rows: int) -> Words:
    if entry.encoding == CONSTANT:
        return np.full(rows, entry.base, dtype=np.uint64)
    words = _unshuffled(_decompress(body), rows, entry.width)
    if entry.encoding == PLAIN:
        return words + np.uint64(entry.base)
    if entry.encoding == DELTA:
        steps = (words >> np.uint64(1)) ^ (~(words & np.uint64(1)) + np.uint64(1))
        return np.cumsum(steps, dtype=np.uint64) + np.uint64(entry.base)
    if entry.encoding == RAW:
        return words
    raise CodecError(f"{entry.name}: unknown encoding {entry.encoding}")


def _header(data: bytes) -> tuple[int, int, int]:
    """(rows, columns, length of the stored directory)."""
    if len(data) < _HEADER.size:
        raise CodecError(f"{len(data)} bytes are too few for packed columns")
    version, rows, count, length = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CodecError(f"packed columns of version {version}; this FleetWatch reads version {VERSION}")
    return rows, count, length


def _directory(data: bytes) -> tuple[int, dict[str, tuple[_Entry, int]]]:
    """(rows, name -> (entry, offset of its body))."""
    rows, count, length = _header(data)
    head = _decompress(data[_HEADER.size : _HEADER.size + length])
    body, position = _HEADER.size + length, 0
    places: dict[str, tuple[_Entry, int]] = {}
    for _ in range(count):
        start = position + 1
        position = start + head[position]
        entry = _read_entry(head, position, head[start:position].decode())
        places[entry.name] = (entry, body)
        position, body = position + _ENTRY.size, body + entry.length
    if body != len(data):
        raise CodecError(f"{len(data)} bytes, expected {body}")
    return rows, places


def _packed_entry(entry: _Entry) -> bytes:
    return _ENTRY.pack(entry.dtype, entry.encoding, entry.scale, entry.width, entry.base, entry.length, entry.mask_length)


def _read_entry(head: bytes, position: int, name: str) -> _Entry:
    return _Entry(name, *_ENTRY.unpack_from(head, position))


def _compress(data: bytes) -> bytes:
    return _engines.compressor.compress(data)


def _decompress(data: bytes) -> bytes:
    try:
        return _engines.decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise CodecError(f"damaged packed columns: {error}") from error
