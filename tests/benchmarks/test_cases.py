"""Labelled cases: what a benchmark may rely on."""

import numpy as np
import pytest

from agent import wire
from agent.idle_watts import idle_power_w
from agent.readings import Reading
from agent.sources.simulated import Simulated
from agent.sources.simulated.archetypes import BY_NAME
from agent.sources.simulated.schedule import jobs_between
from agent.sources.simulated.traits import HIGH, draw_traits
from agent.window import close_window
from benchmarks.cases import EXTRAS, MIXTURES, NAMES, Case, HeldOutDraw, OutsideDraw, draw_case
from fleetwatch.demo.blocks import Block, Fill
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.demo.scenario import windows
from fleetwatch.demo.truth import causes, truth_between

HOUR_MS = 3_600_000
START = 1_794_009_600_000


def _mean(case: Case, name: str, gpu: int = 0) -> float:
    return float(np.nanmean(case.columns[gpu][name]))


@pytest.mark.parametrize("name", [*NAMES, *MIXTURES, *EXTRAS])
def test_a_case_is_the_same_each_time_and_within_what_the_wire_takes(name):
    case, again = (
        draw_case(name, 5, held_out=True, minutes=10),
        draw_case(name, 5, held_out=True, minutes=10),
    )

    assert len(case.truth) == len(case.columns) == len(case.gpus) == len(case.job.gpus)
    assert {len(told) for told in case.truth} == {2}
    for columns, same in zip(case.columns, again.columns, strict=True):
        assert set(columns) <= set(wire.WINDOW_COLUMNS)
        for column, values in columns.items():
            assert np.array_equal(values, same[column], equal_nan=True)
            assert len(values) == 60
            read = values[~np.isnan(values)]
            assert (read >= 0).all(), column
            assert column not in wire.RATIO_COLUMNS or (read <= 1.0).all(), column
    assert set(case.host) <= set(wire.HOST_COLUMNS)


def test_seeds_differ_and_held_out_numbers_leave_the_range():
    tensor = [
        _mean(draw_case("no_tensor_cores", seed, held_out=True, minutes=5), "fp32_active")
        for seed in range(30)
    ]

    assert len(set(tensor)) == 30
    assert min(tensor) < 0.45 * 0.95 or max(tensor) > 0.70 * 1.05
    assert 0.45 * 0.65 < min(tensor) < max(tensor) < 0.70 * 1.35


def test_sensors_that_are_not_there_have_no_columns():
    everything, no_gpm, no_host, bare = (
        draw_case("healthy_llm", 1, sensors=sensors, minutes=5).columns[0]
        for sensors in ("all", "no_gpm", "no_host", "utilisation_only")
    )

    assert {"tensor_active", "job_cpu_ratio", "power_w", "util_dips"} <= set(everything)
    assert set(everything) - set(no_gpm) == {
        "gr_engine_active", "sm_active", "sm_active_max", "sm_occupancy", "tensor_active",
        "dram_active", "fp64_active", "fp32_active", "fp16_active", "memory_util_mean",
    }  # fmt: skip
    assert {name for name in everything if name.startswith("job_")} == set(everything) - set(
        no_host
    )
    assert "power_w" not in bare
    assert "spin_fraction" not in bare
    assert {"util_mean", "util_dips", "memory_used_bytes"} <= set(bare)


def test_what_makes_an_archetype_shows_in_its_columns():
    starved, fast, saving = (
        draw_case(name, 2) for name in ("data_starved_cpu", "data_starved_fast", "checkpoint_stall")
    )
    comm, hung, slow = (draw_case(name, 2) for name in ("communication_bound", "hung", "straggler"))
    idle, held, hot = (
        draw_case(name, 2) for name in ("allocated_no_process", "idle_script", "throttled")
    )

    assert _mean(starved, "util_dips") > 0.9
    assert _mean(starved, "job_cpu_ratio") > 0.9
    assert _mean(fast, "util_dips") == 0
    assert 0.2 < _mean(fast, "util_mean") < 0.7
    assert saving.columns[0]["pcie_tx_bytes_s"].max() > 2e9
    assert saving.host["disk_write_bytes_s"].max() > 1e8
    assert _mean(comm, "util_mean") > 0.99
    assert _mean(comm, "nvlink_rx_bytes_s") > 2e10
    assert _mean(hung, "spin_fraction") > 0.99
    clocks = [_mean(slow, "sm_clock_hz", gpu) for gpu in range(len(slow.gpus))]
    assert min(clocks) < 0.85 * np.median(clocks)
    assert _mean(idle, "process_count") == 0 == _mean(idle, "memory_used_bytes")
    assert _mean(held, "power_w") > (idle_power_w(held.gpus[0].model) or 0) + 26
    assert _mean(hot, "throttle_thermal_ratio") > 0.25
    assert 80 < _mean(hot, "temperature_c") < 92


def test_a_cause_that_starts_half_way_is_one_job_and_changes_its_truth_in_the_middle():
    case = draw_case("half_way_starved", 1, minutes=30)

    assert {job.key for job in case.jobs} == {case.job.key}
    assert case.truth[0] == ("healthy",) * 3 + ("data_starved",) * 3
    dips = case.columns[0]["util_dips"]
    assert dips[:89].sum() == 0
    assert dips[91:].mean() > 0.9


def test_two_jobs_on_one_gpu_add_up():
    case = draw_case("service_and_small_batch", 1, minutes=30)

    assert len({job.key for job in case.jobs}) == 2
    assert set(case.truth[0]) == {"bursty_service|small_batch"}
    assert _mean(case, "process_count") == 2


def test_an_outage_reads_nothing_and_a_lost_gpu_says_why():
    silent, lost = draw_case("agent_outage", 1, minutes=60), draw_case("gpu_fault", 1, minutes=60)

    gone = silent.observed_ms[0] == 0
    assert 18 <= gone.sum() <= 241
    assert np.isnan(silent.columns[0]["util_mean"][gone]).all()
    assert "unobserved" in silent.truth[0]
    assert [event.code for event in lost.events] == [63, 94, 63, 79, None]
    assert lost.truth[0][-1] == "gpu_fault"
    assert lost.truth[1][-1] == "healthy"


@pytest.mark.parametrize(
    "name",
    [
        "data_starved_io",
        "checkpoint_stall",
        "bursty_service",
        "communication_bound",
        "h2d_transfer",
    ],
)
def test_drawn_windows_are_those_of_a_live_agent_that_reads_the_same_job(name):
    """The reference: a live source's readings, second by second, closed by the agent's own window
    code.
    """
    node, text = "h100-02", "8xH100,seed=2,mix=mixed"
    source = Simulated(text, node=node, start_ms=START)
    job = next(
        job
        for job in jobs_between(source.spec, START, START + 400 * 24 * HOUR_MS)
        if job.archetype.name == name
    )
    start_ms = (job.start_ms + 900_000) // 10_000 * 10_000
    source = Simulated(text, node=node, start_ms=start_ms - 3000)
    gpu = source.gpus()[job.gpus[0]]
    readings: list[Reading] = [
        reading
        for at_ms in range(start_ms - 2000, start_ms + 61_001, 1000)
        if (reading := source.read(gpu.uuid, at_ms)) is not None
    ]
    fill = Fill(start_ms, start_ms + 60_000)
    drawn = windows(DemoNode(node, text, {}), Block(fill, fill.start_ms, fill.end_ms, 10)).gpus[
        gpu.index
    ]

    for place in range(6):
        begin = start_ms + place * 10_000
        near = [reading for reading in readings if begin - 1000 <= reading.at_ms <= begin + 11_000]
        live = close_window(
            near, gpu=gpu, start_ms=begin, end_ms=begin + 10_000, interval_ms=1000
        ).columns
        for column, value in live.items():
            if not np.isnan(drawn[column][place]):
                assert drawn[column][place] == pytest.approx(
                    value, rel=0.05, abs=LOOSE.get(column, 0.03)
                ), column


# Watts, degrees and seconds; a percentile may fall on the other side of a step, and each begins
# with a heat sink of its own.
LOOSE = {
    "temperature_c": 15.0, "memory_temperature_c": 15.0, "util_p5": 1.0, "util_p10": 1.0,
    "util_p50": 1.0, "util_p90": 1.0, "util_dips": 1,
    "util_longest_low_s": 0.2, "util_cycle_s": 0.2, "util_cycle_cv": 0.1, "pcie_rx_bytes_s": 1e7,
    "pcie_tx_bytes_s": 1e7,
    "nvlink_rx_bytes_s": 1e8, "nvlink_tx_bytes_s": 1e8, "spin_fraction": 0.11, "util_min": 0.03,
    "sm_clock_hz": 1e8,
}  # fmt: skip


def test_truth_covers_each_job_from_its_start_to_its_end_and_a_job_is_healthy_until_it_hangs():
    member = DemoNode("h100-01", "8xH100,seed=1,mix=train,faulty=3,outages=yes", {})
    end_ms = START + 60 * 24 * HOUR_MS

    told = truth_between(member, START, end_ms)

    jobs = jobs_between(
        Simulated(member.spec, node=member.name, start_ms=START).spec, START, end_ms
    )
    hung = next(
        job for job in jobs if job.archetype.name == "hung" and len(causes(job, job.gpus[0])) == 2
    )
    spans = [
        (span.start_ms, span.end_ms, span.cause)
        for span in told
        if span.job_key == hung.key and span.gpu == told[0].gpu
    ]
    assert spans in ([], causes(hung, hung.gpus[0]))
    assert [cause for _, _, cause in causes(hung, hung.gpus[0])] == ["healthy", "hung"]
    assert {"gpu_fault", "unobserved", "healthy"} <= {span.cause for span in told}
    assert all(START <= span.start_ms < span.end_ms <= end_ms for span in told)
    assert {span.job_key for span in told if span.cause == "orphaned"} <= {""}


def test_of_a_job_that_leaves_gpus_unused_those_that_it_uses_are_healthy():
    case = draw_case("partial_idle", 2, minutes=10)

    used = [float(columns["util_mean"].mean()) > 0.5 for columns in case.columns]
    assert {True, False} == set(used)
    assert [told[0] for told in case.truth] == [
        "healthy" if is_used else "partial_idle" for is_used in used
    ]


def test_numbers_drawn_with_a_spread_leave_their_ranges_but_a_resident_kernel_still_reads_full():
    ranges = BY_NAME["healthy_llm"]
    drawn = [
        draw_traits(ranges, HeldOutDraw(str(seed) + "/traits"), ranks=8) for seed in range(200)
    ]

    powers = [traits.levels[HIGH].tensor for traits in drawn]
    assert min(powers) < 0.35 * 0.85
    assert max(powers) > 0.48 * 1.1
    assert max(powers) <= 0.48 * 1.3
    assert {traits.levels[HIGH].util for traits in drawn} == {1.0}


def test_numbers_drawn_outside_lie_below_or_above_their_ranges():
    ranges = BY_NAME["healthy_llm"]
    drawn = [
        draw_traits(ranges, OutsideDraw(str(seed) + "/traits"), ranks=8) for seed in range(200)
    ]

    powers = [traits.levels[HIGH].tensor for traits in drawn]
    below, above = (
        [power for power in powers if power <= 0.35],
        [power for power in powers if power >= 0.48],
    )
    assert len(below) + len(above) == 200
    assert 0.35 * 0.7 <= min(below) < 0.35 * 0.75
    assert 0.48 * 1.25 < max(above) <= 0.48 * 1.3
    assert {traits.levels[HIGH].util for traits in drawn} == {1.0}
