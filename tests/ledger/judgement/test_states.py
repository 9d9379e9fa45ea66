"""Each rule of docs/ledger.md: just under, at, just over; missing; twice; late."""

from types import SimpleNamespace

import numpy as np
import pytest

from fleetwatch.ledger.judgement.observations import Columns, Outage
from tests.ledger.factories import (
    BLIP,
    BUSY,
    EMPTY,
    HOUR,
    MINUTE,
    NEARLY,
    QUIET,
    T0,
    Held,
    Node,
    Reported,
    W,
    Window,
    a_gpu,
    row,
    totals,
)

FREE_TIME = [(T0, T0)]  # nobody holds the GPU


def test_a_silent_agent_is_unobserved_not_idle():
    assert totals(Node([]).judge(), "state", "reason") == {("unobserved", "missing"): 4 * HOUR}


@pytest.mark.parametrize(
    ("kind", "quiet_ms", "state"),
    [
        ("batch", 15 * MINUTE - W, "stalled"),
        ("batch", 15 * MINUTE, "idle"),
        ("batch", 15 * MINUTE + W, "idle"),
        ("interactive", 30 * MINUTE - W, "stalled"),
        ("interactive", 30 * MINUTE, "idle"),
        ("service", 60 * MINUTE - W, "stalled"),
        ("service", 60 * MINUTE, "idle"),
        ("unheard-of", 15 * MINUTE, "idle"),
    ],
)
def test_a_quiet_run_is_idle_from_its_start_once_it_is_long_enough_for_its_kind(
    kind, quiet_ms, state
):
    windows = row((BUSY, HOUR), (QUIET, quiet_ms), (BUSY, 3 * HOUR - quiet_ms))

    judged = Node(windows, holdings=[Held([(T0, T0 + 4 * HOUR)], kind=kind)]).judge()

    assert totals(judged) == {"useful": 4 * HOUR - quiet_ms, state: quiet_ms}


def test_a_quiet_run_across_midnight_is_judged_whole():
    windows = row(
        (BUSY, 2 * HOUR - 10 * MINUTE), (QUIET, 15 * MINUTE), (BUSY, 2 * HOUR - 5 * MINUTE)
    )

    judged = Node(windows).judge()

    assert totals(judged, "cut_ms", "state") == {
        (T0, "useful"): HOUR,
        (T0 + HOUR, "useful"): 50 * MINUTE,
        (T0 + HOUR, "idle"): 10 * MINUTE,
        (T0 + 2 * HOUR, "idle"): 5 * MINUTE,
        (T0 + 2 * HOUR, "useful"): 55 * MINUTE,
        (T0 + 3 * HOUR, "useful"): HOUR,
    }


def test_a_blip_every_ten_minutes_does_not_turn_idle_into_stalls():
    windows = row(*[(QUIET, 10 * MINUTE - W), (BLIP, W)] * 23, (QUIET, 10 * MINUTE))

    judged = Node(windows).judge()

    assert totals(judged) == {"idle": 4 * HOUR - 23 * 200, "useful": 23 * 200}
    assert totals(judged, "tier") == {
        "certain": 4 * HOUR - 23 * W,
        "probable": 23 * 9_800,
        "": 23 * 200,
    }


def test_a_window_with_more_than_a_blip_ends_a_quiet_run():
    more = BLIP | {"util_mean": 0.021}
    windows = row(
        (QUIET, 10 * MINUTE), (more, W), (QUIET, 10 * MINUTE - W), (BUSY, 3 * HOUR + 40 * MINUTE)
    )

    assert totals(Node(windows).judge(), "state", "kind")["stalled", "gap"] == 10 * MINUTE - W


def test_a_run_continues_across_three_missing_windows_which_stay_unobserved():
    windows = row(
        (BUSY, HOUR),
        (QUIET, 8 * MINUTE),
        (None, 3 * W),
        (QUIET, 7 * MINUTE - 3 * W),
        (BUSY, 3 * HOUR - 15 * MINUTE),
    )

    judged = Node(windows).judge()

    assert totals(judged) == {
        "useful": 4 * HOUR - 15 * MINUTE,
        "idle": 15 * MINUTE - 3 * W,
        "unobserved": 3 * W,
    }


def test_a_run_ends_with_the_fourth_missing_window():
    windows = row(
        (BUSY, HOUR),
        (QUIET, 8 * MINUTE),
        (None, 4 * W),
        (QUIET, 7 * MINUTE - 4 * W),
        (BUSY, 3 * HOUR - 15 * MINUTE),
    )

    assert totals(Node(windows).judge())["stalled"] == 15 * MINUTE - 4 * W


@pytest.mark.parametrize(
    ("observed_ms", "state"),
    [(4_999, "unobserved"), (5_000, "useful"), (5_001, "useful"), (10_000, "useful")],
)
def test_a_window_observed_less_than_half_says_nothing_and_above_counts_whole(observed_ms, state):
    windows = [Window(T0, BUSY, observed_ms=observed_ms)]

    judged = Node(windows, hours=1, end_ms=T0 + W).judge()

    assert totals(judged) == {state: W}


UNSIGNALLED = {"memory_used_bytes": 0.0, "process_count": 0.0, "power_w": 70.0}


def test_a_held_gpu_without_any_activity_signal_is_unobserved_whatever_else_it_says():
    judged = Node(row((UNSIGNALLED, HOUR)), hours=1).judge()

    assert totals(judged, "state", "reason") == {("unobserved", "no_signal"): HOUR}


@pytest.mark.parametrize(
    ("says", "state"),
    [
        (UNSIGNALLED, "free"),
        (UNSIGNALLED | {"memory_used_bytes": 300 * 2**20}, "free"),
        (UNSIGNALLED | {"memory_used_bytes": 300 * 2**20 + 1}, "unobserved"),
        (UNSIGNALLED | {"process_count": 1}, "unobserved"),
        ({"power_w": 70.0}, "unobserved"),
    ],
)
def test_what_nobody_holds_needs_no_activity_signal(says, state):
    judged = Node(row((says, HOUR)), hours=1, holdings=[]).judge()

    assert totals(judged) == {state: HOUR}


@pytest.mark.parametrize(
    ("processes", "state"), [({"process_count": 0}, "free"), ({}, "unobserved")]
)
def test_on_a_bare_host_it_needs_the_word_that_there_is_no_process(processes, state):
    judged = Node(
        row(({"memory_used_bytes": 1e7} | processes, HOUR)), hours=1, holdings=[], sources=[]
    ).judge()

    assert totals(judged) == {state: HOUR}


def test_a_window_that_was_hardly_observed_hides_no_free_slice():
    free = Window(T0, UNSIGNALLED)
    glimpse = Window(T0, EMPTY, observed_ms=4_999, sequence=1)

    judged = Node([free, glimpse], hours=1, holdings=[], end_ms=T0 + W).judge()

    assert totals(judged) == {"free": W}


def test_work_on_a_bare_host_that_no_process_explains_is_not_free():
    works = {
        "util_mean": 1.0,
        "util_max": 1.0,
        "tensor_active": 0.3,
        "memory_used_bytes": 210 * 2**20,
    }

    judged = Node(row((works, HOUR)), hours=1, holdings=[], sources=[]).judge()

    assert totals(judged, "state", "reason") == {("unobserved", "unexplained_work"): HOUR}


def test_a_gpu_that_the_agent_knows_but_cannot_read_is_unobserved():
    judged = Node(row(({}, HOUR), observed_ms=0), hours=1).judge()

    assert totals(judged, "state", "reason") == {("unobserved", "unreadable"): HOUR}


@pytest.mark.parametrize(
    ("says", "state"),
    [
        ({"util_max": 0.02, "util_mean": 0.01}, "idle"),
        ({"util_max": 0.021, "util_mean": 0.021}, "stalled"),
        ({"util_mean": 0.02}, "idle"),
        ({"util_zero_fraction": 1.0}, "idle"),
        ({"gr_engine_active": 0.0}, "idle"),
        ({"sm_active": 0.01, "sm_active_max": 0.5}, "stalled"),
        ({"process_sm_ratio": 0.0}, "idle"),
    ],
)
def test_quiet_is_decided_by_the_maximum_of_the_best_signal_that_was_read(says, state):
    judged = Node(
        row((says | {"memory_used_bytes": 1e10, "process_count": 1}, HOUR)), hours=1
    ).judge()

    assert max(totals(judged), key=totals(judged).get) == state


@pytest.mark.parametrize(
    "contradiction",
    [{"power_w": 270.0}, {"pcie_tx_bytes_s": 1.8e10}, {"nvlink_rx_bytes_s": 6e7}],
)
def test_a_quiet_signal_that_something_else_contradicts_is_stalled_not_idle(contradiction):
    judged = Node(row((QUIET | contradiction, HOUR)), hours=1).judge()

    assert totals(judged, "state", "kind") == {("stalled", "within"): HOUR}


@pytest.mark.parametrize(
    "agreement",
    [{"power_w": 122.0}, {"power_w": 259.0}, {"encoder_ratio": 0.02}, {"pcie_tx_bytes_s": 1e6}],
)
def test_a_resident_context_contradicts_nothing(agreement):
    assert totals(Node(row((QUIET | agreement, HOUR)), hours=1).judge()) == {"idle": HOUR}


@pytest.mark.parametrize(
    ("util", "active_ms"), [(0.5, HOUR // 2), (0.89, HOUR * 89 // 100), (0.90, HOUR), (0.98, HOUR)]
)
def test_the_inactive_part_of_an_active_window_is_stalled_but_step_boundaries_are_not(
    util, active_ms
):
    judged = Node(row((QUIET | {"util_mean": util, "util_max": 1.0}, HOUR)), hours=1).judge()

    found = totals(judged, "state", "kind")
    assert found.get(("useful", "")) == active_ms
    assert found.get(("stalled", "within"), 0) == HOUR - active_ms


@pytest.mark.parametrize(
    ("says", "state"),
    [
        ({"power_w": 196.0}, "stalled"),
        ({"power_w": 197.0}, "useful"),
        ({"power_w": 150.0, "tensor_active": 0.004, "dram_active": 0.019}, "stalled"),
        ({"power_w": 150.0, "tensor_active": 0.35}, "useful"),
        ({"power_w": 150.0, "dram_active": 0.75}, "useful"),
        ({"power_w": 150.0, "util_mean": 0.94, "dram_active": 0.75}, "useful"),
        ({}, "useful"),
        ({"spin_fraction": 1.0, "power_w": 600.0}, "stalled"),
        ({"spin_fraction": 0.0, "power_w": 150.0, "sm_active": 0.85}, "useful"),
    ],
)
def test_busy_waiting_is_stalled(says, state):
    judged = Node(row((BUSY | says, HOUR)), hours=1).judge()

    found = totals(judged)
    assert found.get(state, 0) > 0
    assert ("stalled" in found) == (state == "stalled")
    assert state != "stalled" or totals(judged, "kind") == {"spinning": HOUR}


def test_efficiency_by_sensors_takes_the_busiest_unit_over_its_practical_ceiling():
    says = BUSY | {"sm_active": 0.425, "tensor_active": 0.07, "dram_active": 0.15, "power_w": 600.0}

    judged = Node(row((says, HOUR)), hours=1).judge()

    assert totals(judged, "state", "efficiency_source") == {
        ("useful", "sensors"): HOUR // 2,
        ("underused", "sensors"): HOUR // 2,
    }


def test_efficiency_by_power_is_estimated_from_the_active_power():
    # H100: idle 70 W, limit 700 W, rest 70 + 40 = 110 W; w = 0.5 and 252.375 W mean make 394.75 W
    # active: pr 0.5155 (394.75 - 70) / 630 / 0.65 = 0.79304...
    says = QUIET | {"util_mean": 0.5, "util_max": 1.0, "power_w": 252.375}

    judged = Node(row((says, HOUR)), hours=1).judge()

    found = totals(judged, "state", "efficiency_source")
    assert found["useful", "power"] == 360 * 3_965
    assert found["underused", "power"] == 360 * 1_035
    assert found["stalled", ""] == HOUR // 2


def test_a_share_of_work_next_to_nothing_overflows_nothing():
    says = BUSY | {"util_mean": 1e-310, "util_max": 1.0, "sm_active": 1.0, "power_w": 1e7}

    judged = Node(row((says, HOUR)), hours=1).judge()

    assert totals(judged) == {"stalled": HOUR}


def test_power_says_nothing_of_efficiency_below_a_third_of_work():
    says = QUIET | {"util_mean": 0.29, "util_max": 1.0, "power_w": 150.0}

    judged = Node(row((says, HOUR)), hours=1).judge()

    assert totals(judged, "state", "efficiency_source") == {
        ("useful", "none"): 360 * 2_900,
        ("stalled", ""): 360 * 7_100,
    }


@pytest.mark.parametrize(
    ("says", "kind", "expected"),
    [
        (EMPTY, "batch", ("idle", "cold", "certain")),
        (QUIET, "batch", ("idle", "held", "certain")),
        (NEARLY, "batch", ("idle", "held", "probable")),
        (QUIET, "interactive", ("idle", "interactive", "certain")),
    ],
)
def test_idle_says_its_sub_kind_and_is_certain_only_with_exactly_zero_activity(
    says, kind, expected
):
    judged = Node(row((says, HOUR)), hours=1, holdings=[Held([(T0, T0 + HOUR)], kind=kind)]).judge()

    assert totals(judged, "state", "kind", "tier") == {expected: HOUR}


def test_a_hundredth_of_a_percent_is_not_zero():
    judged = Node(row((QUIET | {"util_mean": 0.00035, "util_max": 0.01}, HOUR)), hours=1).judge()

    assert totals(judged, "tier") == {"probable": HOUR}


def test_a_stalled_service_is_only_potential_waste():
    judged = {
        kind: Node(
            row((BUSY, HOUR), (QUIET, 10 * MINUTE), (BUSY, 3 * HOUR - 10 * MINUTE)),
            holdings=[Held([(T0, T0 + 4 * HOUR)], kind=kind)],
        )
        for kind in ("batch", "service")
    }

    assert totals(judged["batch"].judge(), "state", "tier")["stalled", "probable"] == 10 * MINUTE
    assert totals(judged["service"].judge(), "state", "tier")["stalled", "potential"] == 10 * MINUTE


# --- starting ---


def test_a_new_holder_begins_a_new_run():
    half = T0 + HOUR + 10 * MINUTE
    windows = row((BUSY, HOUR), (QUIET, 20 * MINUTE), (BUSY, 3 * HOUR - 20 * MINUTE))

    judged = Node(
        windows, holdings=[Held([(T0, half)], job_id=1), Held([(half, T0 + 4 * HOUR)], job_id=2)]
    ).judge()

    assert totals(judged, "job_id", "state") == {
        (1, "useful"): HOUR,
        (1, "stalled"): 10 * MINUTE,
        (2, "starting"): 10 * MINUTE,
        (2, "useful"): 3 * HOUR - 20 * MINUTE,
    }


# --- nobody's time ---


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (EMPTY, ("free", "")),
        (EMPTY | {"memory_used_bytes": 300 * 2**20}, ("free", "")),
        (EMPTY | {"memory_used_bytes": 300 * 2**20 + 1}, ("orphaned", "memory")),
        (EMPTY | {"process_count": 1}, ("orphaned", "process")),
        (EMPTY | {"process_count": 1, "live_process_count": 0}, ("orphaned", "dead_process")),
        ({"util_mean": 0.0, "memory_used_bytes": 1e9}, ("orphaned", "memory")),
        ({"util_mean": 0.0, "memory_used_bytes": 1e6}, ("free", "")),
        ({"util_mean": 0.0}, ("unobserved", "allocation_unknown")),
    ],
)
def test_without_an_allocation_what_holds_the_gpu_decides_where_a_scheduler_answers(says, expected):
    assert totals(Node(row((says, HOUR)), hours=1, holdings=[]).judge(), "state", "reason") == {
        expected: HOUR
    }


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (EMPTY, ("free", "")),
        (EMPTY | {"process_count": 1}, ("unobserved", "allocation_unknown")),
        (EMPTY | {"memory_used_bytes": 1e9}, ("orphaned", "memory")),
        (
            EMPTY | {"memory_used_bytes": 1e9, "process_count": 1, "live_process_count": 0},
            ("orphaned", "dead_process"),
        ),
        ({"util_mean": 0.0, "memory_used_bytes": 1e6}, ("free", "")),
        ({"util_mean": 0.0, "memory_used_bytes": 1e9}, ("unobserved", "allocation_unknown")),
        ({"util_mean": 0.0}, ("unobserved", "allocation_unknown")),
    ],
)
def test_on_a_bare_host_a_live_process_that_nobody_named_is_unknown(says, expected):
    assert totals(
        Node(row((says, HOUR)), hours=1, holdings=[], sources=[]).judge(), "state", "reason"
    ) == {expected: HOUR}


def test_of_a_source_that_does_not_answer_nothing_is_concluded():
    silent = [Reported([(T0, T0 + HOUR)], ok=False)]
    both = [Reported([(T0, T0 + HOUR)], ok=False), Reported([(T0, T0 + HOUR // 2)], ok=True)]
    two_kinds = [
        Reported([(T0, T0 + HOUR)]),
        Reported([(T0, T0 + HOUR)], kind="kubernetes", ok=False),
    ]
    windows = row((EMPTY, HOUR))

    assert totals(Node(windows, hours=1, holdings=[], sources=silent).judge(), "reason") == {
        "allocation_unknown": HOUR
    }
    assert totals(Node(windows, hours=1, holdings=[], sources=both).judge()) == {
        "free": HOUR // 2,
        "unobserved": HOUR // 2,
    }
    assert totals(Node(windows, hours=1, holdings=[], sources=two_kinds).judge()) == {
        "unobserved": HOUR
    }


def test_a_window_that_a_job_ends_in_saw_its_process_not_an_orphan():
    ends = T0 + 30 * MINUTE + 4_000
    windows = row((BUSY, 30 * MINUTE + W), (EMPTY, 30 * MINUTE - W))

    judged = Node(windows, hours=1, holdings=[Held([(T0, ends)])]).judge()

    assert totals(judged) == {"useful": 30 * MINUTE + 4_000, "free": 30 * MINUTE - 4_000}


@pytest.mark.parametrize(
    ("left_ms", "orphaned_ms"),
    [(MINUTE - W, 0), (MINUTE, 0), (MINUTE + W, W), (5 * MINUTE, 4 * MINUTE)],
)
def test_what_outlives_its_job_by_a_minute_is_no_orphan(left_ms, orphaned_ms):
    left_behind = EMPTY | {"process_count": 1, "memory_used_bytes": 1e9}
    windows = row((BUSY, 30 * MINUTE), (left_behind, left_ms), (EMPTY, 30 * MINUTE - left_ms))

    judged = Node(windows, hours=1, holdings=[Held([(T0, T0 + 30 * MINUTE)])]).judge()

    said = totals(judged)
    assert (said["useful"], said["free"], said.get("orphaned", 0)) == (
        30 * MINUTE,
        30 * MINUTE - orphaned_ms,
        orphaned_ms,
    )


def test_the_end_of_a_job_explains_nothing_on_another_gpu():
    other = row((EMPTY | {"process_count": 1}, HOUR), gpu_id=2)
    gpus = [a_gpu(1, end_ms=T0 + HOUR), a_gpu(2, end_ms=T0 + HOUR)]

    judged = Node(
        [*row((BUSY, HOUR)), *other], hours=1, capacities=gpus, holdings=[Held([(T0, T0 + HOUR)])]
    ).judge()

    assert totals(judged) == {"useful": HOUR, "orphaned": HOUR}


def test_a_window_cut_by_an_allocation_edge_gives_both_sides_their_part_of_the_activity():
    edge = T0 + 3_000
    half = QUIET | {"util_mean": 0.5, "util_max": 1.0, "energy_j": 1000.0}

    judged = Node(
        [Window(T0, half)],
        hours=1,
        end_ms=T0 + W,
        holdings=[Held([(T0, edge)], job_id=1), Held([(edge, T0 + W)], job_id=2)],
    ).judge()

    assert totals(judged, "job_id", "state") == {
        (1, "useful"): 1_500,
        (1, "stalled"): 1_500,
        (2, "useful"): 3_500,
        (2, "stalled"): 3_500,
    }
    assert sum(one.energy_j for one in judged.entries if one.job_id == 1) == pytest.approx(300.0)


# --- unavailable ---


def test_unavailable_stands_above_all_and_keeps_the_holder():
    down = {1: [Outage(T0 + HOUR, T0 + 2 * HOUR, "gpu_lost")]}

    judged = Node(row((BUSY, 4 * HOUR)), outages=down).judge()

    assert totals(judged, "state", "reason", "job_id") == {
        ("useful", "", 7): 3 * HOUR,
        ("unavailable", "gpu_lost", 7): HOUR,
    }


def test_a_drained_gpu_is_unavailable_only_while_nobody_holds_it():
    down = {1: [Outage(T0, T0 + 4 * HOUR, "drained")]}

    judged = Node(
        row((BUSY, 2 * HOUR), (EMPTY, 2 * HOUR)),
        outages=down,
        holdings=[Held([(T0, T0 + 2 * HOUR)])],
    ).judge()

    assert totals(judged) == {"useful": 2 * HOUR, "unavailable": 2 * HOUR}


def test_what_granted_shares_leave_of_a_drained_gpu_is_unavailable():
    down = {1: [Outage(T0, T0 + 4 * HOUR, "drained")]}

    judged = Node(
        row((BUSY, 4 * HOUR)), outages=down, holdings=[Held([(T0, T0 + 4 * HOUR)], share=0.25)]
    ).judge()

    assert totals(judged) == {"useful": HOUR, "unavailable": 3 * HOUR}


def test_a_drain_does_not_hide_from_the_holder_that_the_gpu_was_lost():
    down = {1: [Outage(T0, T0 + 4 * HOUR, "drained"), Outage(T0 + HOUR, T0 + 2 * HOUR, "gpu_lost")]}

    judged = Node(row((BUSY, 4 * HOUR)), outages=down).judge()

    assert totals(judged, "state", "reason", "job_id") == {
        ("useful", "", 7): 3 * HOUR,
        ("unavailable", "gpu_lost", 7): HOUR,
    }


def test_unavailability_ends_a_quiet_run():
    down = {1: [Outage(T0 + 10 * MINUTE, T0 + 20 * MINUTE, "xid_79")]}
    windows = row((QUIET, 30 * MINUTE), (BUSY, 30 * MINUTE))

    judged = Node(windows, hours=1, outages=down, holdings=[Held([(T0 - 1, T0 + HOUR)])]).judge()

    assert totals(judged) == {
        "stalled": 20 * MINUTE,
        "unavailable": 10 * MINUTE,
        "useful": 30 * MINUTE,
    }


# --- energy ---


def test_time_longer_than_ten_seconds_counts_by_its_length():
    minute = row(
        (QUIET | {"util_mean": 0.5, "util_max": 1.0}, HOUR), length_ms=MINUTE, start_ms=T0 + 7
    )

    judged = Node(
        minute,
        hours=2,
        end_ms=T0 + 7 + HOUR,
        capacities=[a_gpu(start_ms=T0 + 7, end_ms=T0 + 7 + HOUR)],
    ).judge()

    # the window across the hour is two cells, 59,993 and 7 ms: each gives its odd millisecond to
    # the first state
    assert totals(judged) == {"useful": HOUR // 2 + 1, "stalled": HOUR // 2 - 1}


def test_a_column_that_is_nan_all_over_is_not_among_those_that_were_read():
    read = np.array([0.5, np.nan])
    windows = SimpleNamespace(
        gpu_id=np.zeros(2), columns={"util_mean": read, "sm_active": np.broadcast_to(np.nan, 2)}
    )

    columns = Columns(windows)

    assert list(columns) == ["util_mean"]
    assert np.isnan(columns["sm_active"]).tolist() == [True, True]
