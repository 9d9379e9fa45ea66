"""What migrations of diagnosis do with rows that stand."""

import importlib

import pytest
from django.db import connection

from fleetwatch.diagnosis import cause_checks
from fleetwatch.diagnosis.models import CauseEntry, DiagnosedDay
from fleetwatch.lib.intervals import Interval
from fleetwatch.telemetry.models import Chunk
from tests.diagnosis.told import DAY, NOW, cause, diagnosed, gpu

pytestmark = pytest.mark.django_db
not_well = importlib.import_module("fleetwatch.diagnosis.migrations.0010_what_wastes_is_not_well")


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize(("wasted_ms", "told"), [(540_000, "healthy"), (540_001, "undetermined")])
def test_what_wasted_more_than_it_may_is_no_longer_called_well(wasted_ms, told):
    diagnosed(NOW - 2 * DAY, is_summed=True)
    cause("healthy", start=NOW - 2 * DAY, low=0, high=0, also=["small_batch"])
    CauseEntry.objects.update(idle_certain_ms=wasted_ms)

    run(not_well.NOT_WELL)

    assert CauseEntry.objects.get().cause == told
    assert DiagnosedDay.objects.get().is_summed == (told == "healthy")
    assert not [
        fault
        for fault in cause_checks.faults(Interval(NOW - 3 * DAY, NOW))
        if fault.startswith("what is called")
    ]


def test_days_whose_windows_are_all_kept_are_judged_anew():
    on = gpu().node
    kept = {"start": NOW - 2 * DAY, "end": NOW - 2 * DAY + DAY / 24}
    Chunk.objects.create(node_id=on.pk, version=1, window_count=0, payload=b"", **kept)
    for days in (2, 1):
        diagnosed(NOW - days * DAY)

    run(not_well.JUDGE_AGAIN)

    versions = dict(DiagnosedDay.objects.values_list("day", "versions"))
    assert versions == {(NOW - 2 * DAY).date(): [1] * 24, (NOW - DAY).date(): [0] * 24}
