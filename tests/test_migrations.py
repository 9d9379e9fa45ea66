"""Migrations: complete, each by itself, and with a way back."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = sorted((ROOT / "fleetwatch").glob("*/migrations/0*.py"))
THERE_AND_BACK = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
for target in ([], ["inventory", "zero"], ["accounts", "zero"], []):
    call_command("migrate", *target, verbosity=0)
    names = connection.introspection.table_names()
    print(sum(name.startswith(("costs_", "ledger_", "telemetry_")) for name in names))
"""
# what is packed already, or read whole by every figure: beside its row, and not compressed again
PACKED = {
    ("costs_summedday", "spans"),
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
def test_models_say_what_migrations_made():
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


def test_an_empty_database_is_made_and_taken_back_and_made_again():
    url = os.environ["DATABASE_URL"].replace("@/fleetwatch?", "@/empty?")
    assert "@/empty?" in url
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS empty")
        server.execute("CREATE DATABASE empty")

    done = subprocess.run(
        [sys.executable, "-c", THERE_AND_BACK],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    made, without_nodes, without_accounts, again = map(int, done.stdout.split())
    assert made == again > 20
    # of costs what knows no node stays as long as accounts do
    assert (without_nodes, without_accounts) == (0, 0)


@pytest.mark.django_db
def test_packed_bytes_are_not_compressed_again():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE a.attstorage = 'e' AND NOT c.relispartition"
            " AND c.relnamespace = 'public'::regnamespace"
        )
        assert set(cursor.fetchall()) == PACKED
