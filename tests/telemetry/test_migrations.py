import pytest
from django.core.management import call_command
from django.db import connection

from fleetwatch.telemetry.models import Batch
from tests.telemetry.factories import make_node, store

pytestmark = pytest.mark.django_db(transaction=True)


def storage_of(table):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname, attstorage FROM pg_attribute WHERE attrelid = %s::regclass AND attname"
            " IN ('payload', 'host')",
            [table],
        )
        return dict(cursor.fetchall())


def test_the_hot_table_can_be_taken_back_and_made_again():
    call_command("migrate", "telemetry", "0001", verbosity=0)
    gone = "telemetry_batch" not in connection.introspection.table_names()

    call_command("migrate", "telemetry", verbosity=0)
    row = store(make_node())

    assert gone
    assert Batch.objects.get().id == row.id


def test_packed_and_zipped_bytes_are_not_compressed_again():
    row = store(make_node())

    assert storage_of("telemetry_chunk") == {"payload": "e", "host": "e"}
    assert storage_of(f"telemetry_batch_p{row.received_at:%Y%m%d}06") == {"payload": "e"}


def test_emptying_the_database_empties_the_hot_table():
    store(make_node())

    call_command("flush", interactive=False, verbosity=0)

    assert not Batch.objects.exists()
