"""Packed columns: named arrays of float64 and int64 to bytes and back, bit for bit.

NaN stands for "not read", whatever its bits; every other float64 comes back
with the bits it had (-0.0, infinities and denormals too), every int64 exactly.
A column can be read without decoding the others.

The bytes are told in docs/store.md, one version after the other; what is written
is the newest, what is read is any. Why they look as they do:

- A float column of few decimals d is kept as whole numbers v * 10^d. Whole numbers
  lose their base and are divided by what divides them all (a clock of whole
  100 kHz): PLAIN as they are, DELTA as zigzag differences to the row before. Which
  of the two is smaller is tried on a sample. RAW is the 8 bytes of each value.
- Numbers are byte planes (shuffle), each a block of its zstd frame: zstd counts
  bytes by block, and noise in the low planes would hide how few the high ones use.
- Missing values are carried forward, so that they cost nothing but their bit.
"""

import itertools
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

VERSION = 2
CONSTANT, RAW, PLAIN, DELTA = range(4)
FLOAT, INT = 0, 1
NO_SCALE = 255
MAX_DECIMALS = 6
# Planes are noise or a few bytes over and over: higher levels take 10 to 30 % longer for 0.5 % fewer bytes.
LEVEL = 1

Array = NDArray[Any]  # float64 or int64
Words = NDArray[np.uint64]

_HEADER = struct.Struct("<BIHI")
# An entry after its name, by format version.
_ENTRIES = {1: struct.Struct("<BBBBQII"), 2: struct.Struct("<BBBBQIIQ")}
# Whole numbers up to 2^53 are exact in float64.
_EXACT = float(2**53)
_FACTORS = 10.0 ** np.arange(MAX_DECIMALS + 1).reshape(-1, 1, 1)
# Rows that tell how many decimals a column may have, and which encoding suits it.
_PROBE = 32
_BLOCKS, _BLOCK = 8, 64
# Bytes of a zstd frame that say how much is in it.
_FRAME_HEAD = 18
# Rows that only the header tells of: no chunk has two rows that differ in nothing.
_MOST_ALIKE = 2**24
# Bytes of the smallest whole number of numpy that has so many bytes.
_WORD = (1, 1, 2, 4, 4, 8, 8, 8, 8)
# Bytes per value by which a sample must be smaller as differences, which take longer to read.
_WORTHWHILE = 0.05
# Values that are worked on together: as many columns as the processor's cache holds.
_CELLS = 2**17
_NEGATIVE_ZERO = np.int64(-(2**63))
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
    step: int = 1


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column's 64-bit words, packed; the rest of its body is the mask."""

    encoding: int
    width: int
    base: int
    step: int
    body: bytes


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
    for name, values in columns.items():
        if len(values) != rows:
            raise ValueError(f"{name} has {len(values)} rows, not {rows}")
        if values.dtype not in (np.float64, np.int64):
            raise ValueError(f"{name} is {values.dtype}, expected float64 or int64")
    parts: dict[str, tuple[_Entry, bytes]] = {}
    for names in _groups(columns, rows):
        matrix = np.array([columns[name] for name in names])
        parts |= (_pack_ints if matrix.dtype == np.int64 else _pack_floats)(names, matrix)
    directory = b"".join(_packed_entry(entry) for entry, _ in parts.values())
    head = _engines.compressor.compress(directory)
    return b"".join([_HEADER.pack(VERSION, rows, len(parts), len(head)), head, *(body for _, body in parts.values())])


def unpack(data: bytes, names: Iterable[str] | None = None) -> dict[str, Array]:
    """The named columns that are there (None: all), each an array of its own. Raises CodecError."""
    try:
        rows, places = _directory(data)
        wanted = places if names is None else [name for name in names if name in places]
        if any(places[name][0].encoding == CONSTANT for name in wanted):
            _check_rows(rows, places.values(), data)
        return {name: _unpack_column(places[name][0], data, places[name][1], rows) for name in wanted}
    except CodecError:
        raise
    except (ValueError, LookupError, struct.error, MemoryError) as error:  # what numbers that mean nothing lead to
        raise CodecError(f"damaged packed columns: {error}") from error


def row_count(data: bytes) -> int:
    """Rows of every column. Raises CodecError."""
    return _header(data)[1]


def column_names(data: bytes) -> list[str]:
    """Names of the columns, in the order in which they were packed. Raises CodecError."""
    return list(_directory(data)[1])


def _groups(columns: Mapping[str, Array], rows: int) -> Iterator[list[str]]:
    """Names of columns that are packed together: neighbours of one dtype, as many as the cache holds."""
    at_most = max(1, _CELLS // max(rows, 1))
    for _, neighbours in itertools.groupby(columns, key=lambda name: columns[name].dtype.char):
        names = list(neighbours)
        yield from (names[start : start + at_most] for start in range(0, len(names), at_most))


def _pack_ints(names: Sequence[str], matrix: NDArray[np.int64]) -> Iterator[tuple[str, tuple[_Entry, bytes]]]:
    for name, numbers in zip(names, _packed_numbers(matrix), strict=True):
        yield name, _part(name, INT, NO_SCALE, b"", numbers)


def _pack_floats(names: Sequence[str], matrix: NDArray[np.float64]) -> Iterator[tuple[str, tuple[_Entry, bytes]]]:
    """One row of the matrix is one column of the table; its missing values are replaced in place."""
    masks = _masked_out(matrix)
    numbers, scales = _as_whole_numbers(matrix)
    packed = _packed_numbers(numbers, is_raw=scales == NO_SCALE)
    for name, mask, scale, found in zip(names, masks, scales.tolist(), packed, strict=True):
        if mask is None:
            yield name, (_Entry(name, FLOAT, CONSTANT, NO_SCALE, 0, _MISSING_BITS, 0, 0), b"")
        else:
            yield name, _part(name, FLOAT, scale, mask, found)


def _part(name: str, dtype: int, scale: int, mask: bytes, packed: _Numbers) -> tuple[_Entry, bytes]:
    body = mask + packed.body
    return _Entry(name, dtype, packed.encoding, scale, packed.width, packed.base, len(body), len(mask), packed.step), body


def _masked_out(matrix: NDArray[np.float64]) -> list[bytes | None]:
    """Each row's packed mask of missing values (b"": none, None: all), which are carried forward in the matrix."""
    masks: list[bytes | None] = [b""] * len(matrix)
    if matrix.size == 0:
        return masks
    for row in np.flatnonzero(np.isnan(matrix.min(axis=1))).tolist():  # the minimum of a row with a NaN in it is NaN
        missing = np.isnan(matrix[row])
        if missing.all():
            masks[row], matrix[row] = None, 0.0
        else:
            masks[row] = _compress(np.packbits(missing).tobytes())
            matrix[row] = _carried_forward(matrix[row], missing)
    return masks


def _as_whole_numbers(matrix: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(each row's v * 10^d as int64, d) for the fewest decimals d that give every value back bit for bit.

    A row for which none does keeps its bits, with NO_SCALE for d.
    """
    numbers = matrix.view(np.int64).copy()
    scales = np.full(len(matrix), NO_SCALE)
    if matrix.size == 0:
        return numbers, scales
    is_open = ~(numbers == _NEGATIVE_ZERO).any(axis=1)
    tried = _exact_on_sample(matrix[:, :: max(1, matrix.shape[1] // _PROBE)])
    for decimals in range(MAX_DECIMALS + 1):
        promising = np.flatnonzero(tried[decimals] & is_open)
        if len(promising):
            found, is_exact = _scaled(matrix[promising], decimals)
            rows = promising[is_exact]
            numbers[rows], scales[rows], is_open[rows] = found[is_exact], decimals, False
    return numbers, scales


def _exact_on_sample(sample: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Decimals x rows: true where all of the row's sample are whole numbers of that many decimals."""
    with np.errstate(over="ignore", invalid="ignore"):
        is_exact: NDArray[np.bool_] = (np.rint(sample * _FACTORS) / _FACTORS == sample).all(axis=2)
    return is_exact


def _scaled(matrix: NDArray[np.float64], decimals: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(the rows times 10^decimals as whole numbers, for which of them that is exact); no -0.0 may be in them."""
    factor = 10.0**decimals
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = matrix * factor
        np.rint(rounded, out=rounded)
        is_exact = (rounded / factor == matrix).all(axis=1) & (np.abs(rounded).max(axis=1, initial=0.0) <= _EXACT)
        return rounded.astype(np.int64), is_exact


def _packed_numbers(matrix: NDArray[np.int64], is_raw: NDArray[np.bool_] | None = None) -> list[_Numbers]:
    """Each row as CONSTANT, as RAW where it `is_raw`, else as PLAIN or DELTA, whichever a sample says is smaller."""
    if matrix.size == 0:
        return [_Numbers(CONSTANT, 0, 0, 1, b"")] * len(matrix)
    words, low = matrix.view(np.uint64), matrix.min(axis=1)
    encodings = np.where(low == matrix.max(axis=1), CONSTANT, PLAIN)
    if is_raw is not None:
        encodings[is_raw & (encodings == PLAIN)] = RAW
    bases = np.where(encodings == RAW, 0, low).view(np.uint64)
    counts = words - bases.reshape(-1, 1)
    is_counted = encodings == PLAIN
    steps = _divided(counts, np.flatnonzero(is_counted))
    encodings[is_counted] = _suited(_sample(counts)[is_counted])
    is_delta = encodings == DELTA
    bases[is_delta], counts[is_delta] = words[is_delta, 0], _zigzag_steps(counts[is_delta])
    return [
        _Numbers(encoding, 0, base, 1, b"") if encoding == CONSTANT else _Numbers(encoding, width, base, step, _shuffled(row, width))
        for encoding, width, base, step, row in zip(encodings.tolist(), _widths(counts), bases.tolist(), steps, counts, strict=True)
    ]


def _widths(words: Words) -> list[int]:
    """Bytes that each row's largest word needs, at least 1."""
    return [max(1, (largest.bit_length() + 7) // 8) for largest in words.max(axis=1).tolist()]


def _divided(counts: Words, rows: NDArray[np.intp]) -> list[int]:
    """Each row's step: what divides all counts of the given rows, which are divided by it in place; 1 for the others."""
    steps = [1] * len(counts)
    every = max(1, counts.shape[1] // _PROBE)
    for row, divisor in zip(rows.tolist(), np.gcd.reduce(counts[rows, ::every], axis=1).tolist(), strict=True):
        if divisor != 1:  # of the sample, 0 where that is all zeros
            steps[row] = int(np.gcd.reduce(counts[row]))
            counts[row] //= np.uint64(steps[row])
    return steps


def _suited(sample: Words) -> list[int]:
    """PLAIN or DELTA for each row of the sample: differences, slower to read, where they are clearly smaller."""
    levels, steps = _sizes(sample), _sizes(_zigzag_steps(sample))
    worthwhile = _WORTHWHILE * sample.shape[1] * sample.shape[2]
    return [DELTA if step + worthwhile < level else PLAIN for step, level in zip(steps, levels, strict=True)]


def _sizes(sample: Words) -> list[int]:
    """Bytes that each row takes, about."""
    words = sample.reshape(len(sample), sample.shape[1] * sample.shape[2])
    return [len(_compress(_planes(row, width).tobytes())) for row, width in zip(words, _widths(words), strict=True)]


def _sample(words: Words) -> Words:
    """Rows x blocks x neighbours: blocks from all over each row (a short row whole)."""
    length = words.shape[1] // _BLOCKS
    if length <= _BLOCK:
        return words[:, np.newaxis]
    return words[:, : length * _BLOCKS].reshape(len(words), _BLOCKS, length)[:, :, :_BLOCK]


def _zigzag_steps(words: Words) -> Words:
    """Zigzag differences along the last axis, modulo 2^64: exact for any int64. The first is to itself, so it is 0."""
    steps = np.zeros(words.shape, dtype=np.int64)
    np.subtract(words[..., 1:], words[..., :-1], out=steps[..., 1:].view(np.uint64))
    zigzag = steps << 1
    steps >>= 63
    zigzag ^= steps
    return zigzag.view(np.uint64)


def _carried_forward(values: NDArray[np.float64], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The values with each missing one replaced by the last before it (at the start: by the first there is)."""
    source = np.where(missing, 0, np.arange(len(values)))
    np.maximum.accumulate(source, out=source)
    source[: int(np.argmin(missing))] = int(np.argmin(missing))
    return values[source]


def _shuffled(words: Words, width: int) -> bytes:
    """The words' lowest `width` bytes, plane by plane, compressed: each plane but the last ends a block of the frame."""
    *planes, last = _planes(words, width)
    if not planes:
        return _compress(last.tobytes())
    frame = _engines.compressor.compressobj(size=width * len(words))
    parts: list[bytes] = []
    for plane in planes:
        parts += frame.compress(plane.tobytes()), frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return b"".join([*parts, frame.compress(last.tobytes()), frame.flush()])


def _planes(words: Words, width: int) -> NDArray[np.uint8]:
    size = _WORD[width]
    return words.astype(f"<u{size}", copy=False).view(np.uint8).reshape(len(words), size)[:, :width].T


def _unshuffled(planes: bytes, rows: int, width: int) -> Words:
    size, found = _WORD[width], np.frombuffer(planes, dtype=np.uint8).reshape(width, rows)
    words = np.zeros((rows, size), dtype=np.uint8)
    for place, plane in enumerate(found):
        words[:, place] = plane  # much faster than all planes at once, transposed
    return words.view(f"<u{size}").reshape(rows).astype(np.uint64, copy=False)


def _unpack_column(entry: _Entry, data: bytes, offset: int, rows: int) -> Array:
    words = _unpack_words(entry, data[offset + entry.mask_length : offset + entry.length], rows)
    if entry.dtype == INT:
        return words.view(np.int64)
    values = words.view(np.float64) if entry.scale == NO_SCALE else words.view(np.int64) / 10.0**entry.scale
    if entry.mask_length:
        bits = np.frombuffer(_decompress(data[offset : offset + entry.mask_length]), dtype=np.uint8)
        values[np.unpackbits(bits, count=rows).view(np.bool_)] = np.nan
    return values


def _check_rows(rows: int, places: Iterable[tuple[_Entry, int]], data: bytes) -> None:
    """A column of one value has no bytes to tell a damaged count of rows by: another column, whose bytes are there, has to agree."""
    others = [(entry, offset + entry.mask_length) for entry, offset in places if entry.encoding != CONSTANT]
    if not (
        any(_holds(data[start : start + _FRAME_HEAD], entry.width * rows) for entry, start in others) if others else rows <= _MOST_ALIKE
    ):
        raise CodecError(f"no column has {rows} rows")


def _holds(frame: bytes, size: int) -> bool:
    """Whether the frame says that so many bytes are in it."""
    try:
        return int(zstandard.get_frame_parameters(frame, format=zstandard.FORMAT_ZSTD1_MAGICLESS).content_size) == size
    except zstandard.ZstdError:
        return False


def _unpack_words(entry: _Entry, body: bytes, rows: int) -> Words:
    if entry.encoding == CONSTANT:
        return np.full(rows, entry.base, dtype=np.uint64)
    words = _unshuffled(_decompress(body), rows, entry.width)
    if entry.encoding == RAW:
        return words
    if entry.encoding == DELTA:
        signs = np.negative(words & np.uint64(1))
        words >>= np.uint64(1)
        words ^= signs
        np.cumsum(words, out=words)
    elif entry.encoding != PLAIN:
        raise CodecError(f"{entry.name}: unknown encoding {entry.encoding}")
    if entry.step != 1:
        words *= np.uint64(entry.step)
    words += np.uint64(entry.base)
    return words


def _header(data: bytes) -> tuple[int, int, int, int]:
    """(version, rows, columns, length of the stored directory)."""
    if len(data) < _HEADER.size:
        raise CodecError(f"{len(data)} bytes are too few for packed columns")
    version, rows, count, length = _HEADER.unpack_from(data)
    if version not in _ENTRIES:
        raise CodecError(f"packed columns of version {version}; this FleetWatch reads versions 1 to {VERSION}")
    return version, rows, count, length


def _directory(data: bytes) -> tuple[int, dict[str, tuple[_Entry, int]]]:
    """(rows, name -> (entry, offset of its body))."""
    version, rows, count, length = _header(data)
    head = _decompress(data[_HEADER.size : _HEADER.size + length])
    body, position = _HEADER.size + length, 0
    places: dict[str, tuple[_Entry, int]] = {}
    for _ in range(count):
        start = position + 1
        position = start + head[position]
        entry = _Entry(head[start:position].decode(), *_ENTRIES[version].unpack_from(head, position))
        places[entry.name] = (entry, body)
        position, body = position + _ENTRIES[version].size, body + entry.length
    if body != len(data):
        raise CodecError(f"{len(data)} bytes, expected {body}")
    return rows, places


def _packed_entry(entry: _Entry) -> bytes:
    name = entry.name.encode()
    numbers = entry.dtype, entry.encoding, entry.scale, entry.width, entry.base, entry.length, entry.mask_length, entry.step
    return bytes([len(name)]) + name + _ENTRIES[VERSION].pack(*numbers)


def _compress(data: bytes) -> bytes:
    return _engines.compressor.compress(data)


def _decompress(data: bytes) -> bytes:
    try:
        return _engines.decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise CodecError(f"damaged packed columns: {error}") from error
