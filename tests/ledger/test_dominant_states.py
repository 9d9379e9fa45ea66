"""The state that took most of each step: kept by the process while the entries are the same."""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.dominant_states import UNKNOWN, _Day, dominant
from fleetwatch.ledger.models import Entry
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.kept import Kept
from tests.ledger.fleet import BUSY, QUIET, T0, Sender, a_job, held, hour, post

DAY = date(2026, 11, 20)
JOB = {"jobs": [a_job()], "allocations": [held()]}


def seen(start, end, *, hours=1):
    """The states of the one GPU's steps, None where nothing is known."""
    gpu = GPU.objects.get()
    steps = dominant([gpu.pk], Interval(hour(start), hour(end)), step_ms=hours * HOUR_MS)[0]
    return [None if step == UNKNOWN else SHOWN_STATES[step] for step in steps.tolist()]


@pytest.mark.django_db
def test_a_day_is_not_read_again_while_its_version_is_the_same():
    post(Sender().batch(T0, *[QUIET] * 60, **JOB))
    before = seen(0, 2)

    Entry.objects.all().delete()  # behind the ledger's back: no version says so

    assert before == ["idle", None]
    assert seen(0, 2) == before
    # in other steps, and in those that a UTC day does not part, it is read
    assert seen(0, 2, hours=2) == [None]


@pytest.mark.django_db
def test_what_is_posted_later_is_seen_at_once():
    sender = Sender()
    post(sender.batch(T0, *[QUIET] * 60, **JOB))
    assert seen(0, 2) == ["idle", None]

    post(sender.batch(T0 + HOUR_MS, *[BUSY] * 60, **JOB))

    assert seen(0, 2) == ["idle", "unverified"]


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [2, 8, 24])
def test_steps_of_a_day_begin_with_it_and_those_of_other_hours_are_as_they_are_asked(hours):
    post(Sender().batch(T0, *[QUIET] * 60, *[BUSY] * 120, **JOB))

    # from 05:00 on no step of these is one of the UTC day's: it is read as it is asked for
    assert seen(-1, hours - 1, hours=hours) == ["idle" if hours == 2 else "unverified"]


def of_one(gpu_id, state):
    """A UTC day of one GPU in one step: 9 bytes."""
    return _Day(np.array([gpu_id]), np.array([[state]], dtype=np.int8))


def test_the_day_that_was_asked_for_longest_ago_makes_way():
    kept = Kept(most_bytes=18)
    version = Decimal(1)
    kept.keep((DAY, 24), version, of_one(1, 3))
    kept.keep((DAY, 12), version, of_one(1, 4))
    kept.read((DAY, 24), version)

    kept.keep((DAY, 8), version, of_one(1, 5))

    assert kept.read((DAY, 12), version) is None
    assert [kept.read((DAY, hours), version).states[0, 0] for hours in (24, 8)] == [3, 5]


def test_a_day_of_another_version_is_not_kept_and_one_too_large_for_all_room_neither():
    kept = Kept(most_bytes=9)
    kept.keep((DAY, 24), Decimal(1), of_one(1, 3))

    assert kept.read((DAY, 24), Decimal(2)) is None

    kept.keep((DAY, 24), Decimal(2), _Day(np.array([1]), np.array([[3, 4]], dtype=np.int8)))
    assert kept.read((DAY, 24), Decimal(2)) is None
    kept.keep((DAY, 24), Decimal(2), of_one(1, 3))
    assert kept.read((DAY, 24), Decimal(2)) is not None
