"""A backup in one snapshot, and a restore that gives back every row."""

import json
import tarfile
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.alerts.shipped_rules import add_missing
from fleetwatch.costs.models import OwnerChange, Rate
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.stack import backup
from fleetwatch.telemetry import partitions
from fleetwatch.telemetry.models import Batch

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LONG_AGO = datetime(2026, 10, 1, 7, tzinfo=UTC)
QUIET = {"say": lambda _text: None}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def filled():
    add_missing(NOW)
    node = Node.objects.create(name="gpu-07", labels={"pool": "a"}, last_ms=1_794_000_000_000)
    gpu = GPU.objects.create(
        uuid="GPU-1", node=node, model=GPUModel.objects.create(name="H100 SXM")
    )
    job = Job.objects.create(key="slurm/della/1", user="Zoë <script>")
    Allocation.objects.create(
        gpu=gpu, job=job, source="slurm", share=None, asserted=[(0, 10), (20, 30)]
    )
    Rate.objects.create(
        node=node, price_per_gpu_hour=Decimal("3.141593"), valid_from=NOW, created_at=NOW
    )
    User.objects.create_user("ann", password="a-long-password-1")
    partitions.ensure_for(LONG_AGO)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO telemetry_batch (received_at, node_id, boot_id, boot_start_ms, sequence,"
            " start_ms, end_ms, offset_ms, quarantined, payload) VALUES (%s, %s, 'boot', 0, 1, 0,"
            " 10000, 0, false, '\\x00ff')",
            [LONG_AGO, node.pk],
        )


def every_row() -> dict[str, list[tuple[object, ...]]]:
    with connection.cursor() as cursor:
        found = {}
        for table in backup._tables():
            cursor.execute(f'SELECT t::text FROM "{table}" t ORDER BY 1')
            found[table] = cursor.fetchall()
    return found


def test_a_restored_hub_has_every_row_of_the_backup_and_goes_on_numbering(filled, tmp_path):
    before = every_row()
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)
    call_command("flush", interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {partitions.partition_for(LONG_AGO).name}")

    backup.restore(tmp_path / "hub.backup", **QUIET)

    assert every_row() == before
    assert Batch.objects.get().received_at == LONG_AGO
    assert Allocation.objects.get().asserted == [(0, 10), (20, 30)]
    assert Node.objects.create(name="gpu-08").pk > Node.objects.get(name="gpu-07").pk


def test_whose_jobs_changed_is_not_in_a_backup_and_restored_jobs_are_noted(filled, tmp_path):
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)
    call_command("flush", interactive=False, verbosity=0)

    backup.restore(tmp_path / "hub.backup", **QUIET)

    assert [change.job_id for change in OwnerChange.objects.all()] == [Job.objects.get().pk]


def test_a_backup_is_private_and_leaves_no_partial_file(filled, tmp_path):
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)

    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [
        ("hub.backup", 0o600)
    ]


def test_a_backup_overwrites_a_file_only_when_it_is_told_to(filled, tmp_path):
    file = tmp_path / "hub.backup"
    file.write_text("last week's")

    with pytest.raises(CommandError, match="hub.backup exists and was left as it is: .* --force"):
        call_command("backup", str(file))
    assert file.read_text() == "last week's"

    call_command("backup", str(file), "--force")
    entry = AuditEntry.objects.get()
    size = {"bytes": file.stat().st_size}
    assert (entry.action, entry.subject, entry.detail) == ("export.backup", str(file), size)
    assert tarfile.is_tarfile(file)


def test_nobody_else_may_read_a_backup_while_it_is_written(filled, tmp_path):
    (tmp_path / ".hub.backup.partial").write_bytes(b"what a killed backup left, readable by all")
    (tmp_path / ".hub.backup.partial").chmod(0o644)
    modes = set()

    def look(_table: str) -> None:
        modes.update(path.stat().st_mode & 0o777 for path in tmp_path.iterdir())

    backup.write(tmp_path / "hub.backup", now=NOW, say=look)

    assert modes == {0o600}


def test_a_hub_with_nodes_is_never_overwritten(filled, tmp_path):
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)

    with pytest.raises(CommandError, match="this hub already has nodes: restore into an empty one"):
        call_command("restore", str(tmp_path / "hub.backup"))


def test_a_damaged_backup_changes_nothing(filled, tmp_path):
    backup.write(tmp_path / "hub.backup", now=NOW, **QUIET)
    whole = (tmp_path / "hub.backup").read_bytes()
    (tmp_path / "hub.backup").write_bytes(whole[: len(whole) * 2 // 3])
    call_command("flush", interactive=False, verbosity=0)
    add_missing(NOW)  # a migrated hub has its rules
    before = every_row()

    with pytest.raises(
        backup.BackupError, match="is damaged .*; nothing was changed|is no whole FleetWatch backup"
    ):
        backup.restore(tmp_path / "hub.backup", **QUIET)

    assert every_row() == before


def test_a_file_that_is_no_backup_is_refused_in_one_line(tmp_path):
    (tmp_path / "notes.txt").write_text("not a backup")

    with pytest.raises(CommandError, match="is no whole FleetWatch backup"):
        call_command("restore", str(tmp_path / "notes.txt"))


def test_a_backup_of_a_newer_fleetwatch_is_refused(tmp_path):
    manifest = json.dumps(
        {"format": 1, "migrations": {"ledger": "9999_from_the_future"}, "tables": {}}
    ).encode()
    with tarfile.open(tmp_path / "hub.backup", "w") as archive:
        facts = tarfile.TarInfo("manifest.json")
        facts.size = len(manifest)
        archive.addfile(facts, __import__("io").BytesIO(manifest))

    with pytest.raises(
        backup.BackupError, match="of a newer FleetWatch .*ledger.9999_from_the_future"
    ):
        backup.restore(tmp_path / "hub.backup", **QUIET)


def test_a_folder_that_cannot_be_written_is_said(filled, tmp_path):
    with pytest.raises(CommandError, match="can't be written: No such file or directory"):
        call_command("backup", str(tmp_path / "missing" / "hub.backup"))
