"""A session that was read before is read with its user, by one statement."""

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleetwatch.accounts.models import User

pytestmark = pytest.mark.django_db


@pytest.fixture
def known() -> Client:
    """A browser whose session was read before."""
    client = Client()
    client.force_login(User.objects.create_user("ada", role=User.Role.ADMIN))
    assert client.get("/settings").status_code == 200
    return client


def test_a_known_session_is_read_with_its_user_and_the_organisation(known):
    with CaptureQueriesContext(connection) as asked:
        known.get("/settings")

    assert sum("django_session" in each["sql"] for each in asked) == 1
    assert not any(each["sql"].startswith('SELECT "accounts_user"') for each in asked)


def test_who_is_not_active_any_more_is_out_at_once(known):
    User.objects.update(is_active=False)

    assert known.get("/settings").status_code == 302


def test_a_session_that_becomes_somebody_elses_is_theirs_at_once(known):
    other = User.objects.create_user("bob", role=User.Role.ENGINEER)
    session = known.session
    session["_auth_user_id"] = str(other.pk)
    session["_auth_user_hash"] = other.get_session_auth_hash()
    session.save()

    assert known.get("/settings").wsgi_request.user == other


def test_what_changes_something_reads_who_it_is_on_its_own(known):
    with CaptureQueriesContext(connection) as asked:
        known.post("/settings/general", {})

    assert any(each["sql"].startswith('SELECT "django_session"') for each in asked)


def log_out_elsewhere(known: Client) -> None:
    Session.objects.all().delete()


def change_the_password(known: Client) -> None:
    user = User.objects.get()
    user.set_password("another one")
    user.save()


def delete_the_account(known: Client) -> None:
    User.objects.all().delete()


def expire(known: Client) -> None:
    Session.objects.update(expire_date=timezone.now())


def log_out_here(known: Client) -> None:
    known.logout()


@pytest.mark.parametrize(
    "end", [log_out_elsewhere, change_the_password, delete_the_account, expire, log_out_here]
)
def test_a_known_session_is_over_at_once(known, end):
    key = known.session.session_key
    end(known)
    known.cookies["sessionid"] = key

    assert known.get("/settings").status_code == 302


def test_another_role_is_had_at_once(known):
    assert known.get("/settings/people").status_code == 200
    User.objects.update(role=User.Role.ENGINEER)

    assert known.get("/settings/people").status_code in (403, 404)
