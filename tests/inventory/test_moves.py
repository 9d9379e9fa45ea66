"""GPUs that change nodes: what is registered of them, and what waits to be believed."""

from datetime import timedelta

import pytest

from fleetwatch.inventory import selectors
from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.inventory.services import (
    believe,
    believe_silent,
    lock_node,
    node_by_name,
    register_batch,
)
from fleetwatch.inventory.steady import settle
from tests.ingest.factories import NOW, NOW_MS, T0, batch, gpu

pytestmark = pytest.mark.django_db
MINUTE = 60_000
LONG_AGO = NOW_MS - 120 * MINUTE


def register(*, node="n1", at=NOW, **keys):
    given = batch(node=node, **keys)
    locked = lock_node(node_by_name(node).pk, given, received_at=at)
    return register_batch(locked, given, offset_ms=0, received_at=at)


def stays(uuid="GPU-1"):
    return list(
        Stay.objects.filter(uuid=uuid)
        .order_by("first_ms", "pk")
        .values_list("gpu__node__name", "first_ms", "last_ms", "is_believed")
    )


def where(uuid="GPU-1"):
    return selectors.gpu(uuid).node.name


def test_a_gpu_is_with_the_node_that_reported_it_last_once_the_former_one_is_silent():
    register(node="n1", start_ms=LONG_AGO)

    register(node="n2", start_ms=LONG_AGO + 30_000)

    assert stays() == [
        ("n1", LONG_AGO, LONG_AGO + 30_000, True),
        ("n2", LONG_AGO + 30_000, LONG_AGO + MINUTE, True),
    ]
    assert where() == "n2"
    assert GPU.objects.get(node__name="n1").retired_ms == LONG_AGO + 30_000


@pytest.mark.parametrize(("silent_ms", "node"), [(599_999, "n1"), (600_000, "n2")])
def test_the_former_node_must_be_silent_for_ten_minutes_by_the_hubs_clock(silent_ms, node):
    at = NOW + timedelta(milliseconds=silent_ms)
    register(node="n1", start_ms=NOW_MS - 30_000)

    register(node="n2", start_ms=NOW_MS, at=at)

    assert where() == node


def test_windows_that_are_not_believed_yet_count_once_the_former_node_is_silent():
    register(node="n1", start_ms=NOW_MS - 30_000)
    early = register(node="n2", start_ms=NOW_MS + 60_000, at=NOW + timedelta(seconds=90))
    waiting = stays()

    changed = believe_silent(NOW + timedelta(minutes=10))

    assert list(early.refused) == [0]
    assert waiting[1] == ("n2", NOW_MS + 60_000, NOW_MS + 90_000, False)
    assert stays() == [
        ("n1", NOW_MS - 30_000, NOW_MS, True),
        ("n2", NOW_MS + 60_000, NOW_MS + 90_000, True),
    ]
    assert changed.keys() == {GPU.objects.get(node__name="n2").node_id}


def test_nothing_is_believed_by_time_alone_while_the_former_node_reports():
    register(node="n1", start_ms=NOW_MS - 30_000)
    register(node="n2", start_ms=NOW_MS - 30_000)
    register(node="n1", sequence=2, start_ms=NOW_MS + 9 * MINUTE, at=NOW + timedelta(minutes=10))

    assert believe_silent(NOW + timedelta(minutes=10)) == {}
    assert where() == "n1"


@pytest.mark.parametrize(("unnamed_ms", "node"), [(30_000, "n1"), (599_999, "n1"), (600_000, "n2")])
def test_a_former_node_lets_go_of_a_gpu_once_its_batches_are_without_it_for_ten_minutes(
    unnamed_ms, node
):
    both = [gpu("GPU-1"), gpu("GPU-2")]
    at = NOW + timedelta(milliseconds=unnamed_ms)
    register(node="n1", gpus=both, start_ms=NOW_MS - 30_000)
    register(node="n1", sequence=2, gpus=[gpu("GPU-2")], start_ms=NOW_MS, at=at)

    register(node="n2", start_ms=NOW_MS, at=at)

    assert where() == node


def test_boards_that_two_nodes_swapped_count_from_their_first_windows_ten_minutes_later():
    before = {"start_ms": NOW_MS - MINUTE}
    register(node="n1", gpus=[gpu("GPU-1")], **before)
    register(node="n2", gpus=[gpu("GPU-2")], **before)
    register(node="n1", sequence=2, gpus=[gpu("GPU-2")], start_ms=NOW_MS)
    register(node="n2", sequence=2, gpus=[gpu("GPU-1")], start_ms=NOW_MS)

    believe_silent(NOW + timedelta(minutes=10))

    assert stays("GPU-1") == [
        ("n1", NOW_MS - MINUTE, NOW_MS - 30_000, True),
        ("n2", NOW_MS, NOW_MS + 30_000, True),
    ]
    assert stays("GPU-2") == [
        ("n2", NOW_MS - MINUTE, NOW_MS - 30_000, True),
        ("n1", NOW_MS, NOW_MS + 30_000, True),
    ]


def test_a_node_whose_driver_names_no_gpu_has_let_go_of_none():
    register(node="n1", start_ms=NOW_MS - MINUTE)
    register(node="n1", sequence=2, gpus=[], windows={"gpu": [], "start_ms": [], "observed_ms": []})

    register(node="n2", start_ms=NOW_MS - 30_000)

    assert where() == "n1"


def test_windows_ahead_of_now_move_nothing_and_the_victim_goes_on():
    register(node="victim", start_ms=NOW_MS - 20 * MINUTE)

    register(node="thief", start_ms=NOW_MS + 200_000, count=7)
    register(node="victim", sequence=2, start_ms=NOW_MS - 30_000)

    assert where() == "victim"
    assert [stay for stay in stays() if stay[3]] == [
        ("victim", NOW_MS - 20 * MINUTE, NOW_MS - 20 * MINUTE + 30_000, True),
        ("victim", NOW_MS - 30_000, NOW_MS, True),
    ]


def test_a_thief_does_not_reach_back_over_time_that_the_victim_observed():
    register(node="victim", start_ms=LONG_AGO, count=6)
    register(node="thief", start_ms=LONG_AGO + 10 * MINUTE)

    register(node="thief", sequence=2, start_ms=LONG_AGO - 30_000, count=9)

    believed = [stay for stay in stays() if stay[3]]
    assert believed == [
        ("thief", LONG_AGO - 30_000, LONG_AGO, True),
        ("victim", LONG_AGO, LONG_AGO + MINUTE, True),
        ("thief", LONG_AGO + 10 * MINUTE, LONG_AGO + 10 * MINUTE + 30_000, True),
    ]


def test_the_node_that_was_robbed_has_its_gpu_back_when_the_thief_is_silent_and_no_name_collides():
    register(node="victim", start_ms=LONG_AGO)
    register(node="thief", start_ms=LONG_AGO + 20 * MINUTE)
    register(node="thief", sequence=2, start_ms=LONG_AGO - MINUTE)

    register(node="victim", sequence=2, start_ms=LONG_AGO + 60 * MINUTE)

    assert where() == "victim"
    assert [node for node, *_ in stays()] == ["thief", "victim", "thief", "victim"]


def test_what_the_former_node_still_sends_of_the_time_before_goes_to_its_stay():
    register(node="n1", start_ms=LONG_AGO)
    register(node="n2", start_ms=LONG_AGO + 90_000)

    late = register(node="n1", sequence=2, start_ms=LONG_AGO + 30_000, count=6)

    assert late.refused == {}
    assert stays()[0] == ("n1", LONG_AGO, LONG_AGO + 90_000, True)
    assert GPU.objects.get(node__name="n1").retired_ms == LONG_AGO + 90_000
    assert late.changed[GPU.objects.get(node__name="n1").node_id][0][0] == LONG_AGO + 30_000


def test_a_former_node_may_be_heard_of_after_the_new_one():
    register(node="n2", start_ms=LONG_AGO + 30_000)

    register(node="n1", start_ms=LONG_AGO)

    assert stays() == [
        ("n1", LONG_AGO, LONG_AGO + 30_000, True),
        ("n2", LONG_AGO + 30_000, LONG_AGO + MINUTE, True),
    ]
    assert where() == "n2"


def test_a_gpu_that_moves_back_has_one_row_with_each_node():
    register(node="n1", start_ms=LONG_AGO)
    register(node="n2", start_ms=LONG_AGO + 20 * MINUTE)

    register(node="n1", sequence=2, start_ms=LONG_AGO + 40 * MINUTE)

    assert [node for node, *_ in stays()] == ["n1", "n2", "n1"]
    assert dict(GPU.objects.values_list("node__name", "retired_ms")) == {
        "n1": None,
        "n2": LONG_AGO + 20 * MINUTE + 30_000,
    }


@pytest.mark.parametrize("named", [[], [gpu("GPU-1")]])
def test_instances_move_with_the_gpu_that_they_are_parts_of(named):
    parts = [gpu("MIG-1", parent_uuid="GPU-1", mig_profile="3g.40gb"), *named]
    windows = {"gpu": [0], "observed_ms": [10_000]}
    register(node="n1", gpus=parts, windows=windows | {"start_ms": [LONG_AGO]})

    register(node="n2", gpus=parts, windows=windows | {"start_ms": [LONG_AGO + 30_000]})

    families = GPU.objects.filter(parent__isnull=False).order_by("first_ms")
    assert list(
        families.values_list("node__name", "uuid", "parent__uuid", "parent__node__name")
    ) == [
        ("n1", "MIG-1", "GPU-1", "n1"),
        ("n2", "MIG-1", "GPU-1", "n2"),
    ]


def test_an_admin_may_say_that_it_moved():
    register(node="n1", start_ms=NOW_MS - MINUTE)
    register(node="n2", start_ms=NOW_MS - 30_000)

    changed = believe(GPU.objects.get(node__name="n2"))

    assert where() == "n2"
    assert changed.keys() == {Node.objects.get(name="n2").pk}
    assert not Stay.objects.filter(is_believed=False).exists()


def test_a_move_is_believed_by_what_the_short_way_told_of_the_former_node():
    register(node="n1", start_ms=NOW_MS - 30 * MINUTE)
    order = GPU.objects.get().facts_order
    Node.objects.update(windows_ms=NOW_MS - MINUTE, continued_order=order)

    register(node="n2", start_ms=NOW_MS - 30_000)

    assert where() == "n1"
    settle(Node.objects.values_list("pk", flat=True))
    assert stays()[0] == ("n1", NOW_MS - 30 * MINUTE, NOW_MS - MINUTE, True)


def test_a_batch_written_twice_changes_nothing():
    register(node="n1", start_ms=T0)
    before = stays()

    register(node="n1", start_ms=T0)

    assert stays() == before


def test_an_admin_gives_a_gpu_back_though_the_other_node_goes_on_in_step():
    register(node="victim", start_ms=NOW_MS - 30 * MINUTE)
    register(node="thief", start_ms=NOW_MS - 15 * MINUTE, count=60)
    register(node="victim", sequence=2, start_ms=NOW_MS - 14 * MINUTE, count=60)

    believe(GPU.objects.get(node__name="victim"))
    register(node="thief", sequence=2, start_ms=NOW_MS - 5 * MINUTE, count=24)
    register(node="victim", sequence=3, start_ms=NOW_MS - 4 * MINUTE, count=24)

    since = NOW_MS - 14 * MINUTE
    assert where() == "victim"
    assert [stay[:3] for stay in stays() if stay[3]] == [
        ("victim", NOW_MS - 30 * MINUTE, NOW_MS - 30 * MINUTE + 30_000),
        ("thief", NOW_MS - 15 * MINUTE, since),
        ("victim", since, NOW_MS),
    ]
    assert GPU.objects.get(node__name="thief").retired_ms == since


def test_an_admin_takes_all_that_a_thief_has_of_a_gpu():
    register(node="thief", start_ms=NOW_MS - 10 * MINUTE)
    register(node="victim", start_ms=NOW_MS - 10 * MINUTE)

    believe(GPU.objects.get(node__name="victim"))

    thief = GPU.objects.get(node__name="thief")
    assert (where(), thief.first_ms, thief.last_ms) == ("victim", None, None)
    assert [stay[0] for stay in stays() if stay[3]] == ["victim"]


def test_gpus_that_name_each_other_as_parent_are_no_instances_of_each_other():
    register(gpus=[gpu("GPU-1", parent_uuid="GPU-2"), gpu("GPU-2", parent_uuid="GPU-1")])

    assert GPU.objects.filter(parent=None).count() == 1
    assert list(GPU.objects.filter(parent__parent__isnull=False)) == []


def test_an_instance_whose_whole_gpu_another_node_reports_is_refused_with_it():
    register(node="n1", start_ms=NOW_MS - MINUTE)

    refused = register(
        node="n2",
        gpus=[gpu("MIG-1", parent_uuid="GPU-1", mig_profile="3g.40gb")],
        start_ms=NOW_MS - MINUTE,
    ).refused

    assert refused[0].why.startswith("it is a part of GPU-1: node n1 reports this GPU too")


def test_a_flood_of_claims_makes_no_more_stays_than_a_life_has():
    register(node="victim", start_ms=NOW_MS - MINUTE)
    day = 24 * 60 * MINUTE
    for number in range(1, 9):
        starts = [NOW_MS - number * day + step * 11 * MINUTE for step in range(32)]
        windows = {"gpu": [0] * 32, "start_ms": starts, "observed_ms": [10_000] * 32}
        register(node="thief", sequence=number, windows=windows)

    assert Stay.objects.count() <= 102
