"""Which Unix user people are, by rules: at once, for who comes later, and no longer when one ends."""

import pytest

from fleetwatch.accounts.models import AuditEntry, Identity, NameRule
from fleetwatch.accounts.names.name_rule_changes import NewNameRule, drop_rule, dry_run, set_rule
from fleetwatch.accounts.people import (
    Name,
    NewPerson,
    create_person,
    deactivate,
    give_name,
    set_email,
)
from fleetwatch.lib.refusal import RefusedFieldError
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db

BY_NAME = NewNameRule("username")
BY_ADDRESS = NewNameRule("email", "example.org")


@pytest.fixture
def ann():
    return create_person(NewPerson("ann", "Ann.Lee@Example.org", "admin"), now=NOW)


@pytest.fixture
def bo():
    return create_person(NewPerson("bo", "bob@else.org"), now=NOW)


def names() -> set[tuple[str, str, str]]:
    rows = Identity.objects.filter(confirmed_at__isnull=False, system="unix")
    return {(row.user.username, row.cluster, row.name) for row in rows}


@pytest.mark.usefixtures("ann", "bo")
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (BY_NAME, {("ann", "", "ann"), ("bo", "", "bo")}),
        (NewNameRule("username", cluster="alps"), {("ann", "alps", "ann"), ("bo", "alps", "bo")}),
        (BY_ADDRESS, {("ann", "", "ann.lee")}),
        (NewNameRule("email", "@EXAMPLE.ORG"), {("ann", "", "ann.lee")}),
        (NewNameRule("email", "ample.org"), set()),
    ],
)
def test_a_rule_names_everybody_it_speaks_of_at_once(rule, expected):
    given = set_rule(rule, now=NOW)

    assert names() == expected == {(each.user, each.cluster, each.name) for each in given}
    assert AuditEntry.objects.filter(action="name.give").count() == len(expected)


@pytest.mark.usefixtures("ann", "bo")
def test_what_it_would_give_is_shown_and_nothing_is_written():
    before = AuditEntry.objects.count()

    would = dry_run(BY_NAME, now=NOW)

    assert [(each.user, each.name, each.refused) for each in would] == [
        ("ann", "ann", ""),
        ("bo", "bo", ""),
    ]
    assert (NameRule.objects.count(), names(), AuditEntry.objects.count()) == (0, set(), before)


def test_who_comes_later_and_who_has_another_address_follow_it(bo):
    set_rule(BY_NAME, now=NOW)
    set_rule(BY_ADDRESS, now=NOW)
    create_person(NewPerson("cy", "cyril@example.org"), now=NOW)
    set_email(bo, "bob@example.org")
    assert names() == {
        ("bo", "", "bo"),
        ("bo", "", "bob"),
        ("cy", "", "cy"),
        ("cy", "", "cyril"),
    }

    set_email(bo, "bob@else.org")

    assert ("bo", "", "bob") not in names()


def test_a_name_that_is_somebody_elses_stays_theirs(ann, bo):
    give_name(ann, Name("unix", "bo"), source="admin", now=NOW)

    [given, refused] = set_rule(BY_NAME, now=NOW)

    assert (given.user, given.refused) == ("ann", "")
    assert (refused.user, refused.name) == ("bo", "bo")
    assert "somebody else’s" in refused.refused
    assert names() == {("ann", "", "bo"), ("ann", "", "ann")}
    assert not bo.identities.exists()


def test_a_name_that_an_admin_gave_stays_when_the_rule_ends_and_the_rules_own_goes(ann, bo):
    give_name(ann, Name("unix", "ann"), source="admin", now=NOW)
    set_rule(BY_NAME, now=NOW)
    assert names() == {("ann", "", "ann"), ("bo", "", "bo")}

    drop_rule(NameRule.objects.get(), now=NOW)

    assert names() == {("ann", "", "ann")}
    assert AuditEntry.objects.filter(action="name.rule_drop").count() == 1


def test_a_name_that_two_rules_give_stays_until_both_are_gone(bo):
    set_email(bo, "bo@example.org")
    for rule in (BY_NAME, BY_ADDRESS):
        set_rule(rule, now=NOW)

    by_name, by_address = NameRule.objects.order_by("pk")
    drop_rule(by_name, now=NOW)
    assert names() == {("bo", "", "bo")}
    drop_rule(by_address, now=NOW)
    assert names() == set()


@pytest.mark.usefixtures("ann")
def test_who_is_out_is_named_by_none(bo):
    deactivate(bo, now=NOW)

    set_rule(BY_NAME, now=NOW)

    assert names() == {("ann", "", "ann")}


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (NewNameRule("shoe size"), "takes"),
        (NewNameRule(""), "takes"),
        (NewNameRule("email"), "domain"),
        (NewNameRule("email", "@"), "domain"),
        (NewNameRule("email", "a@b"), "domain"),
        (NewNameRule("email", "x" * 254), "domain"),
        (NewNameRule("username", cluster="x" * 129), "cluster"),
        (NewNameRule("username", cluster="two\nlines"), "cluster"),
    ],
)
def test_a_rule_that_there_can_not_be_is_refused_at_its_field(rule, field):
    with pytest.raises(RefusedFieldError) as refused:
        set_rule(rule, now=NOW)

    assert refused.value.field == field
    assert not NameRule.objects.exists()


def test_the_same_rule_twice_is_refused():
    set_rule(BY_NAME, now=NOW)

    with pytest.raises(RefusedFieldError, match="there is this rule already"):
        set_rule(BY_NAME, now=NOW)
