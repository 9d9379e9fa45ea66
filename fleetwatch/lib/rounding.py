"""Amounts for people, rounded: one way for pages and messages. Pure."""

from decimal import ROUND_HALF_UP, Decimal

from fleetwatch.lib.intervals import HOUR_MS

HALF_A_MICRO_USD = Decimal("0.0000005")
HALF_A_CENT = Decimal("0.005")  # $
IN_DOLLARS_FROM = Decimal("99.995")  # $; what is less has cents
ALL = 100  # %
SHARE_DIGITS = 9  # of percent: what sums of dollars and floats lose of all is far below
MOST_OF_ALL = Decimal("99.9")  # %; what is not all is never more
WIDE = 100  # times its low end: that is lost in what the high one is rounded by


def usd(value: Decimal | float) -> str:
    """$0.42, $21.60, $4,310, $1,240,000: no unit but the dollar, so that a column has one; what is
    above zero and below a cent is "<$0.01". Below half a micro-dollar it is what divisions leave,
    and zero.
    """
    amount = decimal_of(value)
    if abs(amount) < HALF_A_MICRO_USD:
        return "$0.00"
    sign, size = ("−", -amount) if amount < 0 else ("", amount)
    if 0 < size < HALF_A_CENT:
        return f"{sign}<$0.01"
    if size < IN_DOLLARS_FROM:
        return f"{sign}${rounded(size, 2)}"
    return f"{sign}${rounded(size, 0):,}"


def about(value: Decimal | float) -> str:
    """Dollars that nobody spent yet: three significant digits, whatever the amount: "$4,310",
    "$980", "$24,300".
    """
    return usd(rounded_about(value))


def rounded_about(value: Decimal | float) -> Decimal:
    """The same as a number."""
    amount = decimal_of(value)
    return _digits(amount, 3) if amount else amount


def about_range(low: Decimal | float, high: Decimal | float) -> str:
    """Two ends of what nobody spent yet: "$24,100 to $24,700"; where both read alike as about()
    rounds, and so does what lies between, how far it may be from that: "±$50 at most".
    """
    ends = about(low), about(high)
    shown = rounded_about(low)
    if ends[0] != ends[1] or not shown:
        return " to ".join(dict.fromkeys(ends))
    # below a dollar cents are told, not three digits
    half_a_digit = usd(max(Decimal(5).scaleb(shown.adjusted() - 3), HALF_A_CENT))
    return f"±{half_a_digit.removesuffix('.00')} at most"


def roughly(low: Decimal, high: Decimal) -> str:
    """A saving as a range, rounded: "$121–276", "$79–88", "$0.85–7.03"; where both ends are one
    sum, that sum, and "up to $584" where the low one is lost in its rounding.
    """
    if low == high:
        return usd(high)
    if high >= WIDE * low:
        return f"up to {_roughly(high)}"
    return span(_roughly(low), _roughly(high))


def span(low: str, high: str) -> str:
    """Two amounts as a range, the unit once; one where both read alike."""
    return low if low == high else f"{low}–{high.removeprefix('$')}"


def _roughly(value: Decimal) -> str:
    return f"${few_digits(value)}" if 10 <= value < 100 else usd(few_digits(value))


def few_digits(value: Decimal) -> Decimal:
    """Three significant digits, of what is below one, and from 10 to 100, two."""
    return _digits(value, 2 if value < 1 or 10 <= value < 100 else 3)


def _digits(value: Decimal, count: int) -> Decimal:
    """So many significant digits."""
    return value.quantize(Decimal(1).scaleb(value.adjusted() + 1 - count), ROUND_HALF_UP)


def significant(value: Decimal) -> Decimal:
    """Three significant digits of a value below 1,000; no more than two after the point."""
    if value < Decimal("9.995"):
        return rounded(value, 2)
    return rounded(value, 1) if value < Decimal("99.95") else rounded(value, 0)


def gpu_hours(gpu_ms: float) -> str:
    """GPU-hours without the unit's name: 0.42, 12.3, 57,815."""
    hours = Decimal(int(gpu_ms)) / HOUR_MS
    if 0 < hours < Decimal("0.005"):
        return "<0.01"
    return f"{significant(hours):,}" if hours < 1000 else f"{rounded(hours, 0):,}"


def percent(ratio: Decimal | float) -> str:
    """41 %, 1.5 %, 98.4 %; what is not all is never shown as 100 %, what is something never
    as 0 %.
    """
    share = rounded(decimal_of(ratio) * ALL, SHARE_DIGITS)
    if 0 < share < Decimal("0.05"):
        return "<0.1 %"
    if Decimal("-0.05") < share <= 0:  # never -0 %
        return "0 %"
    if 10 <= share < 95 or share > ALL:
        return f"{rounded(share, 0)} %"
    tenths = rounded(share, 1) if share == ALL else min(rounded(share, 1), MOST_OF_ALL)
    return f"{tenths:f} %".replace(".0 %", " %")


def decimal_of(value: Decimal | float) -> Decimal:
    """The value as it is written: 0.1 is a tenth."""
    return value if isinstance(value, Decimal) else Decimal(repr(value))


def rounded(value: Decimal, digits: int) -> Decimal:
    """To so many digits after the point, half of one up."""
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
