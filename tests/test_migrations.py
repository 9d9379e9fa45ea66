"""Migrations: complete, each by itself, and with a way back.

The database of a test run is an empty one that they migrated.
"""

import ast
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection, migrations
from django.db.migrations.executor import MigrationExecutor

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = sorted((ROOT / "fleetwatch").glob("*/migrations/0*.py"))
# what is packed already, or read whole by every figure: beside its row, and not compressed again
PACKED = {
    ("costs_fleetday", "job_spans"),
    ("costs_fleetday", "node_spans"),
    ("costs_fleetday", "gpu_spans"),
    ("costs_fleetday", "hour_spans"),
    ("costs_summedday", "spans"),
    ("costs_summedday", "alike_spans"),
    ("costs_summedday", "total_spans"),
    ("diagnosis_diagnosedday", "spans"),
    ("ledger_stateday", "spent"),
    ("telemetry_batch", "payload"),
    ("telemetry_chunk", "host"),
    ("telemetry_chunk", "payload"),
}


def test_no_migration_knows_another_but_by_its_dependencies():
    strangers = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MIGRATIONS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Constant)
        and ".migrations." in ast.unparse(node)
    ]

    assert MIGRATIONS
    assert strangers == []


@pytest.mark.django_db
def test_models_say_what_migrations_made_of_an_empty_database():
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
def test_what_sql_made_can_be_taken_back_and_made_again():
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    steps = [
        step for made, _ in plan for step in made.operations if isinstance(step, migrations.RunSQL)
    ]
    before = made_by_sql()
    with connection.cursor() as cursor:
        for step in reversed(steps):
            cursor.execute(step.reverse_sql or "SELECT")
        without = made_by_sql()

        for step in steps:
            cursor.execute(step.sql)

    assert len(before) > 15
    assert without == set()
    assert made_by_sql() == before


def made_by_sql() -> set[str]:
    """Views, functions and the table that Django did not make."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind IN ('v', 'p')"
            " UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        )
        return {name for (name,) in cursor.fetchall()}


@pytest.mark.django_db
def test_packed_bytes_are_not_compressed_again():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE a.attstorage = 'e' AND NOT c.relispartition"
            " AND c.relnamespace = 'public'::regnamespace"
        )
        assert set(cursor.fetchall()) == PACKED
