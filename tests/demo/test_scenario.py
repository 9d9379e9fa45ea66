"""What history says of a time must be what live agents would have measured then."""

import numpy as np
import pytest

from agent import wire
from agent.sources.simulated import Simulated, parse_spec
from agent.sources.simulated.troubles import faults_between, outages_between
from agent.window import close_window
from fleetwatch.demo import scenario
from fleetwatch.demo.blocks import Block, Fill
from fleetwatch.demo.fleet import DemoNode, nodes

START = 1_794_009_600_000  # 2026-11-07 00:00 UTC: a grid edge
HOUR_MS = 3_600_000
MEMBER = nodes(64)


def _told(member: DemoNode, start_ms: int, *, minutes: int = 60, window_s: int = 60) -> wire.Batch:
    """The node's history of those minutes, as the hub would read it."""
    fill = Fill(start_ms, start_ms + minutes * 60_000)
    told = scenario.batch(member, Block(fill, fill.start_ms, fill.end_ms, window_s))
    return wire.decode(wire.encode(told))


def _measured(
    member: DemoNode, start_ms: int, *, windows: int
) -> dict[tuple[int, int], dict[str, float]]:
    """(gpu, start) -> columns, by a live agent's own sampling at 1 Hz."""
    source = Simulated(member.spec, node=member.name, start_ms=start_ms - 2000)
    found = {}
    for gpu in source.gpus():
        readings = []
        for at_ms in range(start_ms - 1000, start_ms + windows * 10_000 + 1001, 1000):
            reading = source.read(gpu.uuid, at_ms)
            if reading is not None:
                readings.append(reading)
        for window in range(windows):
            begin = start_ms + window * 10_000
            near = [
                reading for reading in readings if begin - 1000 <= reading.at_ms <= begin + 11_000
            ]
            found[gpu.index, begin] = close_window(
                near, gpu=gpu, start_ms=begin, end_ms=begin + 10_000, interval_ms=1000
            ).columns
    return found


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("hour", [3, 40, 200])
def test_history_says_what_a_live_agent_measures(number, hour):
    start_ms = START + hour * HOUR_MS
    member = MEMBER[number]
    if faults_between(parse_spec(member.spec), start_ms, start_ms + 60_000):
        member = DemoNode(member.name, member.spec.split(",faulty")[0], member.labels)
    told = _told(member, start_ms, minutes=2, window_s=10)
    measured = _measured(member, start_ms, windows=12)
    powers: dict[int, list[tuple[float, float]]] = {}

    for place, (gpu, begin) in enumerate(
        zip(told.windows["gpu"], told.windows["start_ms"], strict=True)
    ):
        live = measured[gpu, begin]
        where = f"{member.name} gpu {gpu} at {begin}"
        row = {name: column[place] for name, column in told.windows.items()}
        assert row["util_mean"] == pytest.approx(live["util_mean"], abs=0.04), where
        assert row["util_zero_fraction"] == pytest.approx(live["util_zero_fraction"], abs=0.12), (
            where
        )
        assert row["energy_j"] == pytest.approx(live["energy_j"], rel=0.04, abs=80), where
        assert row["memory_used_bytes"] == pytest.approx(live["memory_used_bytes"], rel=1e-3), where
        assert row["spin_fraction"] == pytest.approx(live["spin_fraction"], abs=0.11), where
        powers.setdefault(gpu, []).append((row["power_w"], live["power_w"]))
        assert row.get("sm_active") == (
            None if "sm_active" not in live else pytest.approx(live["sm_active"], abs=0.04)
        ), where
    for gpu, pairs in powers.items():
        # a reading's power is that of the second before it: single windows differ at the edges of a
        # slow wave
        drawn, live = np.mean(pairs, axis=0)
        assert drawn == pytest.approx(live, rel=0.03, abs=8), f"{member.name} gpu {gpu}"


def test_history_tells_of_holders_and_host_what_a_live_agent_tells():
    member, start_ms = MEMBER[1], START + 40 * HOUR_MS
    told = _told(member, start_ms, minutes=2, window_s=10)
    source = Simulated(member.spec, node=member.name, start_ms=start_ms)

    for place, begin in enumerate(told.host["start_ms"]):
        live = source.resolve({}, gpus=[], start_ms=begin, end_ms=begin + 10_000)
        for name, value in live.host.items():
            assert told.host[name][place] == pytest.approx(value, rel=0.05, abs=0.02), name
        for gpu in source.gpus():
            row = told.windows["gpu"].index(gpu.index) + place
            for name, value in live.facts.get(gpu.uuid, {}).items():
                assert told.windows[name][row] == pytest.approx(value, rel=0.05, abs=0.02), name


def test_history_names_the_jobs_that_the_live_scheduler_names():
    member = MEMBER[1]
    told = _told(member, START, minutes=360)
    live = Simulated(member.spec, node=member.name, start_ms=START).resolve(
        {}, gpus=[], start_ms=START, end_ms=START + 6 * HOUR_MS
    )

    assert {job["key"] for job in told.jobs} == {job.key for job in live.jobs}
    assert [gpu["uuid"] for gpu in told.gpus] == [
        gpu.uuid for gpu in Simulated(member.spec, node=member.name, start_ms=0).gpus()
    ]
    assert told.sources[0]["kind"] == "slurm"


def test_a_block_is_the_same_however_often_it_is_told():
    assert wire.encode(_told(MEMBER[0], START)) == wire.encode(_told(MEMBER[0], START))


def test_a_lost_gpu_is_sent_but_observes_nothing():
    member = next(member for member in MEMBER if "faulty" in member.spec)
    spec = parse_spec(member.spec)
    (lost_ms, found_ms), *_ = faults_between(spec, START, START + 14 * 24 * HOUR_MS)
    begin = lost_ms // (60 * 60_000) * 60 * 60_000

    told = _told(member, begin, minutes=120)

    gpu = np.array(told.windows["gpu"])
    start, observed = np.array(told.windows["start_ms"]), np.array(told.windows["observed_ms"])
    power = np.array(told.windows["power_w"], dtype=float)
    gone = (gpu == spec.faulty) & (start >= lost_ms)
    assert set(observed[gone]) == {0}
    assert np.isnan(power[gone]).all()
    assert set(observed[gpu != spec.faulty]) == {60_000}
    told_then = [event for event in told.events if event["at_ms"] == lost_ms]
    assert [(event["kind"], event["gpu"], event["at_ms"]) for event in told_then] == [
        ("xid", spec.faulty, lost_ms),
        ("gpu_lost", spec.faulty, lost_ms),
    ]
    assert [event["kind"] for event in _told(member, found_ms - 60_000, minutes=2).events] == [
        "gpu_ok"
    ]


def test_in_an_outage_the_agent_sent_no_windows_of_any_gpu_and_of_the_host():
    member = MEMBER[0]
    (begin_ms, end_ms), *_ = outages_between(
        parse_spec(member.spec), START, START + 30 * 24 * HOUR_MS
    )
    start_ms = begin_ms // HOUR_MS * HOUR_MS

    told = _told(member, start_ms, minutes=120)

    starts = np.arange(start_ms, start_ms + 2 * HOUR_MS, 60_000)
    seen = starts[(starts + 60_000 <= begin_ms) | (starts >= end_ms)]
    assert 3 <= len(starts) - len(seen) <= 42
    assert told.windows["start_ms"] == np.tile(seen, 8).tolist()
    assert told.host["start_ms"] == seen.tolist()


def test_the_fleet_has_64_gpus_and_grows_by_nodes_of_other_seeds():
    assert len(nodes(64)) == 8
    assert len({node.source for node in nodes(200)}) == 25
    assert nodes(64) == nodes(200)[:8]
    assert (nodes(64)[0].name, nodes(64)[0].source) == (
        "h100-01",
        "simulated:8xH100,seed=1,mix=train,cluster=aurora,outages=yes,queue=yes",
    )
