"""One view of the database for many reads."""

import psycopg
import pytest
from django.db import InternalError, connection

from fleetwatch.lib.sql import one_view
from fleetwatch.operations.models import Heartbeat


@pytest.mark.django_db(transaction=True)
def test_what_others_commit_meanwhile_is_not_seen_within_and_is_seen_after():
    with psycopg.connect(**connection.get_connection_params() | {"context": None, "cursor_factory": psycopg.Cursor}) as other:
        with one_view():
            assert Heartbeat.objects.count() == 0
            other.execute("INSERT INTO operations_heartbeat (name, at) VALUES ('web', now())")
            other.commit()
            assert Heartbeat.objects.count() == 0

        assert Heartbeat.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_nothing_can_be_written_within():
    with pytest.raises(InternalError, match="read-only"), one_view():
        Heartbeat.objects.create(name="web", at="2026-11-20T00:00Z")
