"""Closed months: entries stay, adjustments say what is judged otherwise, and both sum to what an
open ledger says.
"""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.accounts.selectors import organisation
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import selectors, services
from fleetwatch.ledger.models import Adjustment, ClosedMonth, Entry, HourRuns
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.telemetry.services import touch_hours
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    HALF,
    MINUTE,
    QUIET,
    Sender,
    a_job,
    held,
    ledger,
    parts,
    post,
    store,
)

pytestmark = pytest.mark.django_db

END = datetime(2026, 11, 1, tzinfo=UTC)
T0 = to_ms(END) - 3 * HOUR_MS  # three hours of October, then November
NOW = END + timedelta(days=3)
OCTOBER = date(2026, 10, 1)
JOB = {"jobs": [a_job()], "allocations": [held(start=T0)]}


def close(month=OCTOBER, now=NOW, **facts):
    return closing.close_month(month, by="ann", now=now, **facts)


def said(node="n1"):
    """Entries and adjustments of the node as one: key -> (ms, joules to the millijoule)."""
    sums = Counter()
    names = (
        "gpu__index",
        "start",
        "job__key",
        "state",
        "kind",
        "reason",
        "signal",
        "efficiency_source",
        "tier",
    )
    for model in (Entry, Adjustment):
        for *key, gpu_ms, energy_j in model.objects.filter(node__name=node).values_list(
            *names, "gpu_ms", "energy_j"
        ):
            sums[*key, "ms", energy_j is None] += gpu_ms
            sums[*key, "mJ"] += round(1000 * (energy_j or 0))
    return {key: amount for key, amount in sums.items() if amount}


def adjusted(*names):
    return sorted(Adjustment.objects.values_list(*names, "gpu_ms"), key=repr)


def balanced(now=NOW):
    return (
        unbalanced(from_ms(T0) - timedelta(hours=2), from_ms(T0) + timedelta(hours=12), now=now)
        == []
    )


@pytest.fixture
def sender():
    """A node that worked three hours of October and one of November, but for ten minutes that come
    late.
    """
    one = Sender()
    post(
        one.batch(T0, *[BUSY] * 60, **JOB),
        one.batch(T0 + HOUR_MS, *[BUSY] * 50, **JOB),
        one.batch(T0 + 2 * HOUR_MS, *[BUSY] * 120, **JOB),
        now=NOW,
    )
    return one


def test_late_data_of_a_closed_month_is_an_adjustment_and_its_entries_stay(sender):
    close()
    before = ledger()

    did = post(sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[BUSY] * 10, **JOB), now=NOW)

    assert did["adjustments"] == 2
    assert ledger() == before
    assert adjusted("start", "job__key", "state", "reason", "cause") == [
        (
            from_ms(T0 + HOUR_MS),
            "slurm/della/7",
            "unobserved",
            "missing",
            "late data",
            -10 * MINUTE,
        ),
        (from_ms(T0 + HOUR_MS), "slurm/della/7", "useful", "", "late data", 10 * MINUTE),
    ]
    assert set(Adjustment.objects.values_list("booked_at", flat=True)) == {NOW}
    assert balanced()


def test_posted_again_nothing_is_adjusted_twice(sender):
    close()
    late = sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[HALF] * 10, **JOB)
    post(late, now=NOW)
    rows = list(Adjustment.objects.values_list("pk", flat=True))

    for _ in range(3):
        touch_hours(Node.objects.get().pk, [(T0, T0 + 4 * HOUR_MS)])
        post(late, now=NOW + timedelta(hours=1))

    assert list(Adjustment.objects.values_list("pk", flat=True)) == rows
    assert balanced()


def test_the_month_after_is_still_posted_whole(sender):
    close()

    post(
        sender.batch(
            T0 + 4 * HOUR_MS,
            *[EMPTY] * 60,
            jobs=[a_job()],
            allocations=[held(start=T0, end=T0 + 4 * HOUR_MS)],
        ),
        now=NOW,
    )

    assert not Adjustment.objects.exists()
    assert sum(Entry.objects.filter(start__gte=END).values_list("gpu_ms", flat=True)) == 2 * HOUR_MS
    assert balanced()


def test_an_allocation_that_is_told_late_moves_time_to_its_holder():
    sender = Sender()
    post(sender.batch(T0, *[EMPTY] * 240), now=NOW)
    close()

    post(
        sender.batch(
            T0 + 4 * HOUR_MS, EMPTY, jobs=[a_job()], allocations=[held(start=T0 + HOUR_MS)]
        ),
        now=NOW,
    )

    assert Entry.objects.filter(job__isnull=False, start__lt=END).count() == 0
    assert adjusted("job__key", "state", "kind", "tier", "cause") == [
        ("slurm/della/7", "idle", "cold", "certain", "allocation changed", HOUR_MS),
        ("slurm/della/7", "idle", "cold", "certain", "allocation changed", HOUR_MS),
        (None, "free", "", "potential", "allocation changed", -HOUR_MS),
        (None, "free", "", "potential", "allocation changed", -HOUR_MS),
    ]
    assert balanced()


def test_a_job_of_another_kind_is_judged_anew():
    quiet = Sender()
    post(quiet.batch(T0, *[BUSY] * 10, *[QUIET] * 20, *[BUSY] * 210, **JOB), now=NOW)
    close()
    Job.objects.update(kind="service")
    touch_hours(Node.objects.get().pk, [(T0, T0 + HOUR_MS)])

    services.post(NOW, 100)

    assert adjusted("state", "kind", "tier", "cause") == [
        ("idle", "held", "certain", "judged anew", -20 * MINUTE),
        ("stalled", "gap", "potential", "judged anew", 20 * MINUTE),
    ]
    assert balanced()


def test_a_gpu_that_was_gone_takes_its_time_back(sender):
    close()
    GPU.objects.update(retired_ms=T0 + 2 * HOUR_MS)
    touch_hours(Node.objects.get().pk, [(T0 + 3 * HOUR_MS, T0 + 3 * HOUR_MS + 1)])

    services.post(NOW, 100)

    assert adjusted("start", "state", "cause") == [
        (from_ms(T0 + 2 * HOUR_MS), "useful", "capacity changed", -HOUR_MS)
    ]
    assert balanced()


def test_another_policy_leaves_a_closed_month_to_its_own():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 50, *[QUIET] * 10, *[BUSY] * 180, **JOB), now=NOW)
    close()
    services.set_policy(Policy(idle_batch_s=300), now=NOW)
    services.repost(T0, T0 + 4 * HOUR_MS)

    services.post(NOW, 100)

    assert not Adjustment.objects.exists()
    assert set(Entry.objects.filter(start__lt=END).values_list("policy__version", flat=True)) == {1}
    assert set(Entry.objects.filter(start__gte=END).values_list("policy__version", flat=True)) == {
        2
    }
    assert balanced()


def test_late_data_of_a_closed_month_is_judged_by_the_months_policy(sender):
    close()
    services.set_policy(Policy(idle_batch_s=300), now=NOW)

    post(sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[QUIET] * 10, **JOB), now=NOW)

    assert [
        (state, version, ms) for state, version, ms in adjusted("state", "policy__version")
    ] == [
        ("stalled", 1, 10 * MINUTE),
        ("unobserved", 1, -10 * MINUTE),
    ]
    assert balanced()


def test_a_node_first_heard_of_later_is_adjusted_by_the_months_policy(sender):
    close()
    services.set_policy(Policy(idle_batch_s=300), now=NOW)

    post(Sender("n2").batch(T0, *[EMPTY] * 240), now=NOW)

    assert set(Adjustment.objects.values_list("node__name", "policy__version", "cause")) == {
        ("n2", 1, "capacity changed")
    }
    assert sum(Adjustment.objects.values_list("gpu_ms", flat=True)) == 3 * HOUR_MS
    assert balanced()


def test_a_month_that_ends_within_an_hour_is_closed_to_the_minute():
    company = organisation()
    company.time_zone = "Asia/Kolkata"  # its midnight is 18:30 UTC
    company.save(update_fields=["time_zone"])
    end_ms = to_ms(END) - 5 * HOUR_MS - 30 * MINUTE
    hour_ms = end_ms - 30 * MINUTE
    sender = Sender()
    post(
        sender.batch(hour_ms, *[BUSY] * 20, jobs=[a_job()], allocations=[held(start=hour_ms)]),
        now=NOW,
    )
    post(
        sender.batch(
            hour_ms + HOUR_MS, *[BUSY] * 60, jobs=[a_job()], allocations=[held(start=hour_ms)]
        ),
        now=NOW,
    )
    close()
    services.set_policy(Policy(idle_batch_s=300), now=NOW)

    post(
        sender.batch(
            hour_ms + 20 * MINUTE, *[BUSY] * 25, jobs=[a_job()], allocations=[held(start=hour_ms)]
        ),
        now=NOW,
    )

    assert adjusted("start", "state") == [
        (from_ms(hour_ms), "unobserved", -10 * MINUTE),
        (from_ms(hour_ms), "useful", 10 * MINUTE),
    ]
    assert dict(Entry.objects.filter(start=from_ms(end_ms)).values_list("state", "gpu_ms")) == {
        "useful": 15 * MINUTE,
        "unobserved": 15 * MINUTE,
    }
    assert unbalanced(from_ms(hour_ms), from_ms(hour_ms + 2 * HOUR_MS), now=NOW) == []


def test_adjustments_are_a_line_of_the_month_in_which_they_were_booked(sender):
    close()
    post(sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[BUSY] * 10, **JOB), now=NOW)
    november = Interval(END, datetime(2026, 12, 1, tzinfo=UTC))

    assert [row.gpu_ms for row in selectors.adjustments(november)] == [-10 * MINUTE, 10 * MINUTE]
    assert not selectors.adjustments(Interval(END - timedelta(days=31), END)).exists()


def test_a_posting_that_began_before_the_closing_books_after_the_month(sender):
    close()

    post(
        sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[BUSY] * 10, **JOB),
        now=END - timedelta(seconds=1),
    )

    assert set(Adjustment.objects.values_list("booked_at", flat=True)) == {END}


def test_one_millisecond_too_many_in_an_adjustment_is_found(sender):
    close()
    post(sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[BUSY] * 10, **JOB), now=NOW)
    row = Adjustment.objects.get(state="useful")
    row.gpu_ms += 1
    row.save(update_fields=["gpu_ms"])

    rules = {fault.rule for fault in unbalanced(from_ms(T0), from_ms(T0 + 4 * HOUR_MS), now=NOW)}

    assert rules == {
        "states sum to capacity",
        "runs hold the entries",
        "entries are what telemetry says",
    }


def test_an_adjustment_of_an_open_month_is_found(sender):
    close()
    post(sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[BUSY] * 10, **JOB), now=NOW)
    ClosedMonth.objects.all().delete()

    assert "adjustments correct closed months" in {
        fault.rule for fault in unbalanced(from_ms(T0), from_ms(T0 + 4 * HOUR_MS))
    }


# --- closing ---


def test_closing_is_kept_with_who_when_and_why(sender):
    close(reason="invoice 17 is signed")

    row = ClosedMonth.objects.get()
    assert (row.month, row.start, row.end) == (OCTOBER, datetime(2026, 10, 1, tzinfo=UTC), END)
    assert (row.closed_by, row.closed_at, row.reason, row.policy.version) == (
        "ann",
        NOW,
        "invoice 17 is signed",
        1,
    )
    assert selectors.closed_until() == END


@pytest.mark.parametrize(
    ("month", "now", "message"),
    [
        (date(2026, 11, 1), NOW, "2026-11 can be closed from 2026-12-01 01:35 UTC on"),
        (
            OCTOBER,
            END + timedelta(minutes=94, seconds=59),
            "can be closed from 2026-11-01 01:35 UTC on",
        ),
        (date(2026, 9, 1), NOW, "The ledger has no hour of 2026-09"),
    ],
)
def test_a_month_that_cannot_be_closed_says_why(sender, month, now, message):
    with pytest.raises(closing.ClosingError, match=message):
        close(month, now)

    assert not ClosedMonth.objects.exists()


def test_a_month_closes_from_the_moment_on_at_which_nothing_can_reach_it(sender):
    assert close(now=END + timedelta(minutes=95)).end == END


def test_a_month_with_hours_that_wait_is_not_closed(sender):
    store(sender.batch(T0 + HOUR_MS + 50 * MINUTE, *[BUSY] * 10, **JOB), now=NOW)

    with pytest.raises(closing.ClosingError, match="1 hours of 2026-10 wait to be posted"):
        close()


def test_months_are_closed_once_and_in_their_order(sender):
    later = datetime(2026, 12, 5, tzinfo=UTC)
    with pytest.raises(closing.ClosingError, match="2026-10 is still open"):
        close(date(2026, 11, 1), later)
    close()
    with pytest.raises(closing.ClosingError, match="2026-10 is closed already"):
        close()

    close(date(2026, 11, 1), later)

    assert selectors.closed_until() == datetime(2026, 12, 1, tzinfo=UTC)


def test_december_ends_with_the_year():
    post(
        Sender().batch(to_ms(datetime(2026, 12, 31, 23, tzinfo=UTC)), *[EMPTY] * 60),
        now=datetime(2027, 1, 1, 1, tzinfo=UTC),
    )

    assert close(date(2026, 12, 1), datetime(2027, 1, 2, tzinfo=UTC)).end == datetime(
        2027, 1, 1, tzinfo=UTC
    )


def test_the_command_closes_or_says_in_one_line_why_not(sender):
    out = StringIO()
    call_command("close_month", "2026-10", "--reason", "signed", stdout=out)

    assert (
        out.getvalue()
        == "2026-10 is closed: nothing before 2026-11-01 00:00 UTC changes any more\n"
    )
    assert ClosedMonth.objects.get().closed_by.endswith(", by manage.py")
    with pytest.raises(CommandError, match="closed already"):
        call_command("close_month", "2026-10")
    with pytest.raises(CommandError, match="Expected a month like 2026-10, not 'October'"):
        call_command("close_month", "October")


# --- the property ---

SAYS = st.sampled_from([QUIET, QUIET, BUSY, HALF, EMPTY, None])


@st.composite
def histories(draw):
    """Batches of an agent around a month's end, with its allocations and events; some never
    come.
    """
    edge = draw(st.integers(20, 220))
    jobs = [a_job("slurm/della/1"), a_job("slurm/della/2", kind="service")]
    holds = [
        held(start=T0 + 10 * MINUTE, end=T0 + edge * MINUTE),
        held(job=1, start=T0 + edge * MINUTE, end=T0 + 300 * MINUTE, share=0.5),
    ]
    lost = [
        {"gpu": 0, "at_ms": T0 + draw(st.integers(0, 240)) * MINUTE, "kind": kind}
        for kind in draw(st.sampled_from([[], ["gpu_lost"]]))
    ]
    found, at = [], 0
    while at < 240:
        # longest first: the simplest history has few batches
        minutes = draw(st.sampled_from([40, 25, 13, 8, 7]))
        start, end = T0 + at * MINUTE, T0 + (at + minutes) * MINUTE
        named = [one for one in holds if one["start_ms"] < end and one["end_ms"] > start]
        here = [one for one in lost if start <= one["at_ms"] < end]
        found.append(
            (start, [draw(SAYS)] * minutes, {"jobs": jobs, "allocations": named, "events": here})
        )
        at += minutes
    return found


numbers = iter(range(1_000_000))


def forget_the_example_before():
    """At the start, not the end: Hypothesis breaks off an example where its random numbers
    run out.
    """
    for model in (Entry, HourRuns, Adjustment, ClosedMonth):
        model.objects.all().delete()
    Node.objects.update(last_ms=None)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.randoms(use_true_random=False))
def test_entries_and_adjustments_end_as_what_an_open_ledger_says(history, random):
    forget_the_example_before()
    number, frozen = next(numbers), None
    is_open, is_closed = Sender(f"open-{number}"), Sender(f"closed-{number}")
    for start, says, keys in history:
        store(is_open.batch(start, *says, **keys), now=NOW)
    services.post(NOW, 10_000)
    wanted, wanted_parts = said(is_open.node), parts(is_open.node)
    Entry.objects.all().delete()
    HourRuns.objects.all().delete()
    Node.objects.update(last_ms=None)

    order = [is_closed.batch(start, *says, **keys) for start, says, keys in history]
    random.shuffle(order)
    for batch in order:
        store(batch, now=NOW)
        if random.random() < 0.5:
            services.post(NOW, random.choice([1, 3, 10_000]))
        if random.random() < 0.4 and not ClosedMonth.objects.exists():
            services.post(NOW, 10_000)
            kept = Entry.objects.filter(start__lt=END).exists() and close()
            frozen = [row for row in ledger(is_closed.node) if row[1] < END] if kept else None
    services.post(NOW, 10_000)

    assert said(is_closed.node) == wanted
    assert parts(is_closed.node) == wanted_parts
    if ClosedMonth.objects.exists():
        assert [row for row in ledger(is_closed.node) if row[1] < END] == frozen
    assert balanced()
