"""Hubs of before: rows of GPUs that moved bear their UUID again, and what was sealed under the
wrong row is their node's.
"""

import importlib

import numpy as np
import pytest
from django.apps import apps
from django.db import connection

from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry import codec
from fleetwatch.telemetry.models import Chunk, TouchedHour

stays_of_known_gpus = importlib.import_module(
    "fleetwatch.inventory.migrations.0005_stays_of_known_gpus"
)
windows_of_gpus_that_moved = importlib.import_module(
    "fleetwatch.telemetry.migrations.0007_windows_of_gpus_that_moved"
)
pytestmark = pytest.mark.django_db
HOUR = 3_600_000
T0 = 494_444 * HOUR


class Editor:
    """What a migration asks of Django's schema editor here."""

    connection = connection


def moved():
    """GPU-1 as hubs kept it: an hour at a, then at b."""
    a, b = Node.objects.create(name="a"), Node.objects.create(name="b")
    former = GPU.objects.create(
        uuid=f"GPU-1@{T0:013d}", node=a, first_ms=T0, last_ms=T0 + HOUR, retired_ms=T0 + HOUR
    )
    now = GPU.objects.create(uuid="GPU-1", node=b, first_ms=T0 + HOUR, last_ms=T0 + 2 * HOUR)
    return former, now


def test_rows_bear_their_uuid_again_and_their_times_are_stays():
    former, now = moved()

    stays_of_known_gpus.begin(apps, None)

    assert list(GPU.objects.order_by("pk").values_list("pk", "uuid")) == [
        (former.pk, "GPU-1"),
        (now.pk, "GPU-1"),
    ]
    assert list(
        Stay.objects.order_by("first_ms").values_list(
            "gpu_id", "uuid", "first_ms", "last_ms", "is_believed"
        )
    ) == [
        (former.pk, "GPU-1", T0, T0 + HOUR, True),
        (now.pk, "GPU-1", T0 + HOUR, T0 + 2 * HOUR, True),
    ]


def test_the_reverse_names_former_rows_by_their_first_window():
    former, now = moved()
    stays_of_known_gpus.begin(apps, None)

    stays_of_known_gpus.rename_back(apps, None)

    assert dict(GPU.objects.values_list("pk", "uuid")) == {
        former.pk: f"GPU-1@{T0:013d}",
        now.pk: "GPU-1",
    }


def test_of_rows_that_overlap_the_earlier_one_keeps_the_time():
    moved()
    GPU.objects.filter(uuid="GPU-1").update(first_ms=T0 + HOUR // 2)

    stays_of_known_gpus.begin(apps, None)

    assert list(Stay.objects.order_by("first_ms").values_list("first_ms", "last_ms")) == [
        (T0, T0 + HOUR),
        (T0 + HOUR, T0 + 2 * HOUR),
    ]


def test_a_gpu_for_which_its_node_speaks_stays_as_far_as_the_node_says():
    node = Node.objects.create(name="a", windows_ms=T0 + 3 * HOUR, continued_order=[1, 2])
    GPU.objects.create(uuid="GPU-1", node=node, first_ms=T0, last_ms=T0 + HOUR, facts_order=[1, 2])

    stays_of_known_gpus.begin(apps, None)

    assert Stay.objects.get().last_ms == T0 + 3 * HOUR


def test_windows_that_were_sealed_as_the_new_nodes_are_their_own_nodes_again_and_judged_anew():
    former, now = moved()
    stays_of_known_gpus.begin(apps, None)
    table = {"gpu_id": np.array([now.pk, now.pk]), "start_ms": np.array([T0, T0 + 10_000])}
    Chunk.objects.create(
        node_id=former.node_id,
        start=from_ms(T0),
        end=from_ms(T0 + HOUR),
        version=codec.VERSION,
        window_count=2,
        payload=codec.pack(table),
    )

    windows_of_gpus_that_moved.give_back(apps, Editor)

    assert codec.unpack(bytes(Chunk.objects.get().payload))["gpu_id"].tolist() == [
        former.pk,
        former.pk,
    ]
    assert list(TouchedHour.objects.values_list("node_id", "hour")) == [
        (former.node_id, from_ms(T0))
    ]
