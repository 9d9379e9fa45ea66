"""The migration that ends findings of faults with their last hour in which a GPU could not work."""

from datetime import timedelta
from importlib import import_module

import pytest
from django.db import connection

from fleetwatch.diagnosis.models import CapacityEntry, Finding, Said
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.diagnosis.told import NOW, capacity, gpu, place

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def migrate() -> None:
    migration = import_module("fleetwatch.diagnosis.migrations.0003_faults_of_memory_errors")
    [step] = migration.Migration.operations
    with connection.cursor() as cursor:
        cursor.execute(step.sql)


def of_hours(cause: str, node: str, *hours: tuple[int, float]) -> Finding:
    """The node's finding, of hours (so long before NOW, the share that could have been used)."""
    for before, share in hours:
        capacity(cause, on=gpu(node=node), start=NOW - before * HOUR, low=share, high=share)
    begun = max(before for before, _ in hours)
    return place(cause, node=gpu(node=node).node, first_ms=to_ms(NOW - begun * HOUR))


def test_a_fault_begins_and_ends_with_the_hours_in_which_its_gpus_could_not_work():
    broken = of_hours("gpu_fault", "n1", (9, 0), (6, 1), (5, 1), (1, 0))
    goes_on = of_hours("gpu_fault", "n2", (3, 0), (1, 1))
    as_it_was = of_hours("gpu_fault", "n3", (6, 1))
    unseen = of_hours("no_telemetry", "n1", (2, 0))

    migrate()

    spans = {
        each.pk: ((to_ms(NOW) - each.first_ms) // HOUR_MS, (to_ms(NOW) - each.last_ms) // HOUR_MS)
        for each in Finding.objects.all()
    }
    assert spans == {
        broken.pk: (6, 4),
        goes_on.pk: (1, 0),
        as_it_was.pk: (6, 0),  # nothing was taken of it
        unseen.pk: (2, 0),
    }
    assert CapacityEntry.objects.filter(high_ms=0).get().cause == "no_telemetry"


def test_a_finding_of_memory_errors_alone_goes_unless_somebody_said_something_of_it():
    of_hours("gpu_fault", "n1", (2, 0))
    dismissed = of_hours("gpu_fault", "n2", (2, 0))
    Said.objects.create(finding=dismissed, kind="dismissed", at=NOW)

    migrate()

    assert list(Finding.objects.all()) == [dismissed]
