"""A node that falls silent stays on the bill: its time is unobserved, and becomes what it was when
its data comes late.
"""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from django.db.models import F

from fleetwatch.celery import app
from fleetwatch.ingest.services import bill_silent_nodes, retire_silent_gpus
from fleetwatch.ingest.tasks import bill_silent
from fleetwatch.inventory.models import GPU
from fleetwatch.inventory.models import Node as NodeRow
from fleetwatch.ledger import explain
from fleetwatch.ledger.judgement.states import judge
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.operations.models import JobRun
from fleetwatch.telemetry.models import TouchedHour
from tests.ledger import factories
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    MINUTE,
    START,
    T0,
    Sender,
    a_job,
    held,
    hour,
    ledger,
    post,
    states,
    store,
)

pytestmark = pytest.mark.django_db
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def at(ms):
    return from_ms(T0 + ms)


def bill_and_post(ms):
    """Both at T0 + ms; how many nodes' bills became longer."""
    did = bill_silent_nodes(at(ms))
    post(now=at(ms))
    return did["nodes"]


def heard(minutes, *, start_ms=0, sender=None, now_ms=None, **keys):
    """A node whose GPU was free for so many minutes, all received as the last window ended."""
    batch = (sender or Sender()).batch(T0 + start_ms, *[EMPTY] * minutes, **keys)
    end_ms = start_ms + minutes * MINUTE
    post(batch, now=at(end_ms if now_ms is None else now_ms))


def test_a_silent_node_is_unobserved_from_its_last_sign_of_life_on():
    heard(60)

    assert bill_and_post(HOUR + 31 * MINUTE) == 1

    assert states("n1", "state", "reason") == {
        ("free", ""): HOUR,
        ("unobserved", "silent"): 30 * MINUTE,
    }
    assert unbalanced(hour(-1), hour(4), now=at(2 * HOUR)) == []


@pytest.mark.parametrize(
    ("silent_ms", "billed_ms"),
    [(3 * MINUTE - 1, 0), (3 * MINUTE, 2 * MINUTE), (3 * MINUTE + 1, 2 * MINUTE + 1)],
)
def test_a_node_is_silent_after_three_minutes_and_billed_to_a_minute_ago(silent_ms, billed_ms):
    heard(60)

    assert bill_and_post(HOUR + silent_ms) == (billed_ms > 0)

    assert states("n1", "reason").get("silent", 0) == billed_ms


def test_the_bill_grows_minute_by_minute_and_once_only():
    heard(60)
    for minute in (10, 11, 11):
        bill_and_post(HOUR + minute * MINUTE)

    assert bill_silent_nodes(at(HOUR + 11 * MINUTE))["nodes"] == 0

    assert TouchedHour.objects.count() == 0
    assert states() == {"free": HOUR, "unobserved": 10 * MINUTE}


def test_the_minutes_task_makes_the_bill():
    bill_silent()

    assert JobRun.objects.filter(name="ingest.bill_silent", ok=True).exists()
    assert any(
        each["task"] == bill_silent.name and each["schedule"] == 60
        for each in app.conf.beat_schedule.values()
    )


def test_a_silence_of_hours_is_billed_at_once_when_the_hub_was_off():
    heard(30)

    bill_and_post(26 * HOUR)

    assert states() == {"free": 30 * MINUTE, "unobserved": 26 * HOUR - 31 * MINUTE}
    assert unbalanced(hour(-1), hour(30), now=at(26 * HOUR)) == []


def test_late_data_turns_silence_into_what_it_was():
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(2 * HOUR + MINUTE)

    late = sender.batch(
        T0 + HOUR, *[BUSY] * 20, jobs=[a_job()], allocations=[held(start=T0 + HOUR)]
    )
    post(late, now=at(2 * HOUR + 2 * MINUTE))

    assert states("n1", "state", "reason") == {
        ("free", ""): HOUR,
        ("useful", ""): 20 * MINUTE,
        ("unobserved", "silent"): 40 * MINUTE,
    }
    assert unbalanced(hour(-1), hour(4), now=at(3 * HOUR)) == []


def test_a_node_that_returns_without_its_past_was_not_observed_meanwhile():
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(HOUR + 31 * MINUTE)

    heard(10, start_ms=HOUR + 40 * MINUTE, sender=sender)

    assert states("n1", "state", "reason") == {
        ("free", ""): HOUR + 10 * MINUTE,
        ("unobserved", "missing"): 40 * MINUTE,
    }
    assert unbalanced(hour(-1), hour(4), now=at(2 * HOUR)) == []


def test_all_late_data_leaves_no_trace_of_the_silence():
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(HOUR + 50 * MINUTE)
    heard(60, start_ms=HOUR, sender=sender)

    steady = Sender("n2")
    heard(60, sender=steady)
    heard(60, start_ms=HOUR, sender=steady)

    assert ledger("n1") == ledger("n2")


@pytest.mark.parametrize(("received_ms", "billed"), [(HOUR - 1, 1), (HOUR, 0)])
def test_a_replay_of_what_was_recorded_an_hour_ago_is_no_live_node(received_ms, billed):
    heard(60, now_ms=HOUR + received_ms)

    assert bill_silent_nodes(at(3 * HOUR))["nodes"] == billed


@pytest.mark.parametrize(("silent_ms", "billed"), [(7 * DAY - 1, 1), (7 * DAY, 0)])
def test_history_that_was_dead_for_seven_days_is_never_billed(silent_ms, billed):
    heard(60)

    assert bill_silent_nodes(at(HOUR + silent_ms))["nodes"] == billed


def test_a_late_spool_takes_no_silence_off_the_bill():
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(5 * HOUR)
    heard(60, start_ms=HOUR, sender=sender, now_ms=5 * HOUR)

    assert bill_and_post(6 * HOUR) == 1

    assert states() == {"free": 2 * HOUR, "unobserved": 4 * HOUR - MINUTE}


def test_who_dies_while_it_catches_up_is_silent_though_no_bill_was_made_before():
    sender = Sender()
    heard(60, sender=sender)
    heard(60, start_ms=HOUR, sender=sender, now_ms=5 * HOUR)

    assert bill_and_post(6 * HOUR) == 1

    assert states("n1", "state", "reason") == {
        ("free", ""): 2 * HOUR,
        ("unobserved", "silent"): 4 * HOUR - MINUTE,
    }
    assert unbalanced(hour(-1), hour(7), now=at(6 * HOUR)) == []


@pytest.mark.parametrize(
    ("silent_ms", "billed"), [(7 * DAY - 1, 1), (7 * DAY, 0), (7 * DAY + 1, 0)]
)
def test_seven_days_after_what_came_late_nothing_is_billed_any_more(silent_ms, billed):
    sender = Sender()
    heard(60, sender=sender)
    heard(60, start_ms=HOUR, sender=sender, now_ms=5 * HOUR)

    assert bill_silent_nodes(at(2 * HOUR + silent_ms))["nodes"] == billed


def test_a_replay_in_many_batches_is_no_live_node():
    sender = Sender()
    for part in range(5):
        heard(30, start_ms=part * 30 * MINUTE, sender=sender, now_ms=6 * HOUR + part * MINUTE)

    assert bill_and_post(7 * HOUR) == 0

    assert states() == {"free": 150 * MINUTE}


@pytest.mark.parametrize("seed", range(12))
def test_once_it_was_live_a_node_is_silent_from_its_newest_window_on_in_whatever_order(seed):
    random = Random(seed)
    sender = Sender()
    batches = [sender.batch(T0 + part * 20 * MINUTE, *[EMPTY] * 20) for part in range(9)]
    live = batches.pop(random.randrange(len(batches)))
    store(live, now=at(live["windows"]["start_ms"][-1] - T0 + MINUTE))
    random.shuffle(batches)
    came = random.randrange(1, len(batches))
    for place, batch in enumerate(batches[:came]):
        store(batch, now=at(5 * HOUR + place * MINUTE))
    starts = [start for batch in [live, *batches[:came]] for start in batch["windows"]["start_ms"]]
    newest_ms = max(starts) - T0 + MINUTE

    assert bill_and_post(6 * HOUR) == 1

    assert states("n1", "reason")["silent"] == 6 * HOUR - MINUTE - newest_ms
    assert unbalanced(hour(-1), hour(7), now=at(6 * HOUR)) == []


def test_a_node_without_a_gpu_is_on_no_bill():
    batch = Sender(gpus=0).batch(T0, host={"start_ms": [T0], "cpu_ratio": [0.5]})
    store(batch, now=at(MINUTE))

    assert bill_silent_nodes(at(HOUR))["nodes"] == 0


@pytest.mark.parametrize(("silent_ms", "retired"), [(7 * DAY, 0), (7 * DAY + MINUTE, 1)])
def test_seven_silent_days_retire_the_gpus_as_of_their_last_window(silent_ms, retired):
    heard(60)
    bill_and_post(2 * DAY)
    bill_and_post(HOUR + silent_ms)

    did = retire_silent_gpus(at(HOUR + silent_ms))
    post(now=at(HOUR + silent_ms))

    assert did == {"retired": retired}
    assert states().get("unobserved", 0) == (0 if retired else 7 * DAY - MINUTE)
    assert unbalanced(hour(-1), hour(200), now=at(HOUR + silent_ms)) == []


def test_a_silent_node_that_spoke_for_its_gpus_is_retired_too():
    heard(60)
    NodeRow.objects.update(
        continued_order=F("facts_order"),
        windows_ms=F("last_ms") + 10 * MINUTE,
        last_ms=F("last_ms") + 10 * MINUTE,
    )
    bill_and_post(6 * DAY)
    bill_and_post(8 * DAY)

    assert retire_silent_gpus(at(8 * DAY)) == {"retired": 1}
    assert GPU.objects.get().retired_ms == T0 + HOUR + 10 * MINUTE


def test_a_hub_that_was_off_as_the_seventh_day_ended_retires_all_the_same():
    heard(60)
    bill_and_post(6 * DAY)
    bill_and_post(30 * DAY)

    assert retire_silent_gpus(at(30 * DAY)) == {"retired": 1}
    assert bill_and_post(31 * DAY) == 0

    assert states() == {"free": HOUR}


def test_a_retired_node_comes_back_by_itself():
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(8 * DAY)
    bill_and_post(9 * DAY)
    heard(1, start_ms=10 * DAY, sender=sender)

    assert GPU.objects.get().retired_ms is None
    assert states()["free"] == HOUR + MINUTE


def test_a_gpu_that_was_lost_before_the_silence_is_unavailable():
    heard(60, events=[{"at_ms": T0 + 30 * MINUTE, "kind": "gpu_lost", "gpu": 0}])

    bill_and_post(2 * HOUR + MINUTE)

    assert states() == {"free": 30 * MINUTE, "unavailable": 90 * MINUTE}


def test_the_silence_is_explained():
    heard(60)
    bill_and_post(HOUR + 31 * MINUTE)

    told = explain.stretches(GPU.objects.get(), Interval(at(HOUR), at(2 * HOUR)))

    assert [(one.start_ms - T0, one.end_ms - T0, one.rule) for one in told] == [
        (
            HOUR,
            HOUR + 30 * MINUTE,
            ["its node gave no sign of life any more, and nothing says that it was down"],
        )
    ]


def test_silence_changes_no_judgement_of_what_was_before_it():
    windows = factories.row((factories.QUIET, 5 * MINUTE))
    end_ms = factories.T0 + 5 * MINUTE
    heard_only = factories.Node(windows, end_ms=end_ms).question()
    asked = factories.Node(windows, end_ms=end_ms + 30 * MINUTE).question()
    silent = replace(asked, nodes=[replace(asked.nodes[0], silent_ms=end_ms)])

    before, after = list(judge(heard_only).entries), list(judge(silent).entries)

    assert before == [entry for entry in after if entry.reason != "silent"]
    assert [(entry.job_id, entry.gpu_ms) for entry in after if entry.reason == "silent"] == [
        (7, 30 * MINUTE)
    ]


def test_a_host_sample_later_than_the_windows_is_a_sign_of_life():
    batch = Sender().batch(
        T0, *[EMPTY] * 10, host={"start_ms": [T0 + 12 * MINUTE], "cpu_ratio": [0.5]}
    )
    post(batch, now=at(13 * MINUTE))

    bill_and_post(21 * MINUTE)

    assert states("n1", "reason") == {"": 10 * MINUTE, "missing": 3 * MINUTE, "silent": 7 * MINUTE}


@pytest.mark.parametrize("seed", range(8))
def test_whatever_comes_late_and_whenever_bills_are_made_each_millisecond_is_spent_once(seed):
    random = Random(seed)
    sender = Sender(gpus=2)
    batches = [
        sender.batch(T0 + part * 10 * MINUTE, *[random.choice((BUSY, EMPTY))] * 10)
        for part in range(18)
    ]
    now_ms = 3 * HOUR
    random.shuffle(batches)
    for batch in batches:
        now_ms += random.randrange(MINUTE)
        store(batch, now=at(now_ms))
        if random.random() < 0.5:
            bill_silent_nodes(at(now_ms))
        if random.random() < 0.3:
            post(now=at(now_ms))
    bill_silent_nodes(at(4 * HOUR + MINUTE))
    post(now=at(4 * HOUR + MINUTE))

    assert states("n1", "reason")["silent"] == 2 * HOUR
    assert sum(states().values()) == 2 * 4 * HOUR
    assert unbalanced(hour(-1), hour(6), now=at(5 * HOUR)) == []
    assert START + timedelta(hours=4) == from_ms(NodeRow.objects.get().live_ms)
