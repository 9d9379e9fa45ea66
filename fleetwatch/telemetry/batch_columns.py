"""Batches' JSON to numpy columns, many batches at once. Pure.

What a batch says in a column is taken as text first. The texts of all batches are
then decoded together, of neighbours that say the same only the first: a GPU that does
nothing says the same for hours.
"""

import operator
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from agent import wire
from fleetwatch.lib.array_types import Array, Floats, Ints, Mask
from fleetwatch.telemetry.window_tables import DEAD_PROCESSES, Table

# /proc/<pid>/stat: zombie, dead, uninterruptible sleep. They hold a GPU and do nothing with it.
DEAD_STATES = frozenset("ZXD")
_CLAMPED = frozenset(wire.RATIO_COLUMNS) | {
    name for name in wire.HOST_COLUMNS if name.endswith("_ratio")
}
_NOTHING = Raw()
_NULL = Raw(b"null")
_GZIP = 16 + zlib.MAX_WBITS


# A node, and the text in which it names its GPUs.
Naming = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """What decoding needs of a Batch row."""

    batch_id: int
    payload: bytes
    offset_ms: int
    boot_start_ms: int
    sequence: int
    node_id: int


@dataclass(frozen=True, slots=True)
class Body:
    """A batch whose columns are still texts."""

    row: BatchRow
    texts: Any  # _BODY


class _GPU(msgspec.Struct):
    uuid: str


class _Process(msgspec.Struct):
    gpu: int
    state: str | None = None


def _texts(name: str, columns: Iterable[str]) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, [(column, Raw, _NOTHING) for column in columns], gc=False)


_BODY = msgspec.defstruct(
    "_BODY",
    [
        ("window_s", int),
        ("gpus", Raw),
        ("windows", _texts("_WINDOWS", ("gpu", "start_ms", "observed_ms", *wire.WINDOW_COLUMNS))),
        ("host", _texts("_HOST", ("start_ms", *wire.HOST_COLUMNS)) | None, None),
        ("processes", Raw, _NOTHING),
    ],
    # in no circle, and thousands at once: they would set the collector going over all that is
    # loaded
    gc=False,
)
_BODIES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_BODY)
_INTEGERS = msgspec.json.Decoder(list[int])
_NUMBERS = msgspec.json.Decoder(list[float | None])
_GPUS = msgspec.json.Decoder(list[_GPU])
_PROCESSES = msgspec.json.Decoder(list[_Process] | None)


def opened(row: BatchRow) -> Body:
    """The batch, unzipped. Raises zlib.error or msgspec.MsgspecError for what is no batch."""
    return Body(row, _BODIES.decode(zlib.decompress(row.payload, _GZIP)))


def uuids(bodies: Iterable[Body]) -> dict[Naming, list[str]]:
    """What nodes say of their GPUs: (node id, text) -> UUIDs by position."""
    by_text: dict[bytes, list[str]] = {}
    namings = {_naming(body) for body in bodies}
    for _, text in namings:
        if text not in by_text:
            by_text[text] = [wire.canonical_uuid(gpu.uuid) for gpu in _GPUS.decode(text)]
    return {(node_id, text): by_text[text] for node_id, text in namings}


def _naming(body: Body) -> Naming:
    return body.row.node_id, bytes(body.texts.gpus)


def windows(
    bodies: Sequence[Body], gpu_ids: dict[Naming, list[int]], names: Iterable[str]
) -> Table:
    """The GPU windows in the order given, times corrected, with those of the named columns that any
    batch has.
    """
    bodies, counts = _counted(bodies, lambda body: body.texts.windows)
    parts = [body.texts.windows for body in bodies]
    positions = _whole_numbers([part.gpu for part in parts], counts)
    table = {
        "gpu_id": _gpu_ids(bodies, positions, counts, gpu_ids),
        **_times(bodies, parts, counts),
        "observed_ms": _whole_numbers([part.observed_ms for part in parts], counts),
        DEAD_PROCESSES: _dead_processes(bodies, positions, counts),
    }
    return table | _floats(parts, counts, names)


def host(bodies: Sequence[Body], names: Iterable[str]) -> Table:
    """The host samples in the order given, times corrected, with those of the named columns that
    any batch has.
    """
    bodies, counts = _counted(bodies, lambda body: body.texts.host)
    parts = [body.texts.host for body in bodies]
    return _times(bodies, parts, counts) | _floats(parts, counts, names)


def window_count(bodies: Iterable[Body]) -> int:
    """Rows that `windows` gives of the batches."""
    return sum(_length(body.texts.windows.start_ms) for body in bodies)


def host_count(bodies: Iterable[Body]) -> int:
    """Rows that `host` gives of the batches."""
    return sum(_length(body.texts.host.start_ms) for body in bodies if body.texts.host is not None)


def _counted(bodies: Sequence[Body], part: Callable[[Body], Any]) -> tuple[list[Body], list[int]]:
    """The bodies with rows in that part, and how many each has."""
    counts = [
        _length(columns.start_ms) if (columns := part(body)) is not None else 0 for body in bodies
    ]
    return [body for body, count in zip(bodies, counts, strict=True) if count], [
        count for count in counts if count
    ]


def _length(text: Raw) -> int:
    raw = bytes(text)
    return raw.count(b",") + 1 if raw != b"null" and raw[1:-1].strip() else 0


def _times(bodies: Sequence[Body], parts: Sequence[Any], counts: list[int]) -> Table:
    """start_ms, boot_start_ms, sequence and window_ms of every row."""

    def each(values: Iterable[int]) -> Ints:
        return np.repeat(np.array(list(values), dtype=np.int64), counts)

    return {
        "start_ms": _whole_numbers([part.start_ms for part in parts], counts)
        + each(body.row.offset_ms for body in bodies),
        "boot_start_ms": each(body.row.boot_start_ms for body in bodies),
        "sequence": each(body.row.sequence for body in bodies),
        "window_ms": each(body.texts.window_s * 1000 for body in bodies),
    }


def _gpu_ids(
    bodies: Sequence[Body],
    positions: Ints,
    counts: list[int],
    gpu_ids: dict[Naming, list[int]],
) -> Ints:
    offsets: dict[Naming, int] = {}
    ids: list[int] = []
    namings = [_naming(body) for body in bodies]
    for naming in dict.fromkeys(namings):
        offsets[naming] = len(ids)
        ids.extend(gpu_ids[naming])
    firsts = np.array([offsets[naming] for naming in namings], dtype=np.int64)
    by_window: Ints = np.array(ids, dtype=np.int64)[np.repeat(firsts, counts) + positions]
    return by_window


def _dead_processes(bodies: Sequence[Body], positions: Ints, counts: list[int]) -> Floats:
    """For each window: how many processes its batch lists on its GPU that are not alive."""
    by_window = np.zeros(len(positions))
    end = 0
    for body, count in zip(bodies, counts, strict=True):
        start = end
        end = end + count
        text = bytes(body.texts.processes)
        if b'"state"' in text:
            for gpu, dead in _dead_by_gpu(text).items():
                by_window[start:end][positions[start:end] == gpu] = dead
    return by_window


def _dead_by_gpu(text: bytes) -> Counter[int]:
    return Counter(
        process.gpu
        for process in _PROCESSES.decode(text) or ()
        if process.state and process.state[0] in DEAD_STATES
    )


def _floats(says: Sequence[Any], counts: list[int], names: Iterable[str]) -> Table:
    """The named columns that any batch has; null is NaN.

    Ratios are clamped as the wire clamps them.
    """
    columns: Table = {}
    for name, texts in _by_name(says, names):
        values = _joined(texts, counts, _NUMBERS, np.float64)
        columns[name] = np.clip(values, 0.0, 1.0) if name in _CLAMPED else values
    return columns


def _by_name(says: Sequence[Any], names: Iterable[str]) -> Iterator[tuple[str, tuple[Raw, ...]]]:
    """The texts of each named column that any batch has."""
    if not says:
        return
    every = dict(
        zip(
            says[0].__struct_fields__,
            zip(*map(msgspec.structs.astuple, says), strict=True),
            strict=True,
        )
    )
    for name in names:
        if any(text is not _NOTHING and text != _NULL for text in every[name]):
            yield name, every[name]


def _whole_numbers(texts: Sequence[Raw], counts: list[int]) -> Ints:
    return _joined(texts, counts, _INTEGERS, np.int64)


def _joined(
    texts: Sequence[Raw], counts: list[int], decoder: "msgspec.json.Decoder[Any]", dtype: Any
) -> Array:
    """What the texts say, one after the other; of an absent one nothing is known.

    Raises ValueError for another length.
    """
    filled = _without_gaps(texts, counts)
    is_new = np.array([True, *map(operator.ne, filled[1:], filled)])[: len(filled)]
    # one list instead of many
    values = decoder.decode(b",".join(compress(filled, is_new)).replace(b"],[", b",") or b"[]")
    lengths = np.array(counts, dtype=np.int64)
    total = int(lengths[is_new].sum())
    if len(values) != total:
        raise ValueError(f"a column has {len(values)} values for {total} windows")
    numbers = np.fromiter(values, dtype=dtype, count=total)  # makes None NaN
    return numbers if is_new.all() else numbers[_places(is_new, lengths)]


def _without_gaps(texts: Sequence[Raw], counts: list[int]) -> Sequence[Raw]:
    """The texts, with as many nulls as there are rows for one that is absent."""
    if _NOTHING not in texts and _NULL not in texts:
        return texts
    return [
        _nothing_of(count) if text is _NOTHING or text == _NULL else text
        for text, count in zip(texts, counts, strict=True)
    ]


def _nothing_of(count: int) -> Raw:
    return Raw(b"[%b]" % b",".join([b"null"] * count))


def _places(is_new: Mask, lengths: Ints) -> Ints:
    """Where each row's value stands among the values of the texts that are not the same as the one
    before.
    """
    ends = np.cumsum(np.where(is_new, lengths, 0))
    return np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
