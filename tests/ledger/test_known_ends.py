"""Nothing is charged to a job after the end that its scheduler told, also where the ledger had
judged it already.
"""

from datetime import UTC, date, datetime, timedelta

import pytest

from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.ledger.months import closing
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    MINUTE,
    NOW,
    T0,
    Sender,
    a_job,
    held,
    hour,
    ledger,
    post,
    states,
)

pytestmark = pytest.mark.django_db

NONE = {"gpu": [], "start_ms": [], "observed_ms": []}


def sacct(end_ms, *, start_ms=T0):
    """What `sacct | history` sends from another host."""
    job = a_job(start_ms=start_ms, end_ms=end_ms, state="COMPLETED")
    sent = {
        "boot_id": f"history-{end_ms}",
        "boot_start_ms": 0,
        "sequence": 0,
        "sources": [],
        "gpus": [],
        "windows": NONE,
        "jobs": [job],
    }
    return Sender("accounting").batch(T0) | sent


def test_an_end_told_an_hour_late_leaves_nothing_charged_after_it():
    """Story S27: 20 minutes of work, then nobody; the scheduler says so 40 minutes later."""
    sender = Sender()
    open_until_told = {"jobs": [a_job(start_ms=T0)], "allocations": [held()]}
    post(sender.batch(T0, *[BUSY] * 20, *[EMPTY] * 40, **open_until_told))
    before = states("n1", "job__key", "tier")

    told = {
        "jobs": [a_job(start_ms=T0, end_ms=T0 + 20 * MINUTE)],
        "allocations": [held(end=T0 + 20 * MINUTE)],
    }
    post(sender.batch(T0 + HOUR_MS, EMPTY, **told))

    assert before == {("slurm/della/7", ""): 20 * MINUTE, ("slurm/della/7", "certain"): 40 * MINUTE}
    assert states("n1", "job__key", "state") == {
        ("slurm/della/7", "useful"): 20 * MINUTE,
        (None, "free"): 41 * MINUTE,
    }
    assert not Entry.objects.filter(tier="certain").exists()
    assert unbalanced(hour(-1), hour(3), now=NOW) == []


@pytest.mark.parametrize("is_history_first", [False, True])
def test_accounting_that_comes_later_or_first_leaves_the_same_ledger(is_history_first):
    jobs = {"jobs": [a_job(start_ms=T0)], "allocations": [held()]}
    said = [Sender().batch(T0, *[BUSY] * 20, *[EMPTY] * 40, **jobs), sacct(T0 + 20 * MINUTE)]

    for batch in reversed(said) if is_history_first else said:
        post(batch)

    assert states("n1", "job__key", "state") == {
        ("slurm/della/7", "useful"): 20 * MINUTE,
        (None, "free"): 40 * MINUTE,
    }
    assert unbalanced(hour(-1), hour(3), now=NOW) == []


def test_a_closed_month_keeps_its_entries_and_is_adjusted_by_what_accounting_says():
    november = datetime(2026, 11, 1, tzinfo=UTC)
    start = to_ms(november) - 2 * HOUR_MS
    now = november + timedelta(days=3)
    jobs = {"jobs": [a_job(start_ms=start)], "allocations": [held(start=start)]}
    post(Sender().batch(start, *[BUSY] * 20, *[EMPTY] * 40, **jobs), now=now)
    closing.close_month(date(2026, 10, 1), by="ann", now=now)
    entries = ledger()

    post(sacct(start + 20 * MINUTE, start_ms=start), now=now)

    assert ledger() == entries
    assert sorted(Adjustment.objects.values_list("job__key", "state", "gpu_ms"), key=repr) == [
        ("slurm/della/7", "idle", -40 * MINUTE),
        (None, "free", 40 * MINUTE),
    ]
    assert (
        unbalanced(
            from_ms(start) - timedelta(hours=1), from_ms(start) + timedelta(hours=3), now=now
        )
        == []
    )
