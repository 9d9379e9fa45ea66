"""What packed columns say of themselves: which there are, how each is encoded, where its bytes are.
Pure.

The bytes are told in docs/store.md. A column is read from its body alone, so that of a
large payload only its beginning and the wanted bodies need to be fetched.
"""

import itertools
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class _Form(NamedTuple):
    """How all entries of some columns are laid out: the lengths of their names, these as they are
    spelt, and which entry each has. An entry is so many `fields`: both, then its numbers.
    """

    layout: struct.Struct
    lengths: tuple[int, ...]
    spelt: tuple[bytes, ...]
    places: dict[str, int]
    fields: int


@dataclass(frozen=True, slots=True)
class Directory:
    """Of all columns in the order in which they were packed: how each is encoded, and where in the
    bytes its body begins.

    What it says of a column is looked up when it is asked for: of fifty a reader wants a few.
    """

    rows: int
    form: _Form
    fields: tuple[Any, ...]  # of all entries
    offsets: Sequence[int]  # where each body begins, and the last one ends

    def __contains__(self, name: str) -> bool:
        return name in self.form.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.form.places)

    def entry(self, name: str) -> Entry:
        """How the column is encoded."""
        size = self.form.fields
        first = self.form.places[name] * size
        return Entry(name, *self.fields[first + _HEAD : first + size])

    def place(self, name: str) -> tuple[int, int]:
        """The column's body is [first, second) of the bytes."""
        place = self.form.places[name]
        return self.offsets[place], self.offsets[place + 1]

    def places(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The place of each of these columns that is there."""
        there = self.form.places
        return {name: self.place(name) for name in names if name in there}


_HEAD = 2  # fields of an entry before its numbers: the length of its name, its name
_LENGTH = _HEAD + Entry._fields.index("length") - 1

_forms: dict[tuple[int, int, int], _Form] = {}


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
    form, fields = _entries(layout, count, head)
    lengths = fields[_LENGTH :: form.fields]
    offsets = list(itertools.accumulate(lengths, initial=body))
    if offsets[-1] != size:
        raise CodecError(f"{size} bytes, expected {offsets[-1]}")
    return Directory(rows, form, fields, offsets)


def _entries(layout: struct.Struct, count: int, head: bytes) -> tuple[_Form, tuple[Any, ...]]:
    """How the entries are laid out, and their fields; the first is known where the columns are
    those of a directory that was read before, as in nearly every chunk.
    """
    key = layout.size, count, len(head)
    if key in _forms:
        form = _forms[key]
        fields = form.layout.unpack(head)
        is_same = (
            fields[0 :: form.fields] == form.lengths and fields[1 :: form.fields] == form.spelt
        )
        if is_same:
            return form, fields
    form = _form(layout, _names_in_turn(layout, count, head))
    if len(_forms) < _MOST_FORMS:
        _forms[key] = form
    return form, form.layout.unpack(head)


def _names_in_turn(layout: struct.Struct, count: int, head: bytes) -> list[bytes]:
    names: list[bytes] = []
    end = 0
    for _ in range(count):
        start = end + 1
        end = start + head[end]
        names.append(head[start:end])
        end += layout.size
    return names


def _form(layout: struct.Struct, spelt: Sequence[bytes]) -> _Form:
    numbers = layout.format[1:]
    fields = "".join(f"B{len(name)}s{numbers}" for name in spelt)
    places = {name.decode(): place for place, name in enumerate(spelt)}
    lengths = tuple(map(len, spelt))
    return _Form(struct.Struct(f"<{fields}"), lengths, tuple(spelt), places, _HEAD + len(numbers))


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
