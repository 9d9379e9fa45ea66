"""Files of invoices: what is read of both forms, and what is said of what can't be."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.finance.invoice_csv import CSV, FOCUS, MAX_BYTES, MAX_LINES, read
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from fleetwatch.reports.exports import focus
from fleetwatch.reports.exports.files import to_csv

PLAIN = "sku,gpu_model,region,gpu_hours,amount,currency,category\n"
FOCUS_HEAD = "BilledCost,BillingCurrency,BillingPeriodStart,ChargeCategory,SkuId,RegionId,ConsumedQuantity,ConsumedUnit,SkuPriceDetails,x_Own\n"
FOCUS_ROW = "25,usd,2026-10-01T00:00:00Z,Usage,p5.48xlarge,eu-1,2,Hours,null,whatever\n"


def faults(text):
    """By line, in the order in which a line is read."""
    with pytest.raises(RefusedError) as refused:
        read(text if isinstance(text, bytes) else text.encode(), "2026-10")
    return [(fault.line, fault.field) for fault in refused.value.faults]


def lines(text):
    _, rows = read(text.encode(), "2026-10")
    return [
        (line.sku, line.gpu_model, line.hours, line.gpus_per_hour, line.amount) for line in rows
    ]


def test_a_plain_file_is_an_invoice_in_gpu_hours():
    invoice, rows = read(
        (
            PLAIN + "p5,H100,eu,700,2800.50,EUR,\n,L4,,10,7,eur,usage\nfee,,,,12,EUR,Purchase\n"
        ).encode(),
        "2026-10",
    )

    assert (invoice.form, invoice.issuer, invoice.currency, invoice.rows) == (CSV, "", "EUR", 3)
    first, second, fee = rows
    assert (first.line, first.region, first.category, first.hours, first.amount) == (
        2,
        "eu",
        "Usage",
        Decimal(700),
        Decimal("2800.50"),
    )
    assert (second.gpu_model, second.gpus_per_hour) == ("L4", 1)
    assert (fee.category, fee.hours) == ("Purchase", None)


def test_rows_of_the_same_thing_are_one_line():
    assert lines(PLAIN + "p5,H100,eu,1,2.5,,\np5,H100,eu,2,5,,\np5,H100,us,2,5,,\n") == [
        ("p5", "H100", Decimal(3), 1, Decimal("7.5")),
        ("p5", "H100", Decimal(2), 1, Decimal(5)),
    ]


def test_focus_bills_hours_of_what_its_sku_is():
    invoice, rows = read((FOCUS_HEAD + FOCUS_ROW + FOCUS_ROW).encode(), "2026-10")

    [line] = rows
    assert (invoice.form, invoice.currency, invoice.rows) == (FOCUS, "USD", 2)
    assert (line.sku, line.region, line.hours, line.gpus_per_hour, line.amount) == (
        "p5.48xlarge",
        "eu-1",
        Decimal(4),
        None,
        Decimal(50),
    )


def test_focus_may_say_how_many_gpus_an_hour_is_of():
    row = "BilledCost,BillingCurrency,BillingPeriodStart,ChargeCategory,SkuId,PricingQuantity,PricingUnit,SkuPriceDetails\n"
    row += (
        '5,USD,2026-10-01T00:00:00Z,Usage,p5,3,Hours,"{""GpuCount"": 8, ""InstanceType"":'
        ' ""p5""}"\n'
    )

    assert lines(row) == [("p5", "", Decimal(3), 8, Decimal(5))]


def test_only_usage_bills_hours():
    assert lines(FOCUS_HEAD + FOCUS_ROW.replace("Usage", "Purchase"))[0][2] is None
    assert lines(FOCUS_HEAD + FOCUS_ROW.replace("Hours", "GB"))[0][2] is None


def test_our_own_focus_export_can_be_read():
    line = {
        "gpu_model": "H100",
        "priced_ms": 7_200_000,
        "usd_per_gpu_hour": "4.00",
        "cost_usd": "8.000000",
        "state": "free",
    }
    undelivered = {
        "name": "17",
        "gpu_model": "H100",
        "committed_ms": 3_600_000,
        "committed_usd": "3.000000",
        "used_ms": 0,
        "unheld_ms": 0,
        "missing_ms": 3_600_000,
        "missing_usd": "3.000000",
    }
    corrected = {
        "team": "",
        "corrects": "2026-09",
        "cause": "late data",
        "state": "free",
        "gpu_ms": -3_600_000,
        "cost_usd": "-4.000000",
    }
    content = {
        "organisation": "Acme", "zone": "UTC", "month": "2026-10", "from": "2026-10-01T00:00:00Z",
        "to": "2026-11-01T00:00:00Z",
        "own_lines": [line], "adjustments": [corrected], "commitments": [undelivered],
    }  # fmt: skip
    text = to_csv(list(focus.COLUMNS), focus.rows([content]))

    invoice, rows = read(text.encode(), "2026-10")

    assert (invoice.issuer, [(each.gpu_model, each.hours, each.amount) for each in rows]) == (
        "Acme",
        [
            ("H100", Decimal(2), Decimal(8)),
            ("", Decimal(-1), Decimal(-4)),
            ("H100", None, Decimal(3)),
        ],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, "")]),
        ("amount\n1\n", [(1, "")]),
        (PLAIN, [(1, "")]),
        (PLAIN + "p5,,,,x,,\np5,,,y,1,,\n", [(2, "amount"), (3, "gpu_hours")]),
        # each of a row's cells, and of those that can be read what does not go together
        (
            PLAIN + "p\x07,,,y,x,dollar,Gift\np5,,,,1,EUR,\np5,,,z,1,USD,\n",
            [
                (2, "gpu_hours"),
                (2, "category"),
                (2, "sku"),
                (2, "amount"),
                (2, "currency"),
                (4, "gpu_hours"),
                (4, "currency"),
            ],
        ),
        (
            FOCUS_HEAD + FOCUS_ROW + "x,dollar,2026-09-01,Use,p5,,y,Hours,[1],\n",
            [
                (3, "SkuPriceDetails"),
                (3, "ConsumedQuantity"),
                (3, "ChargeCategory"),
                (3, "BilledCost"),
                (3, "BillingCurrency"),
                (3, "BillingPeriodStart"),
            ],
        ),
        (PLAIN + "p5,,,,1e13,,\n", [(2, "amount")]),
        (PLAIN + ",,,,1,,\n", [(2, "sku")]),
        (PLAIN + "p5,,,,1,dollar,\n", [(2, "currency")]),
        (PLAIN + "p5,,,,1,USD,\np5,,,,1,EUR,\n", [(3, "currency")]),
        (PLAIN + "p5,,,,1,,Gift\n", [(2, "category")]),
        (PLAIN + "p\x07,,,,1,,\n", [(2, "sku")]),
        ("sku,amount,month\np5,1,2026-09\n", [(2, "month")]),
        ("sku,amount,issuer\np5,1,a\np5,1,b\n", [(3, "issuer")]),
        ("sku,amount,price\n", [(1, "price")]),
        (
            "BilledCost,ChargeCategory\n1,Usage\n",
            [(1, "BillingCurrency"), (1, "BillingPeriodStart")],
        ),
        (FOCUS_HEAD + FOCUS_ROW.replace("2026-10", "2026-11"), [(2, "BillingPeriodStart")]),
        (FOCUS_HEAD + FOCUS_ROW.replace("Usage", "Use"), [(2, "ChargeCategory")]),
        (FOCUS_HEAD + FOCUS_ROW.replace(",null,", ",[1],"), [(2, "SkuPriceDetails")]),
        (FOCUS_HEAD + FOCUS_ROW.replace("25,", ","), [(2, "BilledCost")]),
        (b"\xff", [(1, "")]),
        (b"x" * (MAX_BYTES + 1), [(1, "")]),
        ("sku,amount\n" + "".join(f"s{i},1\n" for i in range(MAX_LINES + 1)), [(1, "")]),
    ],
)
def test_what_can_not_be_taken_is_told_by_line_and_field(text, expected):
    assert faults(text) == expected


def test_all_that_is_wrong_is_counted_though_the_first_hundred_are_told():
    with pytest.raises(RefusedError) as refused:
        read(("sku,amount\n" + "p5,x\n" * 250).encode(), "2026-10")

    assert (len(refused.value.faults), refused.value.count) == (100, 250)


def lines_or_refused(text):
    """The charges of an invoice; None: it was refused."""
    try:
        return read(text.encode(), "2026-10")[1]
    except RefusedError:
        return None


@given(st.text(max_size=200) | st.builds(lambda rows: FOCUS_HEAD + rows, st.text(max_size=100)))
def test_any_text_is_refused_or_has_dollars_that_can_be_summed(text):
    lines = lines_or_refused(text)

    assert lines is None or (lines and sum(line.amount for line in lines).is_finite())
