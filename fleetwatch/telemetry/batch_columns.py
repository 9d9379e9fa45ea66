"""Batches' JSON to numpy columns, many batches at once. Pure.

What a batch says in a column is taken as text first. The texts of all batches are
then decoded together, of neighbours that say the same only the first: a GPU that does
nothing says the same for hours.
"""

import operator
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, compress
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from agent import wire
from fleetwatch.lib.array_types import Array, Floats, Ints, Mask
from fleetwatch.telemetry.window_tables import DEAD_PROCESSES, Table

# /proc/<pid>/stat: zombie, dead, uninterruptible sleep. They hold a GPU and do nothing with it.
DEAD_STATES = frozenset("ZXD")
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


class Body(NamedTuple):
    """A batch whose columns are still texts."""

    row: BatchRow
    texts: Any  # _BODY


class _GPU(msgspec.Struct):
    uuid: str


class _Process(msgspec.Struct):
    gpu: int
    state: str | None = None


def _texts(name: str, columns: Iterable[str]) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, [(column, Raw, _NULL) for column in columns], gc=False)


_HOST = _texts("_HOST", ("start_ms", *wire.HOST_COLUMNS))
_NO_HOST = _HOST()
_BODY = msgspec.defstruct(
    "_BODY",
    [
        ("window_s", int),
        ("gpus", Raw),
        ("windows", _texts("_WINDOWS", ("gpu", "start_ms", "observed_ms", *wire.WINDOW_COLUMNS))),
        ("host", _HOST | None, None),
        ("processes", Raw, _NULL),
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
) -> tuple[Table, Ints]:
    """The GPU windows in the order given, times corrected, with those of the named columns that any
    batch has; and how many each batch has.
    """
    parts = [body.texts.windows for body in bodies]
    counts = _counts(parts)
    positions = _whole_numbers(parts, "gpu", counts)
    table = {
        "gpu_id": _gpu_ids(bodies, positions, counts, gpu_ids),
        **_times(bodies, parts, counts),
        "observed_ms": _whole_numbers(parts, "observed_ms", counts),
        DEAD_PROCESSES: _dead_processes(bodies, positions, counts),
    }
    return table | _floats(parts, names, counts), counts


def host(bodies: Sequence[Body], names: Iterable[str]) -> tuple[Table, Ints]:
    """The host samples in the order given, times corrected, with those of the named columns that
    any batch has; and how many each batch has.
    """
    parts = [body.texts.host or _NO_HOST for body in bodies]
    counts = _counts(parts)
    return _times(bodies, parts, counts) | _floats(parts, names, counts), counts


def _counts(parts: Iterable[Any]) -> Ints:
    return np.array([_length(part.start_ms) for part in parts], dtype=np.int64)


def _length(text: Raw) -> int:
    raw = bytes(text)
    return raw.count(b",") + 1 if raw != b"null" and raw[1:-1].strip() else 0


def _times(bodies: Sequence[Body], parts: Sequence[Any], counts: Ints) -> Table:
    """start_ms, boot_start_ms, sequence and window_ms of every row."""

    def each(values: Iterable[int]) -> Ints:
        return np.repeat(np.array(list(values), dtype=np.int64), counts)

    return {
        "start_ms": _whole_numbers(parts, "start_ms", counts)
        + each(body.row.offset_ms for body in bodies),
        "boot_start_ms": each(body.row.boot_start_ms for body in bodies),
        "sequence": each(body.row.sequence for body in bodies),
        "window_ms": each(body.texts.window_s * 1000 for body in bodies),
    }


def _gpu_ids(
    bodies: Sequence[Body], positions: Ints, counts: Ints, gpu_ids: dict[Naming, list[int]]
) -> Ints:
    """Of each window the id at its position in what its batch names."""
    starts = accumulate(map(len, gpu_ids.values()), initial=0)
    first_of = dict(zip(gpu_ids, starts, strict=False))
    firsts = np.array([first_of[_naming(body)] for body in bodies], dtype=np.int64)
    every = np.array(list(chain.from_iterable(gpu_ids.values())), dtype=np.int64)
    by_window: Ints = every[np.repeat(firsts, counts) + positions]
    return by_window


def _dead_processes(bodies: Sequence[Body], positions: Ints, counts: Ints) -> Floats:
    """For each window: how many processes its batch lists on its GPU that are not alive."""
    by_window = np.zeros(len(positions))
    for body, end, count in zip(bodies, np.cumsum(counts).tolist(), counts.tolist(), strict=True):
        text = bytes(body.texts.processes)
        if b'"state"' in text:
            dead = _dead_by_gpu(text)
            of_batch = slice(end - count, end)
            by_window[of_batch] = [dead[gpu] for gpu in positions[of_batch].tolist()]
    return by_window


def _dead_by_gpu(text: bytes) -> Counter[int]:
    return Counter(
        process.gpu
        for process in _PROCESSES.decode(text) or ()
        if process.state and process.state[0] in DEAD_STATES
    )


def _floats(parts: Sequence[Any], names: Iterable[str], counts: Ints) -> Table:
    """The named columns that any batch has; null is NaN.

    Ratios are clamped as the wire clamps them.
    """
    columns: Table = {}
    for name in names:
        texts = list(map(operator.attrgetter(name), parts))
        if texts.count(_NULL) < len(texts):
            values = _joined(texts, counts, _NUMBERS, np.float64)
            columns[name] = np.clip(values, 0.0, 1.0) if name in wire.RATIOS else values
    return columns


def _whole_numbers(parts: Sequence[Any], name: str, counts: Ints) -> Ints:
    return _joined([getattr(part, name) for part in parts], counts, _INTEGERS, np.int64)


def _joined(
    texts: Sequence[Raw], counts: Ints, decoder: "msgspec.json.Decoder[Any]", dtype: Any
) -> Array:
    """What the texts say, one after the other; of an absent one nothing is known.

    Raises ValueError for another length.
    """
    texts = _without_gaps(texts, counts) if _NULL in texts else texts
    is_new = np.array([True, *map(operator.ne, texts[1:], texts)])[: len(texts)] & (counts > 0)
    # one list instead of many
    values = decoder.decode(b",".join(compress(texts, is_new)).replace(b"],[", b",") or b"[]")
    total = int(counts[is_new].sum())
    if len(values) != total:
        raise ValueError(f"a column has {len(values)} values for {total} windows")
    numbers = np.fromiter(values, dtype=dtype, count=total)  # makes None NaN
    return numbers if is_new.all() else numbers[_places(is_new, counts)]


def _without_gaps(texts: Sequence[Raw], counts: Ints) -> Sequence[Raw]:
    """The texts, with as many nulls as there are rows for one that is absent."""
    return [
        Raw(b"[%b]" % b",".join([b"null"] * count)) if text == _NULL else text
        for text, count in zip(texts, counts.tolist(), strict=True)
    ]


def _places(is_new: Mask, lengths: Ints) -> Ints:
    """Where each row's value stands among the values of the texts that are not the same as the one
    before.
    """
    ends = np.cumsum(np.where(is_new, lengths, 0))
    return np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
