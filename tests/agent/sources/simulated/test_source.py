import itertools
from dataclasses import replace

import pytest

from agent import wire
from agent.readings import SourceError
from agent.sources.simulated import Simulated, parse_spec
from agent.sources.simulated.archetypes import ARCHETYPES, BY_NAME
from agent.sources.simulated.recurring import mendings_between
from agent.sources.simulated.schedule import jobs_between
from agent.sources.simulated.signal import Signal, filled, shares
from agent.sources.simulated.teams import MIXES, TEAMS
from agent.sources.simulated.traits import HIGH, IDLE, LOW, PAUSE, WARMUP
from agent.sources.simulated.troubles import (
    ecc_errors,
    events_between,
    faults_between,
    outages_between,
)
from agent.sources.simulated.waves import bursts_of_hour, high_seconds, running_seconds, warped

DAY_MS = 86_400_000
NOW = 1_794_000_000_000
SPEC = "8xH100,seed=7,mix=research"


def _jobs(text: str = SPEC, *, start_ms: int = NOW, end_ms: int = NOW + 14 * DAY_MS):
    return jobs_between(parse_spec(text), start_ms, end_ms)


def _signal(name: str, *, text: str = "8xH100,seed=7,mix=mixed") -> Signal:
    """Of the first job of that archetype in two months."""
    return Signal(
        next(job for job in _jobs(text, end_ms=NOW + 60 * DAY_MS) if job.archetype.name == name)
    )


def test_a_specification_names_count_model_seed_and_mix():
    spec = parse_spec("8xh100,seed=7,mix=train,cluster=aurora,faulty=5")

    assert (spec.count, spec.model, spec.seed, spec.mix, spec.cluster, spec.faulty) == (
        8,
        "H100",
        7,
        "train",
        "aurora",
        5,
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("H100", "expected COUNTxMODEL"),
        ("0xH100", "1 to 16 GPUs"),
        ("8xH99", "known: H100"),
        ("8xH100,seed", "expected key=value"),
        ("8xH100,seed=x", "seed must be a whole number"),
        ("8xH100,speed=2", "unknown option speed"),
        ("8xH100,mix=play", "known: train, research, serve, mixed"),
        ("2xH100,faulty=2", "no GPU 2"),
        ("2xH100,outages=2", "outages must be yes or no"),
        ("4xH100,recurring=yes", "needs more than 4 GPUs"),
    ],
)
def test_a_wrong_specification_says_what_is_wrong(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_spec(text)


def test_every_habit_names_an_archetype_and_every_team_has_users():
    assert {name for team in TEAMS.values() for name in team.habits} <= set(BY_NAME)
    assert {name for mix in MIXES.values() for name in mix.teams} <= set(TEAMS)
    assert all(sum(parting) == 8 for mix in MIXES.values() for parting in mix.partings)
    assert {archetype.kind for archetype in ARCHETYPES} <= set(wire.JOB_KINDS)


def test_a_restart_continues_the_same_story():
    whole = _jobs()

    parts = [
        job
        for day in range(14)
        for job in _jobs(start_ms=NOW + day * DAY_MS, end_ms=NOW + (day + 1) * DAY_MS)
    ]

    assert set(parts) == set(whole)


def test_no_gpu_is_held_twice_and_every_job_has_its_own_key():
    jobs = _jobs()

    for gpu in range(8):
        spans = sorted((job.start_ms, job.end_ms) for job in jobs if gpu in job.gpus)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert len({job.key for job in jobs}) == len(jobs)


def test_nodes_of_other_seeds_have_other_jobs():
    keys = [{job.key for job in _jobs(f"8xH100,seed={seed}")} for seed in range(1, 11)]

    assert len(set.union(*keys)) == sum(map(len, keys))


def test_what_recurs_has_the_last_gpus_to_itself_and_keys_of_its_own():
    jobs = _jobs("8xH100,seed=7,mix=mixed,recurring=yes")
    recurring = [job for job in jobs if set(job.gpus) & {4, 5, 6, 7}]

    assert {job.name.rpartition("-")[0] for job in recurring} == {"tiles-refresh", "reward-refresh"}
    assert {job.gpus for job in recurring} == {(4, 5), (6, 7)}
    assert len({job.key for job in jobs}) == len(jobs)
    for first, second in itertools.pairwise(job for job in recurring if 4 in job.gpus):
        assert first.end_ms < second.start_ms


def test_a_recurring_job_wastes_until_it_is_mended_then_runs_shorter_and_wastes_again():
    mending = mendings_between(NOW, NOW + 10 * DAY_MS)[0]
    runs = [
        job
        for job in _jobs(
            "8xH100,recurring=yes", start_ms=NOW - 10 * DAY_MS, end_ms=NOW + 20 * DAY_MS
        )
        if job.name == mending.name
    ]
    before = [job for job in runs if job.start_ms < mending.at_ms]
    after = [job for job in runs if job.start_ms >= mending.at_ms]

    assert {job.archetype.truth for job in before} == {"data_starved"}
    assert [job.archetype.truth for job in after] == ["healthy"] * 15 + ["data_starved"] * 6
    assert max(job.end_ms - job.start_ms for job in after[:15]) < min(
        job.end_ms - job.start_ms for job in before
    )


def test_at_any_day_some_series_is_mended_for_a_day_and_not_worse_again_for_one():
    for today in range(NOW // DAY_MS, NOW // DAY_MS + 20):
        latest = mendings_between((today - 6) * DAY_MS, today * DAY_MS)
        assert [
            mending
            for mending in latest
            if (today - 5) * DAY_MS <= mending.at_ms <= (today - 1) * DAY_MS
        ] != []


def test_a_lost_gpu_ends_its_job_and_none_starts_on_it():
    spec = parse_spec(SPEC + ",faulty=3")
    first, *_ = faults_between(spec, NOW, NOW + 14 * DAY_MS)

    assert first[1] - first[0] == 40 * 3_600_000
    assert [job for job in jobs_between(spec, first[0] + 1, first[1]) if 3 in job.gpus] == []


def test_a_lost_gpu_raises_for_itself_alone_and_is_told_once():
    spec = parse_spec(SPEC + ",faulty=3")
    (start_ms, end_ms), *_ = faults_between(spec, NOW, NOW + 14 * DAY_MS)
    source = Simulated(SPEC + ",faulty=3", node="n", start_ms=start_ms - 5_000)
    uuids = [gpu.uuid for gpu in source.gpus()]

    before = source.read(uuids[3], start_ms - 1)
    told_before = source.events(start_ms - 1)
    with pytest.raises(SourceError, match="lost"):
        source.read(uuids[3], start_ms)
    with pytest.raises(SourceError, match="lost"):
        source.processes(uuids[3])
    told = source.events(start_ms) + source.events(start_ms + 1000)

    assert before is not None
    assert told_before == []
    assert [(event.kind, event.at_ms, event.code) for event in told] == [
        ("xid", start_ms, 79),
        ("gpu_lost", start_ms, None),
    ]
    assert source.read(uuids[2], start_ms) is not None
    assert [event.kind for event in source.events(end_ms)] == ["gpu_ok"]
    assert source.read(uuids[3], end_ms) is not None


def test_a_gpu_counts_memory_errors_for_hours_before_it_is_lost_and_none_when_it_is_back():
    spec = parse_spec(SPEC + ",faulty=3")
    (lost_ms, back_ms), *_ = faults_between(spec, NOW, NOW + 14 * DAY_MS)
    hour_ms = 3_600_000

    told = events_between(spec, "GPU-3", lost_ms - 7 * hour_ms, lost_ms)

    assert [(event.code, lost_ms - event.at_ms) for event in told] == [
        (63, 6 * hour_ms),
        (94, 90 * 60_000),
        (63, 40 * 60_000),
    ]
    assert [
        ecc_errors(spec, at_ms)
        for at_ms in (lost_ms - 6 * hour_ms - 1, lost_ms - 6 * hour_ms, lost_ms - 1, back_ms)
    ] == [0, 1, 8, 0]


def test_the_holder_and_the_host_of_a_gpu_are_told_of_too():
    source = Simulated(SPEC, node="n", start_ms=NOW)
    job = next(
        job for job in _jobs(end_ms=NOW + 60 * DAY_MS) if job.archetype.name == "data_starved_cpu"
    )
    at_ms = job.start_ms + 600_000

    workload = source.resolve({}, gpus=[], start_ms=at_ms, end_ms=at_ms + 10_000)

    facts = workload.facts[source.gpus()[job.gpus[0]].uuid]
    assert facts["job_cpu_ratio"] >= 0.94
    assert 8 * len(job.gpus) <= facts["job_cores"] <= 16 * len(job.gpus)
    assert 0.08 <= facts["job_memory_bytes"] / (64 * 2**30 * len(job.gpus)) <= 0.60
    assert workload.host["memory_used_bytes"] >= 18 * 2**30 + facts["job_memory_bytes"]
    assert 0 < workload.host["cpu_ratio"] <= 1
    assert set(workload.host) <= set(wire.HOST_COLUMNS)
    assert set(facts) <= set(wire.WINDOW_COLUMNS)


def test_the_same_node_seed_and_time_read_the_same():
    def read_twice() -> list:
        source = Simulated(SPEC, node="n", start_ms=NOW)
        return [source.read(gpu.uuid, NOW + at) for at in (1000, 2000) for gpu in source.gpus()]

    assert read_twice() == read_twice()
    assert (
        Simulated(SPEC, node="n", start_ms=NOW).gpus()
        != Simulated(SPEC, node="m", start_ms=NOW).gpus()
    )


def test_samples_come_at_six_hertz_in_whole_percent_and_the_counter_only_grows():
    source = Simulated(SPEC, node="n", start_ms=NOW)
    uuid = source.gpus()[0].uuid

    readings = [source.read(uuid, NOW + second * 1000) for second in range(1, 31)]

    assert [len(reading.util_samples) for reading in readings] == [6] * 30
    assert all(
        round(value * 100, 6) % 1 == 0 for reading in readings for _, value in reading.util_samples
    )
    energies = [reading.energy_j for reading in readings]
    assert all(0 < later - earlier <= 700 * 1.03 for earlier, later in itertools.pairwise(energies))


def test_a_model_without_counters_says_so_and_reads_no_activity():
    source = Simulated("8xA100,seed=7", node="n", start_ms=NOW)
    gpu = source.gpus()[0]

    assert gpu.unread["sm_active"] == "not_supported"
    assert set(source.read(gpu.uuid, NOW + 1000).means) == {
        "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s",
        "throttle_thermal_ratio", "throttle_power_ratio",
    }  # fmt: skip


def test_the_scheduler_names_jobs_of_the_window_and_ends_those_that_ended():
    source = Simulated(SPEC, node="n", start_ms=NOW)
    job = next(
        job
        for job in _jobs(end_ms=NOW + 2 * DAY_MS)
        if job.archetype.is_allocated and job.start_ms > NOW
    )

    before = source.resolve({}, gpus=[], start_ms=job.start_ms - 10_000, end_ms=job.start_ms)
    during = source.resolve({}, gpus=[], start_ms=job.start_ms, end_ms=job.start_ms + 10_000)
    at_end = source.resolve({}, gpus=[], start_ms=job.end_ms - 5_000, end_ms=job.end_ms + 5_000)

    assert job.key not in {found.key for found in before.jobs}
    assert {
        (item.start_ms, item.end_ms) for item in during.allocations if item.job_key == job.key
    } == {(job.start_ms, None)}
    assert {
        (item.start_ms, item.end_ms) for item in at_end.allocations if item.job_key == job.key
    } == {(job.start_ms, job.end_ms)}
    assert [found.state for found in at_end.jobs if found.key == job.key] == ["COMPLETED"]
    assert [(source.kind, source.ok) for source in during.sources] == [("slurm", True)]


def test_what_a_job_left_behind_holds_memory_without_an_allocation():
    text = "8xH100,seed=7,mix=research"
    job = next(
        job for job in _jobs(text, end_ms=NOW + 60 * DAY_MS) if job.archetype.name == "leftover"
    )
    at_ms = job.start_ms + 60_000
    source = Simulated(text, node="n", start_ms=at_ms - 1000)
    uuid = source.gpus()[job.gpus[0]].uuid

    reading = source.read(uuid, at_ms)
    workload = source.resolve(
        {uuid: source.processes(uuid)}, gpus=[], start_ms=at_ms - 10_000, end_ms=at_ms
    )

    assert reading.memory_used_bytes > 300 * 1024**2
    assert uuid not in {item.uuid for item in workload.allocations}
    assert [
        (process.job_key, process.state) for process in workload.processes if process.uuid == uuid
    ] == [(None, "D")]


def test_ground_truth_never_leaves_the_simulator():
    source = Simulated(SPEC, node="n", start_ms=NOW)

    workload = source.resolve({}, gpus=[], start_ms=NOW, end_ms=NOW + 14 * DAY_MS)

    assert not {name for name in BY_NAME if name in repr(workload)}


def test_an_unallocated_gpu_is_bare_idle():
    spec = parse_spec(SPEC)
    jobs = jobs_between(spec, NOW, NOW + 1)
    free = next(gpu for gpu in range(8) if all(gpu not in job.gpus for job in jobs))
    source = Simulated(SPEC, node="n", start_ms=NOW - 1000)
    uuid = source.gpus()[free].uuid

    reading = source.read(uuid, NOW)

    assert (reading.util, reading.memory_used_bytes, source.processes(uuid)) == (0.0, 0, [])
    assert 70 <= reading.power_w <= 95


def test_a_hung_job_spins_for_ever():
    signal = _signal("hung", text="8xH100,seed=1,mix=train")
    hang_s = signal.job.start_ms / 1000 + signal.traits.warmup_s + signal.traits.hangs_after_s

    pause = signal.traits.levels[PAUSE]
    assert signal.shares(hang_s + 1, hang_s + 2) == pytest.approx((0.0, 0.0, 1.0, 0.0, 0.0))
    assert (pause.util, pause.tensor) == (1.0, 0.0)
    assert pause.power <= 0.17


def test_a_job_that_warms_up_reads_as_idle_and_fills_its_memory():
    signal = _signal("healthy_llm")
    start_s, warmup_s = signal.job.start_ms / 1000, signal.traits.warmup_s

    assert signal.shares(start_s + 10, start_s + 11) == pytest.approx((0.0, 0.0, 0.0, 0.0, 1.0))
    assert signal.traits.levels[WARMUP].util == 0.0
    assert [filled(signal.traits, part * warmup_s) for part in (0.0, 0.5, 2.0)] == pytest.approx(
        [0.0, 0.5, 1.0]
    )


def test_a_checkpoint_begins_with_the_transfer_and_ends_in_waiting():
    traits = replace(
        _signal("checkpoint_stall").traits,
        warmup_s=0.0,
        pause_every_s=100.0,
        pause_share=0.2,
        onset_s=4.0,
        jitter=0.0,
        duty=1.0,
    )

    found = [shares(traits, at_s, at_s + 1.0) for at_s in (79.0, 80.0, 83.0, 84.0, 99.0)]

    working, saving, waiting = (
        (1.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0, 0.0, 0.0),
    )
    assert found == [pytest.approx(one) for one in (working, saving, saving, waiting, waiting)]


def test_of_a_slow_rank_the_others_wait_and_it_never_does():
    signal = _signal("straggler")
    slow = signal.traits.culprit_rank

    roles = [signal.role(gpu) for gpu in signal.job.gpus]

    assert roles == ["culprit" if rank == slow else "busy" for rank in range(len(roles))]
    culprit, victim = (signal.traits.levels_of(role) for role in ("culprit", "busy"))
    assert culprit[LOW] == culprit[HIGH]
    assert culprit[HIGH].clock < 0.76
    assert victim[LOW].power < 0.24


def test_an_agent_in_an_outage_reads_nothing_and_says_nothing():
    spec = parse_spec("8xH100,seed=7,outages=yes")
    (start_ms, end_ms), *_ = outages_between(spec, NOW, NOW + 30 * DAY_MS)
    source = Simulated("8xH100,seed=7,outages=yes", node="n", start_ms=start_ms - 2000)
    uuid = source.gpus()[0].uuid

    read = [
        source.read(uuid, at_ms) is not None
        for at_ms in (start_ms - 1000, start_ms, end_ms - 1000, end_ms)
    ]

    assert 180_000 <= end_ms - start_ms <= 2_400_000
    assert read == [True, False, False, True]
    assert outages_between(parse_spec("8xH100,seed=7"), NOW, NOW + 30 * DAY_MS) == []


def test_a_partly_idle_job_works_on_some_of_its_gpus():
    signal = _signal("partial_idle")

    busy = [signal.role(gpu) != IDLE for gpu in signal.job.gpus]

    assert 1 <= sum(busy) < len(busy)


def test_a_wave_counts_exactly_its_high_part():
    assert high_seconds(10.0, period_s=4.0, duty=0.25) == 3.0
    assert high_seconds(8.5, period_s=4.0, duty=0.25) == 2.5


def test_a_job_runs_after_its_warm_up_until_it_hangs():
    run = [
        running_seconds(at_s, warmup_s=60.0, hangs_after_s=300.0)
        for at_s in (0.0, 60.0, 100.0, 360.0, 500.0)
    ]

    assert run == [0.0, 0.0, 40.0, 300.0, 300.0]


def test_a_jobs_own_clock_never_stands_still_and_makes_periods_differ():
    at = [warped(second / 10, period_s=2.0, jitter=0.2) for second in range(4000)]
    steps = [(later - earlier) * 10 for earlier, later in itertools.pairwise(at)]

    assert min(steps) == pytest.approx(1 - 2 * 0.14)
    assert max(steps) == pytest.approx(1 + 2 * 0.14)
    assert sum(steps) / len(steps) == pytest.approx(1.0, abs=0.02)


def test_bursts_lie_in_their_hour_and_do_not_overlap():
    bursts = bursts_of_hour("7/1", 498_333, burst_s=(2.0, 40.0), gap_s=6.0, is_diurnal=True)

    assert len(bursts) > 10
    assert all(498_333 * 3600 <= start < end <= 498_334 * 3600 for start, end in bursts)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(bursts))
