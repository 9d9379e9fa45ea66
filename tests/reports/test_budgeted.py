"""The budget on a month's reports: what might be spent, what was, and while the month runs what is
expected.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.budgets.models import Budget, Outlook
from fleetwatch.reports import download
from fleetwatch.reports.models import Report
from tests.costs.factories import a_gpu, a_job, a_rate, set_budget
from tests.reports.factories import HOUR, NOW, OCTOBER, a_fleet, computed, counted, newest
from tests.reports.test_download import read, sheets

pytestmark = pytest.mark.django_db

NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


def a_budget(amount, *, team="nlp", month=date(2026, 10, 1), **fields):
    """As it was set before the month was over."""
    payer = Team.objects.get_or_create(slug=team)[0] if team else None
    return Budget.objects.create(
        team=payer, month=month, amount=amount, created_at=NOW, created_by="ann", **fields
    )


def an_outlook(key, usd_per_hour):
    """That many dollars in each hour, give or take a tenth."""
    return Outlook.objects.create(
        kind="team" if key else "fleet", key=key, origin=datetime(2026, 11, 20, tzinfo=UTC),
        made_at=NOW, days=30, has_shifted=False,
        usd_per_hour=[[usd_per_hour] * 24] * 7, low=[-0.1] * 31, high=[0.1] * 31,
        median_error=[None] * 31, tries=[0] * 31, is_whole=True,
    )  # fmt: skip


def test_a_statement_says_the_teams_budget_and_what_of_it_went():
    a_fleet()
    a_budget(12)

    computed()

    budget = newest("nlp").content["budget"]
    assert (budget["budget_usd"], budget["spent_usd"], budget["is_open"], budget["risk"]) == (
        "12.000000",
        "9.000000",
        False,
        "within",
    )
    assert (budget["expected_usd"], budget["note"]) == (None, "")
    assert [newest(subject).content["budget"] for subject in ("vision", "(none)", "")] == [None] * 3


def test_a_team_with_a_budget_and_no_gpu_time_gets_a_statement():
    a_fleet()
    a_budget(12, team="quiet")
    a_budget(None, team="ended")

    computed()

    said = newest("quiet").content
    assert (said["total"]["cost_usd"], said["lines"]) == ("0.000000", [])
    assert (said["budget"]["budget_usd"], said["budget"]["spent_usd"], said["budget"]["risk"]) == (
        "12.000000",
        "0.000000",
        "within",
    )
    assert not Report.objects.filter(subject="ended").exists()


@pytest.mark.parametrize(
    ("amount", "risk"), [("9.000001", "within"), ("9", "within"), ("8.999999", "over")]
)
def test_a_month_that_is_over_was_within_its_budget_or_not(amount, risk):
    a_fleet()
    a_budget(Decimal(amount))

    computed()

    assert newest("nlp").content["budget"]["risk"] == risk


@pytest.mark.parametrize(("amount", "risk"), [("5", "partial month"), ("3.99", "over")])
def test_a_month_recorded_in_part_is_never_within_its_budget(amount, risk):
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    counted(gpu, job=a_job(), start=OCTOBER + 20 * 24 * HOUR)
    a_budget(Decimal(amount))

    computed()

    said = newest("nlp").content
    assert (said["budget"]["risk"], said["recorded_since"]) == (risk, "2026-10-21T00:00:00Z")


def test_the_fleets_budget_is_in_its_report():
    a_fleet()
    a_budget(38, team="")

    computed()

    assert (newest().content["budget"]["budget_usd"], newest().content["budget"]["spent_usd"]) == (
        "38.000000",
        "19.000000",
    )


def test_of_a_running_month_the_end_is_expected_from_what_was_spent_and_the_days_to_come():
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    counted(gpu, job=a_job(), start=NOVEMBER)
    a_budget(500, month=NOVEMBER.date())
    an_outlook("nlp", 2.0)
    an_outlook("", 2.0)

    computed("2026-11")

    # until the 20th $4; then 11 days at $48 are $528, give or take a tenth
    budget = newest("nlp").content["budget"]
    assert (budget["is_open"], budget["spent_usd"], budget["expected_usd"]) == (
        True,
        "4.000000",
        "532.00",
    )
    assert (budget["low_usd"], budget["high_usd"], budget["risk"]) == (
        "479.20",
        "584.80",
        "will pass",
    )
    assert (
        newest().content["budget"]["budget_usd"],
        newest().content["budget"]["expected_usd"],
    ) == (None, "532.00")


def test_a_budget_whose_currency_has_no_rate_is_said_and_not_guessed():
    a_fleet()
    a_budget(100, currency="EUR")

    computed()

    budget = newest("nlp").content["budget"]
    assert (budget["budget_usd"], budget["risk"], budget["note"]) == (
        None,
        "not known",
        "Nobody said what one EUR is in dollars.",
    )


def test_another_budget_or_forecast_makes_a_new_version():
    gpu = a_gpu()
    counted(gpu, job=a_job(), start=NOVEMBER)
    computed("2026-11")

    set_budget(
        Team.objects.get(slug="nlp"), NOVEMBER.date(), Decimal(5), repeats=False, now=NOW, by="ann"
    )
    computed("2026-11", now=NOW + HOUR)
    an_outlook("nlp", 2.0)
    computed("2026-11", now=NOW + 2 * HOUR)

    assert Report.objects.filter(subject="nlp").count() == 3


def test_a_forecast_changes_nothing_in_a_month_that_is_over():
    a_fleet()
    computed()

    an_outlook("nlp", 2.0)

    assert (
        computed(now=NOW + timedelta(hours=1)).note
        == "nothing has changed since the newest version"
    )


def test_csv_and_excel_have_the_budget_beside_the_lines():
    a_fleet()
    a_budget(12)
    computed()

    train, tune = read(download.csv(newest("nlp")))
    columns, row = sheets(download.xlsx(newest("nlp")))["Budget"]

    for line in (train, tune):
        assert (line["team_budget_usd"], line["team_spent_usd"], line["team_used_ratio"],
        line["team_expected_usd"]) == (
            "12.000000", "9.000000", "0.7500", "",
        )  # fmt: skip
    assert columns[3:] == [
        "Budget, US dollars",
        "Spent, US dollars",
        "Used, of the budget",
        "Expected, US dollars",
        "Expected low, US dollars",
        "Expected high, US dollars",
        "Note",
    ]
    assert row[3:] == [12, 9, Decimal("0.75")]
    assert "Budget" not in sheets(download.xlsx(newest("vision")))
    assert read(download.csv(newest("vision")))[0]["team_budget_usd"] == ""
