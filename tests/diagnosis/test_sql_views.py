"""gpu_causes and gpu_day_causes: why time was wasted, for people who ask in SQL (docs/sql.md)."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from fleetwatch.diagnosis import sums
from fleetwatch.diagnosis.models import CauseEntry, DiagnosedDay
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.rows import fetched
from tests.diagnosis.told import NOW, WASTE, cause, diagnosed, gpu, job, rate

pytestmark = pytest.mark.django_db
MIDNIGHT = datetime(2026, 11, 18, tzinfo=UTC)
COLUMNS = ", ".join(["held_ms", *WASTE, "low_ms", "high_ms"])


def test_a_cause_has_its_minutes_its_confidence_and_its_dollars():
    rate("2.00")
    cause("straggler", confidence=2, also=["small_batch"], low=0.25, high=0.5)
    CauseEntry.objects.update(cells=0b100000000101)

    assert fetched(
        "SELECT cause, confidence, also, minutes, wasted_usd, low_usd, high_usd FROM gpu_causes", []
    ) == [
        (
            "straggler",
            "medium",
            ["small_batch"],
            [0, 10, 55],
            Decimal(2),
            Decimal("0.5"),
            Decimal(1),
        )
    ]


def test_days_of_causes_say_what_their_causes_say():
    for number, waste in enumerate(WASTE):
        on = gpu(number % 2)
        cause(
            ["idle_held", "straggler"][number % 2], on=on, start=MIDNIGHT, waste=waste,
            hours=(1 + number) / 10, confidence=number % 4, of=job(f"slurm/della/{number}"),
        )  # fmt: skip
    diagnosed(MIDNIGHT)
    sums.sum_days(NOW, 10)

    keys = "gpu, job, cause, confidence"
    days = fetched(f"SELECT {keys}, {COLUMNS} FROM gpu_day_causes ORDER BY {keys}", [])
    assert days == fetched(f"SELECT {keys}, {COLUMNS} FROM gpu_causes ORDER BY {keys}", [])
    assert sum(row[4] for row in days) == HOUR_MS * 15 // 10


def test_a_day_whose_causes_changed_since_is_in_no_day_of_causes():
    cause(start=MIDNIGHT)
    diagnosed(MIDNIGHT)
    sums.sum_days(NOW, 10)
    before = fetched("SELECT day, cause FROM gpu_day_causes", [])
    DiagnosedDay.objects.update(is_summed=False)

    assert before == [(MIDNIGHT.date(), "idle_held")]
    assert fetched("SELECT day FROM gpu_day_causes", []) == []
