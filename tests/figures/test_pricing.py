from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.figures.pricing import CENT, lines, price, usd


def test_an_hour_costs_its_rate_and_a_third_of_an_hour_a_third():
    assert price([(3_600_000, Decimal("3.99"))]) == Decimal("3.99")
    assert usd(price([(1_200_000, Decimal("3.99"))])) == Decimal("1.330000")


def test_parts_are_summed_before_they_are_divided():
    # three times 1 ms at 1.00 is 3/3600000 = 0.00000083..; each alone would round to 0
    assert usd(price([(1, Decimal(1))] * 3)) == Decimal("0.000001")


def test_nothing_costs_nothing():
    assert price([]) == 0


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.125", "0.12"),
        ("0.135", "0.14"),
        ("0.1250001", "0.13"),
        ("-0.125", "-0.12"),
        ("7", "7.00"),
    ],
)
def test_a_shown_amount_is_rounded_half_to_even(amount, shown):
    assert usd(Decimal(amount), CENT) == Decimal(shown)


def test_lines_sum_to_the_rounded_total():
    third = Decimal(1) / 3

    assert lines([third, third, third], CENT) == [Decimal("0.34"), Decimal("0.33"), Decimal("0.33")]


def test_the_largest_remainder_gets_the_missing_cent():
    assert lines([Decimal("1.001"), Decimal("1.008"), Decimal("1.001")], CENT) == [
        Decimal("1.00"),
        Decimal("1.01"),
        Decimal("1.00"),
    ]


def test_no_lines_are_no_lines():
    assert lines([]) == []


@given(st.lists(st.tuples(st.integers(0, 10**13), st.decimals(0, 10_000, places=6)), max_size=30))
def test_lines_always_sum_to_the_total_and_none_is_off_by_a_step(parts):
    amounts = [price([part]) for part in parts]

    split = lines(amounts)

    assert sum(split, Decimal(0)) == usd(price(parts))
    assert all(
        abs(line - amount) < Decimal("0.000001")
        for line, amount in zip(split, amounts, strict=True)
    )


def test_lines_can_follow_a_total_that_was_rounded_elsewhere():
    assert lines([Decimal("0.4"), Decimal("0.4")], Decimal(1), total=Decimal(0)) == [
        Decimal(0),
        Decimal(0),
    ]
    assert lines([Decimal("0.1"), Decimal("0.4")], Decimal(1), total=Decimal(1)) == [
        Decimal(0),
        Decimal(1),
    ]
