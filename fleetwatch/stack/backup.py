"""The hub's data in one file, and back: COPY of every table in one snapshot, as tar of zstd.

Independent of the Postgres version and of client programs. A backup of an older
FleetWatch is restored at its own schema and then migrated.
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Collection, Container, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import zstandard
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from psycopg import sql

from fleetwatch.lib.sql import execute
from fleetwatch.stack import former_schema
from fleetwatch.stack.folder import new_private
from fleetwatch.telemetry import partitions

FORMAT = 1
MANIFEST = "manifest.json"
COPY_BYTES = 1 << 20
AUDIT_LOG = "accounts_auditentry"
SKIPPED = (
    "django_migrations",  # the schema's own history: restoring sets it
    "costs_ownerchange",  # of this database's transactions: jobs that are restored note themselves
)
Say = Callable[[str], None]


class BackupError(Exception):
    """A backup that can't be made or read; the text says why and what to do."""


def write(path: Path, *, now: datetime, say: Say, overwrites: bool = False) -> None:
    """Writes all tables to `path`, whole or not at all; ingest goes on meanwhile.

    Raises BackupError when the file can't be written, or is there and nobody said that it may be
    overwritten.
    """
    if path.exists() and not overwrites:
        raise BackupError(
            f"{path} exists and was left as it is: name another file, or overwrite it with --force"
        )
    partial = path.with_name(f".{path.name}.partial")
    try:
        with (
            new_private(partial) as file,
            tarfile.open(fileobj=file, mode="w") as archive,
            transaction.atomic(),
        ):
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            _add_all(archive, now, say)
        partial.replace(path)
    except OSError as error:
        raise BackupError(f"{path} can't be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _add_all(archive: tarfile.TarFile, now: datetime, say: Say) -> None:
    tables = _tables()
    manifest = {
        "format": FORMAT,
        "made_at": now.isoformat(),
        "migrations": former_schema.applied(),
        "tables": tables,
        "hot": [partition.start.isoformat() for partition in partitions.existing()],
    }
    _add(archive, MANIFEST, io.BytesIO(json.dumps(manifest).encode()))
    for table, columns in tables.items():
        _add_table(archive, table, columns)
        say(table)


def restore(path: Path, *, say: Say) -> None:
    """Replaces an empty hub's data by the backup's, then migrates to this version.

    Raises BackupError when the file is no backup, is of a newer FleetWatch, or the hub
    already has nodes.
    """
    manifest = _manifest(path)
    _migrate_to(former_schema.at_present(manifest["migrations"], what=str(path)))
    for start in manifest["hot"]:  # a hot batch needs the partition of its time
        partitions.ensure_for(datetime.fromisoformat(start))
    tables: dict[str, list[str]] = manifest["tables"]
    try:
        with tarfile.open(path) as archive, transaction.atomic():
            _empty(tables)
            for table, columns in tables.items():
                _load_table(archive, table, columns)
                say(table)
            _advance_sequences()
    except (tarfile.TarError, zstandard.ZstdError, KeyError) as error:
        raise BackupError(f"{path} is damaged ({error}); nothing was changed") from error
    call_command("migrate", interactive=False, verbosity=0)


def _migrate_to(made_at: Mapping[str, str]) -> None:
    """Gives the empty hub the schema of these migrations."""
    migrations = MigrationLoader(connection).disk_migrations
    _refuse_newer(made_at, migrations)
    _refuse_filled()
    former_schema.take_over()
    call_command("migrate", interactive=False, verbosity=0)
    newest = former_schema.newest(migrations)
    older = [(app, name) for app, name in made_at.items() if newest[app] != name]
    MigrationExecutor(connection).migrate(older)  # in one plan: each plan takes seconds


def _tables() -> dict[str, list[str]]:
    """Our tables (a partitioned one once, by its parent) and their stored columns, in order."""
    rows = execute(
        "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c JOIN"
        " pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND"
        " a.attgenerated = '' WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r',"
        " 'p') AND NOT c.relispartition GROUP BY c.relname ORDER BY c.relname"
    )
    return {table: columns for table, columns in rows if table not in SKIPPED}


def _copy_text(table: str, columns: list[str], direction: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    if direction == "TO":  # a query, because COPY of a partitioned parent gives nothing
        return sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT binary)").format(
            names, sql.Identifier(table)
        )
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(sql.Identifier(table), names)


def _add_table(archive: tarfile.TarFile, table: str, columns: list[str]) -> None:
    with tempfile.TemporaryFile() as packed:
        with (
            zstandard.ZstdCompressor(level=3).stream_writer(packed, closefd=False) as writer,
            connection.cursor() as cursor,
            cursor.copy(_copy_text(table, columns, "TO")) as copy,
        ):
            for block in copy:
                writer.write(block)
        _add(archive, f"{table}.copy.zst", packed)


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    facts = tarfile.TarInfo(name)
    facts.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    archive.addfile(facts, content)


def _load_table(archive: tarfile.TarFile, table: str, columns: list[str]) -> None:
    member = archive.extractfile(f"{table}.copy.zst")
    assert member is not None  # noqa: S101 - a regular file, or KeyError above
    with (
        zstandard.ZstdDecompressor().stream_reader(member) as reader,
        connection.cursor() as cursor,
        cursor.copy(_copy_text(table, columns, "FROM")) as copy,
    ):
        while block := reader.read(COPY_BYTES):
            copy.write(block)


def _manifest(path: Path) -> dict[str, Any]:
    try:
        with tarfile.open(path) as archive:
            member = archive.extractfile(MANIFEST)
            manifest: dict[str, Any] = json.load(member) if member else {}
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise BackupError(f"{path} is no whole FleetWatch backup ({error})") from error
    if manifest.get("format") != FORMAT:
        raise BackupError(
            f"{path} has backup format {manifest.get('format')!r}, this version reads {FORMAT}"
        )
    return manifest


def _refuse_newer(made_at: Mapping[str, str], migrations: Container[tuple[str, str]]) -> None:
    unknown = [f"{app}.{name}" for app, name in made_at.items() if (app, name) not in migrations]
    if unknown:
        raise BackupError(
            f"the backup is of a newer FleetWatch (it has {', '.join(sorted(unknown))}): restore it"
            " with that version"
        )


def _refuse_filled() -> None:
    if "inventory_node" in connection.introspection.table_names() and execute(
        "SELECT 1 FROM inventory_node LIMIT 1"
    ):
        raise BackupError(
            "this hub already has nodes: restore into an empty one (another data folder or"
            " database)"
        )


def _empty(tables: Collection[str]) -> None:
    """What a hub without nodes has is its first start's, its audit log too."""
    names = sql.SQL(", ").join(map(sql.Identifier, tables))
    if AUDIT_LOG in tables:
        execute(f"ALTER TABLE {AUDIT_LOG} DISABLE TRIGGER audit_table_stays")
    execute(sql.SQL("TRUNCATE {} CASCADE").format(names))
    if AUDIT_LOG in tables:
        execute(f"ALTER TABLE {AUDIT_LOG} ENABLE TRIGGER audit_table_stays")


def _advance_sequences() -> None:
    """Sets every sequence behind the largest number in use."""
    owned = execute(
        "SELECT c.relname, a.attname, pg_get_serial_sequence(quote_ident(c.relname), a.attname)"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT"
        " a.attisdropped WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"
        " AND NOT c.relispartition AND pg_get_serial_sequence(quote_ident(c.relname), a.attname) IS"
        " NOT NULL"
    )
    for table, column, sequence in owned:
        execute(
            sql.SQL("SELECT setval({}, GREATEST((SELECT max({}) FROM {}), 1))").format(
                sql.Literal(sequence), sql.Identifier(column), sql.Identifier(table)
            )
        )
