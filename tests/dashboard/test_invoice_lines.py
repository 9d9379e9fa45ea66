"""An invoice beside the ledger in cents that sum in each row and column."""

from dataclasses import replace
from decimal import Decimal

from fleetwatch.dashboard.invoice_lines import PARTS, printed_lines, to_book_usd
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.finance.reconciling import NO_GAP, Line


def line(billed: str, ledger: str, **parts: str) -> Line:
    gap = replace(NO_GAP, **{name: Decimal(usd) for name, usd in parts.items()})
    return Line(
        key="k",
        kind="matched",
        label="H100",
        billed_usd=Decimal(billed),
        ledger_usd=Decimal(ledger),
        gap=gap,
    )


def test_the_only_reason_of_a_difference_reads_as_the_difference():
    # 20.00 less 663.0149 is -643.0149; the ledger's column sums to 1,326.03
    lines = printed_lines(
        [line("20", "663.0149", rate_usd="-643.0149"), line("0", "663.0149", rate_usd="-663.0149")]
    )

    assert [each.ledger_usd for each in lines] == [Decimal("663.02"), Decimal("663.01")]
    assert [each.reasons["rate_usd"] for each in lines] == [
        Decimal("-643.02"),
        Decimal("-663.01"),
    ]
    assert [each.difference_usd for each in lines] == [Decimal("-643.02"), Decimal("-663.01")]
    assert exact_sum(each.ledger_usd for each in lines) == Decimal("1326.03")


def test_what_rounding_leaves_goes_to_the_largest_reason():
    [each] = printed_lines(
        [line("1.01", "0", hours_usd="0.336", rate_usd="0.338", other_usd="0.336")]
    )

    assert [each.reasons[name] for name in PARTS] == [
        Decimal(0),
        Decimal("0.34"),
        Decimal("0.33"),
        Decimal(0),
        Decimal("0.34"),
    ]
    assert each.open_usd == Decimal("1.01")


def test_what_neither_book_has_is_beside_both():
    committed = replace(line("0", "0", committed_usd="7.50", other_usd="-7.50"), kind="committed")

    [each] = printed_lines([committed])

    assert each.is_beside_both
    assert (each.difference_usd, each.open_usd) == (0, Decimal("-7.50"))


def test_what_is_left_to_book_sums_to_what_the_invoices_lines_print():
    # exactly 2 x 0.3349 = 0.6698, of which 0.67 is printed
    lines = [line("0.3349", "0", other_usd="0.3349")] * 2

    assert sorted(to_book_usd(lines)) == [Decimal("0.33"), Decimal("0.34")]
