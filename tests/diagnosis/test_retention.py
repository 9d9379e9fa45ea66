"""Retention periods, and what stays: causes with the ledger's entries, findings with the last of
their causes.
"""

from datetime import datetime, timedelta

import pytest

from fleetwatch.diagnosis import retention, sums
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, DiagnosedDay, Finding, Fix, Said
from fleetwatch.figures import engine
from fleetwatch.lib.intervals import Interval, to_ms
from tests.diagnosis.told import DAY, NOW, capacity, cause, diagnosed, finding, gpu, job, place

pytestmark = pytest.mark.django_db

HORIZON = NOW - 400 * DAY
HOUR = timedelta(hours=1)
NOTHING = {"causes": 0, "days": 0, "findings": 0}


def starts(rows) -> list[datetime]:
    return list(rows.objects.order_by("start").values_list("start", flat=True))


def test_causes_older_than_the_ledger_go_and_the_rest_stays():
    for start in (HORIZON - 40 * DAY, HORIZON - HOUR, HORIZON, NOW - HOUR):
        cause(start=start)
        capacity("gpu_fault", start=start)

    assert retention.apply(NOW)["causes"] == 4
    assert starts(CauseEntry) == starts(CapacityEntry) == [HORIZON, NOW - HOUR]
    assert retention.apply(NOW) == NOTHING


def test_days_before_that_of_the_horizon_go_even_where_they_have_no_causes():
    for start in (HORIZON - 90 * DAY, HORIZON - DAY, HORIZON):
        diagnosed(start)

    assert retention.apply(NOW) == NOTHING | {"days": 2}
    assert DiagnosedDay.objects.get().day == HORIZON.date()


def test_the_day_that_goes_in_part_is_summed_again_from_what_is_left_of_it():
    for start in (HORIZON - HOUR, HORIZON):
        cause(start=start)
    diagnosed(HORIZON)
    sums.sum_days(NOW, 100)

    retention.apply(NOW)

    assert not DiagnosedDay.objects.get().is_summed
    sums.sum_days(NOW, 100)
    day = Interval(HORIZON.replace(hour=0), HORIZON.replace(hour=0) + DAY)
    assert (engine.read(CauseTime(), day).figures["ms"][:, 0].tolist(), sums.wrong_days(day)) == (
        [3_600_000],
        [],
    )


def test_a_backlog_goes_in_portions(monkeypatch):
    monkeypatch.setattr(retention, "MAX_DAYS_PER_RUN", 2)
    for day in (50, 40, 30):
        cause(start=HORIZON - day * DAY)

    assert [retention.apply(NOW)["causes"] for _ in range(3)] == [2, 1, 0]


def test_a_finding_goes_with_the_last_of_its_causes_but_not_while_a_fix_tells_of_it():
    span = {"first_ms": to_ms(HORIZON - DAY), "last_ms": to_ms(HORIZON)}
    gone = finding(**span, status="accepted")
    Said.objects.create(finding=gone, kind="accepted", at=HORIZON)
    place("gpu_fault", node=gpu().node, **span)
    stays = {
        finding(cause="hung", first_ms=0, last_ms=to_ms(HORIZON) + 1),
        finding(job("slurm/della/8"), **span, status="fixed"),
    }
    told = Finding.objects.get(status="fixed")
    Fix.objects.create(
        user="ann", job_name="train", gpus=1, cause="idle_held", finding=told, at=HORIZON,
        was_noticed=False, outcome="waiting",
        runs_before=0, runs_after=0, saved_low_ms=0, saved_high_ms=0,
    )  # fmt: skip

    assert retention.apply(NOW) == NOTHING | {"findings": 2}
    assert set(Finding.objects.all()) == stays
