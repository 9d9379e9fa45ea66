"""Tokens on the own page: shown once, of no more than the person may, until a day or revoked."""

import re
from datetime import timedelta

import pytest

from fleetwatch.accounts.models import ApiToken
from tests.dashboard import factories
from tests.dashboard.test_me import page
from tests.diagnosis.told import NOW

pytestmark = pytest.mark.django_db


def test_an_own_token_is_shown_once_and_reads(viewer):
    answer = viewer.post("/me/tokens", {"name": "notebook"})
    [text] = set(re.findall(r"fw_[A-Za-z0-9_-]{43}", answer.content.decode()))
    viewer.logout()

    asked = viewer.get("/api/v1/nodes", headers={"Authorization": f"Bearer {text}"})

    assert asked.status_code == 200
    assert viewer.post("/me/tokens", {"name": "x"})["Location"].startswith("/accounts/login/")


def test_a_token_without_a_name_is_refused(viewer):
    assert viewer.post("/me/tokens", {"name": " "}).status_code == 422
    assert not ApiToken.objects.exists()


def test_a_token_may_write_and_ends_where_the_form_says_so(viewer):
    sent = {"name": "ci", "scope": "write", "role": "engineer", "days": "30"}

    answer = viewer.post("/me/tokens", sent)

    assert answer.status_code == 200
    token = ApiToken.objects.get()
    assert (token.scope, token.role) == ("write", "engineer")
    assert token.expires_at == NOW + timedelta(days=30)
    assert "write, at most as engineer, ends in 30 d" in page(viewer)


def test_without_days_a_token_holds_until_it_is_revoked(viewer):
    viewer.post("/me/tokens", {"name": "ci", "days": ""})

    assert ApiToken.objects.get().expires_at is None


@pytest.mark.parametrize(
    "sent",
    [
        {"role": "lead"},
        {"role": "admin"},
        {"role": "<b>"},
        {"scope": "root"},
        {"days": "0"},
        {"days": "367"},
        {"days": "soon"},
    ],
)
def test_a_token_of_more_than_one_may_is_refused(viewer, sent):
    answer = viewer.post("/me/tokens", {"name": "ci"} | sent)

    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("role", "offered"),
    [
        ("engineer", ["engineer"]),
        ("lead", ["engineer", "lead"]),
        ("finance", ["engineer", "finance"]),
        ("operator", ["engineer", "lead", "operator"]),
        ("admin", ["engineer", "lead", "finance", "operator", "admin"]),
    ],
)
@pytest.mark.usefixtures("_frozen")
def test_roles_that_one_may_give_a_token_are_offered(client, role, offered):
    client.force_login(factories.user(role=role, username="vera"))

    form = page(client).split('id="token-role"')[1].split("</select>")[0]

    assert re.findall(r'value="(\w+)"', form) == offered
