"""Who pays for which millisecond: shared GPUs, MIG, whole numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.ledger.judgement.shares import largest_remainder
from tests.ledger.factories import (
    BUSY,
    EMPTY,
    HOUR,
    MINUTE,
    QUIET,
    T0,
    Held,
    Node,
    Reported,
    W,
    a_gpu,
    row,
    totals,
)

ALL = [(T0, T0 + HOUR)]


def shared(*shares, says=BUSY):
    return Node(
        row((says, HOUR)),
        hours=1,
        holdings=[Held(ALL, job_id=number, share=share) for number, share in enumerate(shares, 1)],
    )


def test_four_jobs_at_a_quarter_are_exactly_one_gpu_hour():
    assert totals(shared(0.25, 0.25, 0.25, 0.25).judge(), "job_id") == dict.fromkeys(
        (1, 2, 3, 4), HOUR // 4
    )


def test_three_equal_jobs_lose_no_millisecond():
    # 10,000 ms a window: 3,334 + 3,333 + 3,333
    assert totals(shared(None, None, None).judge(), "job_id") == {
        1: 360 * 3_334,
        2: 360 * 3_333,
        3: 360 * 3_333,
    }


def test_what_shares_leave_is_free():
    assert totals(shared(0.25, 0.5).judge(), "job_id", "state") == {
        (1, "useful"): HOUR // 4,
        (2, "useful"): HOUR // 2,
        (None, "free"): HOUR // 4,
    }


def test_what_shares_leave_is_not_called_free_where_no_window_says_whether_it_works():
    # 1 GB that may be another's, and no signal of activity: nobody knows, with the holder or without
    mute = replace(shared(0.25, says={"memory_used_bytes": 1e9}), sources=[Reported(ALL)])

    assert totals(mute.judge(), "state") == {"unobserved": HOUR}
    assert totals(replace(mute, holdings=[]).judge(), "state") == {"unobserved": HOUR}


def test_more_than_one_in_sum_is_normalised():
    assert totals(shared(1.0, 3.0).judge(), "job_id") == {1: HOUR // 4, 2: HOUR * 3 // 4}


def test_any_unknown_share_makes_all_equal():
    assert totals(shared(0.25, None).judge(), "job_id") == {1: HOUR // 2, 2: HOUR // 2}


def test_an_idle_holder_pays_its_share_judged_by_its_own_kind():
    holdings = [
        Held([(T0 - 1, T0 + 4 * HOUR)], job_id=1, kind="batch"),
        Held([(T0 - 1, T0 + 4 * HOUR)], job_id=2, kind="service"),
    ]

    judged = Node(row((QUIET, 30 * MINUTE), (BUSY, 210 * MINUTE)), holdings=holdings).judge()

    assert totals(judged, "job_id", "state") == {
        (1, "idle"): 15 * MINUTE,
        (1, "useful"): 105 * MINUTE,
        (2, "stalled"): 15 * MINUTE,
        (2, "useful"): 105 * MINUTE,
    }


def test_two_sources_that_name_one_job_are_one_holder():
    holdings = [Held(ALL, source="slurm", share=0.5), Held(ALL, source="process", share=None)]

    assert totals(Node(row((BUSY, HOUR)), hours=1, holdings=holdings).judge(), "job_id") == {
        7: HOUR
    }


def test_the_share_may_change_while_the_job_goes_on():
    holdings = [
        Held([(T0, T0 + HOUR // 2)], share=0.5),
        Held([(T0 + HOUR // 2, T0 + HOUR)], share=1.0),
    ]

    assert totals(Node(row((BUSY, HOUR)), hours=1, holdings=holdings).judge()) == {
        "useful": HOUR * 3 // 4,
        "free": HOUR // 4,
    }


# --- MIG ---


def mig(*weights, says=BUSY, holdings=None, parent_says=None, **fields):
    instances = [
        a_gpu(10 + number, parent_id=1, weight=weight, end_ms=T0 + HOUR, idle_w=None, limit_w=None)
        for number, weight in enumerate(weights)
    ]
    windows = [one for instance in instances for one in row((says, HOUR), gpu_id=instance.gpu_id)]
    windows += row((parent_says or {"power_w": 470.0, "energy_j": 4_700.0}, HOUR))
    held = [Held(ALL, gpu_id=instance.gpu_id, job_id=instance.gpu_id) for instance in instances]
    return Node(
        windows, hours=1, capacities=[a_gpu(end_ms=T0 + HOUR), *instances],
        holdings=held if holdings is None else holdings,
        sources=[Reported(ALL)], **fields,
    )  # fmt: skip


def test_instances_are_parts_of_their_parent_and_never_added_capacity():
    judged = mig(0.25, 0.5).judge()

    assert totals(judged, "gpu_id", "state") == {
        (10, "useful"): HOUR // 4,
        (11, "useful"): HOUR // 2,
        (1, "free"): HOUR // 4,
    }


def test_each_instance_has_its_own_state():
    judged = mig(0.25, 0.5, says=EMPTY, holdings=[Held(ALL, gpu_id=10, job_id=10)]).judge()

    assert totals(judged, "gpu_id", "state") == {
        (10, "idle"): HOUR // 4,
        (11, "free"): HOUR // 2,
        (1, "free"): HOUR // 4,
    }


def test_a_slice_without_counters_is_free_where_nobody_holds_it_and_unobserved_where_somebody_does():
    """An A100 of three 2g.20gb: one with counters, one without, one empty and free; the seventh
    slice is the parent's.
    """
    seventh = HOUR / 7
    no_counters = {"memory_used_bytes": 10 * 2**20, "process_count": 0}
    node = mig(
        2 / 7,
        2 / 7,
        2 / 7,
        holdings=[Held(ALL, gpu_id=gpu_id, job_id=gpu_id) for gpu_id in (10, 11)],
    )
    windows = [
        replace(one, says=no_counters) if one.gpu_id in (11, 12) else one for one in node.windows
    ]

    found = totals(replace(node, windows=windows).judge())

    assert found == {
        state: pytest.approx(parts * seventh, abs=360)
        for state, parts in (("useful", 2), ("unobserved", 2), ("free", 3))
    }


def test_who_was_given_the_whole_gpu_holds_its_instances_while_nobody_was_given_those():
    half = T0 + HOUR // 2
    holdings = [Held(ALL, gpu_id=1, job_id=1), Held([(half, T0 + HOUR)], gpu_id=10, job_id=10)]

    judged = mig(0.25, 0.5, holdings=holdings, parent_says=BUSY).judge()

    assert totals(judged, "gpu_id", "job_id") == {
        (10, 1): HOUR // 8,
        (10, 10): HOUR // 8,
        (11, 1): HOUR // 2,
        (1, 1): HOUR // 4,
    }
    assert totals(judged) == {"useful": HOUR}


def test_energy_is_read_from_the_parent_once():
    judged = mig(0.25, 0.5, says=BUSY | {"energy_j": 4_700.0}).judge()

    assert sum(one.energy_j for one in judged.entries) == pytest.approx(360 * 4_700.0)


def test_the_rest_of_a_silent_parent_is_unobserved():
    node = mig(0.5)
    silent = Node([], hours=1, capacities=node.capacities, holdings=node.holdings)

    assert totals(silent.judge(), "gpu_id", "state") == {
        (10, "unobserved"): HOUR // 2,
        (1, "unobserved"): HOUR // 2,
    }


def test_weights_beyond_one_are_normalised():
    assert totals(mig(0.75, 0.75).judge(), "gpu_id") == {10: HOUR // 2, 11: HOUR // 2}


# --- whole numbers ---


@given(
    st.lists(
        st.tuples(st.integers(0, 300_000), st.lists(st.floats(0, 1), min_size=5, max_size=5)),
        min_size=1,
        max_size=20,
    )
)
def test_parts_are_whole_close_to_their_weight_and_sum_to_the_total(cells):
    total = np.array([one for one, _ in cells], dtype=np.int64)
    weights = np.array([parts if sum(parts) else [1.0, 0, 0, 0, 0] for _, parts in cells])
    weights /= weights.sum(axis=1, keepdims=True)

    parts = largest_remainder(total, weights)

    assert (parts.sum(axis=1) == total).all()
    assert (parts >= 0).all()
    assert (np.abs(parts - total[:, None] * weights) < 1.001).all()


def test_of_equal_remainders_the_first_is_rounded_up():
    assert largest_remainder(np.array([W]), np.array([[1 / 3, 1 / 3, 1 / 3]])).tolist() == [
        [3_334, 3_333, 3_333]
    ]


@pytest.mark.parametrize("holders", [3, 127, 128, 400])
def test_more_holders_than_a_byte_counts_share_without_losing_or_making_time(holders):
    weights = np.full((2, holders), 1 / holders)

    parts = largest_remainder(np.array([60_000, 7]), weights)

    assert parts.sum(axis=1).tolist() == [60_000, 7]
    assert parts.min() >= 0
