"""Numbers that people write: read as they are meant, or not at all."""

from decimal import Decimal

import pytest

from fleetwatch.lib.csv_files.amounts import number, typed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.49", "2.49"),
        ("-3", "-3"),
        ("1e3", "1000"),
        ("0.000000000000000000000000000000001", "1e-33"),
        (" 7 ", "7"),
    ],
)
def test_a_number_is_read(text: str, value: str) -> None:
    assert number(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "NaN",
        "sNaN",
        "Infinity",
        "1_0",
        "٣",
        "1,5",
        "$1",
        "0x10",
        "1e41",
        "1e999999999",
        "1e-999999999",
    ],
)
def test_what_is_no_amount_is_none(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$2.49", "2.49"),
        ("12,000", "12000"),
        ("$1,234,567.89", "1234567.89"),
        ("-1,000", "-1000"),
        (" 7 ", "7"),
    ],
)
def test_what_is_typed_is_read(text: str, value: str) -> None:
    assert typed(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["0,12", "1,5", "12,00", "1.234,56", "1,2345", ",5", "1,,000", "$", "$$1", "1_000"]
)
def test_a_comma_that_may_be_a_decimal_point_is_not_guessed(text: str) -> None:
    assert typed(text) is None
