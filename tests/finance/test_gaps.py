"""Why an invoice and the ledger differ, by hand; and that the reasons always sum to the
difference.
"""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.finance.gaps import Billed, Counted, Gap, explain

HOUR_MS = 3_600_000


def billed(hours, dollars):
    return Billed(None if hours is None else Decimal(hours), Decimal(dollars))


def counted(hours, dollars, *, unobserved=0):
    return Counted(hours * HOUR_MS, unobserved * HOUR_MS, Decimal(dollars))


def missing(hours, dollars):
    return Counted(hours * HOUR_MS, 0, Decimal(dollars))


def gap(*, committed=0, unobserved=0, hours=0, rate=0, other=0):
    return Gap(*map(Decimal, (committed, unobserved, hours, rate, other)))


NONE = missing(0, 0)


def test_the_example_of_the_docs():
    # ledger: 100 h at $4, 20 of them unobserved; invoice: 70 h at $4.50: 20 h unobserved and 10 h
    # more are not billed
    assert explain(billed(70, 315), counted(100, 400, unobserved=20), NONE) == gap(
        unobserved=-80, hours=-40, rate=35
    )


def test_the_same_hours_at_another_price_are_rate_alone():
    assert explain(billed(10, 45), counted(10, 40, unobserved=5), NONE) == gap(rate=5)


def test_more_billed_hours_than_the_ledger_has_are_hours():
    assert explain(billed(12, 48), counted(10, 40, unobserved=5), NONE) == gap(hours=8)


def test_billed_hours_of_gpus_that_were_committed_and_not_there_are_a_line_of_the_report_already():
    # 15 h billed, 10 in the ledger; 3 h were committed at $2 and not there: the other 2 h are hours
    assert explain(billed(15, 54), counted(10, 40), missing(3, 6)) == gap(committed=6, hours=8)


def test_missing_hours_that_the_invoice_does_not_bill_here_explain_nothing_here():
    assert explain(billed(10, 40), counted(10, 40), missing(3, 6)) == gap()
    assert explain(billed(11, 44), counted(10, 40), missing(2, 8)) == gap(committed=4)


@pytest.mark.parametrize("hours", [10, None])
def test_gpus_that_the_ledger_does_not_know_have_no_price_in_it_and_no_counterpart(hours):
    assert explain(billed(hours, 40), counted(0, 0), NONE) == gap(other=40)


def test_what_is_not_billed_by_the_hour_is_rate_alone():
    assert explain(billed(None, 30), counted(10, 40, unobserved=5), missing(1, 4)) == gap(rate=-10)


def test_an_invoice_of_no_hours_bills_none():
    assert explain(billed(0, 0), counted(10, 40, unobserved=4), NONE) == gap(
        unobserved=-16, hours=-24
    )


DOLLARS = st.decimals(-(10**9), 10**9, places=6)
MS = st.integers(0, 10**12)


HOURS = st.none() | st.decimals(0, 10**7, places=9)
TIMES = st.tuples(MS, MS).map(sorted)


@given(
    st.builds(Billed, HOURS, DOLLARS),
    st.builds(lambda times, dollars: Counted(times[1], times[0], dollars), TIMES, DOLLARS),
    st.builds(Counted, MS, st.just(0), st.decimals(0, 10**9, places=6)),
)
def test_the_reasons_sum_to_the_difference_to_the_micro_dollar(bill, ledger, paid):
    found = explain(bill, ledger, paid)

    assert found.difference_usd == bill.usd - ledger.usd
    for part in (found.committed_usd, found.unobserved_usd, found.hours_usd, found.rate_usd):
        assert part == part.quantize(Decimal("0.000001"))
    assert found.less(found) == Gap()
    assert (found + found).difference_usd == 2 * (bill.usd - ledger.usd)
