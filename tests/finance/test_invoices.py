"""A month's invoice beside the ledger: imported once, replaced knowingly, explained, booked and
withdrawn.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.core.management import call_command

from fleetwatch.costs.models import Commitment
from fleetwatch.costs.rates import exchange
from fleetwatch.finance import bookings, invoices
from fleetwatch.finance.committing import commit
from fleetwatch.finance.invoices import InvoiceError, StandsError, import_invoice, set_sku
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.ledger.models import Adjustment, ClosedMonth, Policy
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.models import Invoice, InvoiceAdjustment, InvoiceLine
from tests.costs.factories import HOUR_MS, LONG_AGO, a_place
from tests.reports.factories import HOUR, NOW, OCTOBER, a_fleet

pytestmark = pytest.mark.django_db
HEAD = "sku,gpu_model,region,gpu_hours,amount,currency\n"
H100 = b"gpu_model,gpu_hours,amount\nH100,5,22.5\n"  # the ledger: 4 h at $4


def took(content=H100, **fields):
    return import_invoice(
        content if isinstance(content, bytes) else (HEAD + content).encode(),
        "2026-10",
        now=NOW,
        by="ann",
        **fields,
    )


def seen():
    found = reconciliation("2026-10", now=NOW)
    return [(line.kind, line.label, line.billed_usd, line.ledger_usd) for line in found.lines]


def booked(*labels, reason="contract 17", now=NOW):
    found = reconciliation("2026-10", now=now)
    keys = {line.key for line in found.lines if line.label in labels}
    return bookings.book("2026-10", keys, seen=found.fingerprint, reason=reason, by="ann", now=now)


def close_october(now=NOW):
    policy, _ = Policy.objects.get_or_create(
        version=1, defaults={"thresholds": {}, "created_at": OCTOBER}
    )
    november = datetime(2026, 11, 1, tzinfo=UTC)
    ClosedMonth.objects.create(
        month=date(2026, 10, 1),
        start=OCTOBER,
        end=november,
        policy=policy,
        closed_at=now,
        closed_by="ann",
    )


def test_an_invoice_that_came_while_its_month_ran_is_beside_the_days_that_were_over_then():
    """The H100's 4 hours are of the 1st of October; the invoice came on the 15th."""
    a_fleet()
    mid_october = OCTOBER + timedelta(days=14, hours=9)

    import_invoice(H100, "2026-10", now=mid_october, by="ann")

    beside = reconciliation("2026-10", now=NOW)
    assert beside.compared == Interval(OCTOBER, OCTOBER + timedelta(days=14))
    assert beside.month.is_over


def test_an_invoice_of_a_month_that_is_over_is_beside_all_of_it():
    a_fleet()

    took()

    beside = reconciliation("2026-10", now=NOW)
    assert beside.compared == beside.month.interval


def test_an_invoice_is_explained_beside_the_ledger():
    a_fleet()

    took()

    found = reconciliation("2026-10", now=NOW)
    h100, l4 = found.lines
    assert (h100.kind, h100.gpu_hours, h100.ledger_ms, h100.billed_usd, h100.ledger_usd) == (
        "matched",
        5,
        4 * HOUR_MS,
        Decimal("22.5"),
        16,
    )
    # an hour more at $4, and 5 h at $4.50 instead of $4
    assert (h100.gap.hours_usd, h100.gap.rate_usd, h100.gap.unobserved_usd) == (
        Decimal(4),
        Decimal("2.5"),
        0,
    )
    assert (l4.kind, l4.ledger_usd, l4.gap.other_usd) == ("unbilled", 3, -3)
    assert found.total.gap.difference_usd == Decimal("22.5") - 19


def test_unobserved_hours_that_are_not_billed_are_told_apart():
    a_fleet()

    took("l4,L4,,2,2,\n")

    # the ledger: 3 h for $3, one of them unobserved
    assert reconciliation("2026-10", now=NOW).lines[0].gap.unobserved_usd == Decimal(-1)


def test_regions_and_owned_nodes_are_told_apart():
    a_fleet()
    a_place("gpu-01", region="eu")
    a_place("gpu-02", region="eu", node_class="owned")

    took("h,H100,eu,4,16,\n")

    assert seen() == [("matched", "H100, eu", 16, 16), ("unbilled", "L4, eu", 0, 3)]


def test_a_node_that_was_relabelled_counts_where_it_stood():
    a_fleet()
    a_place("gpu-01", region="eu", valid_to=OCTOBER + HOUR)
    a_place("gpu-01", region="us", valid_from=OCTOBER + HOUR)

    took("h,H100,eu,1,4,\nh,H100,us,3,12,\n")

    assert seen()[:2] == [("matched", "H100, eu", 4, 4), ("matched", "H100, us", 12, 12)]


def test_what_a_sku_is_can_be_said_later():
    big, _ = a_fleet()
    took(
        b"BilledCost,BillingCurrency,BillingPeriodStart,ChargeCategory,SkuId,ConsumedQuantity,ConsumedUnit\n"
        b"16,USD,2026-10-01T00:00:00Z,Usage,half,2,Hours\n"
    )
    assert seen()[0] == ("unmatched", "half", 16, 0)

    set_sku("half", big.model, gpus_per_hour=2)

    found = reconciliation("2026-10", now=NOW)
    assert (found.lines[0].label, found.lines[0].gpu_hours, found.lines[0].gap.difference_usd) == (
        "H100",
        4,
        0,
    )
    set_sku("half", None, gpus_per_hour=1)
    assert seen()[0] == ("unmatched", "half", 16, 0)


def test_a_corrected_closed_hour_counts_as_it_is_now():
    big, _ = a_fleet()
    policy = Policy.objects.get(version=1)
    Adjustment.objects.create(
        node=big.node,
        gpu=big,
        start=OCTOBER + 5 * HOUR,
        state="unobserved",
        policy=policy,
        gpu_ms=HOUR_MS,
        cause="capacity changed",
        booked_at=NOW,
    )

    took()

    assert reconciliation("2026-10", now=NOW).lines[0].gap.rate_usd == Decimal("2.5")
    assert seen()[0] == ("matched", "H100", Decimal("22.5"), 20)


def test_a_commitments_missing_hours_are_not_open():
    big, _ = a_fleet()
    commit(
        Commitment(
            gpu_model=big.model,
            gpus=1,
            name="17",
            valid_from=LONG_AGO,
            valid_to=OCTOBER + 5 * HOUR,
            price_per_gpu_hour=Decimal(4),
        ),
        now=NOW,
    )

    took()

    # 5 h committed from the 1st on, 4 of them there
    gap = reconciliation("2026-10", now=NOW).lines[0].gap
    assert (gap.committed_usd, gap.hours_usd, gap.rate_usd) == (Decimal(4), 0, Decimal("2.5"))


def test_a_currency_is_converted_by_the_rate_of_the_months_beginning():
    a_fleet()
    with pytest.raises(RefusedError) as refused:
        took("h,H100,,4,10,EUR\n")
    assert [(fault.line, fault.field) for fault in refused.value.faults] == [(2, "currency")]
    exchange.set_exchange_rate("EUR", Decimal("1.6"), valid_from=LONG_AGO, now=NOW)
    exchange.set_exchange_rate("EUR", Decimal("1.7"), valid_from=OCTOBER + HOUR, now=NOW)

    took("h,H100,,4,10,EUR\n")

    assert seen()[0] == ("matched", "H100", 16, 16)


def test_the_same_file_twice_is_one_invoice_and_another_one_is_asked_about():
    took()
    assert not took().is_new

    with pytest.raises(StandsError, match="say that this one replaces it"):
        took("h,H100,,4,16,\n")
    done = took("h,H100,,4,16,\n", replace=True)

    assert (done.is_new, done.replaced) == (True, True)
    assert (Invoice.objects.count(), InvoiceLine.objects.get().amount) == (1, 16)


def test_every_issuer_has_an_invoice_of_its_own():
    took(b"gpu_model,amount,issuer\nH100,1,aws\n")
    took(b"gpu_model,amount,issuer\nH100,2,gcp\n")

    assert Invoice.objects.count() == 2


def said(capsys, tmp_path, *options, content=H100):
    """What the command says, and its exit status."""
    file = tmp_path / "invoice.csv"
    file.write_bytes(content)
    try:
        with time_machine.travel(NOW, tick=False):
            call_command("import_invoice", str(file), "--month", "2026-10", *options)
    except SystemExit as stopped:
        return stopped.code, capsys.readouterr().err
    return 0, capsys.readouterr().out


def test_the_command_tells_the_difference_and_a_dry_run_keeps_nothing(capsys, tmp_path):
    a_fleet()

    status, text = said(capsys, tmp_path, "--dry-run")

    assert (status, Invoice.objects.count()) == (0, 0)
    assert "would be imported: 1 rows, 1 lines, 22.50 USD" in text
    assert [line.split() for line in text.splitlines() if line.startswith("H100")] == [
        ["H100", "6.50", "0.00", "0.00", "4.00", "2.50", "0.00", "6.50"]
    ]
    assert said(capsys, tmp_path)[1].startswith("imported: 1 rows")
    assert said(capsys, tmp_path)[1].startswith("stands already")


def test_the_command_refuses_by_line_and_field_and_replaces_only_when_told(capsys, tmp_path):
    took()

    assert said(capsys, tmp_path, content=b"sku,amount\np5,x\n")[1].endswith(
        "invoice.csv: line 2, amount: A number like 1234.56, please, not 'x'.\nnothing was"
        " imported\n"
    )
    assert said(capsys, tmp_path, content=b"sku,amount\np5,1\n")[0] == 1
    assert said(capsys, tmp_path, "--replace", content=b"sku,amount\np5,1\n")[1].startswith(
        "imported, in place of the one before"
    )


@pytest.mark.parametrize("month", ["2026-12", "october", "2026-13", ""])
def test_a_month_that_has_not_begun_has_no_invoice(month):
    with pytest.raises(InvoiceError):
        import_invoice(H100, month, now=NOW)


def test_a_difference_is_booked_with_a_reason_once_and_withdrawn():
    a_fleet()
    took()

    [line] = booked("H100")

    assert (line.month, line.booked_in, line.label, line.reason, line.booked_by) == (
        "2026-10",
        "2026-10",
        "H100",
        "contract 17",
        "ann",
    )
    assert (line.hours_usd, line.rate_usd) == (Decimal(4), Decimal("2.5"))
    with pytest.raises(InvoiceError, match="Choose at least one line"):
        booked("H100")
    bookings.withdraw(line, by="bob", now=NOW)
    assert InvoiceAdjustment.objects.get().withdrawn_by == "bob"
    assert len(booked("H100")) == 1


def test_what_came_after_a_booking_is_open_and_only_that():
    a_fleet()
    took()
    booked("H100")
    took("h,H100,,5,23.5,\n", replace=True)

    [line] = booked("H100")

    assert (line.hours_usd, line.rate_usd) == (0, Decimal(1))


@pytest.mark.parametrize("reason", ["", "  ", "x" * 301, "a\nb"])
def test_a_booking_needs_a_reason(reason):
    a_fleet()
    took()

    with pytest.raises(InvoiceError) as refused:
        booked("H100", reason=reason)

    assert refused.value.field == "reason"
    assert not InvoiceAdjustment.objects.exists()


def test_what_was_not_looked_at_is_not_booked():
    a_fleet()
    took()
    keys = {line.key for line in reconciliation("2026-10", now=NOW).lines}

    with pytest.raises(InvoiceError, match="changed since you looked"):
        bookings.book("2026-10", keys, seen="0" * 16, reason="x", by="ann", now=NOW)


def test_a_closed_month_gets_no_line_any_more_the_running_one_does():
    a_fleet()
    took()
    [before] = booked("H100")
    close_october()

    with pytest.raises(InvoiceError, match="is closed"):
        bookings.withdraw(before, by="ann", now=NOW)
    [after] = booked("L4")

    assert (after.month, after.booked_in, after.other_usd) == ("2026-10", "2026-11", Decimal(-3))
    bookings.withdraw(after, by="ann", now=NOW)
    assert InvoiceAdjustment.objects.get(pk=after.pk).withdrawn_at == NOW


def test_an_invoice_that_was_removed_leaves_what_was_booked_open_the_other_way():
    a_fleet()
    took()
    booked("H100")

    invoices.remove_invoice(Invoice.objects.get())

    [gone] = [line for line in reconciliation("2026-10", now=NOW).lines if line.kind == "booked"]
    assert (gone.label, gone.open.open_usd) == ("H100", Decimal("-6.5"))
