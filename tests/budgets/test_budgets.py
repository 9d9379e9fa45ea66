"""Budgets: which one counts, who set it, what is refused."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import organisation
from fleetwatch.budgets.budgets import BudgetError, counting, history, limits, months
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.models import ExchangeRate
from tests.costs.factories import set_budget

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOVEMBER, DECEMBER, JANUARY = date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)


def a_budget(month: date, amount: str | None, *, repeats: bool = True, pk: int = 1) -> Budget:
    return Budget(
        pk=pk,
        month=month,
        amount=None if amount is None else Decimal(amount),
        repeats=repeats,
        created_at=NOW,
    )


def amount_in(rows: list[Budget], month: date) -> Decimal | None:
    found = counting(rows, month)
    return None if found is None else found.amount


def test_a_repeating_budget_holds_for_the_months_after_it_and_not_before():
    rows = [a_budget(DECEMBER, "100")]

    assert [amount_in(rows, month) for month in (NOVEMBER, DECEMBER, JANUARY)] == [None, 100, 100]


def test_one_for_a_single_month_interrupts_the_repeating_one():
    rows = [a_budget(NOVEMBER, "100"), a_budget(DECEMBER, "150", repeats=False, pk=2)]

    assert [amount_in(rows, month) for month in (NOVEMBER, DECEMBER, JANUARY)] == [100, 150, 100]


def test_of_one_month_the_newest_counts():
    rows = [a_budget(NOVEMBER, "100"), a_budget(NOVEMBER, "120", pk=2)]

    assert amount_in(rows, NOVEMBER) == 120


def test_one_without_an_amount_ends_it():
    rows = [a_budget(NOVEMBER, "100"), a_budget(DECEMBER, None, pk=2)]

    assert [amount_in(rows, month) for month in (NOVEMBER, DECEMBER, JANUARY)] == [100, None, None]


@pytest.mark.django_db
def test_every_change_is_kept_with_who_and_when():
    team = Team.objects.create(slug="nlp", name="NLP")
    set_budget(team, NOVEMBER, Decimal(100), repeats=True, now=NOW, by="ann")
    set_budget(team, NOVEMBER, Decimal(200), repeats=True, now=NOW, by="bob")

    assert [(row.amount, row.created_by) for row in history(team)] == [(200, "bob"), (100, "ann")]
    assert limits(JANUARY)["nlp"].usd == 200
    assert history(None).count() == 0


@pytest.mark.django_db
def test_another_currency_is_converted_when_the_month_begins():
    for day, rate in (
        (datetime(2026, 11, 1, tzinfo=UTC), "1.10"),
        (datetime(2026, 11, 15, tzinfo=UTC), "1.20"),
    ):
        ExchangeRate.objects.create(
            currency="EUR", usd_per_unit=Decimal(rate), valid_from=day, created_at=NOW
        )
    set_budget(None, NOVEMBER, Decimal(1000), currency="EUR", repeats=True, now=NOW, by="ann")

    assert [limits(month)[""].usd for month in (NOVEMBER, DECEMBER)] == [1100, 1200]

    ExchangeRate.objects.all().delete()

    assert limits(NOVEMBER)[""].usd is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("month", "amount", "currency", "field"),
    [
        (date(2026, 10, 1), "100", "USD", "month"),  # it is over
        (date(2029, 12, 1), "100", "USD", "month"),  # 37 months ahead
        (NOVEMBER, "0", "USD", "amount"),
        (NOVEMBER, "-1", "USD", "amount"),
        (NOVEMBER, "NaN", "USD", "amount"),
        (NOVEMBER, "0.001", "USD", "amount"),
        (NOVEMBER, "1e30", "USD", "amount"),
        (NOVEMBER, "100", "EUR", "currency"),  # nobody said what it is in dollars
    ],
)
def test_what_can_not_be_is_refused_by_field_and_leaves_nothing(month, amount, currency, field):
    with pytest.raises(BudgetError) as refused:
        set_budget(None, month, Decimal(amount), currency=currency, repeats=True, now=NOW, by="ann")

    assert refused.value.field == field
    assert not Budget.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("minute", "allowed"), [(59, date(2026, 10, 1)), (60, date(2026, 11, 1))])
def test_a_month_begins_at_the_organisations_midnight(minute, allowed):
    home = organisation()
    home.time_zone = "Europe/Berlin"
    home.save(update_fields=["time_zone"])

    assert months(datetime(2026, 10, 31, 22, tzinfo=UTC) + timedelta(minutes=minute))[0] == allowed
