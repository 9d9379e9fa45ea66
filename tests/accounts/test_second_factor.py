"""A second factor is asked for after the password, kept encrypted, and required of everybody where
the organisation says so.
"""

import re

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from fleetwatch.accounts.log_in.second_factor import (
    drop_factors,
    has_factor,
    rotate_secrets,
    set_required,
)
from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.accounts.people import activate, deactivate, give_password
from tests.accounts.totp import code

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _fresh():
    cache.clear()


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password=PASSWORD)


def log_in(client: Client, **fields: str):
    return client.post(reverse("account_login"), {"login": "ann", "password": PASSWORD} | fields)


def add_totp(client: Client) -> str:
    """The secret that an app was given, after the password once more."""
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    page = client.get(reverse("mfa_activate_totp")).content.decode()
    secret = re.search(r'value="([A-Z2-7]{32})"', page)[1]
    answer = client.post(reverse("mfa_activate_totp"), {"code": code(secret)})
    assert answer.status_code == 302, answer.content.decode()
    cache.clear()  # a code counts once
    return secret


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.mark.parametrize("text", ["123456", "12345", "", "abcdef"])
def test_the_password_alone_lets_nobody_in_who_has_a_factor(ann, text):
    client = Client()
    log_in(client)
    secret = add_totp(client)
    # of a million codes the right one is no wrong one
    guess = text if text != code(secret) else text[::-1]

    other = Client()
    first = log_in(other)
    wrong = other.post(first["Location"], {"code": guess})

    assert first["Location"] == "/accounts/2fa/authenticate/"
    assert wrong.status_code == 200
    assert not is_in(other)


def test_the_apps_code_lets_in_and_counts_once(ann):
    first = Client()
    log_in(first)
    secret = add_totp(first)

    second, third = Client(), Client()
    for client in (second, third):
        client.post(log_in(client)["Location"], {"code": code(secret)})

    assert (is_in(second), is_in(third)) == (True, False)


def test_a_recovery_code_lets_in_once(ann):
    client = Client()
    log_in(client)
    add_totp(client)
    [codes] = [
        each.wrap().get_unused_codes()
        for each in Authenticator.objects.filter(type=Authenticator.Type.RECOVERY_CODES)
    ]

    for number in (1, 2):
        other = Client()
        other.post(log_in(other)["Location"], {"code": codes[0]})
        assert is_in(other) is (number == 1)


def test_a_secret_is_unreadable_at_rest_and_survives_another_secret_key(ann, settings):
    client = Client()
    log_in(client)
    secret = add_totp(client)
    assert secret not in str(Authenticator.objects.values_list("data"))

    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of thirty-two characters or so"

    assert rotate_secrets() == {"rotated": 2, "unreadable": 0}  # the app's, the recovery codes'
    settings.SECRET_KEY_FALLBACKS = []

    other = Client()
    other.post(log_in(other)["Location"], {"code": code(secret)})
    assert is_in(other)
    settings.SECRET_KEY = "a key that nothing was encrypted with, and long"
    assert rotate_secrets() == {"rotated": 0, "unreadable": 2}


@pytest.mark.django_db(transaction=True)  # allauth says it once it is true
def test_who_lost_them_has_them_taken_away_and_that_is_in_the_log(ann):
    client = Client()
    log_in(client)
    add_totp(client)

    drop_factors(ann)

    other = Client()
    log_in(other)
    assert is_in(other)
    actions = AuditEntry.objects.filter(action__startswith="login.factor").values_list("action")
    assert {action for (action,) in actions} == {"login.factor_add", "login.factor_drop"}


@pytest.mark.django_db(transaction=True)
def test_a_required_factor_is_owed_at_the_next_page_and_paid_by_adding_one(ann):
    logged_in_before, after = Client(), Client()
    log_in(logged_in_before)

    set_required(True)
    log_in(after)

    for client in (logged_in_before, after):
        answer = client.get("/jobs")
        assert (answer.status_code, answer["Location"]) == (302, "/accounts/2fa/")
        assert "/accounts/logout/" in client.get("/accounts/2fa/").content.decode()
        assert client.post("/settings/organisation", {})["Location"] == "/accounts/2fa/"
    assert not has_factor(ann)
    add_totp(after)
    assert after.get("/causes").status_code == 200


def test_what_is_not_required_any_more_is_not_owed(ann):
    client = Client()
    set_required(True)
    log_in(client)

    set_required(False)

    assert client.get("/causes").status_code == 200


def test_who_has_one_owes_nothing_until_it_is_gone(ann):
    client = Client()
    log_in(client)
    add_totp(client)

    set_required(True)

    assert client.get("/causes").status_code == 200
    client.post(reverse("mfa_deactivate_totp"))
    assert client.get("/causes")["Location"] == "/accounts/2fa/"


def _guesses(address: str, count: int) -> list[str]:
    """What a browser at the address, which has the password, is told of wrong codes."""
    client = Client(REMOTE_ADDR=address)
    page = log_in(client)["Location"]
    answers = [client.post(page, {"code": f"x{number}"}) for number in range(count)]
    return [answer.content.decode() for answer in answers]


def test_codes_are_counted_by_person_from_wherever_they_are_guessed(ann):
    owner = Client()
    log_in(owner)
    secret = add_totp(owner)

    pages = [page for each in range(5) for page in _guesses(f"10.0.{each}.1", 4)]

    assert [("Incorrect code" in page, "Too many wrong codes" in page) for page in pages] == [
        *[(True, False)] * 5,
        *[(False, True)] * 15,
    ]
    stranger = Client(REMOTE_ADDR="10.1.0.1")
    stranger.post(log_in(stranger)["Location"], {"code": code(secret)})
    assert not is_in(stranger)
    # the browser that was in before has tries of its own
    owner.post(reverse("account_logout"))
    owner.post(log_in(owner)["Location"], {"code": code(secret)})
    assert is_in(owner)


def test_a_right_code_forgets_the_wrong_ones(ann):
    client = Client()
    log_in(client)
    secret = add_totp(client)
    _guesses("10.0.0.1", 4)

    other = Client()
    other.post(log_in(other)["Location"], {"code": code(secret)})

    assert is_in(other)
    assert all("Incorrect code" in page for page in _guesses("10.0.0.2", 5))


def test_a_code_asked_for_again_is_counted_too(ann):
    client = Client()
    log_in(client)
    add_totp(client)

    wrong = [client.post(reverse("mfa_reauthenticate"), {"code": f"x{n}"}) for n in range(8)]

    assert "Too many wrong codes" in wrong[-1].content.decode()


def test_what_somebody_changes_about_the_own_log_in_is_in_the_log(
    ann, django_capture_on_commit_callbacks
):
    client = Client()
    log_in(client)
    add_totp(client)
    with django_capture_on_commit_callbacks(execute=True):
        client.post(reverse("mfa_generate_recovery_codes"))
    _guesses("10.0.0.1", 1)
    new = "another horse battery staple"
    client.post(
        reverse("account_change_password"),
        {"oldpassword": PASSWORD, "password1": new, "password2": new},
    )

    done = [(each.action, each.detail) for each in AuditEntry.objects.order_by("pk")]
    assert [each for each in done if each[0] not in ("login.enter", "login.factor_add")] == [
        ("login.factor_reset", {"kind": "recovery_codes"}),
        ("login.code_fail", {"kind": "totp"}),
        ("login.password", {}),
    ]
    assert new not in str(done)


def _half_in() -> Client:
    """A browser that has shown the password and is asked for a code."""
    client = Client()
    assert log_in(client)["Location"] == "/accounts/2fa/authenticate/"
    return client


def _show(client: Client, secret: str) -> bool:
    """Whether the right code, not used before, lets in."""
    cache.clear()
    client.post("/accounts/2fa/authenticate/", {"code": code(secret)})
    return is_in(client)


def test_a_log_in_half_done_ends_with_the_password_and_with_the_person(ann):
    User.objects.create_user("root", role="admin")
    client = Client()
    log_in(client)
    secret = add_totp(client)
    halves = [_half_in() for _ in range(4)]

    entered = [_show(halves[0], secret)]
    give_password(ann)
    entered.append(_show(halves[1], secret))
    deactivate(ann, now=ann.date_joined)
    entered.append(_show(halves[2], secret))
    activate(ann)
    entered.append(_show(halves[3], secret))

    assert entered == [True, False, False, False]
    assert [each.get("/me").status_code for each in halves] == [302] * 4


@pytest.mark.parametrize("by_whom", ["admin", "person"])
def test_who_has_a_factor_no_more_owes_one_in_every_session(ann, by_whom):
    first, second = Client(), Client()
    log_in(first)
    secret = add_totp(first)
    log_in(second)
    assert _show(second, secret)
    set_required(True)

    if by_whom == "admin":
        drop_factors(ann)
    else:
        first.post(reverse("mfa_deactivate_totp"))

    assert not has_factor(ann)
    assert [each.get("/me").get("Location") for each in (first, second)] == ["/accounts/2fa/"] * 2
