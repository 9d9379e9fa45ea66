"""From windows to one cause per cell: which rule wins, when it opens and closes, where it
begins.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import labelled
from benchmarks.cases import draw_case
from fleetwatch.diagnosis.judgement import cell_figures, pauses, verdicts
from fleetwatch.diagnosis.judgement.verdicts import (
    CAUSES,
    NOT_HELD,
    NUMBER,
    at_the_edges,
    judge,
    opened,
)
from tests.diagnosis.factories import lanes

HOT = {"throttle_thermal_ratio": 0.5, "clock_ratio": 0.6, "util_mean": 1.0, "tensor_active": 0.2}
WELL = {"throttle_thermal_ratio": 0.0, "clock_ratio": 0.98, "util_mean": 1.0, "tensor_active": 0.4}


def of(*cells: dict[str, float], **facts):
    """One GPU whose cells show these figures."""
    names = {name for cell in cells for name in cell}
    return lanes(
        **{name: [cell.get(name, np.nan) for cell in cells] for name in sorted(names)}, **facts
    )


def told(found, row: int = 0) -> list[str]:
    return [CAUSES[number] if number != NOT_HELD else "" for number in found.cause[row]]


def also(found, cell: int, row: int = 0) -> set[str]:
    return {
        cause for number, cause in enumerate(CAUSES) if int(found.also[row, cell]) >> number & 1
    }


@pytest.mark.parametrize(
    ("hits", "is_open"),
    [
        ("1", "0"),  # one window alone opens nothing
        ("11", "11"),  # of the two that open it, the first is in it
        ("0110", "0110"),
        ("101", "000"),
        ("110011", "110011"),  # two windows without do not close it ...
        ("110010", "110010"),
        ("1100010", "1100000"),  # ... three do
        ("11000110", "11000110"),
    ],
)
def test_a_rule_opens_after_two_windows_in_a_row_and_closes_after_three_without(hits, is_open):
    found = opened(np.array([[letter == "1" for letter in hits]]))

    assert "".join("1" if one else "0" for one in found[0]) == is_open


def test_the_first_rule_of_the_table_is_the_cause_and_the_others_are_also_possible():
    both = HOT | {"dram_active": 0.7, "tensor_active": 0.05}

    found = judge(of(*[both] * 12))

    assert set(told(found)) == {"throttled"}
    assert also(found, 5) == {"memory_bound"}


def test_what_is_well_is_never_also_possible():
    found = judge(of(*[HOT] * 12))

    assert set(told(found)) == {"throttled"}
    assert also(found, 5) == set()


@pytest.mark.parametrize(
    ("processes", "cause", "is_anything_else_possible"),
    [(0.0, "allocated_no_process", False), (1.0, "idle_held", True), (np.nan, "idle_held", True)],
)
def test_beside_a_gpu_on_which_no_process_ever_was_nothing_else_is_possible(
    processes, cause, is_anything_else_possible
):
    memory = {"memory_used_bytes": 3.0, "memory_used_bytes_max": 3.0}
    # a trace of work: of a GPU on which nothing runs no work is too small
    quiet = {"util_mean": 0.03, "sm_active": 0.0, "process_count_max": processes} | memory

    found = judge(of(*[quiet] * 12, states={"idle": np.ones((1, 12))}))

    assert told(found)[11] == cause
    assert bool(also(found, 11)) == is_anything_else_possible


TRANSCODER = {"util_mean": 0.08, "memory_used_bytes": 3.0, "memory_used_bytes_max": 3.0}


@pytest.mark.parametrize(
    ("engine", "cause"),
    [
        ({"engine_ratio": 0.99}, "video_engines"),
        ({"engine_ratio": 0.85}, "video_engines"),
        ({"engine_ratio": 0.84}, "undetermined"),
        ({"engine_ratio": 0.10}, "undetermined"),
        ({"engine_ratio": 0.09}, "oversized_gpu"),
        ({"engine_ratio": 0.0}, "oversized_gpu"),
        ({}, "oversized_gpu"),
    ],
)
def test_where_video_engines_do_the_work_idle_units_accuse_nobody(engine, cause):
    found = judge(of(*[TRANSCODER | engine] * 12))

    assert set(told(found)) == {cause}
    assert also(found, 11) == (
        {"small_batch", "data_starved"} if cause == "oversized_gpu" else set()
    )


def test_a_cause_begins_and_ends_at_the_cells_that_show_it():
    found = told(judge(of(*[WELL] * 12, *[HOT] * 12, *[WELL] * 12)))

    assert found == ["healthy"] * 12 + ["throttled"] * 12 + ["healthy"] * 12


def test_a_gap_within_a_stretch_belongs_to_it():
    found = told(judge(of(*[HOT] * 8, WELL, *[HOT] * 8)))

    assert found == ["throttled"] * 17


@pytest.mark.parametrize(
    ("cells", "loose", "edge", "left_out"),
    [
        ("0111100", "0100000", 3, "0100000"),
        ("0111100", "0000100", 3, "0000100"),
        ("0111100", "0110000", 1, "0100000"),  # at most so many
        ("0111100", "0010000", 3, "0000000"),  # within it nothing is loose
        ("1101100", "1000000", 3, "1000000"),  # each stretch by itself
        ("1111111", "0011100", 3, "0000000"),
    ],
)
def test_cells_that_are_well_by_themselves_are_left_out_at_both_ends(cells, loose, edge, left_out):
    mask, is_loose = (np.array([[letter == "1" for letter in text]]) for text in (cells, loose))

    assert (
        "".join("1" if one else "0" for one in at_the_edges(mask, mask & is_loose, edge)[0])
        == left_out
    )


def test_nothing_is_accused_in_the_first_ten_minutes_of_a_job():
    slow = {"throttle_thermal_ratio": 0.5, "clock_ratio": 0.6, "util_mean": 0.7}

    assert told(judge(of(*[slow] * 8, age=0))) == ["undetermined"] * 2 + ["throttled"] * 6


@pytest.mark.parametrize(
    ("cells", "cause"), [(1, "undetermined"), (2, "undetermined"), (3, "throttled")]
)
def test_ten_minutes_of_data_and_two_windows_say_something(cells, cause):
    assert told(judge(of(*[HOT] * cells)))[-1] == cause


@pytest.mark.parametrize(("seen_ms", "cause"), [(180_000, "throttled"), (179_999, "no_telemetry")])
def test_a_cell_of_which_less_than_six_tenths_were_seen_says_nothing(seen_ms, cause):
    found = judge(
        of(
            *[HOT | {"seen_ms": 300_000}] * 7,
            HOT | {"seen_ms": seen_ms},
            *[HOT | {"seen_ms": 300_000}] * 7,
        )
    )

    assert told(found)[7] == cause
    assert also(found, 7) == set()


def test_a_gpu_that_can_not_work_is_a_fault_whatever_it_shows():
    found = judge(of(*[HOT] * 8, states={"unavailable": np.array([[0.0] * 6 + [0.49, 0.5]])}))

    assert told(found) == ["throttled"] * 7 + ["gpu_fault"]


def test_time_in_which_it_is_not_held_has_no_cause():
    found = judge(of(*[HOT] * 10, held=[[1] * 8 + [0] * 2]))

    assert told(found) == ["throttled"] * 8 + ["", ""]


def test_copies_stay_possible_where_pcie_is_not_read():
    starved = {
        "util_mean": 0.5,
        "util_low_fraction": 0.4,
        "util_cycle_s": 3,
        "util_cycle_cv": 0.1,
        "dips": 100,
    }

    blind, read = judge(of(*[starved] * 8)), judge(of(*[starved | {"pcie_rx_bytes_s": 1e6}] * 8))

    assert set(told(blind)) == set(told(read)) == {"data_starved"}
    assert (also(blind, 4), also(read, 4)) == ({"h2d_transfer"}, set())


def test_only_the_unused_gpus_of_a_job_are_affected():
    used, unused = [0.9] * 8, [0.0] * 8
    found = judge(
        lanes(
            jobs=[7, 7, 7],
            util_mean=[used, used, unused],
            util_max_max=[used, used, unused],
            util_low_fraction=[[0] * 8] * 3,
        )
    )

    assert [set(told(found, row)) for row in range(3)] == [{"busy"}, {"busy"}, {"partial_idle"}]


CASES = (
    "healthy_llm",
    "data_starved_cpu",
    "bursty_service",
    "straggler",
    "hung",
    "throttled",
    "half_way_starved",
    "half_way_checkpoints",
)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(CASES), st.integers(0, 3), st.integers(1, 35))
def test_a_part_is_judged_as_within_the_whole(name, seed, since):
    whole = labelled.lanes_of(draw_case(name, seed, minutes=180))

    all_of_it, part = judge(whole), judge(whole, since=since)

    for field in ("cause", "confidence", "also"):
        assert np.array_equal(getattr(all_of_it, field)[:, since:], getattr(part, field)[:, since:])


@settings(max_examples=8, deadline=None)
@given(st.permutations([1, 2, 3, 4]))
def test_the_order_of_jobs_and_gpus_does_not_matter(jobs):
    by_job = {1: HOT, 2: WELL, 3: HOT | {"tensor_active": 0.0}, 4: {"util_mean": 0.5}}
    names = ("throttle_thermal_ratio", "clock_ratio", "util_mean", "tensor_active")

    found = judge(
        lanes(
            jobs=jobs,
            **{name: [[by_job[job].get(name, np.nan)] * 8 for job in jobs] for name in names},
        )
    )

    assert [told(found, jobs.index(job))[4] for job in (1, 2, 3, 4)] == [
        "throttled",
        "healthy",
        "throttled",
        "undetermined",
    ]


def test_a_causes_number_is_its_rank():
    assert (NUMBER["no_telemetry"], NUMBER["gpu_fault"], CAUSES[-1]) == (0, 1, "undetermined")
    assert verdicts.NUMBER["hung"] < NUMBER["checkpoint_stall"] < NUMBER["healthy"]


def test_a_pause_while_a_job_warms_up_is_no_pause_of_its_work():
    loading = WELL | {
        "util_mean": 0.0,
        "tensor_active": 0.0,
        "long_low_s": 300.0,
        "long_onsets": 0.0,
    }
    # an evaluation of 15 seconds in each five minutes: 5 % of the time, less than any checkpoint
    # rule asks for
    working = WELL | {
        "util_high_fraction": 0.95, "long_low_s": 15.0, "long_onsets": 1.0,
        "long_first_onset_s": 60.0, "long_last_onset_s": 60.0,
        "long_interval_s": 0.0, "long_interval_s2": 0.0,
    }  # fmt: skip

    found = judge(of(loading, loading, *[working] * 22, age=0))

    assert set(told(found)[2:]) == {"healthy"}


RESTS = {"util_mean": 0.4, "util_low_fraction": 0.5, pauses.LOW_S: 120.0, pauses.LONGEST: 20.0}
IS_DULL = {
    "util_mean": 0.95,
    "sm_active": 0.2,
    "tensor_active": 0.02,
    "util_low_fraction": 0.0,
    pauses.LOW_S: 0.0,
}


def told_of_one_gpu(figures, *, jobs, kinds, since=0):
    """The causes of a GPU that the first job holds for two hours, the second from cell
    `since` on.
    """
    held = np.ones((len(jobs), 24), dtype=bool)
    held[1:, :since] = False
    values = {name: np.where(held, value, np.nan) for name, value in figures.items()}
    of = replace(lanes(jobs=jobs, gpus=[1] * len(jobs), held=held, **values), kind=np.array(kinds))
    return [
        {CAUSES[cause] for cause in row[on]} for row, on in zip(judge(of).cause, held, strict=True)
    ]


def test_of_a_gpu_that_two_jobs_hold_nothing_is_said_that_may_be_the_others_doing():
    assert told_of_one_gpu(IS_DULL, jobs=[1], kinds=("batch",)) == [{"small_batch"}]
    assert told_of_one_gpu(IS_DULL, jobs=[1, 2], kinds=("batch", "batch")) == [
        {"undetermined"},
        {"undetermined"},
    ]


def test_a_service_rests_at_least_as_long_as_the_gpu_that_it_shares():
    assert told_of_one_gpu(RESTS, jobs=[1, 2], kinds=("service", "batch")) == [
        {"bursty_service"},
        {"undetermined"},
    ]


def test_what_was_said_before_a_second_job_came_stays_said():
    assert told_of_one_gpu(IS_DULL, jobs=[1, 2], kinds=("batch", "batch"), since=12) == [
        {"small_batch", "undetermined"},
        {"undetermined"},
    ]


def test_of_a_hang_nothing_can_be_recovered_in_its_first_ten_minutes():
    stuck = {"util_p5": 1.0, "util_mean": 1.0, "power_max_w_max": 200.0, "spin_fraction": 1.0}

    told = judge(
        of(
            *[WELL | {"util_p5": 0.9, "power_max_w_max": 650.0, "spin_fraction": 0.0}] * 6,
            *[stuck] * 5,
        )
    )

    assert [CAUSES[cause] == "hung" for cause in told.cause[0]] == [False] * 6 + [True] * 5
    assert told.high[0].tolist() == told.low[0].tolist() == [0.0] * 8 + [1.0] * 3


def test_a_cell_in_which_memory_errors_were_counted_is_the_gpus_fault_and_nothing_is_promised():
    told_so = judge(
        of(
            *[HOT | {cell_figures.MEMORY_ERRORS: 0.0}] * 6,
            HOT | {cell_figures.MEMORY_ERRORS: 1.0},
            *[HOT] * 5,
        )
    )

    assert told(told_so) == ["throttled"] * 6 + ["gpu_fault"] + ["throttled"] * 5
    assert (
        told_so.low[0, 6],
        told_so.high[0, 6],
        told_so.confidence[0, 6],
        told_so.also[0, 6],
    ) == (0, 0, 3, 0)


def test_a_hang_begins_in_the_cell_that_it_fills_for_the_most_part():
    spins = {
        "util_p5": [1.0] * 8,
        "util_mean": [1.0] * 8,
        "spin_fraction": [0.49, 0.5, *[1.0] * 6],
        "power_w": [300.0, 200.0, *[150.0] * 6],
    }
    told = judge(lanes(**spins, power_max_w_max=[650.0, 650.0, *[160.0] * 6]))

    assert [CAUSES[cause] == "hung" for cause in told.cause[0]] == [False, *[True] * 7]


def split(count: int, **shares: float) -> dict[str, np.ndarray]:
    """What the ledger says of each cell of one GPU."""
    return {
        state: np.full((1, count), share) for state, share in ({"useful": 0.0} | shares).items()
    }


BUSY = {"util_mean": 0.95, "power_w": 600.0}


@pytest.mark.parametrize("state", ["idle", "stalled", "underused"])
@pytest.mark.parametrize(
    ("cell", "verdict"),
    [
        (WELL, "healthy"),
        (BUSY, "busy"),
        ({"engine_ratio": 0.99, "util_mean": 0.1}, "video_engines"),
    ],
)
@pytest.mark.parametrize(("wasted", "is_well"), [(0.149, True), (0.15, True), (0.151, False)])
def test_what_wastes_more_than_three_twentieths_is_not_called_well(
    state, cell, verdict, wasted, is_well
):
    found = judge(of(*[cell] * 12, states=split(12, **{state: wasted})))

    assert set(told(found)) == {verdict if is_well else "undetermined"}


def test_waste_of_several_states_is_summed():
    found = judge(of(*[WELL] * 12, states=split(12, idle=0.06, stalled=0.05, underused=0.05)))

    assert set(told(found)) == {"undetermined"}


@pytest.mark.parametrize(("idle", "cause"), [(0.15, "no_telemetry"), (0.16, "undetermined")])
def test_a_cell_that_was_hardly_seen_and_was_seen_to_waste_is_not_without_telemetry(idle, cause):
    found = judge(
        of(
            *[{"util_mean": 0.5, "seen_ms": 150_000.0}] * 12,
            states=split(12, idle=idle, unobserved=0.5),
        )
    )

    assert set(told(found)) == {cause}


def test_the_last_minute_of_a_job_is_judged_by_its_held_time():
    held_ms = [300_000.0] * 7 + [60_000.0]
    seen_ms = [{"seen_ms": ms} for ms in held_ms]

    found = judge(of(*[HOT | seen for seen in seen_ms], held_ms=[held_ms]))

    assert set(told(found)) == {"throttled"}


SPINS = {"util_mean": 1.0, "spin_fraction": 0.99, "power_w": 190.0}  # a power ratio of 0.15


@pytest.mark.parametrize(("is_over", "cause"), [(True, "rank_wait"), (False, "undetermined")])
def test_a_job_of_eleven_minutes_that_spins_on_eight_gpus_is_told_so_once_it_is_over(
    is_over, cause
):
    """It began at 3:00 of a cell and ended at 4:00 of another: 2 + 5 + 4 minutes, of which all were
    seen.
    """
    held_ms = [120_000.0, 300_000.0, 240_000.0, 0.0]
    figures = {name: [[value] * 4] * 8 for name, value in SPINS.items()} | {
        "seen_ms": [held_ms] * 8
    }
    stalled = {"stalled": np.full((8, 4), 0.99)}

    found = judge(
        lanes(jobs=[1] * 8, held=[[ms > 0 for ms in held_ms]] * 8, held_ms=[held_ms] * 8,
        states=stalled,
              age=0, warm_up=0, is_over=is_over, **figures)
    )  # fmt: skip

    assert [told(found, gpu) for gpu in range(8)] == [[cause] * 3 + [""]] * 8


@pytest.mark.parametrize(("minutes", "cause"), [(10, "rank_wait"), (9, "undetermined")])
def test_of_less_than_ten_minutes_nothing_is_said(minutes, cause):
    held_ms = [300_000.0, minutes * 60_000.0 - 300_000.0, 0.0]
    figures = {name: [[value] * 3] * 2 for name, value in SPINS.items()} | {
        "seen_ms": [held_ms] * 2
    }

    found = judge(
        lanes(jobs=[1, 1], held=[[True, True, False]] * 2, held_ms=[held_ms] * 2, age=0, warm_up=0,
              is_over=True, **figures)
    )  # fmt: skip

    assert told(found) == [cause, cause, ""]


def test_a_gpu_that_idles_beside_one_that_works_is_partly_idle_from_its_first_idle_minutes_on():
    """Of two GPUs the first works for 25 minutes and is idle for 35, which the ledger calls idle
    from their beginning on.
    """
    util = [[0.97] * 5 + [0.0] * 7, [0.97] * 12]
    idle = np.array([[0.0] * 5 + [1.0] * 7, [0.0] * 12])

    found = judge(lanes(jobs=[1, 1], util_mean=util, util_max_max=util, states={"idle": idle}))

    assert told(found)[5:] == ["partial_idle"] * 7
    assert "partial_idle" not in told(found)[:5]
    assert set(told(found, row=1)) == {"busy"}


def test_gpus_that_fall_idle_one_cell_apart_are_idle_and_not_partly():
    idle = np.array([[0.0, 0.6] + [1.0] * 10, [0.0, 0.4] + [1.0] * 10])

    found = judge(lanes(jobs=[1, 1], util_mean=[[0.0] * 12] * 2, states={"idle": idle}))

    assert "partial_idle" not in {*told(found), *told(found, row=1)}


LARGE = {"util_mean": 0.15, "memory_used_bytes": 8.0, "memory_used_bytes_max": 8.0}
SAMPLED = {"util_low_fraction": 0.5, "job_cpu_ratio": 0.1, "pcie_rx_bytes_s": 0.0}


def test_a_gpu_larger_than_its_work_may_as_well_have_too_small_a_batch_or_wait_for_its_input():
    by_means, by_samples = judge(of(*[LARGE] * 14)), judge(of(*[LARGE | SAMPLED] * 14))

    assert (set(told(by_means)), also(by_means, 8)) == (
        {"oversized_gpu"},
        {"small_batch", "data_starved"},
    )
    assert also(by_samples, 8) == {"small_batch"}


def test_means_alone_say_less_of_a_gpu_larger_than_its_work():
    by_means, by_samples = judge(of(*[LARGE] * 14)), judge(of(*[LARGE | SAMPLED] * 14))

    assert (int(by_means.confidence[0, 8]), by_means.low[0, 8]) == (1, 0.0)
    assert int(by_samples.confidence[0, 8]) == 2
    assert by_samples.low[0, 8] > 0
    assert by_means.high[0, 8] == by_samples.high[0, 8]


def test_a_small_batch_in_little_memory_may_as_well_be_a_gpu_larger_than_its_work():
    work = {"util_mean": 0.9, "sm_active": 0.1, "tensor_active": 0.01, "util_low_fraction": 0.0,
    "memory_used_bytes": 8.0,
            "memory_used_bytes_max": 8.0, "job_cpu_ratio": 0.1, pauses.LOW_S: 0.0}  # fmt: skip

    found = judge(of(*[work] * 14))

    assert set(told(found)) == {"small_batch"}
    assert also(found, 8) == {"oversized_gpu"}
