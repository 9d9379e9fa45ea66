"""What was made by the former migrations is taken over where it is at the last of them, or refused
in one line.
"""

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from fleetwatch.alerts.models import Rule
from fleetwatch.inventory.models import Node
from fleetwatch.lib.sql import execute
from fleetwatch.stack import backup
from fleetwatch.stack.former_schema import (
    LAST,
    LAST_REVISION,
    PRESENT,
    OlderSchemaError,
    applied,
    at_present,
    newest,
    take_over,
)
from tests.stack.test_backup import NOW, QUIET, every_row

pytestmark = pytest.mark.django_db(transaction=True)

CHANGED = (
    *("accounts", "alerts", "costs", "diagnosis", "ingest", "inventory"),
    *("jobs", "ledger", "notify", "operations", "telemetry"),
)
NOW_IN_MINUTES = [("Job idle", 45, True)]  # what was the rule's threshold are its minutes
OLDER = LAST | {"costs": "0024_boards_of_virtual_gpus"}


@pytest.fixture
def history(transactional_db):
    """What the database says of its migrations, to be written otherwise."""
    rows = recorded()
    yield rows
    if recorded() != rows:
        record(rows)


@pytest.fixture
def former_tables(transactional_db):
    """Rooms whose tables changed since stand at the first migration, as the last former ones left
    them; gives what the database says of its migrations.
    """
    MigrationExecutor(connection).migrate([(room, PRESENT) for room in CHANGED])
    rows = recorded()
    yield rows
    if applied() != newest(MigrationLoader(connection).disk_migrations):
        record(rows)
        to_now()


def to_now():
    """By every migration that there is; the signals of the command are nobody's here."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def recorded():
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, name FROM django_migrations ORDER BY id")
        return cursor.fetchall()


def record(rows):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations")
        cursor.executemany(
            "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, now())", rows
        )


def former(rows, last=LAST):
    """The history of a database that the former migrations made."""
    return [row for row in rows if row[0] not in LAST] + list(last.items())


def test_a_database_of_now_is_left_as_it_is():
    before = applied()

    take_over()

    assert applied() == before
    assert at_present({}, what="an empty one") == {}


def test_an_older_database_is_refused_in_one_line_and_left_as_it_is(history, settings):
    record(former(history, OLDER))
    before = applied()
    settings.SECRET_KEY = "0123456789-abcdefghijklmnopqrstuvwxyz"

    with pytest.raises(OlderSchemaError) as refusal:
        call_command("initialise")

    said = str(refusal.value)
    assert said.startswith(
        f"this database is of a FleetWatch before revision {LAST_REVISION} (costs is at 0024_boards_of_virtual_gpus)"
    )
    assert said.endswith("as docs/upgrading.md says")
    assert "\n" not in said
    assert applied() == before


def test_a_backup_of_an_older_schema_is_refused_and_changes_nothing(tmp_path, history):
    record(former(history, OLDER))
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)
    record(history)
    before = every_row()

    with pytest.raises(
        OlderSchemaError, match="hub.backup is of a FleetWatch before .*costs is at 0024"
    ):
        backup.restore(tmp_path / "hub.backup", **QUIET)

    assert every_row() == before


def test_a_database_at_the_last_of_the_former_migrations_goes_on_and_so_does_its_backup(
    tmp_path, former_tables
):
    """In one test, because the tables of then take seconds to make."""
    execute(
        "INSERT INTO inventory_node (name, labels, window_s, agent, facts_order)"
        " VALUES ('gpu-07', '{}', 10, '{}', '[]')"
    )
    execute("DELETE FROM alerts_rule")
    execute(
        "INSERT INTO alerts_rule (name, condition, threshold, is_enabled, created_at)"
        " VALUES ('Job idle', 'job_idle', 45, true, now())"
    )
    before = every_row()
    del before["alerts_rule"]
    del before["ledger_run"]  # a view of ledger_hourruns now
    del before["inventory_node"]  # it has more columns now
    record(former(former_tables))
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)

    take_over()
    call_command("migrate", verbosity=0)

    assert applied() == newest(MigrationLoader(connection).disk_migrations)
    assert before.items() <= every_row().items()
    assert rules_of_idle_jobs() == NOW_IN_MINUTES
    assert Node.objects.get().name == "gpu-07"

    present = applied()
    call_command("flush", interactive=False, verbosity=0)
    backup.restore(tmp_path / "hub.backup", **QUIET)

    assert before.items() <= every_row().items()
    assert applied() == present
    assert rules_of_idle_jobs() == NOW_IN_MINUTES
    assert Node.objects.get().name == "gpu-07"


def rules_of_idle_jobs():
    rules = Rule.objects.filter(condition="job_idle")
    return list(rules.values_list("name", "minutes", "is_shipped"))
