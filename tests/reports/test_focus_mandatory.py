"""What FOCUS 1.2 calls mandatory is in each of our files, and filled where it must not be null."""

import pytest

from fleetwatch.reports.exports.focus import COLUMNS
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate
from tests.reports.factories import HOUR, OCTOBER, computed, counted, newest
from tests.reports.test_focus import a_fleets_rows, exported

pytestmark = pytest.mark.django_db
# feature level "Mandatory" (columns_1.2 of https://focus.finops.org/focus-specification/v1-2/)
NOT_NULL = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost",
    "InvoiceIssuerName", "ListCost", "ProviderName", "PublisherName", "ServiceCategory",
    "ServiceName",
)  # fmt: skip
# mandatory too, and null where there is nothing to say
NULLABLE = (
    "BillingAccountName", "ChargeClass", "ChargeDescription", "PricingQuantity", "PricingUnit",
)  # fmt: skip


def test_every_mandatory_column_is_in_the_file():
    assert [name for name in (*NOT_NULL, *NULLABLE) if name not in COLUMNS] == []


@pytest.mark.parametrize("by_day", [False, True], ids=["by month", "by day"])
@pytest.mark.parametrize("subject", ["", "nlp"], ids=["fleet", "team"])
def test_what_is_mandatory_and_never_null_is_filled_on_every_row(by_day, subject):
    """Usage, corrections, commitments that were not there, and booked lines of invoices."""
    a_fleets_rows()

    rows = exported(newest(subject), by_day=by_day)

    assert rows
    assert [(name, row) for row in rows for name in NOT_NULL if row[name] is None] == []
    # we are who is named, and a charge says what it is
    for name in ("BillingAccountName", "ChargeDescription"):
        assert [row for row in rows if row[name] is None] == []


@pytest.mark.parametrize("by_day", [False, True], ids=["by month", "by day"])
def test_what_has_a_unit_price_has_its_quantity_and_unit(by_day):
    a_fleets_rows()

    priced = [row for row in exported(newest(), by_day=by_day) if row["ListUnitPrice"]]

    assert priced
    assert {row["PricingUnit"] for row in priced} == {"GPU-Hours"}
    assert all(row["PricingQuantity"] for row in priced)


def test_by_day_each_row_of_usage_says_since_when_there_are_figures_as_the_months_does():
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    since = OCTOBER + 20 * 24 * HOUR
    counted(gpu, job=a_job(), start=since)
    counted(gpu, gpu_ms=HOUR_MS // 2, job=a_job(), start=since + 24 * HOUR)
    computed()

    whole, days = exported(newest("nlp")), exported(newest("nlp"), by_day=True)

    assert {row["x_RecordedSince"] for row in whole} == {"2026-10-21T00:00:00Z"}
    assert [row["x_RecordedSince"] for row in days] == ["2026-10-21T00:00:00Z"] * 2
