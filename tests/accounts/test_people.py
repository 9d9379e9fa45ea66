from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import NoReverseMatch, reverse

from fleetwatch.accounts.models import AuditEntry, Organisation, Team, User
from fleetwatch.accounts.permissions import Right, needs, rights
from fleetwatch.accounts.selectors import organisation, zone
from fleetwatch.accounts.services import ensure_admin, ensure_teams

pytestmark = pytest.mark.django_db


def test_the_first_admin_gets_a_random_password_once():
    first, second = ensure_admin(None), ensure_admin(None)

    admin = User.objects.get()
    assert second is None
    assert len(first) >= 20
    assert admin.check_password(first)
    assert (admin.username, admin.role, admin.is_staff, admin.is_superuser) == (
        "admin",
        "admin",
        False,
        False,
    )


def test_that_there_is_an_admin_now_is_in_the_log():
    ensure_admin(None)
    ensure_admin(None)

    assert [(each.action, each.subject) for each in AuditEntry.objects.all()] == [
        ("person.first_admin", "admin")
    ]


def test_the_first_admin_takes_the_given_password():
    assert ensure_admin("correct horse battery") == "correct horse battery"
    assert User.objects.get().check_password("correct horse battery")


def test_an_instance_with_another_admin_is_left_alone():
    User.objects.create_user("ann", role=User.Role.ADMIN)

    assert ensure_admin("x") is None
    assert not User.objects.filter(username="admin").exists()


EVERYTHING = {Right.MONEY, Right.FLEET, Right.PEOPLE}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"role": "engineer"}, set()),
        ({"role": "lead"}, set()),
        ({"role": "finance"}, {Right.MONEY}),
        ({"role": "operator"}, {Right.FLEET}),
        ({"role": "admin"}, EVERYTHING),
        ({"role": "engineer", "is_superuser": True}, EVERYTHING),
        ({"role": "engineer", "is_staff": True}, set()),
        ({"role": "admin", "is_active": False}, set()),
    ],
)
def test_a_role_has_rights(fields, expected):
    assert rights(User(username="ann", **fields)) == expected


def test_a_visitor_has_no_right():
    assert rights(AnonymousUser()) == set()


def test_the_door_of_a_right():
    request = RequestFactory().get("/settings?tab=rates")
    view = needs(Right.MONEY)(lambda request: HttpResponse("in"))

    request.user = AnonymousUser()
    assert view(request).url == "/accounts/login/?next=/settings%3Ftab%3Drates"
    request.user = User(username="ann", role="operator")
    with pytest.raises(PermissionDenied, match="are finance's"):
        view(request)
    request.user = User(username="ann", role="finance")
    assert view(request).content == b"in"


def test_there_is_one_organisation():
    assert organisation() == organisation()
    assert zone() == ZoneInfo("UTC")
    Organisation.objects.update(time_zone="Asia/Kolkata")
    assert zone() == ZoneInfo("Asia/Kolkata")


def test_teams_are_made_on_sight():
    Team.objects.create(slug="nlp", name="Language")

    ids = ensure_teams({"nlp", "vision"})

    assert ids == dict(Team.objects.values_list("slug", "id"))
    assert Team.objects.get(slug="nlp").name == "Language"
    assert Team.objects.get(slug="vision").name == "vision"


@pytest.mark.parametrize(
    "name", ["account_signup", "account_reset_password", "account_email", "account_set_password"]
)
def test_nobody_signs_up_and_no_e_mail_goes_out(name):
    with pytest.raises(NoReverseMatch):
        reverse(name)


def test_log_in_and_out(client):
    User.objects.create_user("ann", password="correct horse battery")

    wrong = client.post(reverse("account_login"), {"login": "ann", "password": "x"})
    right = client.post(
        reverse("account_login"), {"login": "ann", "password": "correct horse battery"}
    )
    left = client.post(reverse("account_logout"))

    assert wrong.status_code == 200
    assert (right.status_code, right.url) == (302, "/")
    assert left.status_code == 302
    assert "_auth_user_id" not in client.session


def test_guessing_passwords_is_slowed_down(client):
    User.objects.create_user("ann", password="correct horse battery")
    for _ in range(5):
        client.post(reverse("account_login"), {"login": "ann", "password": "x"})

    client.post(reverse("account_login"), {"login": "ann", "password": "correct horse battery"})

    assert "_auth_user_id" not in client.session
