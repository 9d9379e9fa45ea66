"""Every tier goes at just its own age."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.telemetry import retention
from fleetwatch.telemetry.models import Chunk, DayMatrix

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)
# 35 days before 10:00 is 2026-10-16 10:00; a day before that is kept as context.
EDGE = datetime(2026, 10, 15, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _defaults(settings):
    settings.RAW_RETENTION_DAYS, settings.MATRIX_RETENTION_DAYS = 35, 400


def chunk(start, hours=1):
    return Chunk.objects.create(
        node_id=1,
        start=start,
        end=start + timedelta(hours=hours),
        version=1,
        window_count=0,
        payload=b"",
    )


def matrix(day):
    return DayMatrix.objects.create(node_id=1, day=day, metric="util", gpu_ids=[], cells=b"")


def test_columns_go_when_their_hour_is_over_by_the_retention():
    for start in (
        EDGE - timedelta(hours=2),
        EDGE - timedelta(hours=1),
        EDGE,
        EDGE + timedelta(hours=1),
    ):
        chunk(start)

    did = retention.apply(NOW)

    assert did["chunks"] == 2
    assert list(Chunk.objects.order_by("start").values_list("start", flat=True)) == [
        EDGE,
        EDGE + timedelta(hours=1),
    ]


@pytest.mark.parametrize(("ends", "stays"), [(timedelta(0), False), (timedelta(hours=1), True)])
def test_a_joined_chunk_stays_as_long_as_one_of_its_hours_is_kept(ends, stays):
    chunk(EDGE + ends - timedelta(hours=6), hours=6)

    retention.apply(NOW)

    assert Chunk.objects.exists() == stays


def test_matrices_stay_when_the_columns_they_were_made_of_are_gone():
    edge = (NOW - timedelta(days=400)).date()
    for day in (edge - timedelta(days=1), edge, EDGE.date()):
        matrix(day)
    chunk(EDGE - timedelta(days=2))

    did = retention.apply(NOW)

    assert did == {"chunks": 1, "day_matrices": 1}
    assert list(DayMatrix.objects.order_by("day").values_list("day", flat=True)) == [
        edge,
        EDGE.date(),
    ]


def test_matrices_can_go_before_the_columns(settings):
    settings.MATRIX_RETENTION_DAYS = 2
    matrix(NOW.date() - timedelta(days=3))
    chunk(NOW - timedelta(days=3))

    assert retention.apply(NOW) == {"chunks": 0, "day_matrices": 1}


def test_more_than_a_portion_goes_in_one_run(monkeypatch):
    monkeypatch.setattr(retention, "CHUNKS_AT_ONCE", 2)
    for hour in range(5):
        chunk(EDGE - timedelta(hours=hour + 1))

    assert retention.apply(NOW)["chunks"] == 5


def test_a_run_has_an_end(monkeypatch):
    monkeypatch.setattr(retention, "CHUNKS_AT_ONCE", 2)
    monkeypatch.setattr(retention, "MAX_CHUNKS_PER_RUN", 4)
    for hour in range(5):
        chunk(EDGE - timedelta(hours=hour + 1))

    assert retention.apply(NOW)["chunks"] == 4
    assert Chunk.objects.get().start == EDGE - timedelta(hours=1)
