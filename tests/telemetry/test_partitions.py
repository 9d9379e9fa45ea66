from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from fleetwatch.telemetry import partitions, seal, selectors
from fleetwatch.telemetry.models import Batch, SealMark
from fleetwatch.telemetry.partitions import Partition
from tests.telemetry.factories import HOUR, make_node, store
from tests.telemetry.threads import in_another_connection

pytestmark = pytest.mark.django_db(transaction=True)

RECEIVED = HOUR + timedelta(minutes=30)
# HOUR is 10:00, so its partition takes [06:00, 12:00) and may go from 13:00 on.
OWN = Partition("telemetry_batch_p2026112006", datetime(2026, 11, 20, 6, tzinfo=UTC))
DROPPABLE = datetime(2026, 11, 20, 13, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_partitions(monkeypatch):
    """The hot table is not Django's to empty: each test starts and ends without a partition.

    Locks are waited for briefly.
    """
    monkeypatch.setattr(partitions, "LOCK_TIMEOUT", "100ms")
    _drop_all()
    yield
    _drop_all()


def _drop_all():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE"
            " 'telemetry_batch_p%%'"
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP TABLE {name}")


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def stored_and_sealed():
    node = make_node()
    row = store(node, received_at=RECEIVED)
    seal.seal_closed_hours(DROPPABLE, limit=10)
    return row


def test_partitions_are_six_hours_of_utc():
    tokyo_morning = datetime.fromisoformat("2026-11-20T08:59:59+09:00")

    assert partitions.partition_for(tokyo_morning) == Partition(
        "telemetry_batch_p2026111918", datetime(2026, 11, 19, 18, tzinfo=UTC)
    )
    assert partitions.partition_for(HOUR) == OWN
    assert OWN.end == datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_partitions_are_made_two_days_ahead_once():
    first, again = partitions.ensure(RECEIVED), partitions.ensure(RECEIVED)

    assert (first, again) == (9, 0)
    assert partitions.existing()[0] == OWN
    assert partitions.existing()[-1].start == OWN.start + timedelta(days=2)


def test_two_connections_make_one_partition_together():
    with transaction.atomic():
        mine = partitions.ensure_for(RECEIVED)
        other = in_another_connection(lambda: partitions.ensure_for(RECEIVED))

    assert mine is True
    assert other.result(timeout=10) is False
    assert partitions.existing() == [OWN]


def test_a_sealed_partition_is_dropped_an_hour_after_its_end():
    stored_and_sealed()

    too_early = partitions.drop_sealed(DROPPABLE - timedelta(seconds=1))
    in_time = partitions.drop_sealed(DROPPABLE)

    assert too_early == []
    assert in_time == [OWN.name]
    assert partitions.existing() == []
    assert not Batch.objects.exists()


def test_sealed_batches_are_kept_as_received_for_as_long_as_is_wanted(settings):
    settings.HOT_RETENTION_HOURS = 48
    stored_and_sealed()

    too_early = partitions.drop_sealed(OWN.end + timedelta(hours=48) - timedelta(seconds=1))
    in_time = partitions.drop_sealed(OWN.end + timedelta(hours=48))

    assert (too_early, in_time) == ([], [OWN.name])


def test_a_partition_with_one_unsealed_batch_stays():
    node = make_node()
    row = store(node, received_at=RECEIVED)

    assert partitions.drop_sealed(DROPPABLE + timedelta(days=30)) == []
    assert Batch.objects.get().id == row.id


def test_a_mark_of_another_partition_keeps_only_its_own():
    stored_and_sealed()
    later = RECEIVED + timedelta(hours=6)
    store(make_node("b"), received_at=later)

    assert partitions.drop_sealed(DROPPABLE + timedelta(days=1)) == [OWN.name]
    assert partitions.existing() == [partitions.partition_for(later)]


def test_a_half_detached_partition_is_finished_by_the_next_run():
    stored_and_sealed()
    # The state a killed run leaves: a reader holds the table, so DETACH CONCURRENTLY times out
    # after its first half.
    with transaction.atomic():
        Batch.objects.count()
        dropped = in_another_connection(lambda: partitions.drop_sealed(DROPPABLE)).result(
            timeout=20
        )
    assert dropped == []
    assert partitions.existing() == []

    partitions.drop_sealed(DROPPABLE)

    assert not partitions._in_state(partitions.DETACHING)
    assert partitions._in_state(partitions.DETACHED) == []


def test_a_partition_that_is_being_detached_is_not_measured():
    stored_and_sealed()
    with transaction.atomic():
        Batch.objects.count()
        in_another_connection(lambda: partitions.drop_sealed(DROPPABLE)).result(timeout=20)

    assert selectors.depth(DROPPABLE).partitions == 0
    partitions.drop_sealed(DROPPABLE)


def test_a_detached_table_that_nobody_dropped_is_dropped_by_the_next_run():
    stored_and_sealed()
    execute(f"ALTER TABLE telemetry_batch DETACH PARTITION {OWN.name}")

    partitions.drop_sealed(DROPPABLE)

    assert partitions._in_state(partitions.DETACHED) == []


def test_a_batch_that_came_while_its_partition_was_detached_is_attached_again():
    row = store(make_node(), received_at=RECEIVED)
    execute(f"ALTER TABLE telemetry_batch DETACH PARTITION {OWN.name}")
    assert SealMark.objects.exists()

    dropped = partitions.drop_sealed(DROPPABLE)

    assert dropped == []
    assert Batch.objects.get().id == row.id


def test_a_batch_out_of_sight_is_sealed_when_its_partition_is_back():
    store(make_node(), received_at=RECEIVED)
    execute(f"ALTER TABLE telemetry_batch DETACH PARTITION {OWN.name}")

    unseen = seal.seal_closed_hours(DROPPABLE, limit=10)
    partitions.drop_sealed(DROPPABLE)
    seen = seal.seal_closed_hours(DROPPABLE, limit=10)

    assert unseen == {"hours": 0, "windows": 0, "batches": 0, "failed": 1}
    assert seen == {"hours": 1, "windows": 2, "batches": 1}


def test_an_insert_attaches_a_detached_table_again():
    stored_and_sealed()
    execute(f"ALTER TABLE telemetry_batch DETACH PARTITION {OWN.name}")

    store(make_node("b"), received_at=RECEIVED, sequence=2)

    assert Batch.objects.count() == 2


def test_inserts_go_on_while_a_partition_is_dropped():
    stored_and_sealed()
    with transaction.atomic():
        store(make_node("b"), received_at=RECEIVED + timedelta(hours=6))
        in_another_connection(lambda: partitions.drop_sealed(DROPPABLE)).result(timeout=20)
        store(make_node("c"), received_at=RECEIVED + timedelta(hours=6))

    assert Batch.objects.filter(received_at__gte=OWN.end).count() == 2


def test_ids_go_on_from_partition_to_partition():
    first = store(make_node(), received_at=RECEIVED)
    second = store(make_node("b"), received_at=RECEIVED + timedelta(hours=6))

    assert second.id > first.id
