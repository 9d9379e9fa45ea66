"""A GPU that moves loses nothing: renamed hosts, swapped boards, late spools, in any order, before
and after seal and post.
"""

from datetime import timedelta
from random import Random

import pytest
from django.db.models import F

from fleetwatch.ingest.services import believe_silent_moves
from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.ledger.check import spent_twice
from fleetwatch.ledger.models import Entry, HourCells, HourRuns, NodeDay, Posted, StateDay
from fleetwatch.telemetry import seal
from fleetwatch.telemetry.models import Batch, Chunk, ReceivedSequence, SealMark, TouchedHour
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    MINUTE,
    NOW,
    QUIET,
    T0,
    Sender,
    a_job,
    held,
    hour,
    post,
    states,
    store,
)

pytestmark = pytest.mark.django_db
HOUR = 60 * MINUTE


def moves(hours=("n1", "n2", "n1")):
    """Batches of ten minutes, of one GPU that was an hour with each of these nodes, one after the
    other.
    """
    senders = {name: Sender(name, owner="n1") for name in hours}
    batches = []
    for number, name in enumerate(hours):
        for part in range(6):
            start = T0 + number * HOUR + part * 10 * MINUTE
            said = (BUSY if part % 2 else QUIET,) * 10
            batches.append(
                senders[name].batch(start, *said, jobs=[a_job()], allocations=[held(start=T0)])
            )
    return batches


def spent():
    return sorted(
        Entry.objects.values_list("node__name", "start", "state", "reason").annotate(ms=F("gpu_ms"))
    )


def seal_all():
    seal.seal_closed_hours(NOW + timedelta(hours=2), 1000)


def forget_all():
    for model in (
        Entry,
        HourRuns,
        Posted,
        HourCells,
        NodeDay,
        StateDay,
        Batch,
        Chunk,
        ReceivedSequence,
        SealMark,
        TouchedHour,
        GPU,
        Node,
    ):
        model.objects.all().delete()


def test_moves_commute_with_late_batches_whatever_was_sealed_and_posted_meanwhile():
    post(*moves())
    reference = spent()
    assert {reason for _, _, _, reason, _ in reference} == {""}

    for seed in range(8):
        forget_all()
        move_and_post_at_random(Random(seed))

        assert spent() == reference, seed
        assert unbalanced(hour(-1), hour(5), now=NOW) == [], seed


def move_and_post_at_random(random):
    batches = moves()
    random.shuffle(batches)
    for batch in [*batches, *batches[:3]]:
        store(batch)
        if random.random() < 0.2:
            post()
        if random.random() < 0.2:
            seal_all()
    believe_silent_moves(NOW)
    post()


@pytest.mark.parametrize("is_judged", [True, False])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_renamed_node_keeps_all_that_was_seen_under_its_old_name(is_judged, is_sealed):
    for batch in moves(("n1",)):
        store(batch)
    if is_judged:
        post()

    store(Sender("n2", owner="n1").batch(T0 + HOUR, *[BUSY] * 10))
    if is_sealed:
        seal_all()
    post()

    assert states("n1", "reason") == {"": HOUR}
    assert states("n2", "reason") == {"process": 10 * MINUTE}
    assert unbalanced(hour(-1), hour(3), now=NOW) == []


def test_the_spool_of_a_dead_host_counts_though_its_gpu_works_elsewhere():
    first, *late = moves(("n1",))
    post(first, Sender("n2", owner="n1").batch(T0 + HOUR, *[BUSY] * 10))

    post(*late)

    assert states("n1", "reason") == {"": HOUR}


def test_a_gpu_that_leaves_is_no_capacity_of_its_node_while_its_neighbour_is():
    post(Sender("n1", gpus=2).batch(T0, *[BUSY] * 60))
    post(Sender("n2", owner="n1").batch(T0 + 2 * HOUR, *[BUSY] * 60))

    assert states("n1", "gpu__index") == {0: HOUR, 1: HOUR}
    assert states("n2", "gpu__index") == {0: HOUR}


def test_what_two_nodes_observed_at_once_is_billed_once_and_the_other_waits_visibly():
    post(Sender("n1").batch(T0, *[BUSY] * 60))

    post(Sender("n2", owner="n1").batch(T0, *[BUSY] * 60))

    assert (states("n1", "state"), states("n2", "state")) == ({"orphaned": HOUR}, {})
    assert [stay.gpu.node.name for stay in Stay.objects.filter(is_believed=False)] == ["n2"]
    assert unbalanced(hour(-1), hour(3), now=NOW) == []


def test_windows_that_no_stay_claims_are_found():
    post(*moves(("n1",)))
    Stay.objects.update(last_ms=F("last_ms") - MINUTE)
    GPU.objects.update(last_ms=F("last_ms") - MINUTE)

    assert {fault.rule for fault in unbalanced(hour(-1), hour(3), now=NOW)} == {
        "every window has its stay"
    }


def test_observed_time_that_stands_as_missing_is_found():
    post(*moves(("n1",)))
    Entry.objects.filter(state="stalled").update(state="unobserved", reason="missing")

    assert "what windows tell is not missing" in {
        fault.rule for fault in unbalanced(hour(-1), hour(3), now=NOW)
    }


def test_one_gpu_on_two_nodes_at_once_is_found():
    post(Sender("n1").batch(T0, *[BUSY] * 60))
    post(Sender("n2").batch(T0, *[BUSY] * 60))
    GPU.objects.filter(node__name="n2").update(uuid="GPU-n1-0")

    assert [str(fault) for fault in spent_twice(hour(-1), hour(3))] == [
        "one node at a time: node any, 2026-11-20 06:00 UTC: GPU GPU-n1-0: 7200000 ms on all nodes"
        " together"
    ]
