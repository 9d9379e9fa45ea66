import math
from datetime import timedelta

import numpy as np
import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent import wire
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import codec, frames, matrices, seal
from fleetwatch.telemetry.models import Batch, Chunk, SealMark
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_node, store
from tests.telemetry.threads import in_another_connection

pytestmark = pytest.mark.django_db

CLOSED = HOUR + timedelta(hours=1, minutes=10)


def seal_now(now=CLOSED):
    return seal.seal_closed_hours(now, limit=100)


def rows(node, columns=("util_mean",)):
    """What frames gives for the hour, as comparable lists."""
    frame = frames.read_windows(node.pk, HOUR_START_MS, HOUR_START_MS + HOUR_MS, columns)
    keys = (
        frame.gpu_id,
        frame.start_ms,
        frame.end_ms,
        frame.observed_ms,
        frame.boot_start_ms,
        frame.sequence,
    )
    return [values.tolist() for values in keys] + [
        np.where(np.isnan(values), -1, values).tolist() for values in frame.columns.values()
    ]


def test_frames_are_the_same_before_and_after_sealing():
    node = make_node()
    store(node, columns={"util_mean": [0.5, None], "power_w": [612.5, 121.0]}, positions=[1, 0])
    store(node, sequence=2, starts=[HOUR_START_MS + 20_000], window_s=60, boot_start_ms=7)
    before = rows(node, ("util_mean", "power_w", "sm_active"))

    did = seal_now()

    assert did == {"hours": 1, "windows": 3, "batches": 2}
    assert not SealMark.objects.exists()
    assert rows(node, ("util_mean", "power_w", "sm_active")) == before


def test_an_hour_is_sealed_ten_minutes_after_it_ended():
    node = make_node()
    store(node)

    too_early = seal_now(CLOSED - timedelta(seconds=1))
    in_time = seal_now(CLOSED)

    assert too_early["hours"] == 0
    assert in_time["hours"] == 1


def test_the_newest_hours_are_sealed_first():
    node = make_node()
    store(node)
    store(node, sequence=2, starts=[HOUR_START_MS + HOUR_MS])

    did = seal.seal_closed_hours(CLOSED + timedelta(hours=1), limit=1)

    assert did["hours"] == 1
    assert SealMark.objects.get().hour == HOUR


def test_windows_belong_to_the_hour_in_which_they_start():
    node = make_node()
    last, first = HOUR_START_MS + HOUR_MS - 10_000, HOUR_START_MS + HOUR_MS
    store(node, starts=[last, first], window_s=60)

    seal_now()

    [chunk] = Chunk.objects.all()
    assert codec.unpack(bytes(chunk.payload), ["start_ms"])["start_ms"].tolist() == [last]
    assert SealMark.objects.get().hour == HOUR + timedelta(hours=1)
    assert frames.read_windows(
        node.pk, HOUR_START_MS + HOUR_MS, HOUR_START_MS + HOUR_MS + 1, ()
    ).start_ms.tolist() == [last, first]


def test_late_data_is_merged_into_the_sealed_hour():
    node = make_node()
    store(node, starts=[HOUR_START_MS], columns={"util_mean": [0.25]})
    seal_now()
    store(node, sequence=2, starts=[HOUR_START_MS + 10_000], columns={"power_w": [70.0]})

    seal_now()

    frame = frames.read_windows(
        node.pk, HOUR_START_MS, HOUR_START_MS + HOUR_MS, ("util_mean", "power_w")
    )
    assert frame.start_ms.tolist() == [HOUR_START_MS, HOUR_START_MS + 10_000]
    assert frame.columns["util_mean"][0] == 0.25
    assert np.isnan(frame.columns["util_mean"][1])
    assert np.isnan(frame.columns["power_w"][0])
    assert Chunk.objects.get().window_count == 2


def test_order_and_portions_of_sealing_leave_the_same_bytes():
    one, other = make_node("one", gpus=1), make_node("other", gpus=1)
    batches = [
        {"sequence": 1, "starts": [HOUR_START_MS]},
        {"sequence": 2, "starts": [HOUR_START_MS + 10_000]},
        {"sequence": 3, "starts": [HOUR_START_MS, HOUR_START_MS + 20_000], "boot_start_ms": 5},
    ]

    for batch in batches:
        store(one, **batch)
    seal_now()
    for batch in reversed(batches):
        store(other, **batch)
        seal_now()

    assert rows(one)[1:] == rows(other)[1:]


def test_a_failure_between_the_steps_leaves_everything_as_it_was(monkeypatch):
    node = make_node()
    store(node)
    before = rows(node)

    def killed(*args, **kwargs):
        raise RuntimeError("killed")

    monkeypatch.setattr(matrices, "store", killed)
    did = seal_now()
    monkeypatch.undo()

    assert did == {"hours": 0, "windows": 0, "batches": 0, "failed": 1}
    assert not Chunk.objects.exists()
    assert rows(node) == before
    assert seal_now()["hours"] == 1
    assert rows(node) == before


@pytest.mark.django_db(transaction=True)
def test_two_workers_seal_one_node_one_after_the_other():
    node = make_node()
    store(node)
    with transaction.atomic():
        seal_now()
        other = in_another_connection(seal_now).result(timeout=10)

    assert other == {"hours": 0, "windows": 0, "batches": 0, "skipped": 1}
    assert rows(node)[1] == [HOUR_START_MS, HOUR_START_MS + 10_000]
    assert not SealMark.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_comes_while_its_hour_is_sealed_keeps_its_mark():
    node = make_node()
    store(node)
    with transaction.atomic():
        seal_now()
        in_another_connection(
            lambda: store(node, sequence=2, starts=[HOUR_START_MS + 20_000])
        ).result(timeout=10)

    assert SealMark.objects.count() == 1
    assert rows(node)[1] == [HOUR_START_MS, HOUR_START_MS + 10_000, HOUR_START_MS + 20_000]
    seal_now()
    assert rows(node)[1] == [HOUR_START_MS, HOUR_START_MS + 10_000, HOUR_START_MS + 20_000]


@pytest.mark.django_db(transaction=True)
def test_many_workers_and_late_batches_at_once_lose_and_double_nothing():
    node = make_node()
    for sequence in range(6):
        store(node, sequence=sequence, starts=[HOUR_START_MS + sequence * 10_000])

    def work(sequence):
        store(node, sequence=sequence, starts=[HOUR_START_MS + sequence * 10_000])
        seal_now()

    for future in [
        in_another_connection(lambda sequence=sequence: work(sequence)) for sequence in range(6, 12)
    ]:
        future.result(timeout=20)
    seal_now()

    assert rows(node)[1] == [HOUR_START_MS + step * 10_000 for step in range(12)]
    assert Chunk.objects.get().window_count == 12


def test_hours_whose_columns_are_gone_stay_final(settings):
    settings.RAW_RETENTION_DAYS = 2
    node = make_node()
    store(node)

    did = seal_now(HOUR + timedelta(days=3, hours=1))

    assert did["final"] == 1
    assert not Chunk.objects.exists()
    assert not SealMark.objects.exists()


def test_an_hour_that_can_not_be_sealed_keeps_no_other_hot():
    node = make_node()
    store(node)
    damaged = store(node, sequence=2, starts=[HOUR_START_MS + HOUR_MS])
    Batch.objects.filter(id=damaged.id).update(payload=b"damaged")

    did = seal_now(CLOSED + timedelta(hours=1))

    assert did == {"hours": 1, "windows": 2, "batches": 1, "failed": 1}
    assert [mark.hour for mark in SealMark.objects.all()] == [HOUR + timedelta(hours=1)]


def test_a_batch_of_several_hours_is_sealed_into_each():
    node = make_node()
    store(node, starts=[HOUR_START_MS + hour * HOUR_MS for hour in range(5)], window_s=60)

    did = seal_now(CLOSED + timedelta(hours=5))

    assert did == {"hours": 5, "windows": 5, "batches": 1}
    assert Chunk.objects.count() == 5


def test_host_samples_are_sealed_too():
    node = make_node()
    host = {
        "start_ms": [HOUR_START_MS + 10_000, HOUR_START_MS],
        "cpu_ratio": [0.5, None],
        "iowait_ratio": [1.0000001, 0],
    }
    store(node, host=host)
    wanted = node.pk, HOUR_START_MS, HOUR_START_MS + HOUR_MS, wire.HOST_COLUMNS
    before = frames.host(*wanted)

    seal_now()

    after = frames.host(*wanted)
    for frame in (before, after):
        assert frame.start_ms.tolist() == [HOUR_START_MS, HOUR_START_MS + 10_000]
        assert frame.end_ms.tolist() == [HOUR_START_MS + 10_000, HOUR_START_MS + 20_000]
        assert frame.columns["iowait_ratio"].tolist() == [0.0, 1.0]
        assert np.isnan(frame.columns["cpu_ratio"]).tolist() == [True, False]
        assert list(frame.columns) == ["cpu_ratio", "iowait_ratio"]


watts = st.one_of(st.none(), st.floats(0, 1e7), st.integers(0, 10**7))
amounts = st.one_of(st.none(), st.floats(0, 1e15), st.integers(0, 10**15))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.integers(0, 359), st.integers(0, 1), st.integers(1, 3), watts, amounts),
        min_size=1,
        max_size=30,
        unique_by=lambda row: row[:3],
    ),
    st.randoms(use_true_random=False),
)
def test_random_batches_sealed_in_any_portions_read_back_exactly(windows, random):
    with transaction.atomic():
        node = make_node()
        gpu_ids = list(node.gpus.order_by("index").values_list("pk", flat=True))
        for step, position, sequence, power, memory in windows:
            store(
                node,
                sequence=sequence,
                starts=[HOUR_START_MS + step * 10_000],
                positions=[position],
                columns={"power_w": [power], "memory_used_bytes": [memory]},
            )
            if random.random() < 0.3:
                seal_now()
        frame = frames.read_windows(
            node.pk, HOUR_START_MS, HOUR_START_MS + HOUR_MS, ("power_w", "memory_used_bytes")
        )
        transaction.set_rollback(True)

    stated = sorted(
        (gpu_ids[position], HOUR_START_MS + step * 10_000, sequence, power, memory)
        for step, position, sequence, power, memory in map(tuple, windows)
    )
    columns = [
        frame.gpu_id,
        frame.start_ms,
        frame.sequence,
        frame.columns["power_w"],
        frame.columns["memory_used_bytes"],
    ]
    back = [
        tuple(None if isinstance(value, float) and math.isnan(value) else value for value in row)
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]
    assert back == stated
