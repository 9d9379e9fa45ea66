"""What an identity provider or a directory says of somebody, as it is followed here."""

import pytest

from fleetwatch.accounts.log_in.group_mapping import GroupMap, follow_groups, follow_name
from fleetwatch.accounts.models import AuditEntry, Identity
from fleetwatch.accounts.people import Name, NewPerson, create_person, give_name
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db

MAP = GroupMap(
    {"a": "admin", "o": "operator", "f": "finance", "l": "lead"}, {"nlp": "nlp", "vis": "vision"}
)


@pytest.fixture
def bo():
    return create_person(NewPerson("bo"), now=NOW)


@pytest.fixture
def root():
    return create_person(NewPerson("root", role="admin"), now=NOW)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("groups", "role"),
    [
        ((), "engineer"),
        (("x", "A"), "engineer"),
        (("l",), "lead"),
        (("l", "f"), "finance"),
        (("f", "o"), "operator"),
        (("o", "a", "l"), "admin"),
    ],
)
def test_the_strongest_group_counts_and_who_is_of_none_is_an_engineer(bo, groups, role):
    follow_groups(bo, groups, MAP)

    bo.refresh_from_db()
    assert bo.role == role


def test_where_no_group_is_mapped_role_and_teams_stay_an_admins(bo):
    bo.role = "lead"
    bo.save(update_fields=["role"])

    follow_groups(bo, ["a", "nlp"], GroupMap({}, {}))

    bo.refresh_from_db()
    assert (bo.role, bo.memberships.count()) == ("lead", 0)


def test_the_last_admin_stays_one(root):
    follow_groups(root, [], MAP)

    root.refresh_from_db()
    assert root.role == "admin"


def test_one_comes_leaves_and_comes_again(bo):
    for groups in (["nlp", "vis"], ["vis"], ["nlp"], ["nlp"]):
        follow_groups(bo, groups, MAP)

    now = {each.team.slug for each in bo.memberships.filter(valid_until=None)}
    assert (now, bo.memberships.count()) == ({"nlp"}, 3)


def test_a_source_has_one_name_in_a_system_and_leaves_those_of_others(bo):
    give_name(bo, Name("unix", "bob"), source="admin", now=NOW)
    for name in ("bo", "bo.lee", "bo.lee"):
        follow_name(bo, "unix", name, source=Identity.Source.DIRECTORY)

    assert {each.name for each in bo.identities.all()} == {"bob", "bo.lee"}
    assert AuditEntry.objects.filter(action="name.take").count() == 1


@pytest.mark.parametrize("name", ["", " ", "x" * 256, "two\nlines", "taken"])
def test_a_name_that_none_can_have_and_one_of_somebody_else_leave_the_one_before(bo, root, name):
    follow_name(bo, "unix", "bo", source=Identity.Source.DIRECTORY)
    give_name(root, Name("unix", "taken"), source="admin", now=NOW)

    follow_name(bo, "unix", name, source=Identity.Source.DIRECTORY)

    assert [each.name for each in bo.identities.all()] == ["bo"]
