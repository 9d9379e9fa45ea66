import re
from decimal import Decimal
from types import SimpleNamespace

import pytest

from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.templatetags.fleetwatch import part_of


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "–"),
        (Decimal(0), "$0.00"),
        # what divisions leave is no money
        (Decimal("1E-25"), "$0.00"),
        (Decimal("-1E-25"), "$0.00"),
        (Decimal("0.00000049"), "$0.00"),
        (Decimal("0.0000005"), "<$0.01"),
        (Decimal("0.004"), "<$0.01"),
        (Decimal("0.005"), "$0.01"),
        (Decimal("0.42"), "$0.42"),
        (Decimal("21.6"), "$21.60"),
        (Decimal("99.994"), "$99.99"),
        (Decimal("99.995"), "$100"),
        (Decimal("4310.4"), "$4,310"),
        (Decimal("9999.4"), "$9,999"),
        (Decimal("9999.5"), "$10,000"),
        (Decimal("24310"), "$24,310"),
        (Decimal("446000"), "$446,000"),
        (Decimal("999999.4"), "$999,999"),
        (Decimal("999999.5"), "$1,000,000"),
        (Decimal("1240000"), "$1,240,000"),
        (Decimal("-21.6"), "−$21.60"),
    ],
)
def test_dollars_have_cents_or_are_whole_up_to_a_million(amount, text):
    assert numbers.usd(amount) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        ("0", "0", "$0.00"),
        ("25.94", "25.94", "$25.94"),
        ("0.5", "1", "$0.50–1.00"),
        ("0.85", "7.03", "$0.85–7.03"),
        ("9.994", "9.996", "$9.99–10.00"),
        ("71.03", "78.92", "$71–79"),
        ("78.81", "87.57", "$79–88"),
        ("79.1", "79.4", "$79"),
        ("96.5", "107.2", "$97–107"),
        ("99.4", "99.6", "$99–100"),
        ("5129.3", "8737.7", "$5,130–8,740"),
        ("5.85", "584", "$5.85–584"),
        ("5.84", "584", "up to $584"),  # a hundred times
        ("0", "5", "up to $5.00"),
    ],
)
def test_a_range_of_savings_has_cents_below_ten_dollars_and_none_from_there_on(low, high, text):
    assert numbers.roughly(Decimal(low), Decimal(high)) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        ("24100", "24740", "$24,100 to $24,700"),
        ("72749.99", "72750", "$72,700 to $72,800"),
        ("72750", "72849.99", "±$50 at most"),
        ("72801", "72803", "±$50 at most"),
        ("1436", "1444", "±$5 at most"),
        ("980", "980", "±$0.50 at most"),
        ("0", "0", "$0.00"),
        ("0", "0.001", "$0.00 to <$0.01"),
        ("0.501", "0.504", "±$0.01 at most"),
        ("0.001", "0.002", "±$0.01 at most"),
        ("-5", "-5", "±$0.01 at most"),
    ],
)
def test_a_range_of_what_is_expected_never_names_one_amount_twice(low, high, text):
    assert numbers.about_range(Decimal(low), Decimal(high)) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        ("0.7949", "79 %"),
        ("0.8051", "81 %"),
        ("0.795", "79.5 %"),
        ("0.7951", "79.5 %"),
        ("0.79999", "79.9 %"),
        ("0.8", "80 %"),
        ("0.8049", "80.4 %"),
        ("0.805", "80.5 %"),
        ("0.92", "92 %"),
        ("0.9999", "99.9 %"),
        ("1.002", "100.2 %"),
        ("0.012", "1.2 %"),
    ],
)
def test_a_share_of_a_budget_below_a_rules_step_is_not_shown_as_that(share, text):
    assert numbers.budget_share(None if share is None else Decimal(share)) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (23_400_000, 23_400_000, "6.50"),
        (1_800_000, 3_600_000, "0.5–1"),
        (211_320_000, 235_080_000, "59–65"),
        (207_360_000, 878_400_000, "58–244"),
        (5_457_600_000, 9_492_480_000, "1,520–2,640"),
        (5_616_000, 561_240_000, "1.56–156"),
        (5_612_400, 561_240_000, "up to 156"),  # a hundred times
        (0, 86_400_000, "up to 24"),
    ],
)
def test_a_range_of_saved_hours_is_rounded_as_the_dollars_are(low, high, text):
    assert numbers.roughly_hours(low, high) == text


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        ("2.1", "USD", "$2.10"),
        ("2.100000", "USD", "$2.10"),
        ("3.141592", "USD", "$3.141592"),
        ("0.28571428571429", "USD", "$0.285714"),  # two sevenths of a board of a dollar
        ("0.001", "EUR", "0.001 EUR"),
        ("9999.990000", "JPY", "9,999.99 JPY"),
        ("1E+4", "USD", "$10,000.00"),
        ("0", "USD", "$0.00"),
    ],
)
def test_a_price_has_all_its_digits(amount, currency, text):
    assert numbers.price(Decimal(amount), currency) == text


def test_the_exact_dollars_are_to_the_micro_dollar():
    assert numbers.usd_exact(Decimal("24310.1234567")) == "$24,310.123457"
    assert numbers.usd_exact(None) == "not known"


@pytest.mark.parametrize(
    ("gpu_ms", "text"),
    [
        (None, "–"),
        (0, "0.00"),
        (10_000, "<0.01"),
        (1_512_000, "0.42"),
        (44_280_000, "12.3"),
        (3_600_000_000, "1,000"),
        (38_707_200_000, "10,752"),
        (208_134_000_000, "57,815"),
    ],
)
def test_gpu_hours_are_rounded_and_never_to_nothing(gpu_ms, text):
    assert numbers.gpu_hours(gpu_ms) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"),
        (0, "0 %"),
        (Decimal("-0"), "0 %"),  # of a part of nothing below zero
        (0.0004, "<0.1 %"),
        (-0.0004, "0 %"),  # a remainder of figures that were read one after the other
        (0.015, "1.5 %"),
        (0.02, "2 %"),
        (0.41, "41 %"),
        (0.984, "98.4 %"),
        (0.9968, "99.7 %"),  # what lacks is 0.3 %
        (0.99999, "99.9 %"),
        (1.0, "100 %"),
        (Decimal("0.9999999999999999999999999999"), "100 %"),  # what a division loses of all
        (0.9999999999999999, "100 %"),
        (1.31, "131 %"),
    ],
)
def test_a_share_is_never_shown_as_all_or_nothing_when_it_is_not(ratio, text):
    assert numbers.percent(ratio) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (12_000_000, "3 h 20 min"),
        (3_600_000, "1 h"),
        (187_200_000, "2 d 4 h"),
        (86_400_000, "1 d"),
    ],
)
def test_durations_have_two_units_at_most(ms, text):
    assert numbers.duration(ms) == text


def test_other_units():
    assert numbers.gigabytes(None) == "–"
    assert numbers.watts(612.6) == "613 W"
    assert numbers.kilowatt_hours(15_120_000.0) == "4.20 kWh"
    assert numbers.kilowatt_hours(None) == "–"


@pytest.mark.parametrize(
    ("amount", "text"), [("1234.505", "$1,234.51"), ("0", "$0.00"), ("-3", "−$3.00"), (None, "–")]
)
def test_a_statements_amounts_are_to_the_cent(amount, text):
    assert numbers.cents(None if amount is None else Decimal(amount)) == text


@pytest.mark.parametrize(
    ("gpu_ms", "text"), [(5_400_000, "+1.50"), (-900_000, "−0.25"), (0, "+0.00")]
)
def test_hours_that_were_added_or_taken_away_have_their_sign(gpu_ms, text):
    assert numbers.signed_hours(gpu_ms) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("3.1", "+$3.10"),
        ("-0.42", "−$0.42"),
        ("0", "$0.00"),
        ("0.004", "+<$0.01"),
        ("-1200", "−$1,200"),
    ],
)
def test_dollars_that_were_added_or_taken_away_have_their_sign(amount, text):
    assert numbers.signed_usd(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, ""),
        (0.0, "unchanged"),
        (-0.000499, "unchanged"),
        (0.0005, "+0.1 %"),
        (-0.2, "−20 %"),
        (-1.0, "−100 %"),
        (8.99, "+899 %"),
        (9.0, "×10"),
        (255.27, "×256"),
    ],
)
def test_a_change_is_a_share_or_a_multiple(ratio, text):
    assert numbers.change(ratio) == text


def test_parts_of_a_sum_are_shown_in_cents_that_add_up_to_it():
    """$1.004 three times is $3.012, shown as $3.01: one of them takes the cent that is over."""
    third = Decimal("1.004")

    shown = [part_of(dict.fromkeys("abc", third), name) for name in "abc"]

    assert [re.sub("<[^>]*>", "", each) for each in shown] == ["$1.01", "$1.00", "$1.00"]
    assert all("$1.004000" in each for each in shown)


def test_parts_of_a_sum_in_dollars_add_up_to_it_in_dollars():
    """$256.50 and $678.60 are $935.10, shown as $935; never $257 and $679."""
    assert numbers.parts([Decimal("256.50"), Decimal("678.60")]) == ["$256", "$679"]
    assert numbers.parts([Decimal("74.47"), Decimal(900), Decimal("0.20")]) == [
        "$75",
        "$900",
        "$0.20",
    ]
    assert numbers.parts([Decimal("52.663"), Decimal("16.077")]) == ["$52.66", "$16.08"]


def test_parts_that_have_a_sum_of_their_own_add_up_to_that_too():
    """$170.46 and $0.01 are $170 wasted of $195; by the remainders of all idle would be $171."""
    shares = [Decimal(each) for each in ("23.45", "1.00", "0.01", "170.46", "0.02")]

    assert numbers.parts(shares)[3] == "$171"
    assert numbers.parts(shares, together=(2, 3)) == ["$24", "$1", "$0.01", "$170", "$0.02"]


@pytest.mark.parametrize(("wasted", "idle"), [("170.47", "$170"), ("150.00", "$171")])
def test_states_that_waste_add_up_to_what_was_wasted_where_they_are_all_of_it(wasted, idle):
    """With $20.47 of these potential, idle is a part of the whole cost alone."""
    shown = {"useful": "23.45", "underused": "1.00", "stalled": "0.01", "idle": "170.46"}
    usd = {state: Decimal(each) for state, each in (shown | {"starting": "0.02"}).items()}
    totals = SimpleNamespace(shown_cost=usd, wasted_usd=Decimal(wasted))

    assert numbers.state_parts(totals)["idle"] == idle


def test_parts_whose_others_can_not_take_what_is_left_are_those_of_the_whole_sum():
    """$100.50 and $100.50 are $201, and each alone would be $100 or $101."""
    half = Decimal("100.50")

    assert numbers.parts([half, half, Decimal(0)], together=(0, 1)) == ["$101", "$100", "$0.00"]
    assert numbers.parts([Decimal("100.4"), Decimal("0.4"), Decimal("0.4")], together=(0,)) == [
        "$100",
        "$1",
        "$0.40",
    ]


def test_a_part_that_is_less_than_a_cent_is_not_nothing():
    assert "&lt;$0.01" in part_of({"useful": Decimal("0.004"), "idle": Decimal(2)}, "useful")


def test_what_a_column_rounds_to_nothing_is_less_than_a_hundredth():
    assert numbers.cents_shown(Decimal("0.0031"), Decimal(0)) == "<$0.01"
    assert numbers.cents_shown(Decimal("0.0071"), Decimal(0)) == "<$0.01"
    assert numbers.cents_shown(Decimal(0), Decimal(0)) == "$0.00"
    assert numbers.cents_shown(Decimal("2.004"), Decimal("2.00")) == "$2.00"
    assert numbers.hundredths_shown(66, Decimal(0)) == "<0.01"
    assert numbers.hundredths_shown(0, Decimal(0)) == "0.00"


def test_time_to_the_second_has_all_its_parts():
    assert numbers.in_seconds(5_440_400) == "1 h 30 min 40 s"
    assert numbers.in_seconds(66) == "<1 s"
    assert numbers.in_seconds(0) == "0 s"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.28, 0.38, "+28 to +38 points"),
        (0.577, 0.583, "+57.7 to +58.3 points"),
        (-0.002, 0.004, "−0.2 to +0.4 points"),
        (0.58, 0.58, "+58 points"),
    ],
)
def test_an_interval_of_points_shows_both_of_its_ends(low, high, words):
    assert numbers.points(low, high) == words
