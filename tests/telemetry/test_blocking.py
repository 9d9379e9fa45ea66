"""Background work beside requests: what a whole run holds until its transaction ends."""

from datetime import timedelta

import pytest
from django.db import connection

from fleetwatch.telemetry import join, matrices, partitions, retention, seal
from tests.telemetry.factories import HOUR, make_node, store
from tests.telemetry.test_join import COMPLETE, sealed

pytestmark = pytest.mark.django_db

# Readers, writers and row locks: none of these waits for another.
# https://www.postgresql.org/docs/current/explicit-locking.html
HARMLESS = {"AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock"}
SHARED = ("telemetry_batch", "telemetry_sealmark", "telemetry_chunk", "telemetry_daymatrix")


def held():
    """(table, lock) on the tables that requests use, held by this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relation::regclass::text, mode FROM pg_locks WHERE pid = pg_backend_pid() AND"
            " relation = ANY(%s::regclass[])",
            [list(SHARED)],
        )
        return set(cursor.fetchall())


def test_no_stage_of_the_store_holds_a_lock_that_a_request_would_wait_for():
    node = make_node()
    sealed(node)
    store(node, sequence=7, starts=[])

    join.join_complete_spans(COMPLETE, limit=10)
    matrices.refresh_recent(HOUR)
    partitions.ensure(HOUR + timedelta(days=3))
    seal.seal_closed_hours(COMPLETE, limit=10)
    retention.apply(HOUR + timedelta(days=3650))

    assert {table for table, _ in held()} == set(SHARED)
    assert {mode for _, mode in held()} <= HARMLESS
