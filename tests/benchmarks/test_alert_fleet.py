"""The fleet that alerts are measured on holds what their rules ask for."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Sum

from benchmarks import alert_fleet, alert_troubles, bulk, tiling
from benchmarks.bench_alerts import Growth
from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.conditions import condition
from fleetwatch.budgets.models import Outlook
from fleetwatch.costs.services import ensure_example_rates
from fleetwatch.demo import fleet
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement.cell_states import NAMES
from fleetwatch.ledger.models import Entry
from fleetwatch.ledger.services import post
from fleetwatch.lib.intervals import Interval

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = Interval(datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC))
NODES = fleet.nodes(16 * 8)
PAIR = [NODES[1], NODES[9]]  # 16 GPUs of one model; the second node echoes the first
COLUMNS = ("util_mean", "util_max", "power_w", "energy_j", "memory_used_bytes", "process_count")


@pytest.fixture
def two_days(db: None) -> Interval:
    bulk.store(PAIR, bulk.Past(DAY, fine_days=0, columns=COLUMNS), received_at=NOON)
    post(NOON, 1_000)
    ensure_example_rates(NOON)
    tiling.keep(DAY)
    tiling.tile(DAY, 1)
    tiling.take_for_granted(DAY, 1)
    return Interval(DAY.start - timedelta(days=1), DAY.end)


def _causes(day: Interval) -> list[tuple[str, int]]:
    rows = CauseEntry.objects.filter(start__gte=day.start, start__lt=day.end).order_by("cause")
    return list(rows.values_list("cause").annotate(Sum("held_ms")))


def _cells(day: Interval) -> list[int]:
    nodes = set(Entry.objects.values_list("node_id", flat=True))
    tables = hour_cells.read([*nodes], day.start_ms, day.end_ms).values()
    return [sum(int(table[name].sum()) for table in tables) for name in NAMES]


def test_an_earlier_day_has_the_causes_and_the_pieces_of_the_posted_one(two_days):
    diagnose(DAY.end, 1_000)

    alert_fleet.tile(DAY, 1)

    yesterday = Interval(two_days.start, DAY.start)
    assert sum(_cells(DAY)) > 0
    assert _cells(yesterday) == _cells(DAY)
    assert _causes(yesterday) == _causes(DAY) != []


def test_faults_memory_errors_heat_budgets_and_dear_days_open_incidents(two_days):
    diagnose(DAY.end, 1_000)
    alert_fleet.tile(DAY, 1)

    alert_troubles.add(two_days)

    episodes = {
        name: len(back_test(condition(name), condition(name).usual, (), two_days).trials)
        for name in (
            "gpu_fault",
            "gpu_memory_errors",
            "gpu_slowed",
            "budget_spent",
            "unusual_spending",
        )
    }
    assert episodes["gpu_fault"] == 1
    assert episodes["gpu_memory_errors"] == 1
    assert episodes["gpu_slowed"] >= 1
    assert episodes["budget_spent"] > 1
    assert episodes["unusual_spending"] > 1
    assert Outlook.objects.filter(kind="fleet").exists()


@pytest.mark.parametrize(
    ("small_s", "spent_s", "at_target_s"),
    [
        (0.1, 1.0, 10.0),  # all of it grows with the fleet
        (0.5, 0.5, 0.5),  # nothing does
        (0.19, 1.0, 9.1),  # 0.1 does not, and 0.0009 with each GPU do
        (0.6, 0.5, 0.5),  # noise is no saving
    ],
)
def test_a_minute_at_10000_gpus_lies_on_the_line_through_both_fleets(small_s, spent_s, at_target_s):
    assert Growth(100, 1000).at_target(small_s, spent_s) == pytest.approx(at_target_s)
