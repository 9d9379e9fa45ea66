"""What migrations of jobs do with rows that stand."""

import importlib

import pytest
from django.db import connection

from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Job, JobRecord
from fleetwatch.jobs.records import Facts, Voice, known_jobs
from fleetwatch.jobs.selectors import records_of
from tests.ingest.factories import NOW, T0, batch, gpu, holding, job

pytestmark = pytest.mark.django_db


def store(node, *, start_ms=T0, **keys):
    parsed, packed = batch(node=node, start_ms=start_ms, gpus=[gpu(f"GPU-{node}")], **keys)
    store_batch(node_by_name(node), parsed, packed, received_at=NOW)


def upgraded():
    """As after the upgrade of a hub that had no records."""
    migration = importlib.import_module("fleetwatch.jobs.migrations.0009_records_of_known_jobs")
    of_words = importlib.import_module("fleetwatch.jobs.migrations.0012_jobs_that_share_a_key")
    JobRecord.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        # as it was then
        cursor.execute("ALTER TABLE jobs_job ADD COLUMN facts_order jsonb DEFAULT '[]'")
        cursor.execute("UPDATE jobs_job SET facts_order = %s", [f"[{T0 + 30_000}, 7, 2]"])
        cursor.execute("ALTER TABLE jobs_jobrecord ALTER COLUMN \"user\" SET DEFAULT ''")
        for statement in (
            migration.HOLDERS,
            migration.OTHERS,
            migration.HOLDERS,
            of_words.RECORDS,
            of_words.UNHEARD,
        ):
            cursor.execute(statement)


def test_jobs_that_stand_are_of_those_who_held_them():
    store("n2", start_ms=T0 + 10_000, **holding(job(state="RUNNING", labels={"a": 1})))
    store("n1", start_ms=T0, **holding(job(state="RUNNING", labels={"a": 1})))
    before = Job.objects.get()

    upgraded()

    records = records_of([before.key])[before.key]
    assert {(record.node_id, record.voice, record.order) for record in records} == {
        (node_by_name(name).pk, Voice.BOOKS, (T0 + 30_000, 7, 2)) for name in ("n1", "n2")
    }
    assert [job.facts for job in known_jobs(records)] == [
        Facts(**{name: getattr(before, name) for name in Facts.__dataclass_fields__})
    ]
    assert {record.job_id for record in records} == {before.pk}
    store("n2", start_ms=T0 + 90_000, sequence=2, **holding(job(account="bio")))
    assert list(Job.objects.order_by("pk").values_list("key", "account")) == [
        (before.key, "nlp"),
        (f"{before.key}~2", "bio"),
    ]


def test_a_job_that_nobody_held_stays_as_it_is_known_until_somebody_holds_it():
    Job.objects.create(
        key="slurm/della/1",
        scheduler="slurm",
        cluster="della",
        external_id="1",
        user="eve",
        state="FAILED",
        end_ms=T0,
    )

    upgraded()
    store("n1", jobs=[job(user="mallory")])
    unheld = Job.objects.get().user
    store("n1", start_ms=T0 + 300_000, sequence=2, **holding(job(state="RUNNING")))

    assert unheld == "eve"
    assert JobRecord.objects.filter(node=None).values_list("voice", flat=True).get() == Voice.IMPORT
    assert Job.objects.get().user == "ann"
