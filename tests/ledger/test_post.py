"""Posting through Postgres: what arrives in whatever order ends as the same ledger."""

import itertools
from datetime import timedelta

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.accounts.selectors import organisation
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import judgement_inputs, services
from fleetwatch.ledger.models import Entry, HourRuns, NodeDay
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry.models import Batch, TouchedHour
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    HALF,
    MINUTE,
    NOW,
    QUIET,
    T0,
    Sender,
    a_job,
    held,
    hour,
    ledger,
    parts,
    post,
    states,
    store,
)  # fmt: skip

pytestmark = pytest.mark.django_db

JOB = {"jobs": [a_job()], "allocations": [held()]}


def balanced():
    return unbalanced(hour(-2), hour(12), now=NOW) == []


def test_what_was_touched_is_posted_once():
    did = post(Sender().batch(T0, *[BUSY] * 60, **JOB))

    assert states() == {"useful": HOUR_MS}
    assert (did["hours"], did["changed"]) == (1, 1)
    assert services.post(NOW, 100)["hours"] == 0
    assert not TouchedHour.objects.exists()
    assert balanced()


def test_posting_again_what_did_not_change_writes_nothing():
    post(Sender().batch(T0, *[HALF] * 60, **JOB))
    rows = list(Entry.objects.values_list("pk", flat=True)) + list(
        HourRuns.objects.values_list("pk", flat=True)
    )
    services.repost(T0, T0 + HOUR_MS)

    did = services.post(NOW, 100)

    assert did["changed"] == 0
    assert rows == list(Entry.objects.values_list("pk", flat=True)) + list(
        HourRuns.objects.values_list("pk", flat=True)
    )


def test_an_hour_that_activity_parts_from_the_ones_before_is_judged_alone(monkeypatch):
    sender = Sender()
    judged = []
    whole = judgement_inputs.judge_nodes
    monkeypatch.setattr(
        judgement_inputs, "judge_nodes", lambda *asked: judged.append(asked[1:3]) or whole(*asked)
    )
    post(sender.batch(T0, *[BUSY] * 60, **JOB))
    first = judged.copy()

    post(sender.batch(T0 + HOUR_MS, *[QUIET] * 3, **JOB))
    alone = judged.copy()
    # hours before that were judged by another policy are judged by the one in force
    services.set_policy(Policy(idle_batch_s=600), now=from_ms(T0 + HOUR_MS))
    post(sender.batch(T0 + HOUR_MS + 3 * MINUTE, BUSY, **JOB))

    assert (first, alone) == ([(T0, T0 + HOUR_MS)], [(T0, T0 + HOUR_MS)])
    assert judged == [(T0, T0 + HOUR_MS), (T0, T0 + 2 * HOUR_MS)]
    assert states() == {"useful": HOUR_MS + MINUTE, "stalled": 3 * MINUTE}
    assert balanced()


def test_the_earlier_hour_is_posted_again_when_a_run_passes_t_idle():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 50, *[QUIET] * 10, **JOB))
    before = states()
    post(sender.batch(T0 + HOUR_MS, *[QUIET] * 5, BUSY, **JOB))

    assert before == {"useful": 50 * MINUTE, "stalled": 10 * MINUTE}
    assert states("n1", "start", "state") == {
        (hour(0), "useful"): 50 * MINUTE,
        (hour(0), "idle"): 10 * MINUTE,
        (hour(1), "idle"): 5 * MINUTE,
        (hour(1), "useful"): MINUTE,
    }
    assert balanced()


def test_late_data_that_breaks_a_run_takes_the_hours_around_back():
    sender = Sender()
    late = sender.batch(T0 + HOUR_MS, BUSY, **JOB)
    post(
        sender.batch(T0 + 52 * MINUTE, *[QUIET] * 8, **JOB),
        sender.batch(T0 + HOUR_MS + MINUTE, *[QUIET] * 8, BUSY, **JOB),
    )
    assert states()["idle"] == 16 * MINUTE

    post(late)

    # 8 quiet minutes before it, begun before the allocation was seen to begin, and 8 after it
    assert states() == {"useful": 2 * MINUTE, "stalled": 16 * MINUTE}
    assert balanced()


def test_hours_that_no_batch_touched_are_unobserved_capacity():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 10, **JOB))
    post(
        sender.batch(
            T0 + 5 * HOUR_MS,
            *[BUSY] * 10,
            jobs=[a_job()],
            allocations=[held(start=T0 + 5 * HOUR_MS)],
        )
    )

    assert states() == {"useful": 20 * MINUTE, "unobserved": 5 * HOUR_MS - 10 * MINUTE}
    assert balanced()


def test_live_capacity_ends_where_the_nodes_telemetry_ends():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 10, host={"start_ms": [T0 + 14 * MINUTE]}, **JOB))

    assert states() == {"useful": 10 * MINUTE, "unobserved": 5 * MINUTE}


def test_retirement_takes_time_back():
    sender = Sender(gpus=2)
    post(sender.batch(T0, *[EMPTY] * 60), sender.batch(T0 + HOUR_MS, *[EMPTY] * 60))
    GPU.objects.filter(uuid="GPU-n1-1").update(retired_ms=T0 + 30 * MINUTE)
    services.repost(T0 + HOUR_MS, T0 + HOUR_MS + 1)

    services.post(NOW, 100)

    assert states("n1", "gpu__index") == {0: 2 * HOUR_MS, 1: 30 * MINUTE}
    assert balanced()


def test_a_lost_gpu_stays_unavailable_until_it_is_back():
    sender = Sender()
    lost = {"events": [{"gpu": 0, "at_ms": T0 + 10 * MINUTE, "kind": "gpu_lost"}]}
    back = {"events": [{"gpu": 0, "at_ms": T0 + 3 * HOUR_MS, "kind": "gpu_ok"}]}
    post(sender.batch(T0, *[BUSY] * 10, **JOB, **lost))
    late = sender.batch(T0 + 3 * HOUR_MS, *[EMPTY] * 10, **back)
    post(sender.batch(T0 + 4 * HOUR_MS, *[EMPTY] * 10))
    assert states()["unavailable"] == 4 * HOUR_MS

    post(late)

    assert states() == {
        "useful": 10 * MINUTE,
        "unavailable": 3 * HOUR_MS - 10 * MINUTE,
        "free": 20 * MINUTE,
        "unobserved": 50 * MINUTE,
    }
    assert balanced()


def test_five_minutes_of_work_end_unavailability_however_late_they_are_told():
    sender = Sender()
    xid = {"events": [{"gpu": 0, "at_ms": T0 + 10 * MINUTE, "kind": "xid", "code": 109}]}
    post(sender.batch(T0, *[BUSY] * 10, **JOB, **xid))
    late = sender.batch(T0 + HOUR_MS, *[BUSY] * 5, jobs=[a_job()], allocations=[held(start=T0)])
    post(sender.batch(T0 + 6 * HOUR_MS, *[BUSY] * 4, **JOB))
    assert states()["unavailable"] == 6 * HOUR_MS - 6 * MINUTE

    post(late)

    assert states("n1", "state", "reason") == {
        ("useful", ""): 19 * MINUTE,
        ("unavailable", "xid_109"): 50 * MINUTE,
        ("unobserved", "missing"): 4 * HOUR_MS + 55 * MINUTE,
    }
    assert balanced()


def test_entries_are_cut_at_the_organisations_midnight_too():
    company = organisation()
    company.time_zone = "Asia/Kolkata"
    company.save(update_fields=["time_zone"])

    post(
        Sender().batch(T0 + 12 * HOUR_MS, *[BUSY] * 60, jobs=[a_job()], allocations=[held()]),
        now=NOW + timedelta(hours=2),
    )

    # 18:30 UTC is midnight in India
    assert states("n1", "start") == {
        hour(12): 30 * MINUTE,
        hour(12) + timedelta(minutes=30): 30 * MINUTE,
    }
    assert unbalanced(hour(12), hour(14), now=NOW + timedelta(hours=2)) == []


def test_mig_instances_are_parts_of_their_parent():
    instance = {
        "uuid": "MIG-n1-0",
        "index": 9,
        "parent_uuid": "GPU-n1-0",
        "mig_profile": "3g.40gb",
        "sm_count": 33,
    }
    sender = Sender(extra_gpus=[instance])
    mapping = sender.batch(T0, *[BUSY] * 60, jobs=[a_job()], allocations=[held(gpu=1)])
    mapping["gpus"][0]["sm_count"] = 132

    post(mapping)

    assert states("n1", "gpu__index", "state") == {
        (9, "useful"): 15 * MINUTE,
        (0, "free"): 45 * MINUTE,
    }
    assert balanced()


def test_an_hour_of_which_runs_alone_are_others_has_another_version():
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    entries = list(Entry.objects.values_list("pk", flat=True))
    before = NodeDay.objects.get().version
    services.repost(T0, T0 + HOUR_MS)
    services.post(NOW, 100)
    assert NodeDay.objects.get().version == before
    HourRuns.objects.all().delete()

    services.repost(T0, T0 + HOUR_MS)
    services.post(NOW, 100)

    assert list(Entry.objects.values_list("pk", flat=True)) == entries
    assert NodeDay.objects.get().version == before + 1


def test_another_policy_is_another_version_and_its_entries_name_it():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 50, *[QUIET] * 10, **JOB))
    strict = services.set_policy(Policy(idle_batch_s=300), now=NOW)
    assert states() == {"useful": 50 * MINUTE, "stalled": 10 * MINUTE}

    services.repost(T0, T0 + HOUR_MS)
    services.post(NOW, 100)

    assert states("n1", "state", "policy__version") == {
        ("useful", strict.version): 50 * MINUTE,
        ("idle", strict.version): 10 * MINUTE,
    }
    assert strict.version == 2
    assert balanced()


def test_a_deleted_job_leaves_its_time():
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ledger_entry WHERE job_id IS NOT NULL")
        assert cursor.fetchone()[0] == 1

    Entry.objects.get().job.delete()

    assert states() == {"useful": HOUR_MS}


def test_nothing_older_than_the_columns_is_judged_again(settings):
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    settings.RAW_RETENTION_DAYS = 1
    services.repost(T0, T0 + HOUR_MS)

    did = services.post(NOW + timedelta(days=30), 100)

    assert did["late"] == 1
    assert states() == {"useful": HOUR_MS}


def test_a_node_that_cannot_be_posted_keeps_no_other_from_it():
    broken, well = Sender("broken"), Sender("well")
    store(broken.batch(T0, *[BUSY] * 60, **JOB))
    store(well.batch(T0, *[BUSY] * 60, **JOB))
    kept = bytes(Batch.objects.get(node_id=Node.objects.get(name="broken").pk).payload)
    Batch.objects.filter(node_id=Node.objects.get(name="broken").pk).update(payload=b"not gzip")

    with pytest.raises(services.PostingError, match="1 nodes could not be posted"):
        services.post(NOW, 100)

    assert (states("well"), states("broken")) == ({"useful": HOUR_MS}, {})
    assert TouchedHour.objects.count() == 1

    Batch.objects.filter(node_id=Node.objects.get(name="broken").pk).update(payload=kept)
    services.post(NOW, 100)
    assert states("broken") == {"useful": HOUR_MS}


def test_the_hour_that_goes_on_is_posted_each_two_minutes_and_what_is_over_at_once():
    sender = Sender()
    before, other = T0 - MINUTE, Sender("n2")

    def posted(minutes, seconds=0):
        now = from_ms(T0 + (60 * minutes + seconds) * 1000)
        services.post(now, 100, open_hour_each=timedelta(minutes=2))
        return {name: sum(states(name).values()) for name in ("n1", "n2")}

    store(sender.batch(T0, BUSY, **JOB), now=from_ms(T0 + MINUTE))
    assert posted(1) == {"n1": MINUTE, "n2": 0}  # it was never posted: at once
    store(sender.batch(T0 + MINUTE, BUSY, **JOB), now=from_ms(T0 + 2 * MINUTE))
    store(other.batch(T0, BUSY), now=from_ms(T0 + 2 * MINUTE))
    assert posted(2) == {"n1": MINUTE, "n2": MINUTE}
    assert posted(2, seconds=59) == {"n1": MINUTE, "n2": MINUTE}
    assert posted(3) == {"n1": 2 * MINUTE, "n2": MINUTE}
    late = sender.batch(before, BUSY, **JOB)
    store(late, now=from_ms(T0 + 4 * MINUTE))
    assert posted(4) == {"n1": 3 * MINUTE, "n2": MINUTE}
    assert not TouchedHour.objects.exists()


def test_posting_at_once_waits_for_no_two_minutes():
    sender = Sender()
    post(sender.batch(T0, BUSY, **JOB), now=from_ms(T0 + MINUTE))

    post(sender.batch(T0 + MINUTE, BUSY, **JOB), now=from_ms(T0 + 2 * MINUTE))

    assert states() == {"useful": 2 * MINUTE}


# --- the key property ---

SAYS = st.sampled_from([QUIET, QUIET, QUIET, BUSY, HALF, EMPTY, None])


@st.composite
def histories(draw):
    """Batches of an agent over 5 hours: each some minutes long, with its allocations; some never
    come.
    """
    edges = sorted(
        draw(st.one_of(st.just({0, 300}), st.sets(st.integers(0, 300), min_size=2, max_size=4)))
    )
    jobs = [a_job("slurm/della/1"), a_job("slurm/della/2", kind="service")]
    holds = [
        held(
            job=number % 2,
            start=T0 + start * MINUTE,
            end=T0 + end * MINUTE,
            share=draw(st.sampled_from([None, 0.5])),
        )
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    ]
    events = [
        {"gpu": 0, "at_ms": T0 + draw(st.integers(0, 300)) * MINUTE, "kind": kind}
        for kind in draw(
            st.sampled_from([[], [], ["gpu_lost"], ["gpu_lost", "gpu_ok"], ["drained", "resumed"]])
        )
    ]
    found, at = [], 0
    while at < 240:
        # longest first: the simplest history has few batches, not 240
        minutes = draw(st.sampled_from([25, 25, 13, 8, 7, 1]))
        says = draw(SAYS)
        start, end = T0 + at * MINUTE, T0 + (at + minutes) * MINUTE
        named = [one for one in holds if one["start_ms"] < end and one["end_ms"] > start]
        here = [one for one in events if start <= one["at_ms"] < end]
        found.append(
            (start, [says] * minutes, {"jobs": jobs, "allocations": named, "events": here})
        )
        at += minutes
    return [one for one in found if draw(st.integers(0, 6))] or found


numbers = iter(range(1_000_000))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.randoms(use_true_random=False))
def test_posting_as_data_arrives_ends_as_posting_everything_at_once(history, random):
    # at the start, not the end: Hypothesis breaks off an example where its random numbers run out
    Entry.objects.all().delete()
    HourRuns.objects.all().delete()
    Node.objects.update(last_ms=None)
    number = next(numbers)
    at_once, as_it_comes = Sender(f"once-{number}"), Sender(f"live-{number}")
    batches = [as_it_comes.batch(start, *says, **keys) for start, says, keys in history]
    for start, says, keys in history:
        store(at_once.batch(start, *says, **keys))
    services.post(NOW, 10_000)

    order = [*batches, *random.sample(batches, len(batches) // 3)]
    random.shuffle(order)
    for batch in order:
        store(batch)
        if random.random() < 0.6:
            services.post(NOW, random.choice([1, 2, 10_000]))
    services.post(NOW, 10_000)

    assert ledger(as_it_comes.node) == ledger(at_once.node)
    assert parts(as_it_comes.node) == parts(at_once.node)
    assert unbalanced(hour(-1), hour(7), now=NOW) == []
