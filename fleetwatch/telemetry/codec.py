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
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import zstandard

from fleetwatch.lib.array_types import Array, Floats, Ints, Mask, Places, Words
from fleetwatch.telemetry import directory
from fleetwatch.telemetry.directory import (
    CONSTANT,
    DELTA,
    FLOAT,
    INT,
    NO_SCALE,
    PLAIN,
    RAW,
    Bytes,
    CodecError,
    Directory,
    Entry,
    compress,
    decompress,
    engines,
)

MAX_DECIMALS = 6


# Whole numbers up to 2^53 are exact in float64.
_EXACT = float(2**53)
_FACTORS = 10.0 ** np.arange(MAX_DECIMALS + 1).reshape(-1, 1, 1)
# Rows that tell how many decimals a column may have, and which encoding suits it.
_PROBE = 32
_BLOCKS = 8
_BLOCK = 64
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
# Bytes of a body that repeats itself: what was measured takes more. Of a fleet's chunks there are a
# dozen such bodies at a time.
_PATTERN = 1024
_PATTERNS = 32
# What numbers that mean nothing lead to.
_DAMAGES = (ValueError, LookupError, MemoryError)
# Beyond every sum of differences of whole numbers that a float holds, and within int64.
_FAR = 2**62
_NEGATIVE_ZERO = np.int64(-(2**63))


class _Numbers(NamedTuple):
    """A column's 64-bit words, packed; the rest of its body is the mask."""

    encoding: int
    width: int
    base: int
    step: int
    body: bytes


def pack(columns: Mapping[str, Array]) -> bytes:
    """The columns, all of one length, as bytes. Raises ValueError for other dtypes or lengths."""
    rows = _rows(columns)
    parts: list[tuple[Entry, bytes]] = []
    for names in _groups(columns, rows):
        parts += _packed(names, np.array([columns[name] for name in names]))
    head = directory.packed_directory(rows, (entry for entry, _ in parts))
    return b"".join([head, *(body for _, body in parts)])


def _rows(columns: Mapping[str, Array]) -> int:
    rows = len(next(iter(columns.values()), ()))
    for name, values in columns.items():
        if len(values) != rows:
            raise ValueError(f"{name} has {len(values)} rows, not {rows}")
        if values.dtype not in (np.float64, np.int64):
            raise ValueError(f"{name} is {values.dtype}, expected float64 or int64")
    return rows


def unpack(data: bytes, names: Iterable[str] | None = None) -> dict[str, Array]:
    """The named columns that are there (None: all). Raises CodecError.

    Each is an array of its own; one value all over is read-only and takes no memory.
    """
    head = directory.read_directory(data, len(data))
    whole = memoryview(data)
    return unpack_bodies(head, {name: whole[slice(*head.place(name))] for name in head}, names)


def unpack_bodies(
    head: Directory, bodies: Mapping[str, Bytes], names: Iterable[str] | None = None
) -> dict[str, Array]:
    """The named columns of those whose bodies are given (None: all of them); else as `unpack`."""
    wanted = [head.entry(name) for name in (bodies if names is None else names) if name in bodies]
    try:
        # else what is unpacked shows that there are so many
        if all(entry.encoding == CONSTANT for entry in wanted):
            _check_rows(head, bodies)
        return {
            entry.name: _unpack_column(entry, bodies[entry.name], head.rows) for entry in wanted
        }
    except _DAMAGES as error:
        raise _damage(error) from error


def is_below(head: Directory, bodies: Mapping[str, Bytes], name: str, limit: float) -> Mask:
    """Where the float column is below the limit; nowhere where it was not read, or is not there.

    Whole numbers are compared as they are packed, without becoming what they stand for.
    """
    if name not in bodies:
        return np.zeros(head.rows, dtype=np.bool_)
    try:
        return _is_below(head.entry(name), bodies[name], head.rows, limit)
    except _DAMAGES as error:
        raise _damage(error) from error


def _is_below(entry: Entry, body: Bytes, rows: int, limit: float) -> Mask:
    is_low: Mask
    if entry.encoding not in (PLAIN, DELTA) or entry.scale == NO_SCALE:
        is_low = _unpack_column(entry, body, rows) < limit  # of NaN false
        return is_low
    last = (_last_below(limit, entry.scale) - _whole(entry.base)) // entry.step
    planes = decompress(body[entry.mask_length :])
    if entry.encoding == PLAIN:
        is_low = _is_at_most(planes, rows, entry.width, last)
    else:
        is_low = _summed(_unshuffled(planes, rows, entry.width)) <= max(-_FAR, min(last, _FAR))
    return is_low & ~_mask(entry, body, rows) if entry.mask_length else is_low


def _last_below(limit: float, scale: int) -> int:
    """The largest whole number that stands for a value below the limit."""
    number = math.ceil(limit * 10.0**scale) + 1
    while not number / 10.0**scale < limit:
        number -= 1
    return number


def _is_at_most(shuffled: bytes, rows: int, width: int, last: int) -> Mask:
    """Which of the words are no larger, plane by plane from the lowest: of a higher one an equal
    byte leaves it open. No word is put together for that.
    """
    if not 0 <= last < 256**width:
        return np.full(rows, last >= 0)
    planes = np.frombuffer(shuffled, dtype=np.uint8).reshape(width, rows)
    lowest, *higher = zip(planes, last.to_bytes(width, "little"), strict=True)
    is_at_most: Mask = np.less_equal(*lowest)
    for plane, most in higher:
        is_at_most &= plane == most
        is_at_most |= plane < most
    return is_at_most


def steps_of(head: Directory, bodies: Mapping[str, Bytes], name: str) -> tuple["Steps", int]:
    """The column of whole numbers: how far each is from the one number, and that."""
    entry = head.entry(name)
    return Steps(entry, bytes(bodies[name]), head.rows), _whole(entry.base)


class Steps:
    """Whole numbers without the number that they are counted from: equal where they are packed
    alike, as which GPU and which ten seconds are in all nodes' chunks.
    """

    __slots__ = ("_body", "_form")

    def __init__(self, entry: Entry, body: bytes, rows: int) -> None:
        self._form = entry.encoding, entry.step, entry.width, rows
        self._body = body

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and (self._form, self._body) == (other._form, other._body)

    def __hash__(self) -> int:
        return hash((self._form, self._body))

    def numbers(self) -> Ints:
        """All of them. Raises CodecError."""
        encoding, *_, rows = self._form
        if encoding == CONSTANT:
            return np.zeros(rows, dtype=np.int64)
        try:
            return _counts(*self._form, self._body)
        except _DAMAGES as error:
            raise _damage(error) from error


def repeated(single: Array, rows: int) -> Array:
    """So many times the one value: read-only, and of no memory."""
    return np.ndarray(rows, single.dtype, single.tobytes(), strides=(0,))


def _groups(columns: Mapping[str, Array], rows: int) -> Iterator[list[str]]:
    """Names of columns that are packed together: neighbours of one dtype, as many as the cache
    holds.
    """
    at_most = max(1, _CELLS // max(rows, 1))
    for _, neighbours in itertools.groupby(columns, key=lambda name: columns[name].dtype.char):
        names = list(neighbours)
        yield from (names[start : start + at_most] for start in range(0, len(names), at_most))


def _packed(names: Sequence[str], matrix: Array) -> Iterator[tuple[Entry, bytes]]:
    """Each row of the matrix as a column; missing values are replaced in place."""
    dtype = INT if matrix.dtype == np.int64 else FLOAT
    masks = [b""] * len(names)
    scales = np.full(len(names), NO_SCALE)
    if dtype == FLOAT:
        masks = _masked_out(matrix)
        matrix, scales = _as_whole_numbers(matrix)
    packed = _packed_numbers(matrix, is_raw=(scales == NO_SCALE) & (dtype == FLOAT))
    for name, mask, scale, numbers in zip(names, masks, scales.tolist(), packed, strict=True):
        encoding, width, base, step, words = numbers
        body = mask + words
        yield (
            Entry(name, dtype, encoding, scale, width, base, len(body), len(mask), step),
            body,
        )


def _masked_out(matrix: Floats) -> list[bytes]:
    """Each row's packed mask of missing values (b"": none), which are carried forward in the
    matrix; a row without any value is one value all over.
    """
    masks = [b""] * len(matrix)
    if matrix.size == 0:
        return masks
    # the minimum of a row with a NaN in it is NaN
    for row in np.flatnonzero(np.isnan(matrix.min(axis=1))).tolist():
        missing = np.isnan(matrix[row])
        if missing.all():
            matrix[row] = np.nan
        else:
            masks[row] = compress(np.packbits(missing).tobytes())
            matrix[row] = _carried_forward(matrix[row], missing)
    return masks


def _as_whole_numbers(matrix: Floats) -> tuple[Ints, Ints]:
    """(each row's v * 10^d as int64, d) for the fewest decimals d that give every value back bit
    for bit.

    A row for which none does keeps its bits, with NO_SCALE for d.
    """
    numbers = matrix.view(np.int64).copy()
    scales = np.full(len(numbers), NO_SCALE)
    is_open = (numbers != _NEGATIVE_ZERO).all(axis=1) & (matrix.size > 0)
    for decimals, is_likely in enumerate(_exact_on_sample(matrix)):
        likely = np.flatnonzero(is_likely & is_open)
        if likely.size:
            whole, is_exact = _scaled(matrix[likely], decimals)
            rows = likely[is_exact]
            numbers[rows] = whole[is_exact]
            scales[rows] = decimals
            is_open[rows] = False
    return numbers, scales


def _exact_on_sample(matrix: Floats) -> Mask:
    """Decimals x rows: true where all of the row's sample are whole numbers of that many
    decimals.
    """
    sample = matrix[:, :: max(1, matrix.shape[1] // _PROBE)]
    with np.errstate(over="ignore", invalid="ignore"):
        is_exact: Mask = (np.rint(sample * _FACTORS) / _FACTORS == sample).all(axis=2)
    return is_exact


def _scaled(matrix: Floats, decimals: int) -> tuple[Ints, Mask]:
    """(the rows times 10^decimals as whole numbers, for which of them that is exact); no -0.0 may
    be in them.
    """
    factor = 10.0**decimals
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = matrix * factor
        np.rint(rounded, out=rounded)
        is_exact = (rounded / factor == matrix).all(axis=1) & (
            np.abs(rounded).max(axis=1, initial=0.0) <= _EXACT
        )
        return rounded.astype(np.int64), is_exact


def _packed_numbers(matrix: Ints, is_raw: Mask) -> list[_Numbers]:
    """Each row as CONSTANT, as RAW where it `is_raw`, else as PLAIN or DELTA, whichever a sample
    says is smaller.
    """
    if matrix.size == 0:
        return [_Numbers(CONSTANT, 0, 0, 1, b"")] * len(matrix)
    encodings, bases = _encodings(matrix, is_raw)
    words = matrix.view(np.uint64)
    counts = words - bases.reshape(-1, 1)
    is_counted = encodings == PLAIN
    steps = _divided(counts, np.flatnonzero(is_counted))
    encodings[is_counted] = _suited(_sample(counts)[is_counted])
    is_delta = encodings == DELTA
    bases[is_delta] = words[is_delta, 0]
    counts[is_delta] = _zigzag_steps(counts[is_delta])
    return list(map(_compressed, encodings.tolist(), bases.tolist(), steps, counts))


def _encodings(matrix: Ints, is_raw: Mask) -> tuple[Ints, Words]:
    """Each row's encoding, of which PLAIN may become DELTA, and its base."""
    low = matrix.min(axis=1)
    encodings = np.where(low == matrix.max(axis=1), CONSTANT, np.where(is_raw, RAW, PLAIN))
    return encodings, np.where(encodings == RAW, 0, low).view(np.uint64)


def _compressed(encoding: int, base: int, step: int, counts: Words) -> _Numbers:
    if encoding == CONSTANT:
        return _Numbers(CONSTANT, 0, base, 1, b"")
    width = _width(counts)
    return _Numbers(encoding, width, base, step, _shuffled(counts, width))


def _width(words: Words) -> int:
    """Bytes that the largest word needs, at least 1."""
    return max(1, (int(words.max()).bit_length() + 7) // 8)


def _divided(counts: Words, rows: Places) -> list[int]:
    """Each row's step: what divides all counts of the given rows, which are divided by it in place;
    1 for the others.
    """
    steps = [1] * len(counts)
    every = max(1, counts.shape[1] // _PROBE)
    for row, divisor in zip(
        rows.tolist(), np.gcd.reduce(counts[rows, ::every], axis=1).tolist(), strict=True
    ):
        if divisor != 1:  # of the sample, 0 where that is all zeros
            steps[row] = int(np.gcd.reduce(counts[row]))
            counts[row] //= np.uint64(steps[row])
    return steps


def _suited(sample: Words) -> list[int]:
    """PLAIN or DELTA for each row of the sample: differences, slower to read, where they are
    clearly smaller.
    """
    levels = _sizes(sample)
    steps = _sizes(_zigzag_steps(sample))
    worthwhile = _WORTHWHILE * sample.shape[1] * sample.shape[2]
    return [
        DELTA if step + worthwhile < level else PLAIN
        for step, level in zip(steps, levels, strict=True)
    ]


def _sizes(sample: Words) -> list[int]:
    """Bytes that each row takes, about."""
    rows = [blocks.ravel() for blocks in sample]
    return [len(compress(_planes(row, _width(row)).tobytes())) for row in rows]


def _sample(words: Words) -> Words:
    """Rows x blocks x neighbours: blocks from all over each row (a short row whole)."""
    length = words.shape[1] // _BLOCKS
    if length <= _BLOCK:
        return words[:, np.newaxis]
    return words[:, : length * _BLOCKS].reshape(len(words), _BLOCKS, length)[:, :, :_BLOCK]


def _zigzag_steps(words: Words) -> Words:
    """Zigzag differences along the last axis, modulo 2^64: exact for any int64.

    The first is to itself, so it is 0.
    """
    steps = np.zeros(words.shape, dtype=np.int64)
    np.subtract(words[..., 1:], words[..., :-1], out=steps[..., 1:].view(np.uint64))
    zigzag = steps << 1
    steps >>= 63
    zigzag ^= steps
    return zigzag.view(np.uint64)


def _carried_forward(values: Floats, missing: Mask) -> Floats:
    """The values with each missing one replaced by the last before it (at the start: by the first
    there is).
    """
    source = np.where(missing, 0, np.arange(len(values)))
    np.maximum.accumulate(source, out=source)
    source[: int(np.argmin(missing))] = int(np.argmin(missing))
    return values[source]


def _shuffled(words: Words, width: int) -> bytes:
    """The words' lowest `width` bytes, plane by plane, compressed: each plane but the last ends a
    block of the frame.
    """
    *planes, last = _planes(words, width)
    if not planes:
        return compress(last.tobytes())
    frame = engines.compressor.compressobj(size=width * len(words))
    parts: list[bytes] = []
    for plane in planes:
        parts += frame.compress(plane.tobytes()), frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return b"".join([*parts, frame.compress(last.tobytes()), frame.flush()])


def _planes(words: Words, width: int) -> Array:
    size = _WORD[width]
    return (
        words.astype(f"<u{size}", copy=False).view(np.uint8).reshape(len(words), size)[:, :width].T
    )


def _unshuffled(planes: bytes, rows: int, width: int) -> Array:
    """Words of so many bytes, in the smallest whole number that holds them: what is done with them
    next then takes less time.
    """
    highest, *others = np.frombuffer(planes, dtype=np.uint8).reshape(width, rows)[::-1]
    words: Array = highest.astype(f"<u{_WORD[width]}")
    for plane in others:  # much faster than all planes at once, transposed
        words <<= 8
        words |= plane
    return words


def _unpack_column(entry: Entry, body: Bytes, rows: int) -> Array:
    if entry.encoding == CONSTANT:
        values = _one_value(entry.dtype, entry.scale, entry.base, rows)
    else:
        numbers = _unpack_numbers(entry, body[entry.mask_length :], rows)
        values = _valued(entry.dtype, entry.scale, numbers)
    if entry.mask_length:
        return np.where(_mask(entry, body, rows), np.nan, values)
    return values


@lru_cache(maxsize=_PATTERNS)
def _one_value(dtype: int, scale: int, base: int, rows: int) -> Array:
    """One value all over: read-only, and the same of a node's chunks."""
    number = np.frombuffer(base.to_bytes(8, "little"), dtype=np.int64)
    return repeated(_valued(dtype, scale, number), rows)


def _valued(dtype: int, scale: int, numbers: Ints) -> Array:
    if dtype == INT:
        return numbers
    return numbers.view(np.float64) if scale == NO_SCALE else numbers / 10.0**scale


def _mask(entry: Entry, body: Bytes, rows: int) -> Mask:
    """True where the value is missing."""
    return np.unpackbits(
        np.frombuffer(decompress(body[: entry.mask_length]), dtype=np.uint8), count=rows
    ).view(np.bool_)


def _damage(error: Exception) -> CodecError:
    return (
        error if isinstance(error, CodecError) else CodecError(f"damaged packed columns: {error}")
    )


def _whole(word: int) -> int:
    """The word, read as a whole number with a sign."""
    return word - 2**64 if word >= 2**63 else word


def _signed(word: int) -> np.int64:
    number: np.int64 = np.uint64(word).view(np.int64)
    return number


def _check_rows(head: Directory, bodies: Mapping[str, Bytes]) -> None:
    """A column of one value has no bytes to tell a damaged count of rows by: another column, whose
    bytes are there, has to agree.
    """
    others = [entry for name in bodies if (entry := head.entry(name)).encoding != CONSTANT]
    agrees = head.rows <= _MOST_ALIKE
    if others:
        agrees = any(
            _holds(bodies[entry.name][entry.mask_length :][:_FRAME_HEAD], entry.width * head.rows)
            for entry in others
        )
    if not agrees:
        raise CodecError(f"no column has {head.rows} rows")


def _holds(frame: Bytes, size: int) -> bool:
    """Whether the frame says that so many bytes are in it."""
    try:
        parameters = zstandard.get_frame_parameters(frame, format=zstandard.FORMAT_ZSTD1_MAGICLESS)
    except zstandard.ZstdError:
        return False
    return bool(parameters.content_size == size)


def _unpack_numbers(entry: Entry, body: Bytes, rows: int) -> Ints:
    """The column's 64-bit words, read as int64; all arithmetic is modulo 2^64."""
    if entry.encoding not in (PLAIN, DELTA, RAW):
        raise CodecError(f"{entry.name}: unknown encoding {entry.encoding}")
    form = entry.encoding, entry.step, entry.width, rows
    if len(body) <= _PATTERN:
        return _pattern(*form, bytes(body)) + _signed(entry.base)
    numbers = _counts(*form, body)
    if entry.base != 0:
        numbers += _signed(entry.base)
    return numbers


@lru_cache(maxsize=_PATTERNS)
def _pattern(encoding: int, step: int, width: int, rows: int, body: bytes) -> Ints:
    """The same of a few bytes, read-only: which GPU, which ten seconds, which sequence is alike in
    all nodes' chunks but for its base.
    """
    numbers = _counts(encoding, step, width, rows, body)
    numbers.flags.writeable = False
    return numbers


def _counts(encoding: int, step: int, width: int, rows: int, body: Bytes) -> Ints:
    """The numbers less their base, in an array of its own."""
    words = _unshuffled(decompress(body), rows, width)
    numbers = _summed(words) if encoding == DELTA else words.astype(np.int64)
    if step != 1:
        numbers *= _signed(step)
    return numbers


def _summed(words: Array) -> Ints:
    """The sums of zigzag differences: a number read in as many bytes as it has gives the difference
    in as many.
    """
    steps = ((words >> 1) ^ np.negative(words & 1)).view(f"<i{words.itemsize}")
    sums: Ints = np.cumsum(steps, dtype=np.int64)
    return sums
