"""The migration that packed runs keeps each of them, there and back."""

from importlib import import_module

import pytest
from django.db import connection, migrations

from fleetwatch.accounts.selectors import organisation
from fleetwatch.ledger import run_rows
from fleetwatch.ledger.models import HourRuns, Run
from tests.ledger.fleet import BUSY, HALF, QUIET, T0, Sender, a_job, held, parts, post

pytestmark = pytest.mark.django_db
DAY_MS = 86_400_000


def steps() -> list[migrations.RunSQL]:
    migration = import_module("fleetwatch.ledger.migrations.0005_hour_runs").Migration
    return [step for step in migration.operations if isinstance(step, migrations.RunSQL)][1:]


def run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Marquesas"])  # a midnight at 09:30 UTC
def test_every_run_is_the_same_there_and_back(zone):
    its = organisation()
    its.time_zone = zone
    its.save()
    says = [BUSY] * 60 + [QUIET] * 180 + [HALF] * 60
    post(Sender().batch(T0, *says, jobs=[a_job()], allocations=[held()]))
    before = parts()
    stored = run_rows.stored_rows([Run.objects.first().node_id], 0, T0 + DAY_MS)
    fill, view = steps()

    run(view.reverse_sql, fill.reverse_sql)
    HourRuns.objects.all().delete()
    as_table = parts()
    run(fill.sql, view.sql)

    assert len(before) == 5 + (zone != "UTC")
    assert as_table == before
    assert parts() == before
    again = run_rows.stored_rows([*stored], 0, T0 + DAY_MS)
    assert [*map(compared, again.values())] == [*map(compared, stored.values())]
    assert HourRuns.objects.filter(in_trouble=True).exists()


def compared(hours: run_rows.StoredRows) -> list:
    return [run_rows.compared(rows) for _, rows in sorted(hours.items())]
