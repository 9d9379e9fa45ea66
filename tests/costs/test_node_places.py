"""Where nodes stand: labels that change later reprice nothing of before."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.costs.models import NodePlace
from fleetwatch.costs.node_places import note_places, place_of
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.costs.tasks import note_places as note_places_task
from fleetwatch.inventory.models import Node

NOW = datetime(2026, 11, 20, 19, 47, tzinfo=UTC)
HOUR = NOW.replace(minute=0)


def places():
    return list(
        NodePlace.objects.order_by("valid_from").values_list(
            "pool", "node_class", "region", "valid_from", "valid_to"
        )
    )


@pytest.mark.django_db
def test_the_first_labels_hold_from_the_beginning_and_others_from_the_hour_they_are_noticed():
    node = Node.objects.create(
        name="gpu-01", labels={"pool": "train", "class": "spot", "region": "eu-1"}
    )

    assert note_places(NOW) == {"moved": 1}
    assert note_places(NOW) == {"moved": 0}
    node.labels = {"pool": "serve", "class": "On-Demand", "region": "eu-1"}
    node.save()
    assert note_places(NOW + timedelta(days=1)) == {"moved": 1}

    assert places() == [
        ("train", "spot", "eu-1", BEGINNING, HOUR + timedelta(days=1)),
        ("serve", "on_demand", "eu-1", HOUR + timedelta(days=1), None),
    ]


@pytest.mark.django_db
def test_two_changes_within_an_hour_leave_the_last():
    node = Node.objects.create(name="gpu-01")
    note_places(NOW - timedelta(days=1))
    for pool in ("a", "b"):
        node.labels = {"pool": pool}
        node.save()
        note_places(NOW)

    assert [(pool, start, end) for pool, _, _, start, end in places()] == [
        ("", BEGINNING, HOUR),
        ("b", HOUR, None),
    ]


@pytest.mark.django_db
def test_a_clock_that_was_ahead_leaves_no_overlap():
    node = Node.objects.create(name="gpu-01")
    for pool, at in (("a", NOW), ("b", NOW + timedelta(hours=5)), ("c", NOW)):
        node.labels = {"pool": pool}
        node.save()
        note_places(at)

    assert [(pool, start, end) for pool, _, _, start, end in places()] == [
        ("a", BEGINNING, HOUR),
        ("c", HOUR, None),
    ]


@pytest.mark.django_db
def test_each_node_has_its_own_place():
    for number in range(3):
        Node.objects.create(name=f"gpu-{number}", labels={"pool": f"p{number}"})

    note_places_task()

    assert set(NodePlace.objects.values_list("node__name", "pool")) == {
        ("gpu-0", "p0"),
        ("gpu-1", "p1"),
        ("gpu-2", "p2"),
    }


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, ("", "", "")),
        ({"pool": " a ", "class": "RESERVED", "region": "eu"}, ("a", "reserved", "eu")),
        ({"class": "platinum"}, ("", "", "")),
        ({"pool": 7, "region": None, "class": ["spot"]}, ("", "", "")),
        ({"pool": "x" * 100}, ("x" * 63, "", "")),
    ],
)
def test_labels_that_say_nothing_known_say_nothing(labels, place):
    assert place_of(labels) == place
