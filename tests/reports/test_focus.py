"""The FOCUS 1.2 export: columns, nullability, prices that multiply to costs."""

import csv
import io
import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import Commitment
from fleetwatch.finance.committing import commit
from fleetwatch.reports import download
from fleetwatch.reports.exports.focus import COLUMNS
from fleetwatch.reports.models import InvoiceAdjustment
from tests.costs.factories import HOUR_MS, LONG_AGO, a_gpu, a_job, a_rate
from tests.reports.factories import (
    HOUR,
    NOW,
    OCTOBER,
    a_fleet,
    an_adjustment,
    book,
    book_everything,
    computed,
    counted,
    newest,
)
from tests.reports.test_download import read, sheets

pytestmark = pytest.mark.django_db
SPECIFICATION = Path(os.environ.get("FLEETWATCH_EXTERNAL_DATA", "/nowhere")) / "focus"
needs_specification = pytest.mark.skipif(
    not SPECIFICATION.exists(), reason="FLEETWATCH_EXTERNAL_DATA names no folder with FOCUS"
)


OURS = {"x_WastedCost", "x_RecordedSince"}


def exported(report, **how):
    """The rows, null as None."""
    return [
        {name: cell or None for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(download.focus(report, **how)))
    ]


def a_fleets_rows():
    """Rates that do not divide, several GPU models, two rates of one model within a line;
    corrections, a commitment, an invoice.
    """
    big, _ = a_fleet()
    gpu, other = a_gpu(model="A100", node="gpu-03"), a_gpu(model="A100", node="gpu-04")
    a_rate("2.222222", gpu=gpu)
    a_rate("1.000001", node="gpu-04")
    job = a_job(key="slurm/della/9", user="", name="", team="vision")
    counted(gpu, "useful", HOUR_MS // 7, job=job)
    counted(other, "idle", HOUR_MS // 3, job=job, start=OCTOBER + HOUR, tier="certain")
    counted(a_gpu(model=None, node="gpu-05"), job=job)
    an_adjustment(big, -HOUR_MS // 3, job=job)
    an_adjustment(big, HOUR_MS // 7, state="free")
    commit(
        Commitment(
            gpu_model=big.model,
            gpus=3,
            name="2026-17",
            valid_from=LONG_AGO,
            valid_to=OCTOBER + 7 * HOUR,
            price_per_gpu_hour=Decimal("1.234567"),
        ),
        now=NOW,
    )
    book_everything()
    a_booking_of_september()
    computed()
    return exported(newest())


def a_booking_of_september():
    """Booked in October, because September is closed."""
    amounts = {
        "hours_usd": Decimal("-1.000001"),
        "unobserved_usd": 0,
        "rate_usd": 0,
        "other_usd": 0,
    }
    InvoiceAdjustment.objects.create(
        month="2026-09",
        booked_in="2026-10",
        key="k",
        label="H100",
        reason="late",
        booked_at=NOW,
        booked_by="ann",
        **amounts,
    )


NEVER_NULL = {
    "BilledCost",
    "BillingAccountId",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
}


def test_every_column_is_there_and_none_is_empty_that_must_not_be():
    rows = a_fleets_rows()

    assert len(COLUMNS) == 57 + len(OURS)
    assert {tuple(row) for row in rows} == {tuple(COLUMNS)}
    assert [(name, row) for row in rows for name in NEVER_NULL if row[name] is None] == []


def test_the_costs_of_all_rows_sum_to_what_was_paid_and_prices_multiply_to_list_costs():
    rows = a_fleets_rows()

    paid = Decimal(newest().content["paid_usd"])
    assert sum(Decimal(row["BilledCost"]) for row in rows) == paid != newest().cost_usd
    assert sum(Decimal(row["EffectiveCost"]) for row in rows) == paid
    for row in (row for row in rows if row["ListUnitPrice"]):
        assert Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"]) == Decimal(
            row["ListCost"]
        )
        assert abs(Decimal(row["ListCost"]) - Decimal(row["BilledCost"])) < Decimal("0.00001")


COSTS = ("List", "Contracted", "Effective", "Billed")


def test_a_commitment_is_used_or_unused_and_all_of_it_is_told_once():
    """Two H100 at $4, of which a job holds one for 2 h and the other stands free for 2 h; three are
    committed to at $2.50 for these 2 h.
    """
    busy, idle = a_gpu(uuid="GPU-a"), a_gpu(uuid="GPU-b")
    a_rate("4", gpu=busy)
    job = a_job(key="slurm/della/1", team="nlp")
    for hour in (0, 1):
        counted(busy, job=job, start=OCTOBER + hour * HOUR)
        counted(idle, "free", start=OCTOBER + hour * HOUR)
    commitment = Commitment(
        gpu_model=busy.model,
        gpus=3,
        name="2026-18",
        valid_from=OCTOBER,
        valid_to=OCTOBER + 2 * HOUR,
        price_per_gpu_hour=Decimal("2.50"),
    )
    commit(commitment, now=NOW)
    computed()

    names = ("Status", "Quantity", "Name", "Type", "Unit", "Category")
    columns = [f"CommitmentDiscount{name}" for name in names]
    said = [[row[name] for name in columns] for row in exported(newest())]
    money = [
        (*(row[f"{name}Cost"] for name in COSTS), row["PricingCategory"])
        for row in exported(newest())
    ]

    rest = ["2026-18", "Committed GPUs", "GPU-Hours", "Usage"]
    assert said == [
        ["Used", "2.000000000", *rest],
        ["Unused", "2.000000000", *rest],  # there, and no job held it: in the ledger, at its rate
        ["Unused", "2.000000000", *rest],  # not there
    ]
    # 2 h at $4 by the rate and at $2.50 by contract: of $15 that it costs $6 less than at the rate
    assert [tuple(map(Decimal, costs)) for *costs, _ in money] == [
        (8, 5, 5, 8),
        (8, 5, 5, 8),
        (5, 5, 5, 5),
    ]
    assert {category for *_, category in money} == {"Committed"}
    assert {row["CommitmentDiscountId"] for row in exported(newest())} == {
        f"commitment/{commitment.pk}"
    }
    # a statement alone knows no commitment: they are the fleet's
    [row] = exported(newest("nlp"))
    assert (row["CommitmentDiscountId"], row["PricingCategory"]) == (None, "Standard")
    assert row["EffectiveCost"] == row["BilledCost"]


def test_where_an_invoice_of_the_month_was_booked_no_contract_is_counted_twice():
    rows = a_fleets_rows()

    used = [row for row in rows if row["CommitmentDiscountStatus"] == "Used"]
    assert used
    assert [row["EffectiveCost"] for row in used] == [row["BilledCost"] for row in used]


def test_a_booking_of_other_gpus_leaves_what_a_commitment_pays_for_at_its_price():
    big, _ = a_fleet()
    commit(
        Commitment(
            gpu_model=big.model,
            name="c",
            valid_from=OCTOBER,
            valid_to=OCTOBER + 4 * HOUR,
            gpus=1,
            price_per_gpu_hour=Decimal("4.50"),
        ),
        now=NOW,
    )
    book("L4")
    computed()

    committed = [row for row in exported(newest()) if row["CommitmentDiscountId"]]
    assert sum(Decimal(row["BilledCost"]) for row in committed) == 16
    assert sum(Decimal(row["EffectiveCost"]) for row in committed) == 18


def test_a_commitment_that_covers_a_part_splits_lines_by_their_hours_and_sums():
    gpu = a_gpu()
    a_rate("0.333333", gpu=gpu)
    for number, hours in ((1, 3), (2, 1)):
        job = a_job(key=f"slurm/della/{number}", team="nlp")
        for hour in range(hours):
            counted(gpu, job=job, start=OCTOBER + (10 * number + hour) * HOUR)
    until = OCTOBER + 12 * HOUR
    terms = {"name": "c", "valid_from": OCTOBER, "valid_to": until, "gpus": 1}
    commit(Commitment(gpu_model=gpu.model, price_per_gpu_hour=Decimal(1), **terms), now=NOW)
    computed()

    for by_day in (False, True):
        rows = exported(newest(), by_day=by_day)
        used = [row for row in rows if row["CommitmentDiscountStatus"] == "Used"]
        # of four held hours two were covered: of each job half
        assert [Decimal(row["PricingQuantity"]) for row in used] == [
            Decimal("1.5"),
            Decimal("0.5"),
        ]
        assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal(
            newest().content["paid_usd"]
        )
        # 2 h at $1 by contract, and the other halves of $0.999999 and $0.333333, each rounded
        rest = Decimal("0.499999") + Decimal("0.166666")
        assert sum(Decimal(row["EffectiveCost"]) for row in rows) == 2 + rest


def test_by_day_each_days_usage_has_its_own_rate_and_sums_to_the_months_row():
    gpu = a_gpu()
    a_rate("2", gpu=gpu, valid_to=OCTOBER + 24 * HOUR)
    a_rate("0.333333", gpu=gpu, valid_from=OCTOBER + 24 * HOUR)
    job = a_job(key="slurm/della/1", team="nlp")
    counted(gpu, job=job, start=OCTOBER + 23 * HOUR)
    counted(gpu, gpu_ms=HOUR_MS // 7, job=job, start=OCTOBER + 24 * HOUR)
    counted(gpu, "free", HOUR_MS // 2, start=OCTOBER + 50 * HOUR)
    counted(a_gpu(uuid="GPU-unpriced", model=None, node="gpu-05"), job=job)
    computed()

    whole, days = exported(newest()), exported(newest(), by_day=True)

    shown = (
        "ChargePeriodStart",
        "ChargePeriodEnd",
        "ListUnitPrice",
        "BilledCost",
        "PricingQuantity",
    )
    assert [tuple(row[name] for name in shown) for row in days] == [
        ("2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z", "2.00", "2.000000", "1.000000000"),
        ("2026-10-02T00:00:00Z", "2026-10-03T00:00:00Z", "0.333333", "0.047619", "0.142856944"),
        ("2026-10-03T00:00:00Z", "2026-10-04T00:00:00Z", "0.333333", "0.166666", "0.500000000"),
    ]
    assert [row["BilledCost"] for row in whole] == ["2.047619", "0.166666"]


def test_by_day_what_was_not_delivered_has_a_row_per_day_and_sums_to_the_months():
    gpu = a_gpu()
    a_rate("2", gpu=gpu)
    counted(gpu, "free", start=OCTOBER + HOUR)
    terms = {"name": "c", "valid_from": OCTOBER + HOUR, "valid_to": OCTOBER + 26 * HOUR, "gpus": 1}
    commit(Commitment(gpu_model=gpu.model, amount_per_month=Decimal(1000), **terms), now=NOW)
    computed()

    whole, days = (
        [
            row
            for row in exported(newest(), by_day=by_day)
            if row["ChargeDescription"].startswith("Committed, not delivered")
        ]
        for by_day in (False, True)
    )

    # $1,000 over 744 h; the GPU was there in the first of the 25
    shown = (
        "ChargePeriodStart",
        "ChargePeriodEnd",
        "PricingQuantity",
        "ListUnitPrice",
        "BilledCost",
    )
    assert [tuple(row[name] for name in shown) for row in days] == [
        (
            "2026-10-01T00:00:00Z",
            "2026-10-02T00:00:00Z",
            "22.000000000",
            "1.344086021505",
            "29.569893",
        ),
        (
            "2026-10-02T00:00:00Z",
            "2026-10-03T00:00:00Z",
            "2.000000000",
            "1.344086021505",
            "2.688172",
        ),
    ]
    assert [(row["PricingQuantity"], row["BilledCost"]) for row in whole] == [
        ("24.000000000", "32.258065")
    ]


def test_a_version_from_before_what_was_missing_by_day_was_kept_has_it_as_one_row():
    a_fleets_rows()
    report = newest()
    for line in report.content["commitments"]:
        del line["missing_days"]

    undelivered = [
        row["ChargePeriodEnd"]
        for row in exported(report, by_day=True)
        if row["ChargeDescription"].startswith("Committed, not delivered")
    ]

    assert undelivered == ["2026-11-01T00:00:00Z"]


def test_a_version_from_before_days_were_kept_has_its_lines_whole():
    a_fleet()
    computed()
    report = newest("nlp")
    for line in report.content["lines"]:
        del line["days"]

    assert exported(report, by_day=True) == exported(report)


def test_the_rows_of_a_statement_sum_to_it_with_its_corrections():
    a_fleets_rows()

    rows = exported(newest("vision"))

    assert (
        sum(Decimal(row["BilledCost"]) for row in rows)
        == Decimal(newest("vision").content["adjusted_usd"])
        != newest("vision").cost_usd
    )


def test_what_is_paid_beside_the_ledger_has_rows_of_its_own():
    rows = {row["ChargeDescription"]: row for row in a_fleets_rows()}
    fleet = newest().content

    commitment = rows["Committed, not delivered: 2026-17"]
    assert (
        commitment["ChargeCategory"],
        commitment["ChargeClass"],
        commitment["ConsumedQuantity"],
    ) == ("Usage", None, None)
    assert (commitment["CommitmentDiscountStatus"], commitment["CommitmentDiscountQuantity"]) == (
        "Unused",
        "17.000000000",
    )
    # 3 GPUs × 7 h; the H100 was there for 4 of them
    assert (commitment["PricingQuantity"], commitment["ListUnitPrice"],
    commitment["BilledCost"]) == (
        "17.000000000", "1.234567000000", fleet["not_delivered_usd"],
    )  # fmt: skip
    invoice, earlier = rows["Invoice of 2026-10: H100"], rows["Invoice of 2026-09: H100"]
    assert (invoice["ChargeCategory"], invoice["ChargeClass"], json.loads(invoice["Tags"])) == (
        "Adjustment",
        None,
        {"reason": "=signed"},
    )
    assert (earlier["ChargeClass"], earlier["BilledCost"], earlier["PricingQuantity"]) == (
        "Correction",
        "-1.000001",
        None,
    )
    assert (earlier["ChargePeriodStart"], earlier["ChargePeriodEnd"],
    earlier["BillingPeriodStart"]) == (
        "2026-09-01T00:00:00Z", "2026-10-01T00:00:00Z", "2026-10-01T00:00:00Z",
    )  # fmt: skip


def test_a_correction_is_a_row_of_its_team_or_of_nobody():
    found = [
        row
        for row in a_fleets_rows()
        if row["ChargeDescription"] == "Correction of 2026-09: late data"
    ]

    # at $4: a third of an hour less for vision, a seventh more stood free; together -$0.761906, the
    # lines by largest remainder
    assert [
        (row["SubAccountId"], row["ChargeClass"], row["ConsumedQuantity"], row["BilledCost"])
        for row in found
    ] == [
        ("vision", "Correction", "-0.333333333", "-1.333334"),
        (None, "Correction", "0.142856944", "0.571428"),
    ]


def test_a_row_names_team_job_user_gpu_model_and_month():
    row = next(row for row in a_fleets_rows() if row["ResourceId"] == "slurm/della/1")

    assert (row["SubAccountId"], row["SubAccountName"], row["SubAccountType"]) == (
        "nlp",
        "NLP",
        "Team",
    )
    assert (row["ResourceName"], row["ResourceType"], json.loads(row["Tags"])) == (
        "train",
        "GPU job",
        {"user": "ann"},
    )
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == (
        "2026-10-01T00:00:00Z",
        "2026-11-01T00:00:00Z",
    )
    assert (row["SkuId"], row["ListUnitPrice"], row["PricingQuantity"], row["BilledCost"]) == (
        "gpu-hour/H100",
        "4.00",
        "2.000000000",
        "8.000000",
    )


def test_what_was_wasted_of_a_charge_stands_beside_it_and_sums_to_the_months():
    a_fleet()
    computed()

    rows = exported(newest())

    # of nlp's $8 the idle hour of $4; of the others nothing
    wasted = {row["ResourceId"]: row["x_WastedCost"] for row in rows if row["ResourceId"]}
    assert wasted["slurm/della/1"] == "4.000000"
    total = sum(Decimal(row["x_WastedCost"]) for row in rows)
    assert total == Decimal(newest().content["total"]["wasted_usd"])
    by_day = exported(newest(), by_day=True)
    assert sum(Decimal(row["x_WastedCost"]) for row in by_day) == total


def test_of_what_is_no_usage_nobody_judged_what_was_wasted():
    rows = a_fleets_rows()

    assert {row["x_WastedCost"] for row in rows if row["ChargeCategory"] != "Usage"} == {None}


def test_a_month_recorded_in_part_says_since_when():
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    counted(gpu, job=a_job(), start=OCTOBER + 20 * 24 * HOUR)
    computed()

    assert [row["x_RecordedSince"] for row in exported(newest("nlp"))] == ["2026-10-21T00:00:00Z"]
    facts = {row[0]: row[1] for row in sheets(download.xlsx(newest()))["Cover"] if len(row) > 1}
    assert facts["Recorded since"].startswith("21 Oct 2026, 00:00")


def test_project_and_cost_centre_of_a_job_are_tags_and_columns_of_its_line():
    a_fleet()
    gives = Gives(project="search", cost_centre="CC-7")
    add_rule(Terms(Conditions(user="ann"), gives, valid_from=LONG_AGO), now=NOW)
    computed()

    [row] = [row for row in exported(newest("nlp")) if row["ResourceId"] == "slurm/della/1"]
    train, tune = read(download.csv(newest("nlp")))

    assert json.loads(row["Tags"]) == {"user": "ann", "project": "search", "cost_centre": "CC-7"}
    assert (train["project"], train["cost_centre"]) == ("search", "CC-7")
    assert (tune["project"], tune["cost_centre"]) == ("", "")


def test_the_savings_sheet_says_why_and_what_to_do_first_where_that_is_known():
    a_fleet()
    computed()
    content = newest().content
    known = {"code": "held", "title": "Idle: still held", "first_step": "Stop the job."}

    head, line, *_ = savings_sheet(content)
    assert known["title"] not in line
    content["savings"][0]["cause"] = known
    head, line, *_ = savings_sheet(content)
    assert ("Likely cause" in head, "First step" in head) == (True, True)
    assert {"Idle: still held", "Stop the job."} <= set(line)


def savings_sheet(content):
    report = newest()
    report.content = content
    return sheets(download.xlsx(report))["Savings"]


def test_a_job_whose_project_changed_in_the_month_has_both():
    a_fleet()
    moved_at = OCTOBER + HOUR
    for project, since, until in (("search", LONG_AGO, moved_at), ("ads", moved_at, None)):
        terms = Terms(Conditions(user="ann"), Gives(project=project), since, until)
        add_rule(terms, now=NOW)
    computed()

    train, _ = read(download.csv(newest("nlp")))

    assert train["project"] == "ads, search"


def test_a_month_to_date_is_of_the_whole_months_billing_period():
    a_fleet()
    computed(now=OCTOBER + 240 * HOUR)

    rows = exported(newest())

    assert rows
    for row in rows:
        assert (row["BillingPeriodStart"], row["BillingPeriodEnd"]) == (
            "2026-10-01T00:00:00Z",
            "2026-11-01T00:00:00Z",
        )
        assert row["ChargePeriodEnd"] == "2026-10-11T00:00:00Z"


def test_what_no_team_held_has_no_sub_account_and_unpriced_time_no_row():
    rows = a_fleets_rows()

    own = [
        row
        for row in rows
        if row["SubAccountId"] is None
        and row["ChargeCategory"] == "Usage"
        and row["ChargeClass"] is None
        and not row["ChargeDescription"].startswith("Committed, not delivered")
    ]
    assert sorted(row["ChargeDescription"] for row in own) == [
        "H100, free GPU time",
        "L4, job docker/x/4",
        "L4, unobserved GPU time",
    ]
    assert not [row for row in rows if row["SkuId"] in ("gpu-hour/unknown", "gpu-hour/(none)")]


@needs_specification
def test_columns_and_nulls_are_those_of_the_specification():
    with (SPECIFICATION / "columns_1.2.csv").open(encoding="utf-8-sig") as lines:
        specified = {row["column"]: row["nulls"] == "True" for row in csv.DictReader(lines)}

    assert set(specified) == set(COLUMNS) - OURS
    assert {name for name, may_be_null in specified.items() if not may_be_null} == NEVER_NULL
