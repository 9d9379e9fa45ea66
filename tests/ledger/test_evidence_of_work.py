"""What a counter says is not overruled while something else speaks: phantom readings, and the
engines of video.
"""

import pytest

from tests.ledger.factories import BUSY, HOUR, QUIET, T0, Held, Node, a_gpu, row, totals

FREE_TIME = [(T0, T0)]  # nobody holds the GPU


def judged_on(board, says, **node):
    """An hour of windows on a board of that idle power and limit, held by a batch job."""
    idle_w, limit_w = board
    return Node(
        row((says, HOUR)),
        hours=1,
        capacities=[a_gpu(end_ms=T0 + HOUR, idle_w=idle_w, limit_w=limit_w)],
        **node,
    ).judge()


H100, T4, L40S, L4 = (70.0, 700.0), (10.0, 70.0), (35.0, 350.0), (13.0, 72.0)
MIB = 2**20
STUCK = {"util_mean": 1.0, "util_max": 1.0, "memory_used_bytes": 300 * MIB, "process_count": 0}
IDLE_W, AT_WORK_W = {"power_w": 196.0}, {"power_w": 197.0}  # H100: pr 0.2, and just over


def test_a_counter_stuck_on_a_bare_board_with_persistence_off_is_no_work():
    says = {
        "util_mean": 1.0,
        "util_max": 1.0,
        "power_w": 145.0,
        "memory_used_bytes": 0,
        "process_count": 0,
    }

    assert totals(judged_on(L40S, says), "state", "kind", "tier") == {
        ("idle", "cold", "certain"): HOUR
    }
    assert totals(judged_on(L40S, says, holdings=[])) == {"free": HOUR}


def test_a_small_model_at_the_power_limit_is_work_though_nobody_told_its_process():
    says = {
        "util_mean": 1.0, "util_max": 1.0, "gr_engine_active": 0.98, "tensor_active": 0.30,
        "dram_active": 0.5,
        "power_w": 69.0, "memory_used_bytes": 210 * MIB,
    }  # fmt: skip

    # tensor 0.30 / 0.35
    assert totals(judged_on(T4, says)) == {"useful": 360 * 8_571, "underused": 360 * 1_429}
    assert totals(judged_on(T4, says | {"process_count": 0})) == {
        "useful": 360 * 8_571,
        "underused": 360 * 1_429,
    }


SMALL_MODEL = {
    "util_mean": 1.0, "util_max": 1.0, "tensor_active": 0.30, "power_w": 69.0,
    "memory_used_bytes": 210 * MIB,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("unobserved", "unexplained_work")),
        ({"process_count": 0}, ("unobserved", "unexplained_work")),
        ({"process_count": 1}, ("orphaned", "process")),
        ({"memory_used_bytes": 300 * MIB + 1}, ("orphaned", "memory")),
        ({"tensor_active": 0.0, "power_w": 42.0}, ("free", "")),
        ({"tensor_active": 0.0, "power_w": 42.1}, ("unobserved", "unexplained_work")),
        ({"tensor_active": 0.005, "power_w": 42.0}, ("free", "")),
        ({"tensor_active": 0.006, "power_w": 42.0}, ("unobserved", "unexplained_work")),
        (
            {"tensor_active": 0.0, "power_w": 30.0, "encoder_ratio": 0.021},
            ("unobserved", "unexplained_work"),
        ),
    ],
)
def test_a_gpu_at_work_that_the_scheduler_says_nobody_holds_is_not_free(more, expected):
    found = totals(judged_on(T4, SMALL_MODEL | more, holdings=[]), "state", "reason")

    assert found == {expected: HOUR}


def test_power_of_work_without_an_activity_signal_is_not_free():
    says = {"power_w": 69.0, "memory_used_bytes": 210 * MIB, "process_count": 0}

    assert totals(judged_on(T4, says, holdings=[]), "state", "reason") == {
        ("unobserved", "no_signal"): HOUR
    }
    assert totals(judged_on(T4, says | {"power_w": 42.0}, holdings=[])) == {"free": HOUR}


def test_work_that_outlives_its_job_by_less_than_a_minute_is_the_jobs():
    half = T0 + HOUR // 2
    found = totals(judged_on(T4, SMALL_MODEL, holdings=[Held([(T0, half)])]), "state", "reason")

    assert found[("free", "")] == 60_000
    assert found[("unobserved", "unexplained_work")] == HOUR // 2 - 60_000


def test_what_a_share_leaves_of_a_gpu_at_work_is_free():
    shared = [Held([(T0, T0 + HOUR)], share=0.25)]

    assert totals(judged_on(T4, SMALL_MODEL, holdings=shared))["free"] == HOUR * 3 // 4


@pytest.mark.parametrize(
    "says", [{}, {"process_count": 0}, {"process_count": 0, "gr_engine_active": 0.02}]
)
def test_a_mig_slice_without_a_process_is_free_beside_one_at_work(says):
    slices = [
        a_gpu(10 + number, parent_id=1, weight=0.5, end_ms=T0 + HOUR, idle_w=None, limit_w=None)
        for number in range(2)
    ]
    windows = [
        *row(({"power_w": 650.0}, HOUR)),
        *row((says | {"memory_used_bytes": 10 * MIB}, HOUR), gpu_id=10),
        *row(({"gr_engine_active": 0.9, "memory_used_bytes": 10 * MIB}, HOUR), gpu_id=11),
    ]
    node = Node(windows, hours=1, capacities=[a_gpu(end_ms=T0 + HOUR), *slices], holdings=[])

    assert totals(node.judge(), "state", "reason") == {
        ("free", ""): HOUR // 2,
        ("unobserved", "unexplained_work"): HOUR // 2,
    }


@pytest.mark.parametrize(
    ("more", "is_phantom"),
    [
        ({}, False),  # nothing refutes it
        (IDLE_W, True),
        (AT_WORK_W, False),
        ({"memory_used_bytes": 16 * MIB} | AT_WORK_W, True),
        ({"memory_used_bytes": 16 * MIB + 1} | AT_WORK_W, False),
        ({"memory_used_bytes": 300 * MIB + 1} | IDLE_W, False),
        ({"process_count": 1} | IDLE_W, False),
        ({"sm_active": 0.02} | AT_WORK_W, True),
        ({"sm_active": 0.021} | IDLE_W, False),
        ({"tensor_active": 0.005, "dram_active": 0.02} | AT_WORK_W, True),
        ({"tensor_active": 0.006} | IDLE_W, False),
        ({"dram_active": 0.03} | IDLE_W, False),
        ({"encoder_ratio": 0.02} | IDLE_W, True),
        # an engine at noise says nothing of the units
        ({"encoder_ratio": 0.02} | AT_WORK_W, False),
        ({"decoder_ratio": 0.021} | IDLE_W, False),
        ({"pcie_rx_bytes_s": 6e7} | IDLE_W, False),
    ],
)
def test_a_busy_counter_without_a_process_is_no_work_only_where_nothing_else_speaks(
    more, is_phantom
):
    found = totals(judged_on(H100, STUCK | more), "state", "tier")

    assert (found == {("idle", "certain"): HOUR}) == is_phantom
    assert any(state == "idle" for state, _ in found) == is_phantom


def test_where_nobody_reads_processes_a_stuck_counter_is_never_certain_waste():
    unread = {name: value for name, value in STUCK.items() if name != "process_count"}

    assert totals(judged_on(H100, unread | IDLE_W), "state", "kind", "tier") == {
        ("idle", "cold", "probable"): HOUR
    }
    assert totals(judged_on(H100, unread)) == {"useful": HOUR}
    assert totals(
        judged_on(H100, unread | {"util_mean": 0.0, "util_max": 0.0, "power_w": 72.0}), "tier"
    ) == {"certain": HOUR}


@pytest.mark.parametrize("processes", [{"process_count": 0}, {"process_count": 1}, {}])
def test_a_video_stream_with_little_memory_is_work(processes):
    says = {
        "util_mean": 0.03,
        "util_max": 0.06,
        "encoder_ratio": 0.99,
        "power_w": 38.0,
        "memory_used_bytes": 230 * MIB,
    } | processes

    found = totals(judged_on(L4, says), "state", "signal", "efficiency_source")

    assert found == {("useful", "video_engines", "sensors"): HOUR}


@pytest.mark.parametrize("engine", ["encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio"])
@pytest.mark.parametrize(("share", "useful_ms"), [(1.0, HOUR), (0.9, HOUR), (0.6, HOUR * 6 // 10)])
def test_the_share_of_an_engine_is_activity_where_it_is_higher_than_that_of_the_units(
    engine, share, useful_ms
):
    says = QUIET | {
        "util_mean": 0.08,
        "util_max": 0.2,
        "sm_active": 0.05,
        "power_w": 34.0,
        engine: share,
    }

    found = totals(judged_on(L4, says))

    assert found["useful"] == useful_ms
    assert found.get("stalled", 0) == HOUR - useful_ms


def test_where_the_units_do_more_than_the_engines_these_change_nothing():
    says = BUSY | {"sm_active": 0.425, "power_w": 300.0}

    assert totals(judged_on(H100, says | {"encoder_ratio": 0.4})) == totals(judged_on(H100, says))


@pytest.mark.parametrize(
    ("more", "is_believed"),
    [
        ({}, True),
        ({"tensor_active": 0.005, "dram_active": 0.02}, True),
        ({"tensor_active": 0.006}, False),
        ({"dram_active": 0.021}, False),
        ({"tensor_active": 0.3}, False),
        ({"spin_fraction": 0.5, "tensor_active": 0.505}, True),
        ({"spin_fraction": 0.5, "tensor_active": 0.506}, False),
        ({"spin_fraction": 0.5, "dram_active": 0.521}, False),
    ],
)
def test_a_share_of_busy_waiting_that_leaves_no_time_for_what_was_read_is_not_believed(
    more, is_believed
):
    says = BUSY | {"spin_fraction": 1.0, "power_w": 90.0} | more

    found = totals(judged_on(H100, says), "state", "kind")

    assert (("stalled", "spinning") in found) == is_believed


def test_tensor_cores_at_work_are_useful_whatever_share_of_busy_waiting_was_sent():
    says = BUSY | {"spin_fraction": 1.0, "power_w": 90.0, "tensor_active": 0.3}

    # tensor 0.30 / 0.35
    assert totals(judged_on(H100, says)) == {"useful": 360 * 8_571, "underused": 360 * 1_429}


def test_an_engine_at_work_is_no_busy_waiting():
    says = BUSY | {"spin_fraction": 1.0, "power_w": 90.0}

    assert totals(judged_on(H100, says)) == {"stalled": HOUR}
    assert totals(judged_on(H100, says | {"decoder_ratio": 0.6})) == {
        "useful": HOUR * 6 // 10,
        "stalled": HOUR * 4 // 10,
    }


MUTE = QUIET | {"power_w": 120.0}  # utilisation reads 0 all the time


@pytest.mark.parametrize(
    ("more", "useful_ms"),
    [
        ({"gr_engine_active": 0.9, "sm_active": 0.85}, HOUR),
        ({"gr_engine_active": 0.5, "sm_active": 0.425}, HOUR // 2),
        ({"sm_active": 0.6, "tensor_active": 0.3}, HOUR * 6 // 10),
        ({"process_sm_ratio": 0.5, "dram_active": 0.375}, HOUR // 2),
    ],
)
def test_a_utilisation_stuck_at_zero_does_not_overrule_the_units(more, useful_ms):
    found = totals(judged_on(H100, MUTE | more))

    assert found["useful"] == useful_ms
    assert found.get("stalled", 0) == HOUR - useful_ms


@pytest.mark.parametrize(
    ("more", "is_idle"),
    [
        ({"sm_active": 0.02, "tensor_active": 0.005, "dram_active": 0.02}, True),
        ({"tensor_active": 0.006}, False),
        ({"dram_active": 0.021}, False),
        ({"fp64_active": 0.021}, False),
    ],
)
def test_units_above_noise_are_never_idle(more, is_idle):
    assert ("idle" in totals(judged_on(H100, MUTE | more))) == is_idle


@pytest.mark.parametrize(("watts", "is_idle"), [(270.0, True), (271.0, False)])
def test_beyond_six_tenths_of_its_limit_a_board_of_unknown_idle_power_does_not_rest(watts, is_idle):
    assert ("idle" in totals(judged_on((None, 450.0), QUIET | {"power_w": watts}))) == is_idle


@pytest.mark.parametrize(
    "memory", [{"memory_used_bytes": 0}, {"memory_used_bytes": 200 * MIB, "fp64_active": 0.0}]
)
@pytest.mark.parametrize(("watts", "state"), [(420.0, "idle"), (421.0, "useful")])
def test_a_busy_counter_beside_the_power_of_work_is_no_phantom(memory, watts, state):
    says = {"util_mean": 1.0, "util_max": 1.0, "process_count": 0, "power_w": watts} | memory
    found = totals(judged_on(H100, says))

    assert (found.get("idle", 0) == HOUR) == (state == "idle")


@pytest.mark.parametrize(("watts", "state"), [(420.0, "stalled"), (421.0, "useful")])
def test_an_idle_power_that_was_set_too_high_makes_no_busy_waiting_of_the_power_of_work(
    watts, state
):
    found = totals(judged_on((600.0, 700.0), BUSY | {"power_w": watts, "sm_active": 0.85}))

    assert found == {state: HOUR}
