"""What people decide is written down, changes the status, and never lasts for ever by accident."""

from datetime import timedelta

import pytest

from fleetwatch.accounts.models import User
from fleetwatch.diagnosis.findings.deciding import (
    KINDS,
    LONGEST_SNOOZE,
    Decision,
    assignee,
    decide,
)
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.refusal import RefusedFieldError
from tests.diagnosis.told import DAY, NOW, finding

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return User.objects.create(username="ann", role=User.Role.ADMIN)


@pytest.mark.parametrize(
    ("action", "status"),
    [
        ("accept", "accepted"),
        ("dismiss", "dismissed"),
        ("fixed", "fixed"),
        ("reopen", "open"),
        ("confirm", "open"),
    ],
)
def test_a_decision_is_written_down_and_sets_the_status(admin, action, status):
    one = finding()

    decide(one.pk, Decision(action, "as agreed"), by=admin, now=NOW)

    one.refresh_from_db()
    said = one.said.get()
    assert (one.status, said.kind, said.by, said.note, said.at) == (
        status,
        KINDS[action],
        admin,
        "as agreed",
        NOW,
    )
    assert one.decided_at == (None if action == "confirm" else NOW)


@pytest.mark.parametrize("until", [None, NOW, NOW + LONGEST_SNOOZE + timedelta(seconds=1)])
def test_a_snooze_has_an_end_within_three_months(admin, until):
    one = finding()

    with pytest.raises(RefusedFieldError, match="it ends: name a moment"):
        decide(one.pk, Decision("snooze", until=until), by=admin, now=NOW)

    assert not one.said.exists()


def test_whatever_follows_a_snooze_ends_it(admin):
    one = finding()
    decide(one.pk, Decision("snooze", until=NOW + DAY), by=admin, now=NOW)
    assert Finding.objects.get().snoozed_until == NOW + DAY

    decide(one.pk, Decision("accept"), by=admin, now=NOW)

    assert (Finding.objects.get().status, Finding.objects.get().snoozed_until) == ("accepted", None)


def test_an_assignment_says_to_whom_and_leaves_the_status(admin):
    one = finding()

    decide(one.pk, Decision("assign", assignee=admin), by=admin, now=NOW)
    decide(one.pk, Decision("assign"), by=admin, now=NOW)

    assert [said.note for said in one.said.order_by("pk")] == ["to ann", "to nobody"]
    assert (Finding.objects.get().assignee, Finding.objects.get().status) == (None, "open")


@pytest.mark.parametrize(
    ("decision", "field"),
    [
        (Decision("dismiss", " "), "note"),
        (Decision("reject"), "note"),
        (Decision("accept", "x" * 501), "note"),
        (Decision("accept", "a\x00b"), "note"),
        (Decision("burn"), "action"),
    ],
)
def test_what_can_not_be_taken_says_which_field(admin, decision, field):
    one = finding()

    with pytest.raises(RefusedFieldError) as refused:
        decide(one.pk, decision, by=admin, now=NOW)

    assert refused.value.field == field


def test_a_fix_that_is_told_again_from_an_old_page_still_began_when_it_was_told_first(admin):
    one = finding()

    decide(one.pk, Decision("fixed"), by=admin, now=NOW)
    decide(one.pk, Decision("fixed"), by=admin, now=NOW + DAY)

    assert Finding.objects.get().decided_at == NOW
    assert one.said.count() == 2


def test_a_fix_that_is_told_after_it_was_open_again_is_a_new_one(admin):
    one = finding()

    for days, action in enumerate(("fixed", "reopen", "fixed")):
        decide(one.pk, Decision(action), by=admin, now=NOW + days * DAY)

    assert Finding.objects.get().decided_at == NOW + 2 * DAY


def test_a_later_snooze_goes_before(admin):
    one = finding()

    for days in (7, 1):
        decide(one.pk, Decision("snooze", until=NOW + days * DAY), by=admin, now=NOW)

    assert Finding.objects.get().snoozed_until == NOW + DAY


@pytest.mark.parametrize("name", ["bob", "gone", "an\x00n2"])
def test_nobody_is_assigned_by_a_name_that_no_active_user_has(admin, name):
    User.objects.create(username="gone", is_active=False)

    with pytest.raises(RefusedFieldError, match="no active user"):
        assignee(name)


def test_an_assignee_is_an_active_user_or_nobody(admin):
    assert assignee("ann") == admin
    assert assignee("") is None
