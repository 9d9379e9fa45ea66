"""The short way of reading a batch accepts nothing that agent.wire.parse refuses, and reads the
same.
"""

import copy
import json
import math
import random
import zlib
from types import SimpleNamespace

import pytest

from agent import packed, wire
from fleetwatch.ingest import fast_decode
from fleetwatch.ingest.fast_decode import KnownWords, Repeat
from tests.ingest.factories import T0, gpu, job, payload

VALUES = (
    None, True, False, 0, 1, -1, 0.5, 1.001, 1.0010001, -0.001, -0.0011, 1.5, 2**31, 2**53 + 1,
    2**63, 10**18, 10**18 + 1, 1e18, 1.1e18,
    -273.15, -274.0, 1e300, "", "x", "\ud83d\ude00", "a\x00b", "x" * 500, [], [1], [None],
    [1.0, "x"], {}, {"a": 1}, {"a": {"b": 1}},
)  # fmt: skip


def whole():
    """A batch with something of everything that can be repeated."""
    return payload(
        gpus=[gpu("GPU-1", unread={"sm_active": "no"}), gpu("GPU-2")],
        node_labels={"rack": "7"},
        agent={"version": "1", "cpu_s": 1.5, "dropped_windows": 0},
        sources=[{"kind": "slurm", "ok": True, "seen_ms": T0}],
        jobs=[job()],
        allocations=[
            {"gpu": 0, "job": 0, "start_ms": T0, "end_ms": None, "source": "slurm", "share": 1.0}
        ],
        processes=[
            {"gpu": 0, "job": 0, "pid": 7, "user": "ann", "name": "python", "memory_bytes": 5}
        ],
        events=[],
        host={"start_ms": [T0], "cpu_ratio": [0.5], "memory_used_bytes": [7]},
    )


def encoded(mapping):
    """As packed and inflated; None for columns that can't be packed."""
    rest = {name: value for name, value in mapping.items() if name not in packed.TABLES}
    text = json.dumps(rest, separators=(",", ":")).encode()
    try:
        tables = [table(mapping.get(name)) for name in packed.TABLES]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return packed.HEAD.pack(packed.MAGIC, len(text)) + text + b"".join(tables)


def table(columns):
    """The bytes of a table of these columns alone."""
    named = {name: column for name, column in (columns or {}).items() if column is not None}
    batch = SimpleNamespace(windows=named, host={})
    content = zlib.decompress(packed.pack(batch))
    _, place = packed.rest_of(content)
    return content[place : packed.table_at(content, place)[-1]]


def decode(body):
    """The batch; None where it goes the long way."""
    [read] = fast_decode.decode_repeats([Repeat(body, FACTS, None)])
    return read and read.batch


FACTS = fast_decode.facts(encoded(whole()))
KNOWN_WORDS = KnownWords(FACTS.words, (job()["key"],))


def places(value, path=()):
    """Paths to everything in the value."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def mutated(draw):
    """The batch with one to three things of it changed, removed or added."""
    mapping = whole()
    for name in draw.sample(wire.WINDOW_COLUMNS, draw.randrange(4)):
        mapping["windows"][name] = [
            draw.choice((0, 1, 0.5, None, 1e-9)) for _ in mapping["windows"]["gpu"]
        ]
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        *way, key = draw.choice([path for path in places(mapping) if path])
        inner = mapping
        for part in way:
            inner = inner[part]
        choice = draw.random()
        if choice < 0.6:
            inner[key] = copy.deepcopy(draw.choice(VALUES))
        elif choice < 0.8:
            del inner[key]
        elif isinstance(inner, dict):
            inner[draw.choice(("zz", "util_max", "temperature_c", "start_ms", "gpu", "ok"))] = (
                copy.deepcopy(draw.choice(VALUES))
            )
        else:
            inner.append(copy.deepcopy(draw.choice(VALUES)))
    return mapping


@pytest.mark.parametrize("seed", range(40))
def test_what_the_short_way_accepts_is_valid_and_the_same(seed):
    draw = random.Random(seed)
    read = 0
    for _ in range(300):
        body = encoded(mutated(draw))
        short = body and decode(body)
        if short is None:
            continue
        read += 1
        reference = wire.parse(packed.unpack(body))
        for name in (
            "node",
            "boot_id",
            "boot_start_ms",
            "sequence",
            "window_s",
            "agent",
            "sources",
            "jobs",
            "allocations",
            "processes",
        ):
            assert getattr(short, name) == getattr(reference, name)
        assert (short.start_ms, short.end_ms) == (reference.start_ms, reference.end_ms)
        for name in ("gpu", "start_ms", "observed_ms"):
            assert short.windows[name] == reference.windows[name]
        assert ("process_count" in short.windows) == ("process_count" in reference.windows)
        assert short.host.get("start_ms", []) == reference.host.get("start_ms", [])
        assert [row["uuid"] for row in short.gpus] == [row["uuid"] for row in reference.gpus]
    assert read >= 10


def columns(**changed):
    mapping = whole()
    mapping["windows"] |= changed
    return encoded(mapping)


@pytest.mark.parametrize(
    ("name", "value", "is_read"),
    [
        ("util_mean", 1.001, True),
        ("util_mean", 1.0011, False),
        ("util_mean", -0.001, True),
        ("util_mean", -0.0011, False),
        ("power_w", 0, True),
        ("power_w", -1e-9, False),
        ("power_w", 1e7, True),
        ("power_w", math.nextafter(1e7, math.inf), False),
        ("power_w", 10**18, False),
        ("temperature_c", -273.15, True),
        ("temperature_c", 1000.1, False),
        ("power_w", None, True),
    ],
)
def test_a_column_is_read_within_the_limits_of_the_wire(name, value, is_read):
    body = columns(**{name: [value] * 6})

    assert (decode(body) is not None) == is_read


@pytest.mark.parametrize(
    ("base", "is_read"), [(2**53 - 1, True), (2**53 + 1, False), (-(2**53) - 1, False)]
)
def test_whole_numbers_that_are_not_exact_as_doubles_go_the_long_way(base, is_read):
    body = columns(energy_j=[0.5] * 6)
    head = packed.COLUMN.pack(packed.PLACES["energy_j"], 1, 5, 1)
    other = packed.COLUMN.pack(packed.PLACES["energy_j"], 6, base, 1)
    assert head in body

    assert (decode(body.replace(head, other)) is not None) == is_read


@pytest.mark.parametrize(
    "changed",
    [
        {"gpu": [0, 1, 0, 1, 0, 2]},
        {"gpu": [0, 1, 0, 1, 0, 0.5]},
        {"gpu": [0, 1, 0, 1, 0, None]},
        {"observed_ms": [10_001] * 6},
        {"start_ms": [T0, T0, T0, T0, T0, T0 + 6 * 3_600_000 - 9_999]},
        {"gpu": [], "start_ms": [], "observed_ms": [], "util_mean": []},
        {"cpu_ratio": [1] * 6},
        {"power_w": [math.pi] * 6},
    ],
)
def test_columns_that_do_not_fit_together_go_the_long_way(changed):
    assert decode(columns(**changed)) is None


@pytest.mark.parametrize("body", [b"", b"FWP1", encoded(whole())[:-1], encoded(whole()) + b"x"])
def test_what_is_no_batch_goes_the_long_way(body):
    assert decode(body) is None


@pytest.mark.parametrize("rest", [b"{", b"[]", b"null", b"[" * 100_000, b'{"node":"\xff"}'])
def test_what_says_no_batch_goes_the_long_way(rest):
    body = packed.HEAD.pack(packed.MAGIC, len(rest)) + rest + table({}) + table({})

    assert decode(body) is None
    assert fast_decode.facts(body) is None


def test_batches_of_one_group_are_each_read_or_not():
    bodies = [
        encoded(whole()),
        encoded(whole() | {"sequence": 2}),
        b"nothing",
        columns(util_mean=[2.0] * 6),
        columns(power_w=[70.5] * 6),
        encoded(whole() | {"host": {}}),
    ]
    read = fast_decode.decode_repeats([Repeat(body, FACTS, None) for body in bodies])

    assert [each and each.batch.sequence for each in read] == [1, 2, None, None, 1, 1]
    assert read[0].batch.windows["gpu"] == read[4].batch.windows["gpu"] == [0, 1] * 3


def test_a_host_that_says_nothing_is_none():
    without_time = encoded(whole() | {"host": {"cpu_ratio": [0.5]}})

    assert decode(encoded(whole() | {"host": {}})).host == {}
    assert decode(without_time) is None


@pytest.mark.parametrize(
    ("changed", "is_repeated"),
    [
        ({"sequence": 2}, True),
        ({"sources": [{"kind": "slurm", "ok": True, "seen_ms": T0 + 30_000}]}, True),
        ({"processes": None}, True),
        ({"sources": [{"kind": "slurm", "ok": False, "seen_ms": T0, "why": "timeout"}]}, False),
        ({"sources": []}, False),
        ({"jobs": [job(state="DONE")]}, False),
        ({"jobs": None, "allocations": [], "processes": None}, False),
        ({"allocations": []}, False),
    ],
)
def test_what_is_said_of_jobs_is_read_where_it_is_not_repeated(changed, is_repeated):
    body = encoded(whole() | changed)
    [read] = fast_decode.decode_repeats([Repeat(body, FACTS, KNOWN_WORDS)])

    reference = wire.parse(packed.unpack(body))
    if is_repeated:
        assert (read.words, read.batch.jobs, read.batch.allocations) == (
            None,
            [{"key": job()["key"]}],
            [],
        )
    else:
        assert (read.batch.jobs, read.batch.allocations) == (
            reference.jobs,
            reference.allocations,
        )
        assert read.words.digest != FACTS.words.digest
    assert read.batch.processes == reference.processes


@pytest.mark.parametrize("changed", [{"sources": 7}, {"jobs": []}])
def test_words_that_do_not_fit_go_the_long_way_however_often_they_are_said(changed):
    body = encoded(whole() | changed)

    assert fast_decode.decode_repeats([Repeat(body, FACTS, KNOWN_WORDS)] * 2) == [None, None]


def test_the_same_facts_of_another_token_are_others():
    assert len({FACTS.fingerprint(1, ""), FACTS.fingerprint(2, ""), FACTS.fingerprint(1, "a")}) == 3
