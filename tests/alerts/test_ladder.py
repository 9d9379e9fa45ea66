from dataclasses import replace
from datetime import timedelta

import pytest

from fleetwatch.alerts.messaging.ladder import Due, Pace, Standing, due
from tests.alerts.factories import at

PACE = Pace(escalate_minutes=60, remind_minutes=240)
OPENED = Standing(is_pressing=True, stepped_at=at(0))


def test_what_presses_and_was_not_told_is_opened():
    assert due(Standing(is_pressing=True), PACE, has_next=True, now=at(0)) == Due.OPEN


@pytest.mark.parametrize(("minutes", "what"), [(59.99, Due.NOTHING), (60, Due.CLIMB)])
def test_the_next_step_is_due_when_nobody_answered_for_so_long(minutes, what):
    assert due(OPENED, PACE, has_next=True, now=at(minutes)) == what


def test_what_is_acknowledged_muted_or_without_data_climbs_and_reminds_no_further():
    answered = replace(OPENED, is_pressing=False)

    assert due(answered, PACE, has_next=True, now=at(10_000)) == Due.NOTHING
    assert due(Standing(is_pressing=False), PACE, has_next=True, now=at(0)) == Due.NOTHING


@pytest.mark.parametrize(("minutes", "what"), [(239.99, Due.NOTHING), (240, Due.REMIND)])
def test_at_the_top_there_are_reminders(minutes, what):
    assert due(OPENED, PACE, has_next=False, now=at(minutes)) == what


@pytest.mark.parametrize(("minutes", "what"), [(479.99, Due.NOTHING), (480, Due.REMIND)])
def test_the_next_reminder_counts_from_the_last(minutes, what):
    reminded = replace(OPENED, reminded_at=at(240))

    assert due(reminded, PACE, has_next=False, now=at(minutes)) == what


def test_zero_minutes_are_never():
    never = Pace(escalate_minutes=0, remind_minutes=0)

    assert due(OPENED, never, has_next=True, now=at(0) + timedelta(days=400)) == Due.NOTHING


def test_one_step_at_a_time_however_late_it_is():
    late = at(100_000)

    assert due(OPENED, PACE, has_next=True, now=late) == Due.CLIMB
    assert due(replace(OPENED, stepped_at=late), PACE, has_next=True, now=late) == Due.NOTHING
