"""What ends sessions and API tokens: the end of an account, and the button for a laptop that is lost;
another password ends sessions alone.
"""

import getpass

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.test import Client

from fleetwatch.accounts.models import AuditEntry, Identity, NameRule, User
from fleetwatch.accounts.people import (
    Name,
    NewPerson,
    activate,
    create_person,
    deactivate,
    give_name,
    give_password,
    set_email,
    sign_out,
)
from fleetwatch.accounts.selectors import user_of_session
from fleetwatch.accounts.services import authenticate_api_token, create_api_token, ensure_admin
from tests.dashboard.factories import NOW, PASSWORD

pytestmark = pytest.mark.django_db

OTHER = "correct horse battery staple"


@pytest.fixture
def ann() -> User:
    return create_person(NewPerson("ann", password=PASSWORD), now=NOW)


@pytest.fixture
def client(ann) -> Client:
    client = Client()
    client.force_login(ann)
    return client


def is_in(client: Client) -> bool:
    return client.get("/me").status_code == 200


def entries(*actions: str) -> list[tuple[str, str, str]]:
    rows = AuditEntry.objects.filter(action__in=actions).order_by("pk")
    return [(row.via, row.action, row.subject) for row in rows]


def test_a_sign_out_ends_every_session_and_token_and_no_password(ann, client):
    bo = create_person(NewPerson("bo"), now=NOW)
    tokens = [create_api_token(each, scope="read", now=NOW) for each in (ann, ann, bo)]
    assert is_in(client)

    sign_out(ann, now=NOW)

    assert not is_in(client)
    assert user_of_session(client.session.session_key) is None
    assert [authenticate_api_token(each, NOW) for each in tokens] == [None, None, bo]
    assert client.login(username="ann", password=PASSWORD)
    assert is_in(client)
    assert AuditEntry.objects.get(action="person.sign_out").detail == {"tokens": 2}


def test_a_sign_out_ends_a_log_in_that_waits_for_its_second_factor(ann):
    before = ann.get_session_auth_hash()

    sign_out(ann, now=NOW)

    assert User.objects.get().get_session_auth_hash() not in ("", before)


def test_twice_ends_what_began_in_between(ann, client):
    sign_out(ann, now=NOW)
    client.force_login(ann)

    sign_out(ann, now=NOW.replace(minute=1))

    assert not is_in(client)


def test_another_password_ends_sessions_and_leaves_tokens(ann, client):
    token = create_api_token(ann, scope="read", now=NOW)

    give_password(ann)

    assert not is_in(client)
    assert authenticate_api_token(token, NOW) == ann


@pytest.mark.parametrize("name", ["ANN", "Ann"])
def test_no_two_names_differ_in_case_alone(ann, name):
    with pytest.raises(IntegrityError, match="a_user_name_is_one_in_any_case"):
        User.objects.create(username=name)


def test_the_first_admin_is_the_one_whose_name_is_written_otherwise():
    User.objects.create(username="Admin", is_active=False)

    ensure_admin(PASSWORD)

    assert list(User.objects.values_list("username", "role")) == [("Admin", "admin")]


@pytest.fixture
def typed(monkeypatch):
    monkeypatch.setattr(getpass, "getpass", lambda prompt="": OTHER)
    monkeypatch.setattr(getpass, "getuser", lambda: "root")


@pytest.mark.usefixtures("typed", "ann")
def test_a_password_that_is_changed_at_the_shell_is_in_the_log():
    call_command("changepassword", "ann", verbosity=0)

    assert User.objects.get().check_password(OTHER)
    assert entries("person.password") == [("command", "person.password", "ann")]


@pytest.mark.usefixtures("typed")
def test_a_password_of_nobody_is_none_in_the_log():
    with pytest.raises(CommandError, match="does not exist"):
        call_command("changepassword", "ann")

    assert entries("person.password") == []


@pytest.mark.usefixtures("typed")
def test_a_superuser_that_is_made_at_the_shell_is_in_the_log():
    create_person(NewPerson("bo", role="admin"), now=NOW)
    User.objects.update(is_superuser=True)

    for name in ("eve", "vera"):
        call_command("createsuperuser", interactive=False, username=name, email="e@x.org")

    made = [each for each in entries("person.create") if each[0] == "command"]
    assert made == [
        ("command", "person.create", "eve"),
        ("command", "person.create", "vera"),
    ]


def test_a_superuser_of_a_name_that_there_is_is_refused_with_a_sentence(ann):
    with pytest.raises(CommandError, match="in large or small letters"):
        call_command("createsuperuser", interactive=False, username="ANN", email="e@x.org")

    assert User.objects.count() == 1


def rules() -> None:
    NameRule.objects.create(takes="username", created_at=NOW)
    NameRule.objects.create(takes="email", domain="example.org", created_at=NOW)


def names(user: User) -> set[str]:
    rows = user.identities.filter(system="unix", confirmed_at__isnull=False)
    return set(rows.values_list("name", flat=True))


def test_who_chose_the_name_is_not_named_by_it_after_another_address_either():
    rules()
    eve = create_person(NewPerson("vera", "eve@example.org", chose_name=True), now=NOW)

    set_email(eve, "eva@example.org")

    assert names(eve) == {"eva"}


def test_a_claim_that_a_rule_confirmed_goes_with_the_address(ann):
    rules()
    give_name(ann, Name("unix", "anna"), source=Identity.Source.CLAIM, now=NOW)
    set_email(ann, "anna@example.org")
    assert names(ann) == {"ann", "anna"}

    set_email(ann, "lee@example.org")

    assert names(ann) == {"ann", "lee"}


def test_a_name_that_a_rule_gave_and_an_admin_too_stays(ann):
    rules()
    set_email(ann, "anna@example.org")
    give_name(ann, Name("unix", "anna"), source=Identity.Source.ADMIN, now=NOW)

    set_email(ann, "lee@example.org")

    assert names(ann) == {"ann", "anna", "lee"}


def test_who_comes_back_is_named_by_the_rules_of_today(ann):
    rules()
    set_email(ann, "anna@example.org")
    deactivate(ann, now=NOW)
    NameRule.objects.filter(takes="email").delete()

    activate(ann)

    assert names(ann) == {"ann"}
