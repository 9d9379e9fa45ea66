import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from fleetwatch.accounts.models import ApiToken, User
from fleetwatch.accounts.services import (
    MAX_TOKENS,
    authenticate_api_token,
    create_api_token,
    digest,
    revoke_api_token,
)
from fleetwatch.lib.refusal import RefusedFieldError

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann():
    return User.objects.create_user("ann", password="correct horse battery")


def test_a_token_is_stored_hashed_with_a_hint(ann):
    text = create_api_token(ann, scope="read", now=NOW)

    stored = ApiToken.objects.get()
    assert re.fullmatch(r"fw_[A-Za-z0-9_-]{43}", text)
    assert (stored.digest, stored.hint) == (digest(text), text[:8])
    assert text not in str(vars(stored))


def test_a_token_speaks_for_its_user(ann):
    text = create_api_token(ann, scope="read", now=NOW)

    assert authenticate_api_token(text, NOW) == ann
    assert authenticate_api_token(text + "x", NOW) is None
    assert authenticate_api_token("", NOW) is None
    assert authenticate_api_token("\udcff\x00", NOW) is None


def test_a_token_ends_on_time(ann):
    text = create_api_token(ann, scope="read", now=NOW, expires_at=NOW + timedelta(hours=1))

    assert authenticate_api_token(text, NOW + timedelta(minutes=59)) == ann
    assert authenticate_api_token(text, NOW + timedelta(hours=1)) is None


def test_a_revoked_token_is_refused_and_keeps_its_time(ann):
    text = create_api_token(ann, scope="read", now=NOW)
    token_id = ApiToken.objects.get().pk
    revoke_api_token(token_id, NOW)
    revoke_api_token(token_id, NOW + timedelta(hours=1))

    assert authenticate_api_token(text, NOW) is None
    assert ApiToken.objects.get().revoked_at == NOW


def test_a_token_of_someone_who_left_is_refused(ann):
    text = create_api_token(ann, scope="read", now=NOW)
    User.objects.update(is_active=False)

    assert authenticate_api_token(text, NOW) is None


def test_the_last_use_is_noted_once_a_minute(ann):
    text = create_api_token(ann, scope="read", now=NOW)
    noted = []
    for seconds in (0, 59, 60):
        authenticate_api_token(text, NOW + timedelta(seconds=seconds))
        noted.append((ApiToken.objects.get().last_used_at - NOW).total_seconds())

    assert noted == [0, 0, 60]


def test_an_unknown_scope_is_refused(ann):
    with pytest.raises(ValueError, match="unknown scope"):
        create_api_token(ann, scope="root", now=NOW)


def test_the_command_prints_the_token_alone(ann, capsys):
    call_command("create_api_token", "ann", "--scope", "read")

    text = capsys.readouterr().out
    assert len(text.split()) == 1
    assert authenticate_api_token(text.strip(), timezone.now()) == ann


@pytest.mark.parametrize("arguments", [["bob"], ["ann", "--scope", "root"]])
def test_the_command_says_what_is_wrong(ann, arguments):
    with pytest.raises(CommandError):
        call_command("create_api_token", *arguments)

    assert not ApiToken.objects.exists()


def test_a_person_has_so_many_tokens_in_force_and_no_more(ann):
    for number in range(MAX_TOKENS):
        create_api_token(ann, scope="read", now=NOW, name=f"{number}")
    ended = ApiToken.objects.filter(user=ann)[:2].values("pk")

    with pytest.raises(RefusedFieldError, match="at most 100 tokens"):
        create_api_token(ann, scope="read", now=NOW)
    ApiToken.objects.filter(pk__in=ended).update(expires_at=NOW)

    assert create_api_token(ann, scope="read", now=NOW)
    revoke_api_token(ApiToken.objects.filter(expires_at=None).latest("pk").pk, NOW)
    assert create_api_token(ann, scope="read", now=NOW)
