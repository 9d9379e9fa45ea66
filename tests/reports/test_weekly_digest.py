"""The fleet's digest, and what digests of all kinds have in common: when, once, how long a week
is.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.accounts.selectors import organisation
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.figures import pricing
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from fleetwatch.reports import digest, services
from fleetwatch.reports.models import Report
from tests.costs.factories import a_gpu, a_job, a_rate, an_entry
from tests.diagnosis.told import rate
from tests.ledger.fleet import BUSY, QUIET, T0, Sender, held, post
from tests.ledger.fleet import a_job as fleet_job

HOUR_MS = 3_600_000
WEEK_47 = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday
MONDAY_NINE = datetime(2026, 11, 23, 9, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def slack_channel(name: str = "ops", *, gets_digest: bool = True):
    return create_channel(
        "slack",
        name,
        {"webhook_url": "https://hooks.example/x"},
        now=WEEK_47,
        gets_digest=gets_digest,
    )


def fleets() -> Report:
    return Report.objects.get(kind="weekly_digest")


def a_week_of_waste() -> None:
    """Week 47: $40 spent, $10 wasted by ann, $20 by the platform's orphan; the week before: $20
    spent, all of it useful.
    """
    gpu = a_gpu()
    a_rate("10", gpu=gpu)
    job = a_job(key="slurm/della/1", user="ann", team="nlp", name="sweep-7")
    an_entry(gpu, "useful", HOUR_MS, job=job, start=WEEK_47)
    an_entry(gpu, "idle", HOUR_MS, job=job, start=WEEK_47 + timedelta(hours=1), tier="certain")
    for hour in (2, 3):
        an_entry(gpu, "orphaned", HOUR_MS, start=WEEK_47 + timedelta(hours=hour))
    for day in (1, 2):
        an_entry(gpu, "useful", HOUR_MS, job=job, start=WEEK_47 - timedelta(days=day))


@pytest.mark.django_db
def test_the_digest_says_what_was_spent_wasted_and_by_whom():
    a_week_of_waste()
    slack_channel()

    did = services.compute_weekly_digests(MONDAY_NINE)

    message = Delivery.objects.get().message
    assert did == {"computed": 2, "queued": 1}  # the team's is kept: it has no route
    assert message["title"] == "GPU week, 16 to 22 Nov 2026: $30.00 wasted of $40.00"
    assert message["summary"] == "75 % of the observed GPU time was wasted (certain and probable)."
    assert message["fields"] == [
        ["Spend", "$40.00 (the week before has only 2 of 7 days)"],
        ["Wasted", "$30.00, 3.0 GPU-h"],
        ["Teams", "NLP $20.00, unallocated GPUs $20.00"],
        ["Useful share of cost", "25 %"],
        ["Telemetry coverage", "100 %"],
    ]
    assert message["rows"] == []  # nothing was diagnosed
    assert message["text"].splitlines() == [
        "Weeks begin on Monday, UTC.",
        "Of the week before only what is after Saturday 00:00 was recorded.",
    ]
    assert message["url"].endswith(f"/reports/{fleets().pk}")


@pytest.mark.django_db
def test_what_only_utilisation_says_is_busy_is_a_line_of_its_own():
    a_week_of_waste()
    an_entry(a_gpu(), "useful", HOUR_MS, job=a_job(), start=WEEK_47, efficiency_source="none")
    slack_channel()

    services.compute_weekly_digests(MONDAY_NINE)

    fields = dict(Delivery.objects.get().message["fields"])
    assert (
        fields["Busy, unverified"]
        == "$10.00, 1.0 GPU-h: utilisation alone tells of it; left out of the useful share"
    )
    assert fields["Spend"].startswith("$50.00")
    assert fields["Useful share of cost"].startswith("25 %")  # 10 of 40


@pytest.mark.django_db
def test_it_is_computed_once_and_kept():
    a_week_of_waste()
    slack_channel()

    did = [
        services.compute_weekly_digests(MONDAY_NINE + timedelta(hours=hours)) for hours in range(3)
    ]

    report = fleets()
    assert [each["computed"] for each in did] == [2, 0, 0]
    assert Delivery.objects.count() == 1
    assert (report.start, report.end) == (WEEK_47, WEEK_47 + timedelta(days=7))
    assert report.content["this"]["cost_usd"] == "40.000000"
    assert (
        report.content["message"]["title"] == "GPU week, 16 to 22 Nov 2026: $30.00 wasted of $40.00"
    )


@pytest.mark.django_db
def test_it_waits_for_nine_and_comes_late_rather_than_never():
    a_week_of_waste()

    before = services.compute_weekly_digests(MONDAY_NINE - timedelta(minutes=1))
    on_thursday = services.compute_weekly_digests(MONDAY_NINE + timedelta(days=3))

    assert (before["computed"], on_thursday["computed"]) == (0, 2)


@pytest.mark.django_db
def test_nine_is_the_organisations_nine():
    an_entry(a_gpu(), start=WEEK_47 + timedelta(hours=5))
    home = organisation()
    home.time_zone = "America/New_York"
    home.save(update_fields=["time_zone"])

    too_early = services.compute_weekly_digests(MONDAY_NINE + timedelta(hours=4, minutes=59))
    at_nine = services.compute_weekly_digests(MONDAY_NINE + timedelta(hours=5))

    assert (too_early["computed"], at_nine["computed"]) == (0, 1)
    assert Report.objects.get().start == WEEK_47 + timedelta(hours=5)


@pytest.mark.django_db
def test_a_week_without_gpus_has_no_digest():
    slack_channel()

    assert services.compute_weekly_digests(MONDAY_NINE) == {"computed": 0, "queued": 0}
    assert Report.objects.count() == 0


@pytest.mark.django_db
def test_only_channels_that_want_it_get_it():
    a_week_of_waste()
    wants = slack_channel("digest")
    slack_channel("alerts only", gets_digest=False)

    services.compute_weekly_digests(MONDAY_NINE)

    assert Delivery.objects.values_list("channel", "key").get() == (
        wants.pk,
        "digest/2026-W47/weekly_digest/",
    )


@pytest.mark.django_db
def test_example_prices_and_missing_prices_are_said():
    priced, unpriced = a_gpu(model="L4"), a_gpu(model="T4")
    a_rate("1", gpu=priced, is_example=True)
    for gpu in (priced, unpriced):
        an_entry(gpu, "idle", HOUR_MS, job=a_job(), start=WEEK_47, tier="certain")
    slack_channel()

    services.compute_weekly_digests(MONDAY_NINE)

    text = Delivery.objects.get().message["text"]
    assert "example list prices" in text
    assert "1.0 GPU-h had no rate" in text


@pytest.mark.django_db
def test_where_nothing_has_a_rate_it_is_told_in_gpu_time_and_not_as_no_dollars():
    an_entry(a_gpu(), "useful", HOUR_MS, job=a_job(), start=WEEK_47)
    an_entry(a_gpu(), "idle", HOUR_MS, job=a_job(), start=WEEK_47, tier="certain")
    slack_channel()

    services.compute_weekly_digests(MONDAY_NINE)

    message = Delivery.objects.get().message
    fields = dict(message["fields"])
    assert message["title"] == "GPU week, 16 to 22 Nov 2026: 1.0 GPU-h wasted of 2.0 GPU-h"
    assert fields["Spend"] == "unknown"
    assert fields["Wasted"] == "1.0 GPU-h"
    assert "$" not in str(message)


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (datetime(2026, 3, 30, 12, tzinfo=UTC), 167),  # clocks went forward on Sunday the 29th
        (datetime(2026, 10, 26, 12, tzinfo=UTC), 169),  # and back on Sunday the 25th
        (datetime(2026, 11, 23, 12, tzinfo=UTC), 168),
    ],
)
def test_a_week_is_as_long_as_its_days(now, hours):
    week = digest.last_week(now, BERLIN)

    assert week.duration_ms == hours * HOUR_MS
    assert week.start.astimezone(BERLIN).strftime("%a %H:%M") == "Mon 00:00"
    assert digest.last_week(week.start, BERLIN).end == week.start


@pytest.mark.parametrize(
    ("day", "name"),
    [
        (datetime(2027, 1, 5, tzinfo=UTC), "2026-W53"),
        (datetime(2027, 1, 12, tzinfo=UTC), "2027-W01"),
    ],
)
def test_weeks_are_named_by_iso(day, name):
    assert digest.week_name(digest.last_week(day, ZoneInfo("UTC")), ZoneInfo("UTC")) == name


@pytest.mark.parametrize(
    ("fixes", "back", "says"),
    [
        (1, 0, "by 1 fix made in Q4 until 22 Nov, measured until 29 Nov"),
        (1, 1, "by 1 fix made in Q4 until 22 Nov, measured until 29 Nov; then its waste came back"),
        (
            3,
            2,
            "by 3 fixes made in Q4 until 22 Nov, measured until 29 Nov; the waste of 2 of them came back, which counts until then",
        ),
    ],
)
def test_fixes_are_said_with_the_day_to_which_they_are_measured_and_what_came_back(
    fixes, back, says
):
    won = {
        "fixes": fixes,
        "came_back": back,
        "quarter": "Q4",
        "low_usd": Decimal(1),
        "high_usd": Decimal(2),
        "made_by": "2026-11-22",
        "measured_to": "2026-11-29",
    }

    [(_, text)] = digest.savings_won(won | {"high_ms": HOUR_MS})

    assert text.endswith(says)


@pytest.mark.django_db
def test_a_cause_could_save_what_its_step_alone_does_before_that_was_noted():
    """An hour of work, then two hours in which a session rests, of $2 an hour."""
    rate()
    says = [BUSY] * 60 + [QUIET] * 120
    session = {"jobs": [fleet_job(kind="interactive")]}
    post(Sender("n0").batch(T0, *says, **session, allocations=[held(end=T0 + 3 * HOUR_MS)]))
    diagnose(from_ms(T0 + 4 * HOUR_MS), 1000)

    services.compute_weekly_digests(from_ms(T0) + timedelta(days=8))

    idle = Finding.objects.get(cause="idle_held")
    [row] = fleets().content["causes"]
    assert 0 < idle.step_saved_ms < idle.step_of_ms
    assert row["low_usd"] == row["high_usd"]
    saved_usd = 2 * Decimal(idle.step_saved_ms) / HOUR_MS
    assert Decimal(row["high_usd"]) == pricing.usd(saved_usd)
