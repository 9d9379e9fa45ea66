"""Time by hour and state, a node's day in one row: the same as the entries say, and never older
than they are.
"""

from datetime import timedelta

import numpy as np
import pytest

from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import retention, state_days
from fleetwatch.ledger.dominant_states import dominant
from fleetwatch.ledger.models import StateDay
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.ledger.fleet import BUSY, EMPTY, NOW, QUIET, T0, Sender, a_job, held, hour, post

pytestmark = pytest.mark.django_db

DAY_OVER = hour(18) + state_days.SETTLED  # the UTC day of T0 (06:00) ends 18 hours later
WORKING = BUSY | {"sm_active": 0.9}
JOB = {"jobs": [a_job()], "allocations": [held()]}


def seen(start, end, *, hours=1):
    """The states of the one GPU's steps, None where nothing is known."""
    gpu = GPU.objects.get()
    steps = dominant([gpu.pk], Interval(hour(start), hour(end)), step_ms=hours * HOUR_MS)[0]
    return [None if step < 0 else SHOWN_STATES[step] for step in steps.tolist()]


def test_a_step_is_the_state_that_took_most_of_it_and_unknown_without_entries():
    sender = Sender()
    post(
        sender.batch(
            T0,
            *[WORKING] * 60,
            *[QUIET] * 60,
            *[EMPTY] * 60,
            jobs=[a_job()],
            allocations=[held(end=T0 + 2 * HOUR_MS)],
        )
    )

    assert seen(-1, 4) == [None, "useful", "idle", "free", None]
    # 06:00 to 08:00: an hour of each, the first by name; then an hour of free
    assert seen(0, 4, hours=2) == ["idle", "free"]


def test_kept_days_say_what_entries_say():
    post(Sender().batch(T0, *[BUSY] * 40, *[QUIET] * 80, **JOB))
    from_entries = seen(-2, 4), seen(0, 4, hours=2)

    assert state_days.refresh(DAY_OVER, 100) == {"state_days": 1}

    assert StateDay.objects.count() == 1
    assert (seen(-2, 4), seen(0, 4, hours=2)) == from_entries


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_only_utilisation_tells_and_what_a_service_waits_stand_apart(is_kept):
    sender = Sender()
    batch, service = a_job(), a_job("slurm/della/8", kind="service")
    working = {"jobs": [batch], "allocations": [held(end=T0 + 2 * HOUR_MS)]}
    waiting = {"jobs": [service], "allocations": [held(start=T0 + 2 * HOUR_MS)]}
    post(
        sender.batch(T0, *[WORKING] * 60, *[BUSY] * 60, **working),
        # an hour of quiet and one busy minute: a service that waits for less than it takes to be idle
        sender.batch(T0 + 2 * HOUR_MS, *[BUSY], *[QUIET] * 58, *[BUSY], **waiting),
    )

    if is_kept:
        state_days.refresh(DAY_OVER, 100)

    assert StateDay.objects.exists() is is_kept
    assert seen(0, 3) == ["useful", "unverified", "waiting"]


def test_a_day_is_kept_only_once_it_is_over():
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))

    assert state_days.refresh(DAY_OVER - timedelta(seconds=1), 100) == {"state_days": 0}
    assert state_days.refresh(DAY_OVER, 100) == {"state_days": 1}
    assert state_days.refresh(DAY_OVER, 100) == {"state_days": 0}


def test_a_row_older_than_its_entries_is_not_read_and_made_again():
    sender = Sender()
    post(sender.batch(T0, *[QUIET] * 60, **JOB))
    state_days.refresh(DAY_OVER, 100)

    post(sender.batch(T0 + HOUR_MS, *[WORKING] * 60, **JOB))

    assert seen(0, 2) == ["idle", "useful"]
    assert state_days.refresh(DAY_OVER, 100) == {"state_days": 1}
    assert seen(0, 2) == ["idle", "useful"]


def test_a_gpu_that_is_not_asked_for_is_left_out():
    post(Sender(gpus=2).batch(T0, *[EMPTY] * 60))
    gpus = list(GPU.objects.order_by("-index").values_list("pk", flat=True))
    state_days.refresh(DAY_OVER, 100)

    steps = dominant([0, gpus[0]], Interval(hour(0), hour(1)), step_ms=HOUR_MS)

    assert np.array_equal(steps, [[-1], [SHOWN_STATES.index("free")]])


def test_rows_go_with_the_days_of_the_ledger(settings):
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    state_days.refresh(DAY_OVER, 100)
    settings.LEDGER_RETENTION_DAYS = 2

    retention.apply(NOW + timedelta(days=4))

    assert not StateDay.objects.exists()
