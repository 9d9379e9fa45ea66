"""Every rule as a specification: what it needs, where its bounds are, and which missing sensor
forbids it.
"""

from dataclasses import replace

import numpy as np
import pytest

from fleetwatch.diagnosis.causes import (
    DETECTORS,
    bursty_service,
    h2d_transfer,
    hung,
    idle_held,
    oom_thrash,
    oversized_gpu,
    straggler,
)
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import HIGH, LOW, MEDIUM
from tests.diagnosis.detector_rules import LEAST, MIB, NEEDS, RULES, share, sure
from tests.diagnosis.factories import evidence, lanes


@pytest.mark.parametrize(
    ("dram", "sm", "is_found"), [(0.45, 0.42, True), (0.45, 0.43, False), (0.55, 0.9, True)]
)
def test_memory_is_the_limit_where_it_lies_a_fifth_nearer_to_its_ceiling_than_the_units(
    dram, sm, is_found
):
    """0.45 of 0.75 is 0.6, a fifth above 0.5 of the 0.85 that SMs reach: 0.425."""
    assert RULES["memory_bound"].finds(dram=dram, sm=sm) == is_found


@pytest.mark.parametrize(("fp64", "is_found"), [(0.19, True), (0.20, False)])
def test_double_precision_work_is_not_accused_of_its_memory_traffic(fp64, is_found):
    assert RULES["memory_bound"].finds(fp64=fp64) == is_found


@pytest.mark.parametrize(("copied", "is_found"), [(9 * MIB, True), (10 * MIB, False)])
def test_what_copies_to_its_gpu_is_not_stuck(copied, is_found):
    assert RULES["hung"].finds(rx=copied) == is_found


@pytest.mark.parametrize(("memory", "is_found"), [(0.49, True), (0.50, False), (None, True)])
def test_by_power_alone_a_full_memory_is_no_small_batch(memory, is_found):
    assert RULES["small_batch without the counters"].finds(mem=memory) == is_found


@pytest.mark.parametrize(("low", "waited"), [(None, 0.5), (0.2, 0.5), (0.6, 0.6)])
def test_copies_too_short_for_the_samples_wait_by_the_mean(low, waited):
    assert share("h2d_transfer", lo=np.nan if low is None else low) == pytest.approx(
        (0.3 * waited, 0.8 * waited)
    )


@pytest.mark.parametrize("power_ratio", [0.2, 0.36, None])
def test_ranks_wait_for_as_long_as_they_were_seen_to_spin_whatever_the_mean_of_their_power(
    power_ratio,
):
    pr = np.nan if power_ratio is None else power_ratio

    assert share("rank_wait", spin=0.5, pr=pr) == pytest.approx((0.15, 0.45))


@pytest.mark.parametrize(("used", "level"), [(0.2, HIGH), (0.19, MEDIUM), (np.nan, MEDIUM)])
def test_an_idle_gpu_is_less_sure_where_no_other_of_its_job_was_seen_to_work(used, level):
    assert sure("partial_idle by the ledger", job_util_max=used) == level


def test_every_detector_has_its_specification_here():
    assert {id(rule.detector) for rule in RULES.values()} == {
        id(detector) for detector in DETECTORS
    }


@pytest.mark.parametrize("name", RULES)
def test_it_holds_where_all_is_met(name):
    assert RULES[name].finds()


@pytest.mark.parametrize(("name", "feature"), NEEDS)
def test_it_holds_from_its_bound_on_and_not_beyond(name, feature):
    rule = RULES[name]
    word, bound, _ = rule.needs[feature]
    under, over = bound * (1 - 1e-9), bound * (1 + 1e-9)

    assert [rule.finds(**{feature: value}) for value in (under, bound, over)] == (
        [False, True, True] if word == LEAST else [True, False, False]
    )


@pytest.mark.parametrize(("name", "feature"), NEEDS)
def test_a_sensor_that_was_not_read_forbids_it(name, feature):
    assert not RULES[name].finds(**{feature: None})


def test_an_idle_gpu_of_a_working_job_is_not_an_idle_job():
    assert not RULES["idle_held"].finds(job_ledger_idle_min=0)


def test_only_a_session_thinks():
    assert not bool(
        idle_held.CAUSE.detectors[1]
        .find(evidence(kind="batch", util=0.01, longest_low_s=900))
        .hits[0, 0]
    )


@pytest.mark.parametrize(
    ("feature", "bound"), [("nvl", 50 * MIB), ("rx", 10 * MIB), ("ten", 0.005), ("dram", 0.02)]
)
def test_a_job_that_moves_data_or_computes_does_not_hang(feature, bound):
    assert RULES["hung"].finds(**{feature: bound * 0.999})
    assert not RULES["hung"].finds(**{feature: bound})


def test_a_hang_is_sure_where_all_ranks_and_the_counters_are_seen():
    assert sure("hung", ten=0, dram=0) == HIGH
    assert sure("hung") == MEDIUM
    assert sure("hung", job_gpus=1) == LOW
    # an inference engine may poll
    serving = evidence(is_serving=True, p5=1, pr_max=0.1, job_gpus=8, ten=0, dram=0)
    assert int(hung.CAUSE.detectors[0].find(serving).confidence[0, 0]) == MEDIUM


# one row per rank over two cells of five minutes; the boards idle at 100 W of 700: 220 W are a
# fifth of the range, 280 W are 0.3
STUCK, AT_WORK, UNREAD = (1.0, 220.0), (1.0, 280.0), (np.nan, np.nan)


def hang(*ranks: tuple[float, float]) -> list[int]:
    """How surely each rank of a job hangs, 0 = not."""
    p5, power_w = ([[one[place]] * 2 for one in ranks] for place in (0, 1))
    known = lanes(
        jobs=[1] * len(ranks),
        util_p5=p5,
        power_max_w_max=power_w,
        tensor_active=np.zeros_like(p5),
        dram_active=np.zeros_like(p5),
    )
    return [int(one) for one in hung.CAUSE.detectors[0].find(Features(known, 2)).confidence[:, -1]]


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([STUCK, STUCK], [HIGH, HIGH]),
        ([STUCK, AT_WORK], [0, 0]),  # of two, one may wait for the other
        ([STUCK, STUCK, AT_WORK], [MEDIUM, MEDIUM, 0]),  # one may be apart, and is judged by itself
        ([STUCK, STUCK, (0.94, 220.0)], [MEDIUM, MEDIUM, 0]),
        ([STUCK, STUCK, AT_WORK, (0.94, 220.0)], [0, 0, 0, 0]),
        ([STUCK, STUCK, UNREAD], [HIGH, HIGH, 0]),
    ],
)
def test_all_ranks_hang_or_all_but_one(ranks, told):
    assert hang(*ranks) == told


@pytest.mark.parametrize(
    ("gpus", "farthest", "is_found"), [(4, 0.16, True), (4, 0.149, False), (3, 0.4, False)]
)
def test_a_rank_whose_power_deviates_is_a_straggler_among_four_and_more(gpus, farthest, is_found):
    known = {"job_gpus": gpus, "job_util_min": 0.9, "job_clk_min": 0.97, "job_clk_median": 0.97}
    power = {
        "job_pr_max_median": 0.5,
        "job_pr_max_mad": 0.01,
        "job_pr_max_min": 0.5 - farthest,
        "job_pr_max_max": 0.51,
    }

    assert RULES["straggler"].finds(**known, **power) == is_found


@pytest.mark.parametrize(
    ("one", "most", "is_found"),
    [(-0.51, 0.5, True), (-0.5, 0.5, False), (-0.51, 0.49, False), (None, None, False)],
)
def test_a_rank_that_works_while_the_others_wait_is_a_straggler(one, most, is_found):
    known = {
        "job_clk_min": 0.97,
        "job_clk_median": 0.97,
        "job_corr_min": one,
        "job_corr_median": most,
    }

    assert RULES["straggler"].finds(**known) == is_found


@pytest.mark.parametrize(
    ("read", "rank"),
    [
        ({"clk": (0.97, 0.97, 0.6, 0.97)}, 2),
        # the clock says more than what follows from it
        ({"clk": (0.97, 0.97, 0.6, 0.97), "ten": (0.3, 0.3, 0.3, 0.5)}, 2),
        ({"clk": (0.97, 0.97, 0.96, 0.97), "ten": (0.3, 0.3, 0.3, 0.5)}, 3),
        ({"pr_max": (0.5, 0.2, 0.5, 0.5)}, 1),
        ({"corr": (0.9, 0.9, 0.9, -0.8)}, 3),
        ({}, 0),
    ],
)
def test_the_slow_rank_is_the_one_that_a_met_sign_is_about(read, rank):
    f = Features(lanes(jobs=[7] * 4, util_mean=[[1.0]] * 4), 1)
    f._made.update({name: np.array(values)[:, None] for name, values in read.items()})

    assert straggler.slow_rank(f, np.arange(4), 0) == rank


def test_deviation_within_the_ranks_own_spread_is_none():
    power = {
        "job_pr_max_median": 0.5,
        "job_pr_max_mad": 0.1,
        "job_pr_max_min": 0.21,
        "job_pr_max_max": 0.6,
    }

    assert not RULES["straggler"].finds(job_clk_min=0.97, job_clk_median=0.97, **power)
    assert RULES["straggler"].finds(
        job_clk_min=0.97, job_clk_median=0.97, **(power | {"job_pr_max_min": 0.19})
    )


def test_pauses_of_single_ranks_are_no_checkpoint_but_those_beside_spinning_ranks_need_not_fall_together():
    assert RULES["checkpoint_stall"].finds(corr=0.8)
    assert not RULES["checkpoint_stall"].finds(corr=0.79)
    # the rank that saves pauses at 0 %, the others wait for it at 100 %
    assert RULES["checkpoint_stall"].finds(corr=0.79, job_spin_max=0.05)


def test_full_precision_is_less_sure_where_nobody_read_double_precision():
    assert sure("no_tensor_cores", fp64=0.1) == HIGH
    assert sure("no_tensor_cores") == MEDIUM
    assert not RULES["no_tensor_cores"].finds(fp64=0.2)


def test_ranks_so_near_idle_wait_however_their_utilisation_is_read():
    near = {"spin": 0, "util": 0.88, "pr": 0.119}
    assert RULES["rank_wait"].finds(**near)
    assert RULES["rank_wait"].finds(**near | {"spin": None})
    assert not RULES["rank_wait"].finds(**near | {"pr": 0.12})
    assert share("rank_wait", **near) == (pytest.approx(0.3), pytest.approx(0.9))
    # what computes or moves data works, however little power it takes
    assert not RULES["rank_wait"].finds(**near, ten=0.005)
    assert not RULES["rank_wait"].finds(**near, dram=0.02)


def test_ranks_that_neither_compute_nor_move_data_wait_though_they_draw_more():
    still = {"spin": 0, "pr": 0.3, "ten": 0.0049, "dram": 0.019}
    assert RULES["rank_wait"].finds(**still, sm=0.29)
    assert not RULES["rank_wait"].finds(**still, sm=0.30)
    assert not RULES["rank_wait"].finds(**still | {"dram": None})


@pytest.mark.parametrize("counter", [{"sm": 0.30}, {"ten": 0.06}])
def test_of_the_counters_of_a_small_batch_the_one_that_was_read_may_contradict(counter):
    # an exporter's default has tensor activity without that of the SMs
    assert not RULES["small_batch without the counters"].finds(**counter)
    assert RULES["small_batch without the counters"].finds(
        **{name: value * 0.99 for name, value in counter.items()}
    )


@pytest.mark.parametrize("written", [{"tx_max": 4 * 2**30}, {"disk_write": 200e6}])
def test_a_checkpoint_is_sure_when_something_is_written(written):
    assert sure("checkpoint_stall") == MEDIUM
    assert sure("checkpoint_stall", **written) == HIGH
    assert (
        sure("checkpoint_stall", **{name: value * 0.999 for name, value in written.items()})
        == MEDIUM
    )


@pytest.mark.parametrize("reason", [{"cpu": 0.85}, {"iop": 0.2}, {"main1": 0.95}])
def test_starving_is_sure_with_a_reason_on_the_host(reason):
    assert sure("data_starved", rx=1.0) == MEDIUM
    assert sure("data_starved", rx=1.0, **reason) == HIGH


def test_starving_is_unsure_where_the_pauses_may_be_copies():
    assert sure("data_starved") == LOW
    assert sure("data_starved", cpu=0.85) == HIGH


def test_cycles_too_long_for_a_windows_own_variation_are_compared_between_windows():
    assert RULES["data_starved"].finds(cyc_cv=None, dips_cv=0.59)
    assert not RULES["data_starved"].finds(cyc_cv=None, dips_cv=0.60)


def test_pauses_may_be_copies_where_pcie_is_not_read():
    blind, read = (
        h2d_transfer.CAUSE.detectors[0].find(evidence(util=0.5, lo=0.4, **known))
        for known in ({}, {"rx": 1.0})
    )

    assert (bool(blind.hits[0, 0]), bool(blind.possible[0, 0])) == (False, True)
    assert (bool(read.hits[0, 0]), bool(read.possible[0, 0])) == (False, False)


@pytest.mark.parametrize("rule", ["checkpoint_stall", "data_starved"])
def test_even_pauses_of_a_service_are_waiting_for_requests(rule):
    assert replace(RULES[rule], kind="batch").finds()
    assert not replace(RULES[rule], kind="service").finds()


def test_full_cores_without_a_rhythm_of_pauses_are_never_told_for_sure():
    """Too little work per step looks the same; beside even pauses they are their reason."""
    assert sure("data_starved by its cores") == MEDIUM
    assert sure("data_starved by its cores", rx=1.0, iop=0.3, main1=0.98) == MEDIUM
    assert sure("data_starved", rx=1.0, cpu=0.95, long_frac=0.0) == HIGH
    assert sure("data_starved", rx=1.0, cpu=0.95, long_frac=0.0, cyc_cv=0.7) == MEDIUM


def test_a_service_whose_cores_are_full_waits_for_its_input():
    assert replace(RULES["data_starved"], kind="service").finds(cpu=0.85, long_frac=0.1)


@pytest.mark.parametrize(
    ("rule", "util", "is_found"),
    [
        ("bursty_service of a batch job", 0.019, False),
        ("bursty_service of a batch job", 0.02, True),
        ("bursty_service", 0.0, True),
    ],
)
def test_what_never_works_is_no_service_unless_it_is_known_to_be_one(rule, util, is_found):
    assert RULES[rule].finds(util=util) == is_found


def test_without_the_drivers_samples_only_a_known_service_is_bursty():
    known = {"util": 0.3, "longest_low_s": 60, "long_frac": 0.5, "window_lo": 0.5}

    assert [
        bool(bursty_service.CAUSE.detectors[0].find(evidence(kind=kind, **known)).hits[0, 0])
        for kind in ("service", "batch")
    ] == [True, False]


def test_a_person_who_thinks_is_no_service():
    assert not bool(
        bursty_service.CAUSE.detectors[0]
        .find(evidence(kind="interactive", util=0.1, longest_low_s=60, lo=0.9, long_frac=0.9))
        .hits[0, 0]
    )


def test_a_known_service_is_surer_than_pauses_alone():
    assert sure("bursty_service") == MEDIUM
    assert sure("bursty_service of a batch job") == LOW


@pytest.mark.parametrize(("traffic", "bound"), [("nic_rx", 2e9), ("rx", 2e9)])
def test_traffic_beyond_the_node_says_communication(traffic, bound):
    assert RULES["communication_bound"].finds(**({"nic_rx": None} | {traffic: bound}))
    assert not RULES["communication_bound"].finds(**({"nic_rx": None} | {traffic: bound * 0.999}))


@pytest.mark.parametrize(
    ("nvl", "sm", "ten", "is_found"),
    [(20e9, 0.49, 0.19, True), (20e9, 0.50, 0.19, False), (19e9, 0.49, 0.19, False)],
)
def test_nvlink_alone_says_communication_only_where_the_units_wait_more(nvl, sm, ten, is_found):
    assert RULES["communication_bound"].finds(nic_rx=None, nvl=nvl, sm=sm, ten=ten) == is_found


@pytest.mark.parametrize(("failures", "is_found"), [(2, False), (3, True)])
def test_a_third_short_run_that_failed_with_its_memory_full_is_one_of_many(failures, is_found):
    known = evidence(failures=failures, memory_at_end=0.95)

    assert bool(oom_thrash.CAUSE.detectors[1].find(known).hits[0, 0]) == is_found


def test_the_memory_at_a_jobs_end_is_that_of_its_fullest_gpu_in_its_last_five_minutes():
    used = [[79.0, 20.0, 76.0, 79.0], [10.0, 10.0, 10.0, 10.0]]  # of 80 bytes
    known = lanes(jobs=[1, 1], held=[[True, True, True, False]] * 2, memory_used_bytes_max=used)

    assert Features(known, 1)["memory_at_end"][:, :3].tolist() == [[0.95] * 3] * 2


def test_the_price_of_a_smaller_gpu_is_taken_where_it_is_known_and_its_memory_suffices():
    offers = ((24.0, 0.25), (48.0, 0.5))

    def shares(used: float, **figures) -> tuple[float, float]:
        known = lanes(
            util_mean=[0.1], util_low_fraction=[0.5], memory_used_bytes_max=[used], **figures
        )
        told = oversized_gpu.CAUSE.detectors[0].find(Features(known, 1))
        return float(told.low[0, 0]), float(told.high[0, 0])

    assert shares(18.4, cheaper=offers) == (0.75, 0.75)  # 1.3 x 18.4 = 23.92
    assert shares(18.5, cheaper=offers) == (0.5, 0.5)
    assert shares(18.5, cheaper=((24.0, 0.25),)) == shares(18.5)  # no such GPU: the slice's share


@pytest.mark.parametrize(
    ("sevenths", "peak", "low", "high"),
    [
        # of a whole GPU 1g: an eighth of the memory, a seventh of the price
        (7, 0.09, 3 / 7, 6 / 7),
        (7, 0.20, 2 / 7, 4 / 7),  # 3g: 0.26 is more than a quarter
        # of 4g with half of the memory 1g: 0.247 of it is within a quarter
        (4, 0.19, 3 / 8, 3 / 4),
        (3, 0.19, 1 / 3, 2 / 3),
        (3, 0.20, 1 / 6, 1 / 3),  # 2g
        (2, 0.20, 1 / 4, 1 / 2),
        (1, 0.01, 0.0, 0.0),  # there is no smaller one
        (0, 0.01, 0.0, 0.0),  # of which slice it is nobody said
    ],
)
def test_of_an_instance_only_a_smaller_slice_saves_and_only_by_what_it_is_smaller(
    sevenths, peak, low, high
):
    known = lanes(
        util_mean=[0.1],
        util_low_fraction=[0.5],
        memory_used_bytes_max=[80 * peak],
        sevenths=sevenths,
    )

    told = oversized_gpu.CAUSE.detectors[0].find(Features(known, 1))

    assert (told.low[0, 0], told.high[0, 0]) == (pytest.approx(low), pytest.approx(high))


def test_double_precision_is_left_alone():
    assert RULES["no_tensor_cores"].finds(fp64=0.19)
    assert not RULES["no_tensor_cores"].finds(fp64=0.20)


def test_at_the_roofline_nothing_is_promised():
    assert share("memory_bound", dram=0.74) == (0.0, 0.4)
    assert share("memory_bound", dram=0.75) == (0.0, 0.1)
    assert sure("memory_bound", dram=0.75) == HIGH


def test_small_batches_are_less_sure_without_the_counters():
    assert sure("small_batch") == MEDIUM
    assert sure("small_batch without the counters") == LOW


def test_an_idle_gpu_is_not_oversized():
    assert not RULES["oversized_gpu"].finds(util=0.019)
    assert RULES["oversized_gpu"].finds(util=0.02)


@pytest.mark.parametrize(("util", "is_possible"), [(0.0, False), (0.019, False), (0.02, True)])
def test_nor_may_an_idle_gpu_be_oversized(util, is_possible):
    known = lanes(util_mean=[util], sm_active=[util], memory_used_bytes_max=[1.0])

    assert oversized_gpu.CAUSE.detectors[0].find(Features(known, 1)).possible[0, 0] == is_possible


def test_full_power_or_double_precision_are_healthy_without_tensor_work():
    assert RULES["healthy"].finds(ten=0, pr=0.65)
    assert not RULES["healthy"].finds(ten=0, pr=0.64)
    assert RULES["healthy"].finds(ten=0, fp64=0.2)


def test_with_the_counters_nothing_is_merely_busy():
    assert not RULES["busy"].finds(ten=0.5)


@pytest.mark.parametrize(
    ("cause", "known", "low", "high"),
    [
        ("allocated_no_process", {}, 0.9, 1.0),
        ("throttled", {"clk": 0.6, "thr": 0.5}, 0.2, 0.4),  # 40 % of the clock is missing
        ("throttled", {"clk": 0.6, "thr": 0.25}, 0.1, 0.25),  # in a quarter of the time
        ("checkpoint_stall", {"long_frac": 0.2}, 0.1, 0.18),
        ("h2d_transfer", {"lo": 0.6}, 0.18, 0.48),
        ("data_starved", {"lo": 0.4, "util": 0.7}, 0.16, 0.36),
        # pauses shorter than a sample: by the mean
        ("data_starved", {"lo": 0.4, "util": 0.5}, 0.2, 0.45),
        # at 70 % each, 1.4 is the need of two GPUs, and a little more one of three
        (
            "bursty_service",
            {"job_gpus": 4, "job_util_peak": 0.7, "job_minute_peak": 1.4},
            0.5,
            0.75,
        ),
        (
            "bursty_service",
            {"job_gpus": 4, "job_util_peak": 0.71, "job_minute_peak": 1.41},
            0.25,
            0.5,
        ),
        (
            "bursty_service",
            {"job_gpus": 2, "job_util_peak": 0.35, "job_minute_peak": 2.0},
            0.0,
            0.5,
        ),
        # can be shared, not given back
        (
            "bursty_service",
            {"job_gpus": 1, "job_util_peak": 0.35, "job_minute_peak": 0.5},
            0.0,
            0.5,
        ),
        # what a replica did was not read all the time
        ("bursty_service", {"job_gpus": 2}, 0.0, 0.0),
        # fits the smallest slice with its headroom
        ("oversized_gpu", {"mem_max": 0.096, "lo": 0.5}, 3 / 7, 6 / 7),
        ("oversized_gpu", {"mem_max": 0.097, "lo": 0.5}, 2.5 / 7, 5 / 7),
        ("oversized_gpu", {"mem_max": 0.2, "lo": 0.5}, 2 / 7, 4 / 7),
        ("rank_wait", {"spin": 0.5}, 0.15, 0.45),
        ("communication_bound", {"sm": 0.51}, 0.12, 0.28),
        ("small_batch", {}, 1 - 1 / 1.2, 0.6),
        ("no_tensor_cores", {}, 1 - 1 / 1.3, 2 / 3),
        ("straggler", {"job_clk_min": 0.6}, 0.4, 0.4),
        # by waiting, and by the clock
        (
            "straggler",
            {"job_clk_min": 0.6, "job_spin_median": 0.35, "job_spin_min": 0.05},
            0.3,
            0.4,
        ),
        (
            "straggler",
            {"job_clk_min": 0.8, "job_spin_median": 0.35, "job_spin_min": 0.05},
            0.2,
            0.3,
        ),
        ("hung", {}, 1.0, 1.0),
        ("healthy", {}, 0.0, 0.0),
    ],
)
def test_what_could_be_recovered_of_the_affected_time(cause, known, low, high):
    assert share(cause, **known) == (pytest.approx(low), pytest.approx(high))
