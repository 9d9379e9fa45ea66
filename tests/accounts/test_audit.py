import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.http import HttpResponse
from django.test import RequestFactory

import fleetwatch
from fleetwatch.accounts.audit import KINDS, record
from fleetwatch.accounts.middleware import NOBODY, name_actor
from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.lib.actor import THE_HUB, Actor, acting, actor

pytestmark = pytest.mark.django_db


def entry() -> AuditEntry:
    return AuditEntry.objects.get()


def test_an_entry_says_who_did_what_to_what_when_and_from_where():
    before = datetime.now(UTC)

    with acting(lambda: Actor("ann", 7, "page", "10.0.0.1")):
        record("rate.set", "H100, on demand", usd_per_hour="2.10", days=3)

    assert (entry().name, entry().user_id, entry().via, entry().address) == (
        "ann",
        7,
        "page",
        "10.0.0.1",
    )
    assert (entry().action, entry().subject) == ("rate.set", "H100, on demand")
    assert entry().detail == {"usd_per_hour": "2.10", "days": 3}
    assert before <= entry().at <= datetime.now(UTC)


def test_what_nobody_asked_for_is_the_hubs():
    record("month.close", "2026-10")

    assert (entry().name, entry().user_id, entry().via) == ("FleetWatch", None, "hub")


def test_what_was_taken_back_is_not_in_the_log():
    with transaction.atomic():
        record("rate.set")
        transaction.set_rollback(True)

    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts_auditentry SET name = 'nobody'",
        "DELETE FROM accounts_auditentry",
        "TRUNCATE accounts_auditentry",
    ],
)
def test_the_database_changes_and_deletes_no_entry(statement):
    record("rate.set")

    with (
        pytest.raises(DatabaseError, match="only appended to"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)

    assert entry().action == "rate.set"


def test_an_entry_outlives_the_account():
    ann = User.objects.create(username="ann")
    with acting(lambda: Actor("ann", ann.pk)):
        record("rate.set")

    ann.delete()

    assert (entry().name, AuditEntry.objects.filter(user__isnull=False).count()) == ("ann", 1)


def test_a_long_subject_is_cut():
    record("channel.create", "x" * 501)

    assert entry().subject == "x" * 500


@pytest.mark.parametrize(
    ("path", "user", "name", "via"),
    [
        ("/settings", User(pk=7, username="ann"), "ann", "page"),
        ("/api/v1/findings", User(pk=7, username="ann"), "ann", "api"),
        ("/settings", AnonymousUser(), NOBODY, "page"),
    ],
)
def test_a_requests_actor_is_its_user(path, user, name, via):
    seen = []
    request = RequestFactory().get(path, REMOTE_ADDR="10.0.0.9")
    request.user = user

    name_actor(lambda _: seen.append(actor()) or HttpResponse())(request)

    assert [(who.name, who.user_id, who.via, who.address) for who in seen] == [
        (name, user.pk, via, "10.0.0.9")
    ]
    assert actor() == THE_HUB


def test_a_commands_actor_is_the_shells_user(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    User.objects.create(username="ann")

    call_command("create_api_token", "ann")

    assert (entry().name, entry().via, entry().action) == ("root", "command", "token.create")


def test_the_log_is_narrowed_to_each_kind_that_the_code_writes():
    called = re.compile(r'\b(?:record|action)\b\W{0,4}f?"([a-z]+)\.')
    sources = [path.read_text() for path in Path(fleetwatch.__file__).parent.rglob("*.py")]

    kinds = {kind for source in sources for kind in called.findall(source)}

    assert {"access", "person", "finding"} <= kinds
    assert kinds - KINDS.keys() == set()
