"""What packed columns say of themselves: which there are, how each is encoded, where its bytes are.
Pure.

The bytes are told in docs/store.md. A column is read from its body alone, so that of a
large payload only its beginning and the wanted bodies need to be fetched.
"""

import itertools
import struct
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import zstandard

Bytes = bytes | memoryview

VERSION = 2
CONSTANT, RAW, PLAIN, DELTA = range(4)
FLOAT = 0
INT = 1
NO_SCALE = 255
# Planes are noise or a few bytes over and over: higher levels take 10 to 30 % longer for 0.5 %
# fewer bytes.
LEVEL = 1

# How all entries of these names are laid out; their lengths and names as they are spelt; names.
_Form = tuple[struct.Struct, tuple[tuple[int, ...], tuple[bytes, ...]], list[str]]
_forms: dict[tuple[int, int, int], _Form] = {}
_MOST_FORMS = 256

_HEADER = struct.Struct("<BIHI")
# An entry after its name, by format version.
_ENTRIES = {1: struct.Struct("<BBBBQII"), 2: struct.Struct("<BBBBQIIQ")}


class CodecError(ValueError):
    """The bytes are no packed columns, or of a version this code does not know."""


class Entry(NamedTuple):
    """How a column is encoded: its name, then numbers in their stored order.

    `length` is that of its body, of which the mask of missing values is the first part.
    """

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
class Directory:
    """Of all columns in the order in which they were packed: how each is encoded, and where in the
    bytes its body begins.
    """

    rows: int
    numbers: dict[str, tuple[int, ...]]  # the numbers of an entry
    offsets: dict[str, int]

    def __contains__(self, name: str) -> bool:
        return name in self.numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def entry(self, name: str) -> Entry:
        """How the column is encoded.

        Made when it is asked for: of fifty columns a reader wants a few.
        """
        return Entry(name, *self.numbers[name])

    def place(self, name: str) -> tuple[int, int]:
        """The column's body is [first, second) of the bytes."""
        return self.offsets[name], self.offsets[name] + self.numbers[name][_LENGTH]


_LENGTH = Entry._fields.index("length") - 1


class _Engines(threading.local):
    """A compressor and a decompressor per thread: they are not safe to share."""

    def __init__(self) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL,
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_content_size=True,
            write_checksum=False,
        )
        self.compressor = zstandard.ZstdCompressor(compression_params=parameters)
        self.decompressor = zstandard.ZstdDecompressor(format=zstandard.FORMAT_ZSTD1_MAGICLESS)


engines = _Engines()


def read_directory(data: bytes, size: int) -> Directory:
    """The directory of `size` bytes of packed columns, of which `data` is the beginning or all.

    Raises CodecError.
    """
    try:
        return _read(data, size)
    except CodecError:
        raise
    # what numbers that mean nothing lead to
    except (ValueError, LookupError, struct.error) as error:
        raise CodecError(f"damaged packed columns: {error}") from error


def packed_directory(rows: int, entries: Iterable[Entry]) -> bytes:
    """What comes before the bodies of these columns."""
    columns = list(entries)
    head = compress(b"".join(map(_written, columns)))
    return _HEADER.pack(VERSION, rows, len(columns), len(head)) + head


def compress(data: bytes) -> bytes:
    return engines.compressor.compress(data)


def decompress(data: Bytes) -> bytes:
    try:
        return engines.decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise CodecError(f"damaged packed columns: {error}") from error


def _read(data: bytes, size: int) -> Directory:
    layout, rows, count, body = _header(data)
    head = decompress(data[_HEADER.size : body])
    names, numbers = _entries(layout, count, head)
    *offsets, end = itertools.accumulate((each[_LENGTH] for each in numbers), initial=body)
    if end != size:
        raise CodecError(f"{size} bytes, expected {end}")
    return Directory(
        rows, dict(zip(names, numbers, strict=True)), dict(zip(names, offsets, strict=True))
    )


def _entries(
    layout: struct.Struct, count: int, head: bytes
) -> tuple[list[str], list[tuple[int, ...]]]:
    """The names of the columns, and the numbers of each; all in one go where the names are those of
    a directory that was read before, as in nearly every chunk.
    """
    key = layout.size, count, len(head)
    if key in _forms:
        form, spelt, names = _forms[key]
        fields = form.unpack(head)
        width = len(fields) // count
        if (fields[0::width], fields[1::width]) == spelt:
            return names, [fields[at + 2 : at + width] for at in range(0, len(fields), width)]
    names, numbers = _entries_in_turn(layout, count, head)
    if count and len(_forms) < _MOST_FORMS:
        _forms[key] = _form(layout, names)
    return names, numbers


def _entries_in_turn(
    layout: struct.Struct, count: int, head: bytes
) -> tuple[list[str], list[tuple[int, ...]]]:
    names: list[str] = []
    numbers: list[tuple[int, ...]] = []
    position = 0
    for _ in range(count):
        start = position + 1
        position = start + head[position]
        names.append(head[start:position].decode())
        numbers.append(layout.unpack_from(head, position))
        position += layout.size
    return names, numbers


def _form(layout: struct.Struct, names: list[str]) -> _Form:
    spelt = [name.encode() for name in names]
    lengths = tuple(map(len, spelt))
    fields = "".join(f"B{length}s{layout.format[1:]}" for length in lengths)
    return struct.Struct(f"<{fields}"), (lengths, tuple(spelt)), names


def _header(data: bytes) -> tuple[struct.Struct, int, int, int]:
    """How an entry is laid out, how many rows and columns there are, where the directory ends."""
    if len(data) < _HEADER.size:
        raise CodecError(f"{len(data)} bytes are too few for packed columns")
    version, rows, count, length = _HEADER.unpack_from(data)
    if version not in _ENTRIES:
        raise CodecError(
            f"packed columns of version {version}; this FleetWatch reads versions 1 to {VERSION}"
        )
    end = _HEADER.size + length
    if end > len(data):
        raise CodecError(f"{len(data)} bytes do not hold the directory, which ends at {end}")
    return _ENTRIES[version], rows, count, end


def _written(entry: Entry) -> bytes:
    name, *numbers = entry
    return bytes([len(name.encode())]) + name.encode() + _ENTRIES[VERSION].pack(*numbers)
