from datetime import timedelta

import numpy as np
import pytest
from django.db import connection, transaction

from agent import wire
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import chunks, frames, join, seal
from fleetwatch.telemetry.models import Chunk
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_node, store
from tests.telemetry.threads import in_another_connection

pytestmark = pytest.mark.django_db

# HOUR is 10:00: its span is [06:00, 12:00), complete at 13:10.
SPAN_START = HOUR - timedelta(hours=4)
SPAN_MS = HOUR_START_MS - 4 * HOUR_MS
COMPLETE = HOUR + timedelta(hours=3, minutes=10)


def sealed(node, hours=range(6), **changes):
    """One window and one host sample in each of these hours of the span, sealed."""
    starts = [SPAN_MS + hour * HOUR_MS for hour in hours]
    store(
        node,
        starts=starts,
        window_s=60,
        host={"start_ms": starts, "cpu_ratio": [0.5] * len(starts)},
        **changes,
    )
    seal.seal_closed_hours(COMPLETE, limit=100)


def join_now(now=COMPLETE):
    return join.join_complete_spans(now, limit=100)


def everything(node):
    """What frames says of the span, as comparable lists."""
    span = node.pk, SPAN_MS, SPAN_MS + 6 * HOUR_MS
    windows = frames.read_windows(*span, wire.WINDOW_COLUMNS)
    host = frames.host(*span, wire.HOST_COLUMNS)
    columns = [
        windows.gpu_id,
        windows.start_ms,
        windows.end_ms,
        windows.boot_start_ms,
        windows.sequence,
        host.start_ms,
    ]
    floats = {
        name: np.where(np.isnan(values), -1, values).tolist()
        for name, values in (windows.columns | host.columns).items()
    }
    return [values.tolist() for values in columns], floats


def spans():
    return list(Chunk.objects.order_by("start").values_list("start", "end", "window_count"))


def test_six_sealed_hours_become_one_chunk_that_says_the_same():
    node = make_node()
    sealed(node)
    sealed(node, hours=[1], positions=[1], sequence=2, columns={"power_w": [70.0]})
    before = everything(node)

    did = join_now()

    assert did == {"spans": 1, "chunks": 6}
    assert spans() == [(SPAN_START, SPAN_START + timedelta(hours=6), 7)]
    assert everything(node) == before


def test_a_span_is_joined_an_hour_after_its_last_hour_was_sealed():
    sealed(make_node())

    too_early = join_now(COMPLETE - timedelta(seconds=1))
    in_time = join_now(COMPLETE)

    assert (too_early["spans"], in_time["spans"]) == (0, 1)


def test_joined_once_is_joined():
    sealed(make_node(), hours=[3])

    assert join_now() == {"spans": 1, "chunks": 1}
    assert join_now() == {"spans": 0, "chunks": 0}


def test_hours_without_windows_are_part_of_the_span_all_the_same():
    node = make_node()
    sealed(node, hours=[1, 4])
    before = everything(node)

    join_now()

    assert spans() == [(SPAN_START, SPAN_START + timedelta(hours=6), 2)]
    assert everything(node) == before


def test_each_node_and_each_span_keeps_its_own():
    one, other = make_node("one"), make_node("other")
    sealed(one, hours=[5, 6])
    sealed(other)

    did = join_now(COMPLETE + timedelta(hours=6))

    assert did == {"spans": 3, "chunks": 8}
    assert frames.read_windows(one.pk, SPAN_MS, SPAN_MS + 12 * HOUR_MS, ()).start_ms.tolist() == [
        SPAN_MS + 5 * HOUR_MS,
        SPAN_MS + 6 * HOUR_MS,
    ]


def test_late_data_merges_into_the_joined_chunk_and_its_hour_of_cells():
    node = make_node()
    sealed(node, hours=[0, 1])
    join_now()

    sealed(node, hours=[1, 5], sequence=2, boot_start_ms=5, columns={"power_w": [70.0, 80.0]})

    assert spans() == [(SPAN_START, SPAN_START + timedelta(hours=6), 4)]
    windows = frames.read_windows(node.pk, SPAN_MS, SPAN_MS + 6 * HOUR_MS, ["power_w"])
    assert ((windows.start_ms - SPAN_MS) // HOUR_MS).tolist() == [0, 1, 1, 5]
    assert np.nan_to_num(windows.columns["power_w"], nan=-1).tolist() == [-1, 70.0, -1, 80.0]


def test_of_a_window_that_comes_twice_the_sealed_one_stays():
    node = make_node()
    sealed(node, hours=[0, 1], columns={"util_mean": [0.25, 0.5]})
    join_now()

    sealed(node, hours=[0], columns={"util_mean": [0.75]})

    assert frames.read_windows(node.pk, SPAN_MS, SPAN_MS + HOUR_MS, ["util_mean"]).columns[
        "util_mean"
    ].tolist() == [0.25]


def test_a_failure_between_the_steps_leaves_the_hours_as_they_were(monkeypatch):
    node = make_node()
    sealed(node)
    before = everything(node), spans()

    def killed(*args, **kwargs):
        raise RuntimeError("killed")

    monkeypatch.setattr(chunks, "store", killed)
    did = join_now()
    monkeypatch.undo()

    assert did == {"spans": 0, "chunks": 0, "failed": 1}
    assert (everything(node), spans()) == before
    assert join_now()["spans"] == 1


def test_a_damaged_span_keeps_no_other_apart():
    one, other = make_node("one"), make_node("other")
    sealed(one)
    sealed(other)
    Chunk.objects.filter(node_id=one.pk, start=SPAN_START).update(payload=b"damaged")

    did = join_now()

    assert did == {"spans": 1, "chunks": 6, "failed": 1}


@pytest.mark.django_db(transaction=True)
def test_a_node_that_is_being_sealed_is_joined_the_next_time():
    node = make_node()
    sealed(node)
    with transaction.atomic():
        store(node, sequence=2, starts=[SPAN_MS], boot_start_ms=5)
        seal.seal_closed_hours(COMPLETE, limit=100)
        busy = in_another_connection(join_now).result(timeout=20)

    assert busy == {"spans": 0, "chunks": 0, "skipped": 1}
    assert join_now() == {"spans": 1, "chunks": 6}
    assert Chunk.objects.get().window_count == 7


def test_a_chunk_of_more_than_six_hours_is_refused():
    with (
        pytest.raises(Exception, match="a_chunk_is_at_most_six_hours"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            'INSERT INTO telemetry_chunk (node_id, start, "end", version, window_count, payload,'
            " host) VALUES (1, '2026-11-20T00:00Z', '2026-11-20T06:01Z', 1, 0, '', '')"
        )
