"""One view of the database for many reads, and for a look at what a change would do."""

from datetime import UTC, datetime

import psycopg
import pytest
from django.db import InternalError, connection

from fleetwatch.lib.sql import one_view, taken_back
from fleetwatch.operations.models import Heartbeat

EARLIER = datetime(2026, 11, 20, tzinfo=UTC)
LATER = datetime(2026, 11, 22, tzinfo=UTC)


def another():
    return psycopg.connect(
        **connection.get_connection_params() | {"context": None, "cursor_factory": psycopg.Cursor}
    )


@pytest.mark.django_db(transaction=True)
def test_what_others_commit_meanwhile_is_not_seen_within_and_is_seen_after():
    with another() as other:
        with one_view():
            assert Heartbeat.objects.count() == 0
            other.execute(
                "INSERT INTO operations_heartbeat (name, at, since) VALUES ('web', now(), now())"
            )
            other.commit()
            assert Heartbeat.objects.count() == 0

        assert Heartbeat.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_nothing_can_be_written_within():
    with pytest.raises(InternalError, match="read-only"), one_view():
        Heartbeat.objects.create(name="web", at=EARLIER, since=EARLIER)


@pytest.mark.django_db(transaction=True)
def test_a_look_sees_what_it_did_and_nothing_that_others_did_and_leaves_nothing():
    with another() as other:

        def look():
            before = Heartbeat.objects.count()
            Heartbeat.objects.create(name="worker", at=EARLIER, since=EARLIER)
            other.execute(
                "INSERT INTO operations_heartbeat (name, at, since) VALUES ('web', now(), now())"
            )
            other.commit()
            return before, Heartbeat.objects.count()

        assert taken_back(look) == (0, 1)

    assert list(Heartbeat.objects.values_list("name", flat=True)) == ["web"]


@pytest.mark.django_db(transaction=True)
def test_a_look_at_what_somebody_changes_at_that_moment_is_done_once_more():
    Heartbeat.objects.create(name="web", at=EARLIER, since=EARLIER)
    seen = []
    with another() as other:

        def look():
            seen.append(Heartbeat.objects.count())
            if len(seen) == 1:
                other.execute("UPDATE operations_heartbeat SET at = %s", [LATER])
                other.commit()
            return Heartbeat.objects.update(at="2026-11-21T00:00Z")

        assert taken_back(look) == 1

    assert len(seen) == 2
    assert Heartbeat.objects.get().at == LATER
