"""What the demo's finance people entered, and its digests: amounts follow from what its fleet
spent.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.models import Commitment
from fleetwatch.demo.cast import make_people
from fleetwatch.demo.demo_money import OVER, budget_of, enter_money
from fleetwatch.demo.demo_reports import write_digests
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.reports.models import Invoice, Report
from tests.costs.factories import a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

FIRST = datetime(2026, 11, 13, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # 10.5 days before the month's end


@pytest.fixture
def week():
    """Of seven days one hour each: nlp on an H100 at $4, vision on an A100 at $2."""
    for model, team, usd in (("H100 SXM", "nlp", "4"), ("A100 SXM", "vision", "2")):
        gpu = a_gpu(model=model)
        a_rate(usd, gpu=gpu)
        job = a_job(team=team)
        for day in range(7):
            an_entry(gpu, job=job, start=FIRST + timedelta(days=day))


def test_a_budget_is_a_share_of_what_the_month_will_cost_and_one_is_overspent(week):
    assert enter_money(NOW)["budgets"] == 3

    # nlp: $28 so far and $4 a day, so $70 of which it may spend 102 %
    amounts = {budget.team.slug if budget.team else "": budget for budget in Budget.objects.all()}
    assert {slug: budget.amount for slug, budget in amounts.items()} == {
        "": Decimal("109.00"),
        "nlp": Decimal("71.40"),
        "vision": Decimal("17.50"),
    }
    assert all(budget.repeats for budget in amounts.values())


def test_money_is_entered_by_the_finance_person_in_every_book(week):
    make_people("secret", now=NOW)
    enter_money(NOW)

    by = {*Budget.objects.values_list("created_by"), *Invoice.objects.values_list("imported_by")}
    logged = AuditEntry.objects.filter(action__in=("budget.set", "commitment.make"))
    assert (by, {entry.name for entry in logged}) == ({("fiona",)}, {"fiona"})


@pytest.mark.parametrize(
    ("share", "spent", "to_come", "budget"),
    [
        ("1.02", "24979", "5080", "30700"),
        (OVER, "10899", "2800", "9810"),  # nine tenths of what is spent
        (OVER, "0", "2800", "1400"),  # a month that begins: half of what it will cost
        ("1.5", "0", "0.001", "0.01"),  # none is below a cent
    ],
)
def test_budgets_have_three_figures(share, spent, to_come, budget):
    assert budget_of(Decimal(share), Decimal(spent), Decimal(to_come)) == Decimal(budget)


def test_two_models_are_committed_to_and_one_gpu_of_them_was_never_there(week):
    enter_money(NOW)

    terms = Commitment.objects.order_by("pk").values_list(
        "gpu_model__name", "gpus", "price_per_gpu_hour"
    )
    assert list(terms) == [("A100 SXM", 1, Decimal("1.40")), ("H100 SXM", 2, Decimal("3.40"))]


def test_the_invoice_differs_a_little_from_the_ledger_and_each_difference_has_its_cause(week):
    enter_money(NOW)

    seen = reconciliation("2026-11", now=NOW)
    lines = {line.label: line.billed_usd - line.ledger_usd for line in seen.lines}
    assert lines == {
        "H100 SXM": Decimal("0.17"),  # 7.042 h at $4
        "A100 SXM": Decimal("-0.42"),  # 3 % off $14
        "Business support": Decimal("0.84"),
        "Service credit": Decimal("-0.17"),
        "Committed, not delivered": 0,
    }


@pytest.mark.parametrize(
    ("now", "month"),
    [
        (datetime(2026, 12, 2, 12, tzinfo=UTC), "2026-11"),
        (NOW, "2026-11"),
    ],
)
def test_the_last_month_is_billed_and_the_running_one_where_there_is_no_other(week, now, month):
    enter_money(now)

    assert Invoice.objects.get().month == month


def test_entered_again_nothing_is_there_twice(week):
    enter_money(NOW)

    assert enter_money(NOW) == {"budgets": 0, "commitments": 0, "invoices": 0}


def test_the_digests_of_the_last_full_week_need_not_wait_for_the_clock(week):
    assert write_digests(NOW)["computed"] > 0

    assert Report.objects.filter(content__week="2026-W46").exists()
    assert write_digests(NOW)["computed"] == 0


@pytest.mark.parametrize(
    ("hour", "name"),
    [(datetime(2026, 11, 16, 8, 59, tzinfo=UTC), "2026-W45"),
     (datetime(2026, 11, 16, 9, tzinfo=UTC), "2026-W46")],
)  # fmt: skip
def test_on_a_monday_morning_the_digest_is_of_the_last_week_that_is_due(week, hour, name):
    write_digests(hour)

    assert set(Report.objects.values_list("content__week", flat=True)) <= {name}


def test_before_anything_was_posted_there_is_nothing_to_enter():
    assert enter_money(NOW) == {"budgets": 0, "commitments": 0, "invoices": 0}
