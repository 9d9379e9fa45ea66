"""Invoices beside the ledger, by hand: what is matched with what; and that all lines sum to the
difference.
"""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.figures.pricing import usd
from fleetwatch.finance.gaps import Counted, Gap
from fleetwatch.finance.reconciling import (
    BOOKED,
    COMMITTED,
    MATCHED,
    UNBILLED,
    UNMATCHED,
    Bill,
    Owner,
    fingerprint,
    reconcile,
    total,
)

HOUR_MS = 3_600_000


def bill(
    dollars,
    *,
    model="H100",
    region="",
    hours: object = None,
    sku="p5",
    category="Usage",
    issuer="",
    description="",
):
    gpu_hours = None if hours is None else Decimal(hours)
    return Bill(issuer, sku, region, category, description, model, gpu_hours, Decimal(dollars))


def counted(hours, dollars, *, unobserved=0):
    return Counted(hours * HOUR_MS, unobserved * HOUR_MS, Decimal(dollars))


def missing(hours, dollars):
    return Counted(hours * HOUR_MS, 0, Decimal(dollars))


def seen(lines):
    return [(line.kind, line.label, line.billed_usd, line.ledger_usd) for line in lines]


EU, US = Owner("H100", "eu"), Owner("H100", "us")


def test_lines_of_a_model_are_matched_region_by_region():
    lines = reconcile(
        [bill(40, region="eu", hours=10), bill(50, region="us", hours=10)],
        {EU: counted(10, 40), US: counted(10, 40)},
        {},
        {},
    )

    assert seen(lines) == [(MATCHED, "H100, eu", 40, 40), (MATCHED, "H100, us", 50, 40)]
    assert [line.gap for line in lines] == [Gap(), Gap(rate_usd=Decimal(10))]


def test_where_a_region_is_not_named_as_in_the_ledger_the_model_is_matched_as_a_whole():
    lines = reconcile(
        [bill(90, region="eu-west-1", hours=20)], {EU: counted(10, 40), US: counted(10, 40)}, {}, {}
    )

    assert seen(lines) == [(MATCHED, "H100", 90, 80)]


def test_several_bills_of_the_same_gpus_are_one_line_and_a_credit_bills_no_hours():
    bills = [bill(30, hours=6), bill(10, hours=4, issuer="other"), bill(-5, category="Credit")]

    [line] = reconcile(bills, {Owner("H100", ""): counted(10, 40)}, {}, {})

    assert (line.gpu_hours, line.billed_usd, line.gap) == (
        Decimal(10),
        Decimal(35),
        Gap(rate_usd=Decimal(-5)),
    )


def test_what_stands_in_one_book_alone_has_a_line_of_its_own():
    bills = [
        bill(7, model="", sku="disk", region="eu"),
        bill(3, model="", sku="disk", region="eu"),
        bill(40, region="eu", hours=10),
    ]
    ledger = {
        EU: counted(10, 40),
        US: counted(1, 4),
        Owner("H100", "eu", is_owned=True): counted(2, 8),
    }

    lines = reconcile(bills, ledger, {}, {})

    assert seen(lines) == [
        (MATCHED, "H100, eu", 40, 40),
        (UNMATCHED, "disk, eu", 10, 0),
        (UNBILLED, "H100, eu", 0, 8),
        (UNBILLED, "H100, us", 0, 4),
    ]
    assert lines[2].note == "owned: on nobody's invoice"
    assert total(lines).gap == Gap(other_usd=Decimal(-2))


def test_a_commitments_missing_hours_are_explained_where_they_are_billed():
    [line] = reconcile(
        [bill(48, region="eu", hours=12)],
        {EU: counted(10, 40)},
        {("H100", "eu"): missing(2, 8)},
        {},
    )

    assert line.gap == Gap(committed_usd=Decimal(8))
    assert not line.is_open


def test_a_commitments_fee_that_is_not_matched_is_open_by_what_the_report_does_not_say_already():
    bills = [bill(40, region="eu", hours=10), bill(9, model="", sku="fee", category="Purchase")]

    lines = reconcile(bills, {EU: counted(10, 40)}, {("H100", "eu"): missing(2, 8)}, {})

    assert [(line.kind, line.open.open_usd) for line in lines] == [
        (MATCHED, 0),
        (UNMATCHED, 9),
        (COMMITTED, -8),
    ]
    assert total(lines).gap.difference_usd == Decimal(9)
    assert total(lines).open.open_usd == Decimal(1)


def test_what_was_booked_counts_as_said():
    [line] = reconcile([bill(50, hours=10)], {Owner("H100", ""): counted(10, 40)}, {}, {})
    booked = {
        line.key: ("H100", Gap(rate_usd=Decimal(6))),
        "gone": ("L4", Gap(hours_usd=Decimal(3))),
    }

    again, gone = reconcile([bill(50, hours=10)], {Owner("H100", ""): counted(10, 40)}, {}, booked)

    assert (again.gap, again.open) == (Gap(rate_usd=Decimal(10)), Gap(rate_usd=Decimal(4)))
    assert (gone.kind, gone.label, gone.open) == (BOOKED, "L4", Gap(hours_usd=Decimal(-3)))
    assert fingerprint([line]) != fingerprint([again])


NAMES = st.sampled_from(["", "a", "b"])
AMOUNTS = st.decimals(-(10**6), 10**6, places=9)
HOURS = st.none() | st.decimals(0, 10**4, places=3)
BILLS = st.lists(
    st.builds(Bill, NAMES, NAMES, NAMES, NAMES, NAMES, NAMES, HOURS, AMOUNTS), max_size=6
)
TIMES = st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)).map(sorted)
COUNTED = st.builds(
    lambda times, dollars: Counted(times[1], times[0], dollars),
    TIMES,
    st.decimals(0, 10**6, places=9),
)
LEDGER = st.dictionaries(
    st.builds(Owner, st.sampled_from("ab"), NAMES, st.booleans()), COUNTED, max_size=5
)
PAID = st.builds(Counted, st.integers(1, 10**10), st.just(0), st.decimals(0, 10**6, places=6))
MISSING = st.dictionaries(st.tuples(st.sampled_from("ab"), NAMES), PAID, max_size=3)


@given(BILLS, LEDGER, MISSING)
def test_all_lines_sum_to_invoices_less_ledger_and_nothing_is_missing(bills, ledger, paid):
    lines = reconcile(bills, ledger, paid, {})

    whole = total(lines)
    assert whole.billed_usd == usd(sum((each.usd for each in bills), Decimal(0)))
    assert whole.ledger_usd == usd(sum((each.usd for each in ledger.values()), Decimal(0)))
    assert whole.gap.difference_usd == whole.billed_usd - whole.ledger_usd
    assert whole.gap.committed_usd == sum((each.usd for each in paid.values()), Decimal(0))
    for line in lines:
        assert line.gap.difference_usd == line.billed_usd - line.ledger_usd
    assert len({line.key for line in lines}) == len(lines)
    booked = {line.key: (line.label, line.open) for line in lines}
    assert not any(line.is_open for line in reconcile(bills, ledger, paid, booked))


def test_hours_that_are_committed_to_are_compared_with_the_contracts_price():
    contracts = {("H100", ""): Counted(8 * HOUR_MS, 0, Decimal(24))}
    ledger = {Owner("H100", ""): counted(10, 40)}

    [line] = reconcile([bill(50, hours=12)], ledger, {}, {}, contracts)

    # billed at 50 / 12 = $4.1667; 8 of the hours are by contract at $3
    assert (line.ledger_rate, line.contract_rate) == (4, 3)
    assert round(line.billed_rate, 4) == Decimal("4.1667")
    assert round(line.above_contract_usd, 4) == Decimal("9.3333")
    assert line.is_above_contract


def test_no_more_hours_are_above_the_contract_than_were_billed():
    contracts = {("H100", ""): Counted(8 * HOUR_MS, 0, Decimal(24))}

    [line] = reconcile([bill(20, hours=5)], {Owner("H100", ""): counted(10, 40)}, {}, {}, contracts)

    assert line.above_contract_usd == 5  # 5 h at $4 instead of $3


@pytest.mark.parametrize("hours", [None, 10])
def test_without_hours_or_without_a_contract_nothing_is_above_it(hours):
    [line] = reconcile([bill(50, hours=hours)], {Owner("H100", ""): counted(10, 40)}, {}, {})

    assert line.above_contract_usd is None
    assert not line.is_above_contract


def test_what_was_billed_below_the_contract_is_not_above_it():
    contracts = {("H100", ""): Counted(8 * HOUR_MS, 0, Decimal(24))}

    [line] = reconcile(
        [bill(20, hours=10)], {Owner("H100", ""): counted(10, 40)}, {}, {}, contracts
    )

    assert line.above_contract_usd == -8  # 8 h at $2 instead of $3
    assert not line.is_above_contract


def test_a_gpu_of_which_the_ledger_has_no_time_is_not_in_the_ledger_and_no_more_hours():
    [b200, _] = reconcile(
        [bill(90, model="B200", hours=10), bill(40, hours=10)], {EU: counted(10, 40)}, {}, {}
    )

    assert (b200.kind, b200.label, b200.gap) == (UNMATCHED, "B200", Gap(other_usd=Decimal(90)))
    assert b200.note == "no GPU of this name is in the ledger"


@pytest.mark.parametrize(("hours", "is_twice"), [(10, True), (5, False)])
def test_issuers_that_bill_the_same_hours_are_named_with_what_each_bills(hours, is_twice):
    """The ledger has 10 hours."""
    bills = [bill(4 * hours, hours=hours, issuer=issuer) for issuer in ("b", "a")]

    [line] = reconcile(bills, {EU: counted(10, 40)}, {}, {})

    assert line.billers == (("a", 4 * hours), ("b", 4 * hours))
    assert line.is_billed_twice is is_twice
