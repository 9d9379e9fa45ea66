"""The short way of reading a batch: for one that says of its node what was said before. Pure.

What is valid is defined in one place, agent.wire.parse. This reader accepts nothing
that `parse` refuses, and knows nothing of how to refuse: for whatever it does not
recognise it answers None, and the batch goes the long way. Windows and host samples,
nearly all of a batch, are checked while they are decoded, within limits taken from
the wire; facts that are byte for byte the known ones were checked when they were
learned, jobs and who holds which GPU when the sender last said the same; the rest is
given to `parse_rest`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from agent import wire
from agent.wire import Batch, Work

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

    def fingerprint(self, token_id: int) -> bytes:
        """The same for the same GPUs and labels, whatever the boot, sent with the same token."""
        return b"%d\n%d\n%b\n%b" % (token_id, self.window_s, self.gpus, self.labels)


class Memory:
    """What a sender's last batch said of jobs and of who holds which GPU, and as what it
    was read; and the order of the newest batch after which it was known that no process is stored
    of its GPUs (None = not known).
    """

    def __init__(self) -> None:
        self.silent_since: tuple[int, int] | None = None
        self._raw: tuple[bytes, ...] | None = None
        self._work: Work | None = None

    def work(self, given: Any, gpu_count: int) -> Work:
        """What the batch says of them; read anew when it does not repeat the last one's bytes.

        Raises WireError, MsgspecError.
        """
        raw = bytes(given.jobs), bytes(given.allocations)
        if self._work is None or self._raw != raw:
            jobs, allocations = map(msgspec.json.decode, raw)
            self._work = wire.parse_work(
                {"jobs": jobs, "allocations": allocations}, gpu_count=gpu_count
            )
            self._raw = raw  # last: what was refused is read again
        return self._work


def facts(body: bytes) -> BatchFacts | None:
    """The facts in the JSON of a batch that was accepted; None when batches like it can't be read
    the short way.
    """
    given = _decoded(body)
    if given is None:
        return None
    uuids = tuple(wire.canonical_uuid(gpu["uuid"]) for gpu in msgspec.json.decode(given.gpus))
    return BatchFacts(
        given.node,
        given.boot_id,
        given.window_s,
        bytes(given.gpus),
        bytes(given.node_labels),
        uuids,
    )


def decode_repeat(body: bytes, facts: BatchFacts, memory: Memory) -> Batch | None:
    """The batch, when it repeats the known facts and is valid; None when it has to go the long way.

    `memory` is of batches with these facts; what comes of it is shared and stays as it is. Of
    `gpus` it holds the UUIDs, of `windows` the whole numbers and process_count; there are no labels
    in it.
    """
    given = _decoded(body)
    if given is None or not _repeats(given, facts) or not _are_windows(given, len(facts.uuids)):
        return None
    gpus = [{"uuid": uuid} for uuid in facts.uuids]
    windows = _whole_numbers(given.windows)
    host = _host_starts(given.host)
    try:
        work = memory.work(given, len(gpus))
        return wire.parse_rest(
            msgspec.structs.asdict(given),
            gpus=gpus,
            windows=windows,
            host=host,
            node_labels={},
            work=work,
        )
    except (wire.WireError, *_UNREADABLE):
        return None


def _decoded(body: bytes) -> Any:
    try:
        return _DECODER.decode(body)
    except _UNREADABLE:
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


def _are_windows(given: Any, gpu_count: int) -> bool:
    """Whether the columns fit together, their values having been checked."""
    windows = given.windows
    host = given.host
    length_ms = given.window_s * 1000
    return (
        _fit(windows, length_ms)
        and max(windows.gpu) < gpu_count
        and max(windows.observed_ms) <= length_ms
        and (host is None or _is_empty(host) or _fit(host, 1000))
    )


def _fit(columns: Any, length_ms: int) -> bool:
    """Whether they have rows, all equally many, and not of too long a time."""
    lengths = {
        len(column)
        for column in msgspec.structs.astuple(columns)
        if column is not None and column is not UNSET
    }
    starts = columns.start_ms
    return (
        bool(starts)
        and len(lengths) == 1
        and max(starts) + length_ms - min(starts) <= wire.MAX_SPAN_MS
    )


def _is_empty(host: msgspec.Struct) -> bool:
    return all(column is UNSET for column in msgspec.structs.astuple(host))


def _whole_numbers(windows: Any) -> dict[str, list[Any]]:
    columns = {"gpu": windows.gpu, "start_ms": windows.start_ms, "observed_ms": windows.observed_ms}
    if windows.process_count:
        columns["process_count"] = windows.process_count
    return columns


def _host_starts(host: Any) -> dict[str, list[Any]]:
    return {"start_ms": host.start_ms} if host is not None and host.start_ms else {}


def _whole(high: int) -> Any:
    return list[Annotated[int, Meta(ge=0, le=high)]]


def _number(low: float, high: float) -> Any:
    return list[Annotated[float, Meta(ge=low, le=high)] | None] | None | UnsetType


def _columns(
    name: str, whole: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        name,
        [*whole, *((column, _number(*wire.LIMITS[column]), UNSET) for column in names)],
        forbid_unknown_fields=True,
    )


_STARTS = _whole(wire.MAX_TIME_MS)
_WINDOWS = _columns(
    "Windows",
    [
        ("gpu", _whole(wire.MAX_LIST)),
        ("start_ms", _STARTS),
        ("observed_ms", _whole(wire.MAX_WINDOW_S * 1000)),
    ],
    wire.WINDOW_COLUMNS,
)
_HOST = _columns("Host", [("start_ms", _STARTS | UnsetType, UNSET)], wire.HOST_COLUMNS)
# what this decoder does not know goes the long way: nothing in a batch is stepped over unread
_DECODER: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(
    msgspec.defstruct(
        "Given",
        [
            ("version", int), ("node", str), ("boot_id", str), ("boot_start_ms", int),
            ("sequence", int), ("window_s", int),
            ("gpus", Raw), ("windows", _WINDOWS), ("node_labels", Raw, Raw(b"")),
            ("host", _HOST | None, None),
            *((name, Any, None) for name in ("agent", "sources", "processes", "events")),
            *((name, Raw, Raw(b"null")) for name in ("jobs", "allocations")),
        ],
        forbid_unknown_fields=True,
    )
)  # fmt: skip
