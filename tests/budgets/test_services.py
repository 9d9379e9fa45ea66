"""Hours kept, forecasts and anomalies made from them, on a ledger worked out by hand: one GPU at $2
an hour.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from fleetwatch.accounts.selectors import organisation
from fleetwatch.budgets import daily_dollars, outlooks, selectors, services, unusual
from fleetwatch.budgets.models import Anomaly, Outlook, SpendDay
from fleetwatch.costs.models import Rate
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import a_gpu, a_job, a_rate, an_entry, set_budget

pytestmark = pytest.mark.django_db
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
NOW = MIDNIGHT + timedelta(hours=12, minutes=30)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def a_fleet(days: int, *, hours_today: int = 12, held: range = range(24)) -> Job:
    """A GPU that team nlp holds at these hours of each day, free else."""
    gpu = a_gpu()
    a_rate("2.00", gpu=gpu)
    job = a_job(key="slurm/della/1")
    start = MIDNIGHT - days * DAY
    template = an_entry(
        gpu, start=start, job=job if 0 in held else None, state="useful" if 0 in held else "free"
    )
    moments = [start + hour * HOUR for hour in range(1, days * 24 + hours_today)]
    rows = [
        Entry(
            node=gpu.node, gpu=gpu, start=moment, policy=template.policy, gpu_ms=3_600_000,
            job=job if moment.hour in held else None,
            state="useful" if moment.hour in held else "free",
        )
        for moment in moments
    ]  # fmt: skip
    Entry.objects.bulk_create(rows)
    return job


def kept(days: int, *, key: str = "nlp", held: range = range(24), usd: float = 2.0) -> None:
    """Whole days of the team, and the fleet's at $2 an hour, as note_days() keeps them."""
    hours = [usd if hour in held else 0.0 for hour in range(24)]
    starts = [MIDNIGHT - day * DAY for day in range(1, days + 1)]
    rows = [("team", key, hours), ("fleet", "", [2.0] * 24)]
    SpendDay.objects.bulk_create(
        SpendDay(
            kind=kind,
            key=key,
            start=start,
            usd=sum(hours),
            wasted_usd=0,
            hours=hours,
            wasted_hours=[0.0] * 24,
        )
        for start in starts
        for kind, key, hours in rows
    )


def test_hours_are_kept_for_each_team_model_node_and_the_fleet():
    a_fleet(2, held=range(8, 10))

    did = daily_dollars.note_days(NOW, days=30, limit=100)

    yesterday = SpendDay.objects.filter(start=MIDNIGHT - DAY)
    assert {(row.kind, row.key): row.usd for row in yesterday} == {
        ("team", "nlp"): 4, ("team", ""): 44, ("fleet", ""): 48, ("node", "gpu-01"): 48,
        ("gpu_model", "H100 SXM"): 48,
    }  # fmt: skip
    assert yesterday.get(key="nlp").hours == [0.0] * 8 + [2.0, 2.0] + [0.0] * 14
    today = SpendDay.objects.get(kind="fleet", start=MIDNIGHT)
    assert today.hours == [2.0] * 12 + [None] * 12
    assert did == {"days": 9, "left": 0}


def test_a_second_look_does_nothing_until_dollars_change():
    a_fleet(2)
    daily_dollars.note_days(NOW, days=30, limit=100)

    assert daily_dollars.note_days(NOW, days=30, limit=100) == {"days": 0, "left": 0}

    Rate.objects.update(price_per_gpu_hour=Decimal("3.00"))
    assert daily_dollars.note_days(NOW, days=30, limit=100)["days"] == 9
    assert SpendDay.objects.get(kind="fleet", start=MIDNIGHT - DAY).usd == 72


def test_a_run_that_is_bounded_begins_with_the_newest_days_and_says_what_is_left():
    a_fleet(2)

    did = daily_dollars.note_days(NOW, days=30, limit=1)

    assert did == {"days": 3, "left": 6}
    assert set(SpendDay.objects.values_list("start", flat=True)) == {MIDNIGHT}


def test_an_hour_of_which_the_ledger_says_nothing_is_not_known_and_one_without_the_team_is_nothing():
    a_fleet(2, held=range(8, 10))
    Entry.objects.filter(start=MIDNIGHT - DAY + 5 * HOUR).delete()
    daily_dollars.note_days(NOW, days=30, limit=100)

    found = daily_dollars.read_history("team", NOW)

    nlp = found.usd["cost"][found.keys.index("nlp"), -1]
    assert [str(value) for value in nlp[4:10]] == ["0.0", "nan", "0.0", "0.0", "2.0", "2.0"]


def test_days_are_those_of_the_organisations_zone():
    home = organisation()
    home.time_zone = "Asia/Kolkata"
    home.save(update_fields=["time_zone"])
    a_fleet(2)
    Entry.objects.all().delete()
    gpu = a_gpu(node="gpu-02")
    midnight = datetime(2026, 11, 18, 18, 30, tzinfo=UTC)  # of the 19th in Kolkata
    an_entry(gpu, start=midnight - HOUR / 2, gpu_ms=1_800_000, state="free")
    an_entry(gpu, start=midnight, gpu_ms=1_800_000, state="free")
    an_entry(gpu, start=midnight + HOUR / 2, state="free")

    daily_dollars.note_days(NOW, days=30, limit=100)

    rows = {row.start: row.hours for row in SpendDay.objects.filter(kind="fleet")}
    assert rows[midnight][:2] == [3.0, None]
    assert rows[midnight - DAY][23] == 1.0


def test_the_month_ends_with_what_was_spent_and_the_rest_at_the_usual_rate():
    job = a_fleet(19, held=range(8, 18))
    an_entry(GPU.objects.get(), "useful", 1_800_000, start=MIDNIGHT + 12 * HOUR, job=job)
    kept(28, held=range(8, 18))
    outlooks.make(NOW, is_whole=True)

    fleet, nlp = selectors.lines(NOW)

    # 19 days and 12.5 hours at $2, the running hour as far as it is over; the rest of the month: 10
    # days and 11.5 hours
    assert fleet.spent_usd == 19 * 48 + 25
    assert fleet.end.end.expected_usd == pytest.approx(30 * 48)
    assert nlp.spent_usd == 19 * 20 + 9
    assert nlp.end.end.expected_usd == pytest.approx(30 * 20)
    assert [each.days for each in nlp.tried] == [1, 7, 14]
    assert (nlp.reason, nlp.risk) == ("", "no budget")
    # ten and a half are left: as far from 14, and tried more often
    assert selectors.closest_trial(nlp, NOW).days == 7


def test_teams_stand_by_their_risk():
    job = a_fleet(19, held=range(8, 18))
    kept(28, held=range(8, 18))
    outlooks.make(NOW, is_whole=True)
    set_budget(
        job.team, MIDNIGHT.date().replace(day=1), Decimal(500), repeats=True, now=NOW, by="ann"
    )

    _, nlp = selectors.lines(NOW)

    assert (nlp.risk, nlp.budget_usd) == ("will pass", 500)
    # $388 until 12:00; $12 more today, $20 a day: $112 are gone in the first hour of work of the
    # 26th
    assert nlp.end.passes_at == datetime(2026, 11, 26, 9, tzinfo=UTC)
    assert selectors.line(job.team, NOW) == nlp


def test_a_team_that_began_today_has_no_forecast_and_says_why():
    a_fleet(0)
    services.refresh(NOW)

    assert [
        (line.label, line.spent_usd, line.end, line.reason) for line in selectors.lines(NOW)
    ] == [
        ("Whole fleet", 24, None, outlooks.AWAITED),
        ("NLP", 24, None, outlooks.AWAITED),
    ]


def test_until_the_first_forecasts_are_made_they_are_awaited():
    a_fleet(2)

    assert {line.reason for line in selectors.lines(NOW)} == {outlooks.AWAITED}
    services.refresh(NOW)
    assert {(line.reason, line.end) for line in selectors.lines(NOW)} == {
        ("Needs 14 days of history, has 2.", None)
    }


@pytest.mark.parametrize(
    ("days", "reason"),
    [(13, "Needs 14 days of history, has 13."), (14, "")],
)
def test_a_forecast_is_shown_from_two_weeks_of_history_on(days, reason):
    kept(days)
    outlooks.make(NOW, is_whole=True)

    line = selectors.line(None, NOW)

    assert (line.reason, line.end is None, line.tried == []) == (reason, bool(reason), bool(reason))


def test_what_is_no_teams_is_expected_like_a_team():
    a_fleet(19, held=range(8, 18))
    services.refresh(NOW)

    unallocated = selectors.month_lines(NOW).unallocated

    # 14 hours a day at $2, today those before 8 and none up to 12
    assert unallocated.spent_usd == 19 * 28 + 16
    assert unallocated.end.end.expected_usd == pytest.approx(30 * 28)


def test_unusual_hours_need_three_weeks_of_history():
    assert unusual.days_known(NOW) == 0
    kept(20)

    assert (unusual.days_known(NOW), unusual.ENOUGH_DAYS) == (20, 21)


@pytest.mark.parametrize(("days_ago", "forecasts"), [(28, 2), (29, 0)])
def test_after_four_weeks_of_which_nothing_is_known_there_is_no_forecast(days_ago, forecasts):
    kept(50)
    SpendDay.objects.filter(start__gt=MIDNIGHT - days_ago * DAY).delete()

    assert outlooks.make(NOW, is_whole=True) == {"forecasts": forecasts}
    assert selectors.line(None, NOW).reason == ("" if forecasts else outlooks.NO_HISTORY)


def test_hours_without_any_gpu_cost_nothing():
    """A fleet of one job of six hours fifteen days ago: nothing since, so that next to nothing is
    expected.
    """
    start = MIDNIGHT - 15 * DAY
    hours = [24.0 if 9 <= hour < 15 else None for hour in range(24)]
    SpendDay.objects.create(
        kind="fleet", key="", start=start, usd=144, wasted_usd=0, hours=hours, wasted_hours=hours
    )

    outlooks.make(NOW, is_whole=True)

    [forecast] = Outlook.objects.all()
    assert sum(map(sum, forecast.usd_per_hour)) < 144 / 15 * 7
    assert selectors.line(None, NOW).end.end.expected_usd < 144


def test_before_the_first_hour_nothing_is_known_and_after_it_everything():
    usd = np.array([[[np.nan, 2.0, np.nan], [np.nan, np.nan, 1.0]]])
    hours = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])

    filled = daily_dollars.without_gaps(usd, hours)

    np.testing.assert_array_equal(filled, [[[np.nan, 2.0, 0.0], [0.0, np.nan, 1.0]]])


def test_an_empty_ledger_is_a_fleet_that_spent_nothing():
    assert services.refresh(NOW) == {"days": 0, "left": 0, "forecasts": 0}
    assert [(line.label, line.spent_usd) for line in selectors.lines(NOW)] == [("Whole fleet", 0)]


def test_forecasts_are_made_once_a_day_and_again_after_a_run_that_was_bounded():
    a_fleet(3)
    services.refresh(NOW)
    made = Outlook.objects.get(kind="fleet").made_at

    services.refresh(NOW + HOUR)
    assert Outlook.objects.get(kind="fleet").made_at == made

    services.refresh(NOW + DAY)
    assert Outlook.objects.get(kind="fleet").made_at == NOW + DAY

    Outlook.objects.update(is_whole=False)
    assert outlooks.is_due(NOW + DAY)


def test_a_burst_is_found_once_explained_and_forgotten_when_the_ledger_says_otherwise(settings):
    settings.ANOMALY_FLOOR_USD_PER_DAY = 10
    gpu = a_gpu(node="gpu-02")
    a_rate("2.00", gpu=gpu)
    burst = a_job(key="slurm/della/9", user="bob")
    for hour in range(10, 18):
        an_entry(gpu, start=MIDNIGHT - DAY + hour * HOUR, job=burst)
    kept(28, held=range(8, 10))
    yesterday = SpendDay.objects.get(kind="team", start=MIDNIGHT - DAY)
    usual = list(yesterday.hours)
    yesterday.hours[10:18] = [2.0] * 8
    yesterday.save(update_fields=["hours"])

    unusual.refresh_anomalies(NOW)
    again = unusual.refresh_anomalies(NOW)

    [seen] = unusual.anomalies_of(Interval(MIDNIGHT - DAY, NOW), kind="team", key="nlp", now=NOW)
    assert (seen.anomaly.start, seen.anomaly.end) == (
        MIDNIGHT - DAY + 10 * HOUR,
        MIDNIGHT - DAY + 18 * HOUR,
    )
    assert (seen.excess_usd, seen.is_open, seen.label) == (16, False, "NLP")
    assert [(kind, [(m.key, m.usd) for m in movers]) for kind, movers in seen.movers] == [
        ("job", [("slurm/della/9", 16)]),
        ("user", [("bob", 16)]),
        ("node", [("gpu-02", 16)]),
    ]
    assert again == {"anomalies": 1, "changed": 0, "gone": 0}

    yesterday.hours = usual
    yesterday.save(update_fields=["hours"])
    assert unusual.refresh_anomalies(NOW) == {"anomalies": 0, "changed": 0, "gone": 1}
    assert not Anomaly.objects.exists()


def test_months_before_are_shown_where_all_of_their_days_are_kept():
    kept(52)

    [october] = selectors.past_months(None, NOW)

    assert (october.first.month, october.spent_usd, october.budget_usd) == (10, 31 * 48, None)


@pytest.mark.parametrize(
    ("days", "low", "reason"),
    [
        (27, -0.01, outlooks.ONE_SIDED.format(days=27, enough=28)),
        (28, -0.01, ""),
        (27, -0.5, ""),
    ],
)
def test_under_four_weeks_a_forecast_that_was_off_to_one_side_is_not_shown(days, low, reason):
    kept(days)
    outlooks.make(NOW, is_whole=True)
    Outlook.objects.update(low=[low] * 31, high=[0.5] * 31)

    line = selectors.line(None, NOW)

    assert (line.reason, line.end is None) == (reason, bool(reason))


def test_without_a_forecast_the_last_full_days_say_what_a_month_costs_at_their_rate():
    job = a_fleet(days=3)

    line = selectors.line_or_run_rate(job.team, NOW)
    fleet, nlp = selectors.with_run_rates(selectors.month_lines(NOW), NOW).lines

    # 24 h at $2 on each of the three days before today; $168 so far, and 251.5 hours are left
    assert (line.run_rate.usd, line.run_rate.days) == (144, 3)
    assert line.run_rate.usd_per_day == 48
    assert (line.spent_usd, line.at_run_rate_usd) == (168, 671)
    assert fleet.run_rate == nlp.run_rate == line.run_rate


def test_on_the_first_day_there_is_no_run_rate():
    a_fleet(days=0)

    assert selectors.line_or_run_rate(None, NOW).run_rate is None
