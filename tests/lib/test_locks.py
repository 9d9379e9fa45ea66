"""Locks by name: one process at a time does what they stand for, wherever it runs."""

import threading
import time

import pytest
from django.db import connection, transaction

from fleetwatch.lib import sql
from fleetwatch.lib.sql import (
    LockHeldError,
    advisory_lock,
    awaited_lock,
    execute,
    limit_waits,
    wait_for_lock,
)

pytestmark = pytest.mark.django_db(transaction=True)

HOLDERS = """
SELECT state, backend_xmin IS NULL FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE locktype = 'advisory' AND granted AND datname = current_database()
"""


def test_one_at_a_time_holds_it_and_the_next_one_after():
    with (
        advisory_lock("posting") as is_first,
        advisory_lock("posting") as is_second,
        advisory_lock("sealing") as is_other,
    ):
        assert (is_first, is_second, is_other) == (True, False, True)

    with advisory_lock("posting") as is_held:
        assert is_held


def test_it_is_held_over_many_transactions_and_is_of_none_of_them():
    with advisory_lock("posting"):
        with transaction.atomic():
            execute("SELECT 1")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            1 / 0  # noqa: B018

        with advisory_lock("posting") as is_held:
            assert not is_held


def test_who_holds_it_has_no_snapshot_so_that_no_vacuum_and_no_index_waits_for_its_end():
    with advisory_lock("posting"):
        assert execute(HOLDERS) == [("idle in transaction", True)]

    assert execute(HOLDERS) == []


def test_whose_turn_it_is_waits_for_a_lock_of_that_name_as_any_other():
    with advisory_lock("posting"), transaction.atomic():
        limit_waits(lock_ms=1000, statement_ms=1000)
        wait_for_lock("posting")


def test_an_error_within_leaves_no_lock():
    with pytest.raises(ZeroDivisionError), advisory_lock("posting"):
        1 / 0  # noqa: B018

    assert execute(HOLDERS) == []


def test_a_lost_connection_has_lost_its_lock_and_is_no_error_at_the_end():
    with advisory_lock("posting"):
        execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
        )

    with advisory_lock("posting") as is_held:
        assert is_held


def test_an_awaited_lock_comes_once_its_holder_is_done(monkeypatch):
    monkeypatch.setattr(sql, "TRY_AGAIN_S", 0.01)
    holds, may_end, done = threading.Event(), threading.Event(), []

    def hold() -> None:
        try:
            with awaited_lock("initialise", patience_s=5):
                holds.set()
                may_end.wait(5)
                done.append("first")
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(5)
    threading.Timer(0.05, may_end.set).start()

    with awaited_lock("initialise", patience_s=5):
        done.append("second")

    holder.join()
    assert done == ["first", "second"]


def test_who_waits_too_long_is_told_for_what(monkeypatch):
    monkeypatch.setattr(sql, "TRY_AGAIN_S", 0.01)
    started = time.monotonic()

    with (
        advisory_lock("initialise"),
        pytest.raises(LockHeldError, match=r"\(initialise\) in 0.05 s"),
        awaited_lock("initialise", patience_s=0.05),
    ):
        pass

    assert time.monotonic() - started < 5
