"""A card outside every catalogue: judged by its limit until what it draws at idle is learned from
it, or set.
"""

from datetime import date, timedelta

import pytest

from fleetwatch.ledger import idle_power
from fleetwatch.ledger.idle_power import IdlePowerError
from fleetwatch.ledger.models import Entry, IdlePower
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.services import post as post_touched
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry.models import TouchedHour
from tests.ledger.factories import HOUR, Node, a_gpu, row, totals
from tests.ledger.factories import T0 as PURE_T0
from tests.ledger.fleet import BUSY, EMPTY, GIB, MINUTE, NOW, QUIET, T0, Sender, a_job, held, post

UNKNOWN = "NVIDIA RTX 9999"
LIMIT_W = 400.0
JOB = {"jobs": [a_job()], "allocations": [held(start=T0 + HOUR_MS)]}


# --- what is judged (pure) ---

WORK = {"util_mean": 1.0, "util_max": 1.0, "memory_used_bytes": 20 * GIB, "process_count": 1}


def judged(says, **board):
    return Node(
        row((says, HOUR)), hours=1, capacities=[a_gpu(end_ms=PURE_T0 + HOUR, **board)]
    ).judge()


@pytest.mark.parametrize(
    ("says", "state"),
    [
        ({"power_w": 0.25 * LIMIT_W - 0.1}, "stalled"),
        ({"power_w": 0.25 * LIMIT_W}, "useful"),
        ({"power_w": 20.0, "util_mean": 0.94}, "useful"),
        ({"power_w": 20.0, "tensor_active": 0.3, "sm_active": 0.85}, "useful"),
        ({}, "useful"),
    ],
)
def test_full_utilisation_below_a_quarter_of_the_limit_is_busy_waiting_where_idle_power_is_not_known(
    says, state
):
    found = totals(judged(WORK | says, idle_w=None, limit_w=LIMIT_W))

    assert max(found, key=lambda name: found[name]) == state
    assert ("stalled" in found) == (state == "stalled")


def test_what_is_only_utilisation_says_so():
    found = totals(
        judged(WORK | {"power_w": 300.0}, idle_w=None, limit_w=LIMIT_W),
        "state",
        "efficiency_source",
    )

    assert found == {("useful", "none"): HOUR}


@pytest.mark.parametrize("limit_w", [400.0, 250.0, 300.0, 700.0, 500.0, 450.0, None])
def test_a_board_without_a_limit_is_judged_by_nothing_else(limit_w):
    """S28: 100 % at idle power on cards outside the catalogue."""
    found = totals(judged(WORK | {"power_w": 60.0}, idle_w=None, limit_w=limit_w))

    assert found == ({"useful": HOUR} if limit_w is None else {"stalled": HOUR})


def test_of_several_values_the_one_counts_that_was_in_force_when_the_window_began():
    half = PURE_T0 + HOUR // 2
    steps = ((PURE_T0 - HOUR, 20.0), (half, 100.0))

    # (150 - 20) / 380 = 0.34 works; (150 - 100) / 300 = 0.17 waits
    found = totals(
        judged(WORK | {"power_w": 150.0}, idle_w=None, limit_w=LIMIT_W, idle_steps=steps)
    )

    assert found["stalled"] == HOUR // 2
    assert (
        totals(judged(WORK | {"power_w": 150.0}, idle_w=90.0, limit_w=LIMIT_W, idle_steps=steps))
        == found
    )


def test_before_its_first_value_a_board_is_judged_by_its_model():
    steps = ((PURE_T0 + HOUR, 20.0),)

    assert totals(
        judged(WORK | {"power_w": 150.0}, idle_w=100.0, limit_w=LIMIT_W, idle_steps=steps)
    ) == {"stalled": HOUR}


# --- what is learned ---


def a_sender(node="n1", limit_w=LIMIT_W):
    """An agent whose one GPU no catalogue has."""
    gpu = {"uuid": f"GPU-{node}", "index": 0, "model": UNKNOWN, "power_limit_w": limit_w}
    return Sender(node, gpus=0, extra_gpus=[gpu])


def watts(*values):
    return [EMPTY | {"power_w": value} for value in values]


def learned():
    return [(one.watts, one.readings, one.condition) for one in IdlePower.objects.order_by("pk")]


pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("minutes", "expected"), [(14, []), (15, [(20.0, 15, "free")]), (16, [(20.0, 16, "free")])]
)
def test_it_is_learned_from_a_quarter_of_an_hour_that_nobody_held(minutes, expected):
    post(a_sender().batch(T0, *watts(*[20.0] * minutes)))

    idle_power.learn(NOW, 10)

    assert learned() == expected


def test_it_is_a_low_percentile_and_says_of_how_many_readings_and_when():
    # of 21 readings in order the 5th percentile is the second
    post(a_sender().batch(T0, *watts(19.0, 20.0, *[60.0] * 19)))

    assert idle_power.learn(NOW, 10) == {"looked": 1, "learned": 1}

    row = IdlePower.objects.get()
    assert (row.watts, row.readings, row.first_ms, row.last_ms) == (20.0, 21, T0, T0 + 21 * MINUTE)


def test_nobodys_time_counts_before_that_of_a_holder_whose_context_draws_more():
    resting = [QUIET | {"power_w": 45.0}] * 30
    post(a_sender().batch(T0, *watts(*[20.0] * 60), *resting, **JOB))

    idle_power.learn(NOW, 10)

    assert learned() == [(20.0, 60, "free")]


def test_a_gpu_that_is_never_free_is_learned_from_its_quiet_time():
    allocations = [held(start=T0)]
    post(
        a_sender().batch(
            T0, *[QUIET | {"power_w": 45.0}] * 30, jobs=[a_job()], allocations=allocations
        )
    )

    idle_power.learn(NOW, 10)

    assert learned() == [(45.0, 30, "quiet")]


@pytest.mark.parametrize(
    "says",
    [
        EMPTY,  # power was not read
        EMPTY | {"power_w": 121.0},  # more than three tenths of the limit
        # a counter that is stuck
        BUSY | {"power_w": 20.0, "process_count": 0, "memory_used_bytes": 0},
        EMPTY | {"power_w": 60.0, "encoder_ratio": 0.5},
        EMPTY | {"power_w": 60.0, "sm_active": 0.3},
    ],
)
def test_nothing_is_learned_from_time_that_may_not_be_idle(says):
    post(a_sender().batch(T0, *[says] * 60))

    idle_power.learn(NOW, 10)

    assert learned() == []


def test_it_is_learned_once_and_never_of_a_model_that_is_known_or_a_gpu_that_an_admin_set():
    post(a_sender().batch(T0, *watts(*[20.0] * 60)), Sender("n2").batch(T0, *watts(*[20.0] * 60)))
    post(a_sender("n3").batch(T0, *watts(*[20.0] * 60)))
    idle_power.set_by_hand("GPU-n3", 33.0, by="ann", now=NOW)

    idle_power.learn(NOW, 10)
    idle_power.learn(NOW, 10)

    assert list(IdlePower.objects.order_by("pk").values_list("gpu__uuid", "watts")) == [
        ("GPU-n3", 33.0),
        ("GPU-n1", 20.0),
    ]


def test_what_was_learned_judges_all_open_hours_anew_and_gives_the_work_its_efficiency():
    works = [WORK | {"power_w": 300.0}] * 60
    post(a_sender().batch(T0, *watts(*[20.0] * 60), *works, **JOB))
    assert list(
        Entry.objects.filter(job__isnull=False).values_list("state", "efficiency_source")
    ) == [("useful", "none")]

    idle_power.learn(NOW, 10)
    post_touched(NOW, 100)

    # (300 - 20) / 380 = 0.7368, above 0.65
    assert list(
        Entry.objects.filter(job__isnull=False).values_list("state", "efficiency_source")
    ) == [("useful", "power")]


# --- what an admin sets ---


def test_an_admin_sets_it_for_all_that_is_open():
    post(
        a_sender().batch(
            T0, *[WORK | {"power_w": 110.0}] * 60, jobs=[a_job()], allocations=[held(start=T0)]
        )
    )
    assert Entry.objects.get().state == "useful"

    idle_power.set_by_hand("GPU-n1", 100.0, by="ann", now=NOW)
    post_touched(NOW, 100)

    # (110 - 100) / 300 = 0.03
    assert Entry.objects.get().state == "stalled"
    assert IdlePower.objects.get().set_by == "ann"


def test_closed_months_keep_what_they_were_judged_by():
    post(
        a_sender().batch(
            T0, *[WORK | {"power_w": 110.0}] * 60, jobs=[a_job()], allocations=[held(start=T0)]
        )
    )
    later = NOW + timedelta(days=20)
    closing.close_month(date(2026, 11, 1), by="ann", now=later)

    idle_power.set_by_hand("GPU-n1", 100.0, by="ann", now=later)

    assert not TouchedHour.objects.exists()
    assert Entry.objects.get().state == "useful"


@pytest.mark.parametrize("value", [0.9, 2000.1, float("nan")])
def test_a_value_that_no_board_draws_is_refused(value):
    post(a_sender().batch(T0, *watts(20.0)))

    with pytest.raises(IdlePowerError):
        idle_power.set_by_hand("GPU-n1", value, by="ann", now=NOW)
    assert not IdlePower.objects.exists()


@pytest.mark.parametrize(
    ("value", "is_taken"), [(239.9, True), (240.0, True), (240.1, False), (LIMIT_W, False)]
)
def test_what_no_resting_board_draws_of_its_limit_is_refused(value, is_taken):
    post(a_sender().batch(T0, *watts(20.0)))

    if is_taken:
        idle_power.set_by_hand("GPU-n1", value, by="ann", now=NOW)
    else:
        with pytest.raises(IdlePowerError, match=r"at most 0\.6 of the board's limit of 400 W"):
            idle_power.set_by_hand("GPU-n1", value, by="ann", now=NOW)
    assert IdlePower.objects.exists() == is_taken


def test_an_unknown_gpu_is_refused():
    with pytest.raises(IdlePowerError):
        idle_power.set_by_hand("GPU-nobody", 20.0, by="ann", now=NOW)
