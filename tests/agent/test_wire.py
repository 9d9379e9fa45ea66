import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent import wire
from tests.agent.factories import START, mapping

GOLDEN = Path(__file__).parent / "golden"


def refused(**changes):
    with pytest.raises(wire.WireError) as caught:
        wire.parse(mapping(**changes))
    return caught.value.field


def windows(**columns):
    return {**mapping()["windows"], **columns}


def test_the_golden_batch_decodes_and_encodes_to_the_same_bytes():
    body = (GOLDEN / "full.json").read_bytes()

    batch = wire.decode(body)

    assert batch.windows["tensor_active"] == [0.33, None]
    assert batch.jobs[0]["key"] == "slurm/della/4711"
    assert (batch.start_ms, batch.end_ms) == (1794000000000, 1794000020000)
    assert wire.encode(batch) == body


def test_the_smallest_batch_of_an_old_sender_still_decodes():
    batch = wire.decode((GOLDEN / "minimal.json").read_bytes())

    assert batch.windows == {"gpu": [0], "start_ms": [1794000000000], "observed_ms": [0]}
    assert (batch.agent, batch.jobs, batch.host, batch.sources) == ({}, [], {}, [])


def test_what_a_newer_agent_adds_is_no_error():
    batch = wire.decode((GOLDEN / "newer.json").read_bytes())

    assert batch.agent == {"version": "9.0.0", "mood": "fine"}
    assert batch.gpus == [{"uuid": "GPU-5f", "flux_capacitance_f": 1.21, "unread": {}}]
    assert sorted(batch.windows) == ["gpu", "observed_ms", "start_ms", "util_mean"]
    assert batch.events[0]["kind"] == "enlightened"
    assert batch.sources == [{"kind": "nomad", "ok": True, "mood": "fine"}]


@pytest.mark.parametrize(("given", "kept"), [(40 * 2**30, 40 * 2**30), (None, None), (0, 0)])
def test_a_jobs_memory_is_bytes_or_not_read(given, kept):
    windows = mapping()["windows"]
    rows = len(windows["start_ms"])

    batch = wire.parse(mapping(windows=windows | {"job_memory_bytes": [given] * rows}))

    assert batch.windows["job_memory_bytes"] == [kept] * rows


@pytest.mark.parametrize("given", [-1, 1.1e15, "40G"])
def test_memory_that_no_host_has_is_refused(given):
    windows = mapping()["windows"]
    rows = len(windows["start_ms"])

    with pytest.raises(wire.WireError, match="job_memory_bytes"):
        wire.parse(mapping(windows=windows | {"job_memory_bytes": [given] * rows}))


def test_compressing_the_same_batch_gives_the_same_bytes():
    body = wire.encode(wire.parse(mapping()))

    assert wire.compress(body) == wire.compress(body)


@pytest.mark.parametrize(
    "key", ["version", "node", "boot_id", "boot_start_ms", "sequence", "window_s", "gpus"]
)
def test_each_required_key_is_named_when_it_is_missing(key):
    assert refused(**{key: None}) == key


@pytest.mark.parametrize("column", ["gpu", "start_ms", "observed_ms"])
def test_each_required_column_is_named_when_it_is_missing(column):
    assert refused(windows=windows(**{column: None})) == "windows." + column


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"node": ""}, "node"),
        ({"node": "a\x00b"}, "node"),
        ({"node": "x" * 254}, "node"),
        ({"boot_id": "\ud800"}, "boot_id"),
        ({"boot_start_ms": -1}, "boot_start_ms"),
        ({"sequence": 2**62 + 1}, "sequence"),
        ({"sequence": 1.0}, "sequence"),
        ({"window_s": 0}, "window_s"),
        ({"window_s": 301}, "window_s"),
        ({"gpus": {}}, "gpus"),
        ({"gpus": [{"uuid": " "}]}, "gpus[0].uuid"),
        ({"gpus": [{"uuid": "a"}, {"uuid": "a"}]}, "gpus"),
        ({"gpus": [{"uuid": "a", "index": -1}]}, "gpus[0].index"),
        ({"gpus": [{"uuid": "a", "power_limit_w": float("nan")}]}, "gpus[0].power_limit_w"),
        ({"gpus": [{"uuid": "a", "persistence": 1}]}, "gpus[0].persistence"),
        ({"gpus": [{"uuid": "a", "unread": {"x": {}}}]}, "gpus[0].unread"),
        ({"windows": None}, "windows"),
        ({"windows": windows(gpu=[1])}, "windows.gpu"),
        ({"windows": windows(gpu=[-1])}, "windows.gpu"),
        ({"windows": windows(gpu=[True])}, "windows.gpu"),
        ({"windows": windows(gpu=[0, 0])}, "windows.start_ms"),
        ({"windows": windows(start_ms=[wire.MAX_TIME_MS + 1])}, "windows.start_ms"),
        ({"windows": windows(observed_ms=[10_001])}, "windows.observed_ms"),
        ({"windows": windows(observed_ms=[None])}, "windows.observed_ms"),
        ({"windows": windows(util_mean=[0.5, 0.5])}, "windows.util_mean"),
        ({"windows": windows(util_mean=[1.0011])}, "windows.util_mean"),
        ({"windows": windows(util_mean=[-0.0011])}, "windows.util_mean"),
        ({"windows": windows(util_mean=["0.5"])}, "windows.util_mean"),
        ({"windows": windows(util_mean=[True])}, "windows.util_mean"),
        ({"windows": windows(power_w=[-1.0])}, "windows.power_w"),
        ({"windows": windows(power_w=[float("inf")])}, "windows.power_w"),
        ({"windows": windows(power_w=[float("nan")])}, "windows.power_w"),
        ({"windows": windows(power_w=[10**400])}, "windows.power_w"),
        ({"windows": windows(power_w=[9223372036854775794])}, "windows.power_w"),
        ({"windows": windows(temperature_c=[-274])}, "windows.temperature_c"),
        ({"agent": {"spool_bytes": 1.1e15}}, "agent.spool_bytes"),
        ({"agent": {"set_aside_batches": "many"}}, "agent.set_aside_batches"),
        ({"agent": {"clock_steps": -1}}, "agent.clock_steps"),
        ({"gpus": [{"uuid": "GPU-a", "power_limit_w": 2e7}]}, "gpus[0].power_limit_w"),
        ({"host": {"start_ms": [START], "pending_gpus": [1e18]}}, "host.pending_gpus"),
        ({"windows": windows(power_w={})}, "windows.power_w"),
        ({"host": {"cpu_ratio": [0.1]}}, "host.start_ms"),
        ({"host": {"start_ms": [START], "cpu_ratio": [1.5]}}, "host.cpu_ratio"),
        ({"jobs": [{"key": ""}]}, "jobs[0].key"),
        ({"jobs": [{"key": "slurm/della/1~2"}]}, "jobs[0].key"),
        ({"jobs": [{"key": "a", "name": "x" * 301}]}, "jobs[0].name"),
        ({"jobs": [{"key": "a"}, {"key": "a"}]}, "jobs"),
        ({"jobs": [{"key": "a", "start_ms": "now"}]}, "jobs[0].start_ms"),
        ({"jobs": [{"key": "a", "labels": {"k": "\x00"}}]}, "jobs[0].labels"),
        ({"allocations": [{"gpu": 0, "job": 0}]}, "allocations[0].job"),
        ({"processes": [{"gpu": 1, "pid": 1}]}, "processes[0].gpu"),
        ({"processes": [{"gpu": 0}]}, "processes[0].pid"),
        ({"events": [{"gpu": 3, "at_ms": START, "kind": "xid"}]}, "events[0].gpu"),
        ({"events": [{"at_ms": START, "kind": "xid", "code": 2**31}]}, "events[0].code"),
        ({"events": [{"kind": "xid"}]}, "events[0].at_ms"),
        ({"sources": [{"ok": True}]}, "sources[0].kind"),
        ({"sources": [{"kind": "slurm", "ok": 1}]}, "sources[0].ok"),
        ({"sources": [{"kind": "slurm", "ok": False, "why": "x" * 301}]}, "sources[0].why"),
        ({"sources": [{"kind": "slurm", "ok": False, "why": 1}]}, "sources[0].why"),
        ({"node_labels": {"a": [1]}}, "node_labels"),
        ({"agent": []}, "agent"),
        ({"events": [{}] * 4097}, "events"),
    ],
)
def test_what_no_hub_could_store_is_refused_with_its_place(changes, field):
    assert refused(**changes) == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"share": 0}, "share"),
        ({"share": 1.1}, "share"),
        ({"share": True}, "share"),
        ({"start_ms": 9, "end_ms": 8}, "end_ms"),
    ],
)
def test_an_allocation_that_means_nothing_is_refused(change, field):
    allocation = {"gpu": 0, "job": 0, **change}

    assert refused(jobs=[{"key": "a"}], allocations=[allocation]) == "allocations[0]." + field


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("power_w", 1e7),
        ("energy_j", 1e10),
        ("sm_clock_hz", 1e12),
        ("memory_used_bytes", 1e15),
        ("pcie_rx_bytes_s", 1e15),
        ("util_cycle_s", 1e6),
        ("process_count", 1e12),
        ("temperature_c", 1000),
    ],
)
def test_a_column_holds_no_more_than_its_unit_can_mean(name, most):
    assert wire.parse(mapping(windows=windows(**{name: [most]}))).windows[name] == [most]
    assert refused(windows=windows(**{name: [most * 1.001]})) == "windows." + name


def test_a_queue_waits_for_a_million_gpus_at_most():
    assert wire.parse(mapping(host={"start_ms": [START], "pending_gpus": [1e6]})).host[
        "pending_gpus"
    ] == [1e6]
    assert refused(host={"start_ms": [START], "pending_gpus": [1e6 + 1]}) == "host.pending_gpus"


def test_nan_among_numbers_is_found_wherever_it_hides():
    three = {"gpu": [0, 0, 0], "start_ms": [START, START + 1, START + 2], "observed_ms": [0, 0, 0]}

    for place in range(3):
        column = [1.0, 2.0, 3.0]
        column[place] = float("nan")
        assert refused(windows={**three, "power_w": column}) == "windows.power_w"


def test_ratios_that_rounding_put_beyond_their_ends_are_clamped():
    batch = wire.parse(mapping(windows=windows(util_mean=[1.0005], sm_active=[-0.0005])))

    assert batch.windows["util_mean"] == [1]
    assert batch.windows["sm_active"] == [0]


def test_a_batch_spans_six_hours_and_no_more():
    def spanning(milliseconds):
        return {"gpu": [0, 0], "start_ms": [START, START + milliseconds], "observed_ms": [0, 0]}

    assert (
        wire.parse(mapping(windows=spanning(6 * 3_600_000 - 10_000))).end_ms
        == START + 6 * 3_600_000
    )
    assert refused(windows=spanning(6 * 3_600_000 - 9_999)) == "windows.start_ms"


def test_a_node_without_gpus_sends_its_host_alone():
    empty = {"gpu": [], "start_ms": [], "observed_ms": []}

    batch = wire.parse(
        mapping(gpus=[], windows=empty, host={"start_ms": [START], "cpu_ratio": [None]})
    )

    assert (batch.start_ms, batch.end_ms) == (None, None)
    assert batch.host == {"start_ms": [START], "cpu_ratio": [None]}


def test_an_unknown_kind_of_job_is_batch():
    batch = wire.parse(
        mapping(jobs=[{"key": "a", "kind": "cron"}, {"key": "b", "kind": "service"}, {"key": "c"}])
    )

    assert [job["kind"] for job in batch.jobs] == ["batch", "service", "batch"]


def test_a_source_that_does_not_say_it_is_ok_is_not():
    assert wire.parse(mapping(sources=[{"kind": "slurm"}])).sources == [
        {"kind": "slurm", "ok": False}
    ]


@pytest.mark.parametrize("why", ["", "x" * 300, None])
def test_a_source_may_say_why_it_does_not_answer(why):
    assert (
        wire.parse(mapping(sources=[{"kind": "slurm", "ok": False, "why": why}])).sources[0]["why"]
        == why
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"version": 1}']
)
def test_bytes_that_are_no_batch_are_a_wire_error(body):
    with pytest.raises(wire.WireError):
        wire.decode(body)


HEX = "0a1b2c3d-aaaa-bbbb-cccc-dddddddddddd"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("GPU-" + HEX, "GPU-" + HEX),
        ("gpu-" + HEX.upper(), "GPU-" + HEX),
        ("Mig-" + HEX.upper(), "MIG-" + HEX),
        ("mig-gpu-" + HEX.upper() + "/1/0", "MIG-GPU-" + HEX + "/1/0"),
        ("GPU-A", "GPU-A"),  # no UUID of NVML: another source's name
        ("GPU-" + HEX.upper() + "-3", "GPU-" + HEX.upper() + "-3"),
    ],
)
def test_a_uuid_is_written_as_nvml_writes_it(given, kept):
    batch = wire.parse(mapping(gpus=[{"uuid": given, "parent_uuid": given}]))

    assert (batch.gpus[0]["uuid"], batch.gpus[0]["parent_uuid"]) == (kept, kept)


def test_a_gpu_that_is_named_in_two_cases_is_named_twice():
    assert refused(gpus=[{"uuid": "GPU-" + HEX}, {"uuid": "gpu-" + HEX.upper()}]) == "gpus"


def test_encoding_refuses_what_json_has_no_word_for():
    batch = replace(wire.parse(mapping()), windows=windows(power_w=[float("nan")]))

    with pytest.raises(ValueError, match="not JSON compliant"):
        wire.encode(batch)


def test_the_golden_file_names_every_key_of_the_format():
    golden = json.loads((GOLDEN / "full.json").read_text())

    assert list(golden) == list(wire.Batch.__dataclass_fields__)


def named(count):
    return {"a%d" % number: 0 for number in range(count)}


@pytest.mark.parametrize(
    ("place", "field"),
    [
        (lambda extra: mapping(**extra), "batch"),
        (lambda extra: mapping(windows={**mapping()["windows"], **extra}), "windows"),
        (lambda extra: mapping(host={"start_ms": [START], **extra}), "host"),
        (lambda extra: mapping(agent=extra), "agent"),
        (lambda extra: mapping(jobs=[{"key": "a", **extra}]), "jobs"),
        (lambda extra: mapping(events=[{"at_ms": START, "kind": "xid", **extra}]), "events"),
        (lambda extra: mapping(sources=[{"kind": "slurm", **extra}]), "sources"),
    ],
)
def test_unknown_keys_are_no_error_until_they_are_more_than_any_agent_will_add(place, field):
    wire.parse(place(named(wire.MAX_UNKNOWN)))

    with pytest.raises(wire.WireError, match="65 keys that are not known") as refusal:
        wire.parse(place(named(wire.MAX_UNKNOWN + 1)))
    assert refusal.value.field == field


def test_a_list_may_hold_some_unknown_keys_in_each_item():
    def jobs(each):
        return [{"key": str(number), **named(each)} for number in range(20)]

    wire.parse(mapping(jobs=jobs(wire.MAX_UNKNOWN_EACH)))

    assert refused(jobs=jobs(wire.MAX_UNKNOWN_EACH + 1)) == "jobs"


def test_what_nobody_reads_is_bounded_in_bytes_too():
    text = "x" * (wire.MAX_UNKNOWN_BYTES - len('[["new", ""]]'))

    wire.parse(mapping(new=text))

    assert refused(new=text + "x") == "batch"


def test_what_nobody_reads_may_be_nested_and_not_without_end():
    deep = []
    for _ in range(100_000):
        deep = [deep]

    assert refused(new=deep) == "batch"
