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
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Raw

from agent import packed, wire
from agent.wire import Batch, Work
from fleetwatch.ingest import group_columns
from fleetwatch.ingest.group_columns import Rows, Tables
from fleetwatch.telemetry import packed_columns
from fleetwatch.telemetry.packed_columns import PackedTable

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


class Repeat(NamedTuple):
    """One batch to read: what it inflates to, and what its sender said before."""

    content: bytes
    facts: BatchFacts
    known: KnownWords | None  # of jobs; None: whatever it says of them is new


@dataclass(slots=True)
class Read:
    """A valid batch, as far as it needs reading."""

    given: Any  # its JSON
    repeat: Repeat
    tables: Tables
    rows: Rows
    agent: str  # what it says of its agent, as JSON
    words: Words | None  # what it newly says of jobs, None = it repeats what was said
    _batch: Batch | None

    @property
    def boot_start_ms(self) -> int:
        return int(self.given.boot_start_ms)

    @property
    def sequence(self) -> int:
        return int(self.given.sequence)

    @property
    def has_processes(self) -> bool:
        return bytes(self.given.processes) not in _NO_LIST

    @property
    def has_events(self) -> bool:
        return bytes(self.given.events) not in _NO_LIST

    @property
    def batch(self) -> Batch:
        """The whole batch. Of `gpus` it has the UUIDs, of `windows` the whole numbers and whether
        process_count is there; there are no labels in it. Of `jobs` that are repeated it has the
        keys, and no allocations.
        """
        if self._batch is None:
            self._batch = _batch(self.given, self.repeat, self.repeat.known, self.tables)
        return self._batch


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
    """
    opened = [_opened(repeat) for repeat in repeats]
    places = [place for place, each in enumerate(opened) if each is not None]
    rows = group_columns.read_rows([each.tables for each in opened if each is not None])
    read: list[Read | None] = [None] * len(repeats)
    for place, of_tables in zip(places, rows, strict=True):
        each = opened[place]
        if each is not None and of_tables is not None:
            read[place] = _read(each.given, repeats[place], each.tables, of_tables)
    return read


class _Opened(NamedTuple):
    """A batch that repeats the known facts; its tables are not looked at yet."""

    given: Any
    tables: Tables


def _opened(repeat: Repeat) -> _Opened | None:
    opened = _decoded(repeat.content)
    if opened is None or not _repeats(opened[0], repeat.facts):
        return None
    given, place = opened
    try:
        windows, host = packed_columns.tables(repeat.content, place)
    except wire.WireError:
        return None
    if place + windows.size + host.size != len(repeat.content):
        return None
    facts = repeat.facts
    return _Opened(given, Tables(windows, host, len(facts.uuids), facts.window_s * 1000))


def _read(given: Any, repeat: Repeat, tables: Tables, rows: Rows) -> Read | None:
    words = _words(given)
    is_repeated = repeat.known is not None and repeat.known.words == words
    agent = _plain_agent(given.agent)
    batch = None
    if not (is_repeated and agent and _is_plain(given)):
        try:
            batch = _batch(given, repeat, repeat.known if is_repeated else None, tables)
        except (wire.WireError, *_UNREADABLE):
            return None
        agent = agent or msgspec.json.encode(batch.agent).decode()
    return Read(given, repeat, tables, rows, agent, None if is_repeated else words, batch)


def _batch(given: Any, repeat: Repeat, repeated: KnownWords | None, tables: Tables) -> Batch:
    """The whole batch, its tables being valid. Raises WireError, MsgspecError."""
    gpus = [{"uuid": uuid} for uuid in repeat.facts.uuids]
    top = {name: getattr(given, name) for name in _AS_GIVEN}
    top |= {name: msgspec.json.decode(getattr(given, name)) for name in _IN_PARTS}
    return wire.parse_rest(
        top,
        gpus=gpus,
        windows=_columns(tables.windows, _OF_WINDOWS, ("process_count",)),
        host=_columns(tables.host, _OF_HOST),
        node_labels={},
        work=_as_known(repeated) if repeated else _new(given, len(gpus)),
    )


def _columns(
    table: PackedTable, names: Sequence[str], others: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Those of whole numbers, and of the others whether they are there."""
    read = packed_columns.runs([table])
    there = set().union(*(run.names for run in read))
    return {
        name: packed_columns.whole_numbers(read, name).tolist() for name in names if name in there
    } | {name: [] for name in others if name in there}


def _plain_agent(given: Raw) -> str:
    """What it says of its agent, where that is kept as it is; "" where the wire has to tell."""
    if bytes(given) in _NO_OBJECT:
        return "{}"
    try:
        _AGENT.decode(given)
    except _UNREADABLE:
        return ""
    text = bytes(given).decode()
    # what can't be stored is written with a backslash, or is a number of thousands of digits
    is_storable = "\\" not in text and len(text) <= _MAX_AGENT and not _FAR.search(text)
    return text if is_storable else ""


def _is_plain(given: Any) -> bool:
    """Whether it names neither a process nor an event, and its job sources are as they must be."""
    if bytes(given.processes) not in _NO_LIST or bytes(given.events) not in _NO_LIST:
        return False
    return bytes(given.sources) in _NO_LIST or _are_sources(given.sources)


def _are_sources(given: Raw) -> bool:
    """False where it takes the wire to tell whether they are valid."""
    try:
        _SOURCES.decode(given)
    except _UNREADABLE:
        return False
    return b"\\" not in bytes(given)


def _as_known(repeated: KnownWords) -> Work:
    return Work([{"key": key} for key in repeated.keys], [])


def _new(given: Any, gpu_count: int) -> Work:
    """Raises WireError, MsgspecError."""
    top = {name: msgspec.json.decode(getattr(given, name)) for name in ("jobs", "allocations")}
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


def _answers(given: Raw) -> bytes:
    """Which ones answered and which did not, and why; of what is no list of sources nothing."""
    if bytes(given) in _NO_LIST:
        return b"[]"
    try:
        sources = msgspec.json.decode(given)
        answers = [(each["kind"], each["ok"], each.get("why")) for each in sources]
    except (AttributeError, KeyError, TypeError):
        return b""
    return msgspec.json.encode(answers)


_OF_WINDOWS = ("gpu", "start_ms", "observed_ms")
_OF_HOST = ("start_ms",)
# an item of the JSON that says nothing
_NO_LIST = frozenset({b"null", b"[]"})
_NO_OBJECT = frozenset({b"null", b"{}"})
# Characters. Of a number Postgres keeps each digit, as far as it can.
_MAX_AGENT = 2048
_FAR = re.compile("[eE][+-]?[0-9]{4}")
_AS_GIVEN = ("version", "node", "boot_id", "boot_start_ms", "sequence", "window_s")
_IN_PARTS = ("agent", "sources", "processes", "events")

# what this decoder does not know goes the long way: nothing in a batch is stepped over unread
_DECODER: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(
    msgspec.defstruct(
        "Given",
        [
            ("version", int), ("node", str), ("boot_id", str),
            ("boot_start_ms", Annotated[int, Meta(ge=0, le=wire.MAX_TIME_MS)]),
            ("sequence", Annotated[int, Meta(ge=0, le=wire.MAX_SEQUENCE)]),
            ("window_s", int), ("gpus", Raw), ("node_labels", Raw, Raw(b"")),
            *((name, Raw, Raw(b"null")) for name in ("jobs", "allocations", *_IN_PARTS)),
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
)  # fmt: skip
# What of these is valid as it is; whatever else may be goes through wire.parse_rest.
_Text = Annotated[str, Meta(max_length=64)]
_Amount = Annotated[float, Meta(ge=0, le=wire.MAX_AGENT_AMOUNT)]
_AGENT: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder(
    msgspec.defstruct(
        "Agent",
        [
            *((name, _Text, "") for name in ("version", "driver", "source")),
            ("last_refusal", Annotated[str, Meta(max_length=400)], ""),
            ("stopping", bool, False),
            *((name, _Amount, 0.0) for name in wire.AGENT_AMOUNTS),
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
)


class _Source(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    kind: Annotated[str, Meta(pattern=r"\S", max_length=32)]
    ok: bool
    seen_ms: Annotated[int, Meta(ge=0, le=wire.MAX_TIME_MS)] | None = None
    why: Annotated[str, Meta(max_length=wire.MAX_WHY)] | None = None


_SOURCES = msgspec.json.Decoder(Annotated[list[_Source], Meta(max_length=wire.MAX_LIST)])
