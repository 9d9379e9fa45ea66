"""gpu_time and gpu_day_sums: what the ledger says, for people who ask in SQL (docs/sql.md)."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.day_sums import refresh
from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.lib.rows import fetched
from tests.costs.factories import (
    HOUR_MS,
    a_gpu,
    a_job,
    a_policy,
    a_rate,
    an_entry,
    counted_all,
    unsaved_entry,
)

pytestmark = pytest.mark.django_db
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def test_a_day_is_the_organisations():
    mine = organisation()
    mine.time_zone = "Europe/Berlin"
    mine.save()
    gpu = a_gpu()
    for hour in (-1, 0):
        an_entry(gpu, start=MONDAY + hour * HOUR)
    an_entry(gpu, start=MONDAY - 2 * HOUR)

    assert fetched("SELECT day, count(*) FROM gpu_time GROUP BY day ORDER BY day", []) == [
        (date(2026, 11, 1), 1),
        (date(2026, 11, 2), 2),
    ]


def test_a_mig_instance_is_in_its_gpu_and_a_gpu_without_a_rate_has_no_dollars():
    gpu = a_gpu(uuid="GPU-1")
    instance = a_gpu(uuid="MIG-1", model=None, parent=gpu)
    other = a_gpu(uuid="GPU-2", model=None)
    a_rate("3.60", gpu=gpu)
    for each in (instance, other):
        an_entry(each, gpu_ms=1_000, start=MONDAY)

    assert fetched(
        "SELECT gpu, instance, gpu_model, job, team, project, usd FROM gpu_time ORDER BY gpu", []
    ) == [
        ("GPU-1", "MIG-1", "H100 SXM", None, "", None, Decimal("0.001")),
        ("GPU-2", None, None, None, "", None, None),
    ]


def test_day_sums_say_what_their_entries_say_in_every_state_and_tier():
    gpu, policy = a_gpu(), a_policy()
    jobs = [a_job(), None]
    entries = [
        unsaved_entry(
            gpu,
            state,
            1 + 100 * place + number,
            policy=policy,
            tier=tier,
            start=MONDAY + place * HOUR,
            job=jobs[number % 2],
            energy_j=[None, 0.0, 0.1, 1.7e12][number % 4],
        )
        for place, state in enumerate(STATES)
        for number, tier in enumerate(("", *TIERS))
    ]
    counted_all(entries)
    refresh(MONDAY + 9 * DAY, 100)

    columns = "gpu, job, state, tier"
    sums = fetched(
        f"SELECT {columns}, gpu_ms, energy_j, energy_ms FROM gpu_day_sums ORDER BY {columns}", []
    )
    assert len(sums) == len(STATES) * (1 + len(TIERS))
    assert sums == fetched(
        f"SELECT {columns}, sum(gpu_ms)::bigint, sum(energy_j),"
        " COALESCE(sum(gpu_ms) FILTER (WHERE energy_j IS NOT NULL), 0)::bigint"
        f" FROM gpu_time GROUP BY {columns} ORDER BY {columns}",
        [],
    )


def test_time_of_which_only_utilisation_tells_is_apart_in_day_sums():
    gpu, policy = a_gpu(), a_policy()
    told = {"policy": policy, "start": MONDAY}
    counted_all(
        [
            unsaved_entry(gpu, "useful", 1, efficiency_source="none", **told),
            unsaved_entry(gpu, "useful", 2, efficiency_source="sensors", **told),
        ]
    )
    refresh(MONDAY + 9 * DAY, 100)

    assert fetched(
        "SELECT start, until, is_busy_only, gpu_ms FROM gpu_day_sums ORDER BY 4", []
    ) == [
        (MONDAY, MONDAY + DAY, True, 1),
        (MONDAY, MONDAY + DAY, False, 2),
    ]


def test_a_day_whose_entries_changed_since_is_in_no_day_sum():
    gpu = a_gpu()
    counted_all([unsaved_entry(gpu, "idle", HOUR_MS, policy=a_policy(), start=MONDAY)])
    refresh(MONDAY + 9 * DAY, 100)
    before = fetched("SELECT gpu_ms FROM gpu_day_sums", [])
    counted_all([unsaved_entry(gpu, "idle", 1, policy=a_policy(), start=MONDAY)])

    assert (before, fetched("SELECT gpu_ms FROM gpu_day_sums", [])) == ([(HOUR_MS,)], [])
