"""What makes a GPU unavailable, and what ends that."""

import pytest

from fleetwatch.ledger.judgement.observations import Outage
from fleetwatch.ledger.judgement.outages import FOREVER_MS, by_events, ended_by_activity
from fleetwatch.ledger.policy import Policy
from tests.ledger.factories import BUSY, MINUTE, QUIET, T0, Told, W, a_gpu, columns, row


def spans(*told, boots=(), gpu_id=1):
    return [
        (one.start_ms, None if one.end_ms == FOREVER_MS else one.end_ms, one.reason)
        for one in by_events(gpu_id, told, boots)
    ]


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("gpu_lost", "gpu_ok"),
        ("recovery_action", "gpu_ok"),
        ("driver_missing", "driver_ok"),
        ("driver_mismatch", "driver_ok"),
        ("drained", "resumed"),
    ],
)
def test_each_kind_of_outage_has_its_own_end(begin, end):
    assert spans(Told(100, begin), Told(200, end)) == [(100, 200, begin)]
    assert spans(Told(100, begin), Told(200, "action_result")) == [(100, None, begin)]
    assert spans(Told(100, begin), boots=[50, 300]) == [(100, 300, begin)]


@pytest.mark.parametrize(
    ("code", "is_down"),
    [
        (79, True),
        (48, True),
        (119, True),
        (147, True),
        (13, False),
        (31, False),
        (94, False),
        (None, False),
    ],
)
def test_only_xids_that_need_a_reset_are_evidence(code, is_down):
    assert spans(Told(100, "xid", code=code)) == ([(100, None, f"xid_{code}")] if is_down else [])


def test_a_harmless_xid_ends_nothing():
    assert spans(Told(100, "gpu_lost"), Told(200, "xid", code=13)) == [(100, None, "gpu_lost")]


def test_an_xid_of_no_gpu_accuses_none_but_a_missing_driver_concerns_all():
    assert spans(Told(100, "xid", gpu_id=None, code=79)) == []
    assert spans(Told(100, "driver_missing", gpu_id=None)) == [(100, None, "driver_missing")]
    assert spans(Told(100, "gpu_lost", gpu_id=2)) == []
    assert spans(Told(100, "gpu_lost", gpu_id=None)) == []


def test_a_recovery_action_of_zero_is_the_end():
    assert spans(Told(100, "recovery_action", code=2), Told(200, "recovery_action", code=0)) == [
        (100, 200, "recovery_action")
    ]


def test_said_twice_or_in_any_order_it_is_the_same():
    told = [
        Told(100, "gpu_lost"),
        Told(150, "gpu_lost"),
        Told(200, "gpu_ok"),
        Told(300, "gpu_lost"),
    ]

    assert (
        spans(*told)
        == spans(*reversed(told))
        == spans(*told, *told)
        == [(100, 200, "gpu_lost"), (300, None, "gpu_lost")]
    )


@pytest.mark.parametrize(
    ("windows", "end_ms"),
    [
        (row((QUIET, MINUTE), (BUSY, 5 * MINUTE)), T0 + MINUTE),
        (row((QUIET, MINUTE), (BUSY, 5 * MINUTE - W)), None),
        (row((BUSY, 3 * MINUTE), (QUIET, W), (BUSY, 3 * MINUTE)), None),
        (row((BUSY, 3 * MINUTE), (None, 3 * W), (BUSY, 2 * MINUTE)), T0),
        (row((BUSY, 3 * MINUTE), (None, 4 * W), (BUSY, 3 * MINUTE)), None),
        (row((BUSY | {"spin_fraction": 1.0}, 10 * MINUTE)), None),
        ([], None),
    ],
)
def test_five_minutes_of_work_end_it_where_they_begin(windows, end_ms):
    outage = Outage(T0, FOREVER_MS, "xid_109")

    ended = ended_by_activity(outage, gpu=a_gpu(), windows=columns(windows), policy=Policy())

    assert ended.end_ms == (FOREVER_MS if end_ms is None else end_ms)


def test_a_drain_is_ended_by_no_activity():
    drain = Outage(T0, FOREVER_MS, "drained")

    assert (
        ended_by_activity(
            drain, gpu=a_gpu(), windows=columns(row((BUSY, 10 * MINUTE))), policy=Policy()
        )
        == drain
    )
