"""Where a GPU was when: what a node is believed, as pure spans of minutes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.inventory.stays import (
    AHEAD_MS,
    Reported,
    capacity,
    gone,
    is_ahead,
    is_silent,
    joined,
    spans_of,
)
from fleetwatch.lib.spans import length_ms, union

MINUTE = 60_000


def minutes(*spans):
    return [(start * MINUTE, end * MINUTE) for start, end in spans]


@pytest.mark.parametrize(("gap", "stays"), [(599_999, 1), (600_000, 2)])
def test_a_stay_ends_where_no_window_is_for_ten_minutes(gap, stays):
    assert len(joined([(0, 10_000), (10_000 + gap, 20_000 + gap)])) == stays


def test_windows_become_stays_whatever_their_order():
    assert spans_of([20_000, 0, 10_000, 900_000], 10_000) == [(0, 30_000), (900_000, 910_000)]


def test_a_gpu_that_nobody_else_reports_is_believed():
    reported = Reported([], [], []).take(minutes((0, 5)), may_move=False)

    assert reported == Reported(minutes((0, 5)), [], [])


def test_what_lies_after_another_nodes_windows_waits_until_the_move_is_believed():
    there = Reported([], [], minutes((0, 60)))

    waiting = there.take(minutes((61, 66)), may_move=False)
    believed = waiting.take(minutes((66, 70)), may_move=True)

    assert (waiting.own, waiting.disputed) == ([], minutes((61, 66)))
    assert (believed.own, believed.disputed) == (minutes((61, 70)), [])


@pytest.mark.parametrize("may_move", [False, True])
def test_nothing_is_believed_over_time_that_another_node_observed(may_move):
    reported = Reported([], [], minutes((10, 60))).take(minutes((0, 30)), may_move=may_move)

    assert (reported.own, reported.disputed) == (minutes((0, 10)), minutes((10, 30)))


def test_a_late_spool_finds_its_place_before_the_move():
    reported = Reported(minutes((0, 30)), [], minutes((60, 90))).take(
        minutes((30, 58)), may_move=False
    )

    assert (reported.own, reported.disputed) == (minutes((0, 58)), [])


def test_a_stay_does_not_reach_over_a_short_one_of_another_node():
    reported = Reported(minutes((0, 30)), [], minutes((32, 34))).take(
        minutes((36, 50)), may_move=True
    )

    assert reported.own == minutes((0, 32), (34, 50))


def test_the_node_that_has_the_gpu_goes_on_though_another_had_it_before():
    reported = Reported(minutes((60, 90)), [], minutes((0, 30))).take(
        minutes((90, 95)), may_move=False
    )

    assert reported.own == minutes((60, 95))


@pytest.mark.parametrize(
    ("own", "others", "end", "spans"),
    [
        ([(0, 10)], [], 15, [(0, 15)]),  # there still: until the node's newest sign of life
        ([(0, 10)], [(20, 30)], 40, [(0, 10)]),  # elsewhere since: until its last window
        ([(0, 10), (30, 40)], [], 45, [(0, 45)]),  # nobody saw it in between
        ([(0, 10), (30, 40)], [(15, 25)], 45, [(0, 10), (30, 45)]),  # it was elsewhere in between
        ([(0, 10), (30, 40)], [(15, 25), (50, 60)], 70, [(0, 10), (30, 40)]),
        ([(20, 30)], [(0, 10)], 35, [(20, 35)]),
        ([], [(0, 10)], 35, []),
    ],
)
def test_capacity_is_from_the_first_window_until_the_gpu_was_elsewhere(own, others, end, spans):
    assert capacity(own, others, end) == spans


@pytest.mark.parametrize(("silent_ms", "is_left"), [(599_999, False), (600_000, True)])
def test_a_node_is_silent_after_ten_minutes_by_the_hubs_clock(silent_ms, is_left):
    assert is_silent(1_000_000, 1_000_000 + silent_ms) is is_left


@pytest.mark.parametrize(("ahead_ms", "is_too_far"), [(AHEAD_MS, False), (AHEAD_MS + 1, True)])
def test_windows_ahead_of_now_move_nothing(ahead_ms, is_too_far):
    assert is_ahead([(0, 1_000_000 + ahead_ms)], 1_000_000) is is_too_far


# a GPU at three nodes one after the other, told in pieces of some minutes that come in any order
# and twice
PIECES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 19), st.integers(1, 10)), min_size=1, max_size=30
)


@given(pieces=PIECES, order=st.randoms(use_true_random=False))
def test_moves_commute_with_late_batches_and_nothing_observed_is_lost(pieces, order):
    # node n has the GPU in [n x 30, n x 30 + 30) minutes; everybody is silent by the time that
    # these come
    told = [
        (node, minutes((node * 30 + start, node * 30 + start + length)))
        for node, start, length in pieces
    ]
    late = [*told, *told[: len(told) // 2]]
    order.shuffle(late)

    assert stays_of(late) == stays_of(told)
    for node, stays in stays_of(late).items():
        seen = union(span for number, spans in told if number == node for span in spans)
        assert length_ms(union([*stays, *seen])) == length_ms(stays)


def stays_of(told):
    """The stays of each node after the pieces came in this order, as registration makes them of
    them.
    """
    believed = {0: [], 1: [], 2: []}
    disputed = {0: [], 1: [], 2: []}
    for node, spans in told:
        others = sorted(
            span for other, stays in believed.items() if other != node for span in stays
        )
        after = Reported(believed[node], disputed[node], others).take(spans, may_move=True)
        believed[node], disputed[node] = after.own, after.disputed
    assert not any(disputed.values())
    return believed


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ([], []),
        ([50], []),  # before it lived
        ([150], []),  # it lived on
        ([200], [200]),
        ([250, 260], [200]),
        ([250, 450], [200, 400]),
    ],
)
def test_a_node_is_gone_from_the_end_of_what_it_lived_before_it_was_said(said, ends):
    assert gone([(100, 200), (300, 400)], said) == ends
