"""The policy: every threshold named, kept as JSON, versioned."""

from dataclasses import fields

import pytest

from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy


def test_every_threshold_has_a_unit_and_a_reason():
    assert all(one.metadata["unit"] and one.metadata["reason"] for one in fields(Policy))


def test_a_policy_survives_its_row():
    assert Policy.from_json(Policy(idle_batch_s=600).to_json()) == Policy(idle_batch_s=600)


@pytest.mark.parametrize(
    "thresholds",
    [{"idle_batch": 900}, {"idle_batch_s": "900"}, {"idle_batch_s": -1}, {"idle_batch_s": True}],
)
def test_a_threshold_that_is_none_is_refused(thresholds):
    with pytest.raises(ValueError, match="idle_batch"):
        Policy.from_json(thresholds)


def test_what_an_older_row_does_not_name_has_its_default():
    assert Policy.from_json({"idle_batch_s": 600}) == Policy(idle_batch_s=600)


@pytest.mark.django_db
def test_the_first_policy_comes_with_the_database_and_is_the_defaults():
    row = PolicyRow.objects.get()

    assert (row.version, Policy.from_json(row.thresholds)) == (1, Policy())
    assert current_policy() == (row.pk, Policy())


@pytest.mark.django_db
def test_a_database_without_a_policy_gets_the_first():
    PolicyRow.objects.all().delete()

    policy_id, policy = current_policy()

    assert (PolicyRow.objects.get().pk, policy) == (policy_id, Policy())
