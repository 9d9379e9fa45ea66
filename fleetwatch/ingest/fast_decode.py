"""The short way of reading batches: in packed form, for those that say of their nodes what was said
before. Pure.

What is valid is defined in one place, agent.wire.parse (of a packed batch on what agent.packed
unpacks). This reader accepts nothing that `parse` refuses, and knows nothing of how to refuse: for
whatever it does not recognise it answers None, and the batch goes the long way. Windows and host
samples, nearly all of a batch, are checked as arrays, of a whole group at once, within limits taken
from the wire; facts that are byte for byte the known ones were checked when they were learned, and
so was what is said of jobs while it is repeated; the rest is given to `wire`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from agent import packed, wire
from agent.wire import Batch, Work
from fleetwatch.lib.array_types import Floats, Mask
from fleetwatch.telemetry import packed_columns
from fleetwatch.telemetry.packed_columns import PackedTable, Run

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What a node's batches have in common, as the bytes they say it with."""

    node: str
    boot_id: str
    window_s: int
    gpus: bytes
    labels: bytes
    uuids: tuple[str, ...]
    words: "Words"  # of the batch that they were learned from

    def fingerprint(self, token_id: int, speaks_for: str) -> bytes:
        """The same for the same GPUs and labels, whatever the boot, sent with the same token while
        it may speak for the same cluster.
        """
        sender = b"%d\n%b\n%d" % (token_id, speaks_for.encode(), self.window_s)
        return b"%b\n%b\n%b" % (sender, self.gpus, self.labels)


class Words(NamedTuple):
    """What a batch says of jobs: as it says it, but when job sources were asked."""

    answers: bytes  # of job sources
    jobs: bytes
    allocations: bytes

    @property
    def digest(self) -> bytes:
        """The same for the same words."""
        return hashlib.blake2b(b"\n".join(self), digest_size=16).digest()


class KnownWords(NamedTuple):
    """What the sender repeats of jobs; their keys."""

    words: Words
    keys: tuple[str, ...]


class Read(NamedTuple):
    """A valid batch; `words`: what it newly says of jobs, None = it repeats what was said."""

    batch: Batch
    words: Words | None


class Repeat(NamedTuple):
    """One batch to read: what it inflates to, and what its sender said before."""

    content: bytes
    facts: BatchFacts
    known: KnownWords | None  # of jobs; None: whatever it says of them is new


class Opened(NamedTuple):
    """A batch that repeats the known facts; its tables are not looked at yet."""

    given: Any
    windows: PackedTable
    host: PackedTable


def facts(content: bytes) -> BatchFacts | None:
    """The facts in a packed batch that was accepted; None when batches like it can't be read the
    short way.
    """
    given = _decoded(content)
    if given is None:
        return None
    rest, _ = given
    uuids = tuple(wire.canonical_uuid(gpu["uuid"]) for gpu in msgspec.json.decode(rest.gpus))
    return BatchFacts(
        rest.node,
        rest.boot_id,
        rest.window_s,
        bytes(rest.gpus),
        bytes(rest.node_labels),
        uuids,
        _words(rest),
    )


def decode_repeats(repeats: Sequence[Repeat]) -> list[Read | None]:
    """Each batch, where it repeats the known facts and is valid; None where it has to go the long
    way.

    Of `gpus` a batch holds the UUIDs, of `windows` the whole numbers and whether process_count is
    there; there are no labels in it. Of `jobs` that are repeated it has the keys, and no
    allocations.
    """
    opened = [_opened(repeat) for repeat in repeats]
    batches: list[Read | None] = [None] * len(repeats)
    places = [place for place, each in enumerate(opened) if each is not None]
    repeated = [each for each in opened if each is not None]
    hosts = _hosts([each.host for each in repeated])
    windows = _windows([each.windows for each in repeated])
    for place, each, columns, host in zip(places, repeated, windows, hosts, strict=True):
        repeat = repeats[place]
        if columns is not None and host is not None and _fit(columns, host, repeat.facts):
            batches[place] = _batch(each.given, repeat, columns, host)
    return batches


def _opened(repeat: Repeat) -> Opened | None:
    read = _decoded(repeat.content)
    if read is None or not _repeats(read[0], repeat.facts):
        return None
    given, place = read
    try:
        windows, host = packed_columns.tables(repeat.content, place)
    except wire.WireError:
        return None
    ends = place + windows.size + host.size
    return Opened(given, windows, host) if ends == len(repeat.content) else None


def _batch(
    given: Any, repeat: Repeat, windows: dict[str, list[Any]], host: dict[str, list[Any]]
) -> Read | None:
    words = _words(given)
    repeated = repeat.known if repeat.known and repeat.known.words == words else None
    try:
        batch = wire.parse_rest(
            msgspec.structs.asdict(given),
            gpus=[{"uuid": uuid} for uuid in repeat.facts.uuids],
            windows=windows,
            host=host,
            node_labels={},
            work=_as_known(repeated) if repeated else _new(words, len(repeat.facts.uuids)),
        )
    except (wire.WireError, *_UNREADABLE):
        return None
    return Read(batch, None if repeated else words)


def _as_known(repeated: KnownWords) -> Work:
    return Work([{"key": key} for key in repeated.keys], [])


def _new(words: Words, gpu_count: int) -> Work:
    """Raises WireError, MsgspecError."""
    top = {name: msgspec.json.decode(getattr(words, name)) for name in ("jobs", "allocations")}
    return wire.parse_work(top, gpu_count=gpu_count)


def _decoded(content: bytes) -> tuple[Any, int] | None:
    """The JSON of it, and where its tables begin."""
    try:
        rest, place = packed.rest_of(content)
        return _DECODER.decode(rest), place
    except (wire.WireError, *_UNREADABLE):
        return None


def _repeats(given: Any, facts: BatchFacts) -> bool:
    return bool(
        given.version == wire.VERSION
        and given.node == facts.node
        and given.boot_id == facts.boot_id
        and given.window_s == facts.window_s
        and bytes(given.gpus) == facts.gpus
        and bytes(given.node_labels) == facts.labels
    )


def _words(given: Any) -> Words:
    return Words(_answers(given.sources), bytes(given.jobs), bytes(given.allocations))


def _answers(sources: Any) -> bytes:
    """Which ones answered and which did not, and why; of what is no list of sources nothing."""
    try:
        answers = [(each["kind"], each["ok"], each.get("why")) for each in sources or ()]
    except (AttributeError, KeyError, TypeError):
        return b""
    return msgspec.json.encode(answers)


def _fit(windows: dict[str, list[Any]], host: dict[str, list[Any]], facts: BatchFacts) -> bool:
    """Whether columns that are within the wire's limits are within those of this batch."""
    length_ms = facts.window_s * 1000
    return (
        max(windows["gpu"]) < len(facts.uuids)
        and max(windows["observed_ms"]) <= length_ms
        and _is_short(windows["start_ms"], length_ms)
        and (not host or _is_short(host["start_ms"], 1000))
    )


def _is_short(starts: list[int], length_ms: int) -> bool:
    return max(starts) + length_ms - min(starts) <= wire.MAX_SPAN_MS


class _Limits(NamedTuple):
    """Of a table's columns, by position."""

    low: Floats
    high: Floats
    is_whole: Mask


_MOST = {
    "gpu": wire.MAX_LIST,
    "start_ms": wire.MAX_TIME_MS,
    "observed_ms": wire.MAX_WINDOW_S * 1000,
}
_OF_WINDOWS = ("gpu", "start_ms", "observed_ms")
_OF_HOST = ("start_ms",)


@lru_cache(maxsize=256)
def _limits(
    names: tuple[str, ...], required: tuple[str, ...], others: tuple[str, ...]
) -> _Limits | None:
    """None for columns that are not those of such a table."""
    if not set(required) <= set(names) <= {*required, *others} or len(set(names)) < len(names):
        return None
    limits = [(0, _MOST[name]) if name in required else wire.LIMITS[name] for name in names]
    low, high = np.array(limits, dtype=np.float64).T
    return _Limits(low, high, np.isin(names, required))


def _windows(parts: Sequence[PackedTable]) -> list[dict[str, list[Any]] | None]:
    """Of each batch the whole numbers of its windows; None where they are not valid, or none."""
    read: list[dict[str, list[Any]] | None] = [None] * len(parts)
    for places, run in _alike(parts):
        limits = _limits(run.names, _OF_WINDOWS, wire.WINDOW_COLUMNS)
        columns = _whole_numbers(run, limits, _OF_WINDOWS)
        rest: dict[str, list[Any]] = {"process_count": []} if "process_count" in run.names else {}
        for place, of_batch in zip(places, columns, strict=True):
            read[place] = None if of_batch is None else of_batch | rest
    return read


def _hosts(parts: Sequence[PackedTable]) -> list[dict[str, list[Any]] | None]:
    """Of each batch when its host samples start, nothing where it has no column; None where they
    are not valid.
    """
    read: list[dict[str, list[Any]] | None] = [None if part.columns else {} for part in parts]
    for places, run in _alike(parts):
        limits = _limits(run.names, _OF_HOST, wire.HOST_COLUMNS)
        for place, of_batch in zip(places, _whole_numbers(run, limits, _OF_HOST), strict=True):
            read[place] = of_batch
    return read


def _alike(parts: Sequence[PackedTable]) -> Iterator[tuple[list[int], Run]]:
    """The tables that have rows, those alike together, each with its place."""
    order = sorted(
        (place for place, part in enumerate(parts) if part.rows),
        key=lambda place: packed_columns.shape(parts[place]),
    )
    start = 0
    for run in packed_columns.runs([parts[place] for place in order]):
        end = start + len(run.numbers)
        yield order[start:end], run
        start = end


def _whole_numbers(
    run: Run, limits: _Limits | None, names: Sequence[str]
) -> list[dict[str, list[Any]] | None]:
    """Of each table the columns of whole numbers, each of which was read; None where they, or any
    other column, are not within their limits.
    """
    if limits is None:
        return [None] * len(run.numbers)
    is_read = (run.numbers[:, limits.is_whole] != 0).all(axis=(1, 2))
    is_whole = (run.heads["decimals"][:, limits.is_whole] == 0).all(axis=1)
    is_valid = is_read & is_whole & packed_columns.are_within(run, limits.low, limits.high)
    columns = [run.whole_numbers(name).tolist() for name in names]
    return [
        dict(zip(names, of_table, strict=True)) if is_valid[at] else None
        for at, of_table in enumerate(zip(*columns, strict=True))
    ]


# what this decoder does not know goes the long way: nothing in a batch is stepped over unread
_DECODER: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(
    msgspec.defstruct(
        "Given",
        [
            ("version", int), ("node", str), ("boot_id", str), ("boot_start_ms", int),
            ("sequence", int), ("window_s", int), ("gpus", Raw), ("node_labels", Raw, Raw(b"")),
            *((name, Any, None) for name in ("agent", "sources", "processes", "events")),
            *((name, Raw, Raw(b"null")) for name in ("jobs", "allocations")),
        ],
        forbid_unknown_fields=True,
    )
)  # fmt: skip
