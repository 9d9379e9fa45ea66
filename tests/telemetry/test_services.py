from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import partitions, selectors, services
from fleetwatch.telemetry.models import HealthEvent, ReceivedSequence, SealMark, TouchedHour
from fleetwatch.telemetry.services import ClockBounds
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_batch, make_node, store
from tests.telemetry.threads import in_another_connection

pytestmark = pytest.mark.django_db


def test_a_sequence_is_new_once():
    node = make_node()
    first, second = make_batch(node, sequence=1), make_batch(node, sequence=2)

    answers = [
        services.record_sequence(node, batch, offset_ms=0)
        for batch in (first, second, first, second)
    ]

    assert answers == [True, True, False, False]
    assert ReceivedSequence.objects.get().received == [(1, 3)]


def test_sequences_in_any_order_leave_the_same_row():
    node = make_node()

    for sequence in (7, 3, 5, 4, 3, 6):
        services.record_sequence(node, make_batch(node, sequence=sequence), offset_ms=0)

    assert ReceivedSequence.objects.get().received == [(3, 8)]


def test_a_new_boot_counts_its_sequences_anew():
    node = make_node()
    services.record_sequence(node, make_batch(node, sequence=1), offset_ms=0)

    is_new = services.record_sequence(
        node, make_batch(node, sequence=1, boot_id="boot-b"), offset_ms=0
    )

    assert is_new
    assert ReceivedSequence.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_of_two_equal_batches_at_once_one_is_new():
    node = make_node()
    batch = make_batch(node)
    with transaction.atomic():
        mine = services.record_sequence(node, batch, offset_ms=0)
        other = in_another_connection(lambda: services.record_sequence(node, batch, offset_ms=0))

    assert mine is True
    assert other.result(timeout=10) is False


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_equal_batches_is_new_when_the_first_fails():
    node = make_node()
    batch = make_batch(node)
    with transaction.atomic():
        services.record_sequence(node, batch, offset_ms=0)
        other = in_another_connection(lambda: services.record_sequence(node, batch, offset_ms=0))
        transaction.set_rollback(True)

    assert other.result(timeout=10) is True


def test_a_batch_marks_the_hours_in_which_its_windows_start():
    node = make_node()

    row = store(node, starts=[HOUR_START_MS + HOUR_MS - 10_000, HOUR_START_MS + HOUR_MS])

    marks = SealMark.objects.order_by("hour")
    assert [mark.hour for mark in marks] == [HOUR, HOUR + timedelta(hours=1)]
    assert {mark.batch_id for mark in marks} == {row.id}
    assert (row.start_ms, row.end_ms) == (
        HOUR_START_MS + HOUR_MS - 10_000,
        HOUR_START_MS + HOUR_MS + 10_000,
    )


def test_an_insert_makes_the_partition_it_needs():
    node = make_node()
    received_at = datetime(2031, 5, 6, 13, tzinfo=UTC)

    store(node, received_at=received_at)

    assert partitions.partition_for(received_at) in partitions.existing()


def test_a_quarantined_batch_is_kept_and_marks_nothing():
    node = make_node()

    row = store(node, quarantined=True)

    assert type(row).objects.filter(id=row.id, quarantined=True).exists()
    assert not SealMark.objects.exists()


def test_windows_older_than_the_retention_are_not_marked(settings):
    settings.RAW_RETENTION_DAYS = 2
    node = make_node()
    received_at = HOUR + timedelta(days=2)

    store(node, starts=[HOUR_START_MS - 1, HOUR_START_MS], received_at=received_at)

    assert [mark.hour for mark in SealMark.objects.all()] == [HOUR]


def test_a_batch_without_windows_is_stored_without_a_time():
    row = store(make_node(), starts=[])

    assert (row.start_ms, row.end_ms) == (None, None)


@pytest.mark.parametrize(
    ("kept_ms", "clock", "used_ms"),
    [
        (None, None, 0),
        (None, ClockBounds(2_000, 2_000), 0),
        (None, ClockBounds(-2_001, -2_001), -2_001),
        (60_000, ClockBounds(61_999, 61_999), 60_000),
        (60_000, ClockBounds(62_001, 62_001), 62_001),
        (60_000, ClockBounds(1_500, 1_500), 0),
        (0, ClockBounds(2_500, 2_500), 2_500),
        # batches that took 8 s on their way
        (60_000, ClockBounds(54_001, 62_001), 60_000),
        (60_000, ClockBounds(62_000, 70_000), 60_000),
        (60_000, ClockBounds(62_001, 70_001), 62_001),
        (60_000, ClockBounds(50_000, 58_000), 60_000),
        (60_000, ClockBounds(49_999, 57_999), 49_999),
        (60_000, ClockBounds(-500, 7_500), 0),
    ],
)
def test_a_clock_correction_is_kept_for_its_boot(kept_ms, clock, used_ms):
    node = make_node()
    if kept_ms is not None:
        services.record_sequence(node, make_batch(node), offset_ms=kept_ms)

    assert services.clock_offset(node.pk, "boot-a", clock) == used_ms


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "certain_ms"),
    [
        (-1_000, 30_000, 0),  # a right clock, half a minute on the way
        (1, 30_000, 1),
        (-30_000, -1, -1),  # ahead by a millisecond at least
        (7_199_000, 7_230_000, 7_199_000),
        (9_000, 50, 50),  # set right since the hub's last answer
    ],
)
def test_of_a_clock_only_what_no_way_explains_is_certain(least_ms, most_ms, certain_ms):
    assert ClockBounds(least_ms, most_ms).certain_ms == certain_ms


def test_touching_marks_every_hour_a_span_overlaps():
    node = make_node()

    services.touch_hours(
        node.pk,
        [(HOUR_START_MS, HOUR_START_MS + HOUR_MS), (HOUR_START_MS - 1, HOUR_START_MS + 1), (5, 5)],
    )

    assert [mark.hour for mark in TouchedHour.objects.order_by("hour")] == [
        HOUR - timedelta(hours=1),
        HOUR,
    ]


def test_touching_leaves_out_hours_that_are_final(settings):
    settings.RAW_RETENTION_DAYS = 2
    node = make_node()

    services.touch_hours(
        node.pk,
        [(HOUR_START_MS - HOUR_MS, HOUR_START_MS + 1)],
        received_at=HOUR + timedelta(days=2, minutes=59),
    )

    assert [mark.hour for mark in TouchedHour.objects.all()] == [HOUR]


def claim(limit, *, at=HOUR + timedelta(days=1), nodes=32):
    """Of each claimed node its hours, when nobody waits any longer."""
    return services.claim_touched(limit, nodes=nodes, this_hour=at, posted_before=at)


def test_a_mark_made_after_the_claim_survives_the_release():
    node = make_node()
    services.touch_hours(node.pk, [(HOUR_START_MS, HOUR_START_MS + 1)])
    with transaction.atomic():
        claims = claim(10)
        services.touch_hours(node.pk, [(HOUR_START_MS, HOUR_START_MS + 1)])
        services.release_touched(claims, posted_at=HOUR)

    ((hour, claimed),) = claims.pop(node.pk).items()
    assert (hour, claims) == (HOUR, {})
    assert TouchedHour.objects.exclude(pk__in=claimed.mark_ids).count() == 1
    assert TouchedHour.objects.count() == 1


def test_a_claim_is_bounded_and_takes_the_newest_hours_of_a_node_first():
    node = make_node()
    services.touch_hours(node.pk, [(HOUR_START_MS, HOUR_START_MS + 5 * HOUR_MS)])

    with transaction.atomic():
        claims = claim(2)

    assert [*claims[node.pk]] == [HOUR + timedelta(hours=3), HOUR + timedelta(hours=4)]


def test_a_claim_says_from_when_on_each_hour_changed():
    node = make_node()
    for first_ms in (HOUR_START_MS + 7, HOUR_START_MS + 5, HOUR_START_MS + 6):
        services.touch_hours(node.pk, [(first_ms, HOUR_START_MS + HOUR_MS + 1)])
    TouchedHour.objects.create(node_id=node.pk, hour=HOUR + timedelta(hours=2))

    with transaction.atomic():
        claims = claim(10)

    assert [claimed.from_ms - HOUR_START_MS for claimed in claims[node.pk].values()] == [
        5, HOUR_MS, 2 * HOUR_MS,
    ]  # fmt: skip


def test_a_claim_has_so_many_nodes_at_most_those_that_wait_longest():
    nodes = [make_node(name) for name in "abc"]
    for node in reversed(nodes):
        services.touch_hours(node.pk, [(HOUR_START_MS, HOUR_START_MS + 2 * HOUR_MS)])

    with transaction.atomic():
        claims = claim(10, nodes=2)

    assert [*claims] == [nodes[2].pk, nodes[1].pk]


def test_the_hour_that_goes_on_waits_until_its_node_was_posted_long_ago():
    node = make_node()
    half_past = HOUR + timedelta(minutes=30)
    services.release_touched({node.pk: {}}, posted_at=half_past)
    services.touch_hours(node.pk, [(HOUR_START_MS, HOUR_START_MS + 1)])

    def claimed(posted_before):
        with transaction.atomic():
            return services.claim_touched(
                10, nodes=32, this_hour=HOUR, posted_before=posted_before
            ).get(node.pk, {})

    assert [*claimed(half_past - timedelta(milliseconds=1))] == []
    assert [*claimed(half_past)] == [HOUR]
    # one that is over waits for nothing, and takes the other along
    services.touch_hours(node.pk, [(HOUR_START_MS - 1, HOUR_START_MS)])
    assert [*claimed(HOUR)] == [HOUR - timedelta(hours=1), HOUR]


@pytest.mark.django_db(transaction=True)
def test_two_workers_never_claim_one_node_at_once():
    first, second = make_node("a"), make_node("b")
    services.touch_hours(first.pk, [(HOUR_START_MS, HOUR_START_MS + 2 * HOUR_MS)])
    services.touch_hours(second.pk, [(HOUR_START_MS, HOUR_START_MS + 1)])

    with transaction.atomic():
        mine = claim(1)
        others = in_another_connection(transaction.atomic(lambda: claim(10))).result(timeout=10)

    assert [*mine] == [first.pk]
    assert [*others] == [second.pk]


def test_an_event_is_stored_once_and_corrected_by_the_clock():
    node = make_node()
    batch = make_batch(
        node,
        events=[
            {"gpu": 0, "at_ms": 1_000, "kind": "xid", "code": 79, "text": "lost"},
            {"at_ms": 2_000, "kind": "resumed"},
        ],
    )
    gpus = dict(enumerate(node.gpus.order_by("index")))

    for _ in range(2):
        services.store_events(node, batch, gpus, offset_ms=500)

    assert list(
        HealthEvent.objects.order_by("at_ms").values_list("gpu__index", "at_ms", "kind", "code")
    ) == [
        (0, 1_500, "xid", 79),
        (None, 2_500, "resumed", None),
    ]


def test_events_and_boots_are_read_in_order_with_corrected_times():
    node = make_node()
    services.record_sequence(
        node, make_batch(node, boot_id="b", boot_start_ms=9_000), offset_ms=5_000
    )
    services.record_sequence(node, make_batch(node, boot_id="a", boot_start_ms=1_000), offset_ms=0)
    batch = make_batch(
        node,
        events=[
            {"gpu": 1, "at_ms": 3_000, "kind": "gpu_lost"},
            {"gpu": 1, "at_ms": 2_000, "kind": "xid", "code": 79},
        ],
    )
    services.store_events(node, batch, dict(enumerate(node.gpus.order_by("index"))), offset_ms=0)

    assert selectors.boots_of_nodes([node.pk]) == {node.pk: [1_000, 14_000]}
    (events,) = selectors.events_of_nodes([node.pk], ["xid"]).values()
    assert [event.kind for event in events] == ["xid"]
