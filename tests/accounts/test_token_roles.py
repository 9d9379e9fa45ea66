"""A token's role: what it may is what both its user and its role may, now and not when it was made."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.management import CommandError, call_command
from django.utils import timezone

from fleetwatch.accounts.models import ApiToken, AuditEntry, User
from fleetwatch.accounts.permissions import WITHIN, Right, is_engineer, may, rights, role_of
from fleetwatch.accounts.services import authenticate_api_token, create_api_token
from fleetwatch.lib.refusal import RefusedFieldError

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def user(role: str = "admin", **fields) -> User:
    return User.objects.create(username=f"{role}-1", role=role, **fields)


def by_token(of: User, role: str) -> User:
    """Who the request is of that comes with a token of that role."""
    speaker = authenticate_api_token(create_api_token(of, scope="write", role=role, now=NOW), NOW)
    assert speaker == of
    return speaker


def test_roles_form_an_order_in_which_more_is_more():
    for role, within in WITHIN.items():
        assert role in within
        for lesser in within:
            assert WITHIN[lesser] <= within


@pytest.mark.parametrize(
    ("role", "has"),
    [
        ("", {Right.MONEY, Right.FLEET, Right.PEOPLE}),
        ("admin", {Right.MONEY, Right.FLEET, Right.PEOPLE}),
        ("operator", {Right.FLEET}),
        ("finance", {Right.MONEY}),
        ("lead", set()),
        ("engineer", set()),
    ],
)
def test_an_admins_token_may_what_its_role_may(role, has):
    speaker = by_token(user("admin"), role)

    assert rights(speaker) == has
    assert may(speaker, Right.PEOPLE) is (Right.PEOPLE in has)
    assert is_engineer(speaker) is (role == "engineer")


@pytest.mark.parametrize(
    ("own", "role"),
    [
        ("engineer", "lead"),
        ("engineer", "finance"),
        ("lead", "operator"),
        ("lead", "finance"),
        ("finance", "lead"),
        ("finance", "operator"),
        ("operator", "finance"),
        ("operator", "admin"),
        ("admin", "king"),
    ],
)
def test_a_token_of_more_than_its_user_is_not_made(own, role):
    with pytest.raises(RefusedFieldError) as refused:
        create_api_token(user(own), scope="read", role=role, now=NOW)

    assert refused.value.field == "role"
    assert not ApiToken.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("role", "after", "acts_as"),
    [
        ("admin", "operator", "operator"),
        ("operator", "finance", "engineer"),
        ("operator", "lead", "lead"),
        ("lead", "operator", "lead"),
        ("finance", "operator", "engineer"),
        ("finance", "admin", "finance"),
        ("", "lead", "lead"),
    ],
)
def test_who_has_another_role_since_has_tokens_of_what_both_may(role, after, acts_as):
    ann = user("admin")
    text = create_api_token(ann, scope="write", role=role, now=NOW)
    User.objects.update(role=after)

    assert role_of(authenticate_api_token(text, NOW)) == acts_as


def test_a_superusers_token_is_bound_by_its_role_too():
    speaker = by_token(user("engineer", is_superuser=True), "finance")

    assert rights(speaker) == {Right.MONEY}


def test_a_session_is_not_bound_by_the_tokens_of_its_user():
    ann = user("admin")
    by_token(ann, "engineer")

    assert rights(User.objects.get(pk=ann.pk)) == frozenset(Right)
    assert rights(AnonymousUser()) == frozenset()


def test_the_command_makes_a_token_of_a_role_that_ends(capsys):
    user("operator")

    call_command("create_api_token", "operator-1", "--role", "lead", "--days", "366")

    token = ApiToken.objects.get()
    assert (token.scope, token.role) == ("read", "lead")
    left = token.expires_at - timezone.now()
    assert timedelta(days=365) < left <= timedelta(days=366)
    assert authenticate_api_token(capsys.readouterr().out.strip(), timezone.now()) is not None


@pytest.mark.parametrize(
    "arguments", [["--role", "admin"], ["--role", "king"], ["--days", "0"], ["--days", "367"]]
)
def test_the_command_refuses_more_than_its_user_may_and_a_term_that_is_none(arguments):
    user("operator")

    with pytest.raises(CommandError):
        call_command("create_api_token", "operator-1", *arguments)

    assert not ApiToken.objects.exists()
