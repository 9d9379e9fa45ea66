from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.demo.services import missing_chapters, of_faults, store
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.telemetry.models import HealthEvent, ReceivedSequence, TouchedHour

UNTIL = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


def _clock() -> datetime:
    return UNTIL


@pytest.mark.django_db
def test_a_days_history_comes_through_the_door_newest_first():
    days = list(store(missing_chapters(gpus=8, days=1, until=UNTIL), clock=_clock))

    assert [day.isoformat() for day, _ in days] == ["2026-11-20", "2026-11-19"]
    node = Node.objects.get()
    assert (node.name, node.labels["pool"], node.last_ms) == ("h100-01", "train", 1795167000000)
    assert GPU.objects.count() == 8
    assert Job.objects.filter(cluster="aurora").exists()
    assert TouchedHour.objects.exists()


@pytest.mark.django_db
def test_told_again_nothing_is_left_to_tell():
    list(store(missing_chapters(gpus=8, days=1, until=UNTIL), clock=_clock))

    assert missing_chapters(gpus=8, days=1, until=UNTIL) == []


@pytest.mark.django_db
def test_an_interrupted_history_goes_on_where_it_stopped():
    chapters = missing_chapters(gpus=8, days=1, until=UNTIL)
    list(store(chapters[:2], clock=_clock))

    assert missing_chapters(gpus=8, days=1, until=UNTIL) == chapters[2:]


@pytest.mark.django_db
def test_a_later_start_tells_only_the_gap_since_the_last_window():
    list(store(missing_chapters(gpus=8, days=1, until=UNTIL), clock=_clock))
    Node.objects.update(last_ms=1795167000000 + 7_200_000)  # live agents ran for two hours

    gap = missing_chapters(gpus=8, days=1, until=UNTIL + timedelta(hours=2, minutes=30))

    assert [(chapter.block.start_ms, chapter.block.end_ms) for chapter in gap] == [
        (1795174200000, 1795176000000)
    ]


@pytest.mark.django_db
def test_the_same_block_twice_is_stored_once():
    chapter = missing_chapters(gpus=8, days=1, until=UNTIL)[0]

    first = list(store([chapter], clock=_clock))
    second = list(store([chapter], clock=_clock))

    assert first[0][1] > 0
    assert second[0][1] == 0
    assert ReceivedSequence.objects.count() == 1


@pytest.mark.django_db
def test_what_drivers_said_is_stored_apart_before_the_rest_with_all_that_led_to_each_fault():
    """One GPU of 64 falls off the bus each nine days, for 40 hours; three XIDs of the six hours
    before lead to that: of 14 days a few blocks of its node.
    """
    chapters = missing_chapters(gpus=64, days=14, until=UNTIL)

    faults = of_faults(chapters)
    list(store(faults, clock=_clock))

    assert {each.member.name for each in faults} == {"a100-06"}
    assert len(faults) <= 8
    codes = HealthEvent.objects.filter(kind="xid").order_by("at_ms").values_list("code", flat=True)
    assert list(codes)[-4:] == [63, 94, 63, 79]
    assert not of_faults(missing_chapters(gpus=64, days=14, until=UNTIL))
