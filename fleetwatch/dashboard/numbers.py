"""Numbers for people: two or three significant digits, unit always there; None is a dash,
never 0.
"""

from collections.abc import Callable, Collection, Sequence
from decimal import ROUND_FLOOR, Decimal
from functools import wraps
from itertools import groupby
from typing import Any

from fleetwatch.figures.pricing import CENT, can_sum_to, exact_sum, lines
from fleetwatch.figures.pricing import usd as usd_in
from fleetwatch.figures.totals import HEADLINE_STATES, Totals
from fleetwatch.lib import durations, memory_sizes, rounding
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.rounding import (
    IN_DOLLARS_FROM,
    decimal_of,
    few_digits,
    rounded,
    significant,
    span,
)

UNKNOWN = "–"
DOLLAR = Decimal(1)
PERCENT = 100
TENTHS = 10
STEP = 5  # percent of a budget
HALF_STEP = Decimal("2.5")
NEAR_STEP = Decimal("0.5")
LEAST_CENT = Decimal("0.004")  # printed as less than a cent


def _or_dash(text_of: Callable[[Any], str]) -> Callable[[Any], str]:
    """The same of what may be not known: None is a dash."""

    @wraps(text_of)
    def text(value: Any) -> str:
        return UNKNOWN if value is None else text_of(value)

    return text


usd = _or_dash(rounding.usd)
about = _or_dash(rounding.about)
gpu_hours = _or_dash(rounding.gpu_hours)
percent = _or_dash(rounding.percent)
roughly = rounding.roughly
about_range = rounding.about_range


@_or_dash
def budget_share(ratio: Decimal | float) -> str:
    """A share of a budget: near a step that rules watch (multiples of 5 %) to a tenth, rounded
    down, so that what is below a step is not shown as it: "79.6 %", "100.2 %".
    """
    share = decimal_of(ratio) * PERCENT
    if share < STEP or abs((share + HALF_STEP) % STEP - HALF_STEP) > NEAR_STEP:
        return rounding.percent(ratio)
    tenths = (share * TENTHS).to_integral_value(ROUND_FLOOR) / TENTHS
    return f"{tenths:.1f} %".replace(".0 %", " %")


def roughly_hours(low_ms: int, high_ms: int) -> str:
    """The same in GPU-hours, without the unit's name: "12–28", "up to 156"."""
    if low_ms == high_ms:
        return gpu_hours(high_ms)
    if high_ms >= rounding.WIDE * low_ms:
        return f"up to {_rough_hours(high_ms)}"
    return span(_rough_hours(low_ms), _rough_hours(high_ms))


def _rough_hours(ms: int) -> str:
    return f"{few_digits(Decimal(ms) / HOUR_MS).normalize():,f}"


def usd_exact(value: Decimal | float | None) -> str:
    """The amount to the micro-dollar, for a title."""
    return "not known" if value is None else f"${rounded(decimal_of(value), 6):,}"


def price(value: Decimal, currency: str) -> str:
    """A price with all the digits that one is agreed on with (millionths), and cents at least:
    "$2.10", "$3.141592", "9,999.99 JPY". Of a converted or divided one the rest is rounded.
    """
    value = rounded(value, 6)
    places = max(2, -int(value.normalize().as_tuple().exponent))
    return f"${value:,.{places}f}" if currency == "USD" else f"{value:,.{places}f} {currency}"


@_or_dash
def rate(value: Decimal) -> str:
    """Dollars of a GPU-hour that were divided, to stand beside a price: "$1.861", "$2.79"."""
    return price(rounded(value, 3), "USD")


@_or_dash
def cents(value: Decimal) -> str:
    """The amount of a statement, to the cent: "$1,234.50", "−$3.00"."""
    return f"{'−' if value < 0 else ''}${rounded(abs(value), 2):,}"


def has_cents(value: Decimal | None) -> bool:
    """Whether the amount is any cent; None is none."""
    return value is not None and bool(rounded(abs(value), 2))


def parts(amounts: Sequence[Decimal], together: Collection[int] = ()) -> list[str]:
    """Dollars that stand beside their sum, in what usd() shows that by, cents or whole dollars, so
    that they add up to it, and those at the places `together` to what their own sum is then. What
    is anything, and rounded to nothing by that, is as usd() has it.
    """
    is_in_cents = abs(exact_sum(amounts)) < IN_DOLLARS_FROM
    shown = _in_steps(amounts, together, CENT if is_in_cents else DOLLAR)
    texts = (cents(each) if is_in_cents else dollars(each) for each in shown)
    return [
        text if each else usd(amount)
        for text, each, amount in zip(texts, shown, amounts, strict=True)
    ]


def _in_steps(
    amounts: Sequence[Decimal], together: Collection[int], step: Decimal
) -> list[Decimal]:
    """All of them by their sum alone where the others can't take what `together` leaves of it."""
    own = [amount for place, amount in enumerate(amounts) if place in together]
    others = [amount for place, amount in enumerate(amounts) if place not in together]
    left = usd_in(exact_sum(amounts), step) - usd_in(exact_sum(own), step)
    if not can_sum_to(left, others, step):
        return lines(amounts, step)
    shown = {True: iter(lines(own, step)), False: iter(lines(others, step, total=left))}
    return [next(shown[place in together]) for place in range(len(amounts))]


def state_parts(totals: Totals) -> dict[str, str]:
    """The cost by state of a page that says beside it what was wasted: what wastes adds up to that,
    as it is shown.
    """
    usd_of = totals.shown_cost
    wasting = [place for place, state in enumerate(usd_of) if state in HEADLINE_STATES]
    wasted_usd = exact_sum(usd_of[state] for state in usd_of if state in HEADLINE_STATES)
    is_all = abs(wasted_usd - totals.wasted_usd) < rounding.HALF_A_MICRO_USD
    shown = parts(list(usd_of.values()), wasting if is_all else ())
    return dict(zip(usd_of, shown, strict=True))


def dollars(value: Decimal) -> str:
    """Whole dollars: "$74", "$4,310"."""
    return f"{'−' if value < 0 else ''}${abs(value):,.0f}"


def cents_shown(value: Decimal, shown: Decimal) -> str:
    """An amount by the cents that a column shows of it: what is anything is never shown as $0.00,
    but as "<$0.01".
    """
    return cents(shown) if has_cents(shown) else usd(min(max(value, -LEAST_CENT), LEAST_CENT))


def hundredths_shown(gpu_ms: int, shown: Decimal) -> str:
    """GPU-hours by the hundredths that a column shows of them: what is anything is never shown as
    0.00, but as "<0.01".
    """
    return "<0.01" if gpu_ms > 0 and not shown else hundredths(shown)


def hundredths(hours: Decimal) -> str:
    """GPU-hours of a statement, without the unit's name: "4,481.33"."""
    return f"{rounded(hours, 2):,}"


def ten_thousandths(hours: Decimal) -> str:
    """GPU-hours that stand to be multiplied by a rate, without the unit's name: "4,625.3231"."""
    return f"{rounded(hours, 4):,}"


def multiplied_hours(gpu_ms: int, shown: Decimal) -> str:
    """The same of some that are anything: never 0.0000, but "<0.0001"."""
    return "<0.0001" if gpu_ms > 0 and not shown else ten_thousandths(shown)


def signed_hours(gpu_ms: int) -> str:
    """GPU-hours that were added or taken away: "+1.50", "−0.25"."""
    return f"{'−' if gpu_ms < 0 else '+'}{gpu_hours(abs(gpu_ms))}"


def signed_hundredths(hours: Decimal) -> str:
    """The same by the hundredths that a column shows of them."""
    return f"{'−' if hours < 0 else '+'}{hundredths(abs(hours))}"


def signed_usd(value: Decimal | float) -> str:
    """Dollars that were added or taken away: "+$3.10", "−$0.42", "$0.00"."""
    text = usd(value)
    return text if text == "$0.00" or text.startswith("−") else f"+{text}"


def gpus(value: float) -> str:
    """How many GPUs on the mean: "888", "7.5"."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}".removesuffix(".0")


def gpu_hours_exact(gpu_ms: float | None) -> str:
    """GPU-hours to six digits, for a title."""
    return (
        "not known"
        if gpu_ms is None
        else f"{rounded(Decimal(int(gpu_ms)) / HOUR_MS, 6):,} GPU-hours"
    )


@_or_dash
def fine_percent(ratio: Decimal | float) -> str:
    """With one decimal, for shares that stand to be compared: "84.6 %", "85.0 %"."""
    return f"{rounded(decimal_of(ratio) * 100, 1):f} %"


def change(ratio: float | None) -> str:
    """By which share a figure grew or fell: "+6.5 %", "−20 %", of what is ten times as much or more
    "×26", "unchanged"; "" where it grew from nothing.
    """
    if ratio is None:
        return ""
    if abs(ratio) < 0.0005:
        return "unchanged"
    if ratio >= 9:
        return f"×{rounded(decimal_of(ratio + 1), 0):,}"
    return f"{'+' if ratio > 0 else '−'}{percent(abs(ratio))}"


def points(low: float, high: float) -> str:
    """+28 to +38 points: the interval of a difference of two shares; to a tenth where both ends
    read alike without it, and one figure where they do with it too.
    """
    for digits in (0, 1):
        first, last = (rounded(decimal_of(value) * 100, digits) for value in (low, high))
        if first != last:
            return f"{_signed(first)} to {_signed(last)} points"
    return f"{_signed(rounded(decimal_of(low) * 100, 0))} points"


def _signed(amount: Decimal) -> str:
    return f"{amount:+}".replace("-", "−")


@_or_dash
def duration(milliseconds: float) -> str:
    """12 s, 45 min, 3 h 20 min, 2 d 4 h."""
    seconds = int(milliseconds) // 1000
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def in_seconds(milliseconds: float) -> str:
    """To the second, with nothing left off: "1 h 30 min 40 s"; what is less than one "<1 s"."""
    if 0 < milliseconds < 1000:
        return "<1 s"
    return durations.exact(round(milliseconds, -3))


def took(milliseconds: float) -> str:
    """How long something ran: "240 ms", "3 min"."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else duration(milliseconds)


@_or_dash
def gigabytes(count: float) -> str:
    """As in messages: "61 GB"."""
    return memory_sizes.gigabytes(count)


@_or_dash
def watts(power_w: float) -> str:
    """613 W."""
    return f"{power_w:.0f} W"


@_or_dash
def kilowatt_hours(energy_j: float) -> str:
    """4.2 kWh."""
    return f"{significant(decimal_of(energy_j) / 3_600_000):,} kWh"


def short(value: float | str | None) -> str:
    """A bare number for a table: 0, 0.325, 13.14, 1,204.50; a word stays, what is not known is
    empty.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if value == 0:
        return "0"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"


def short_exact(value: float | str | None) -> str:
    """All its digits, for a title; "" where it is not known."""
    return "" if value is None else str(value)


def in_ranges(numbers: Sequence[int]) -> str:
    """Numbers in order, of three and more in a row the first and the last: "0–3, 6, 7"."""
    runs = groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0])
    parts = [[number for _, number in run] for _, run in runs]
    return ", ".join(
        f"{part[0]}–{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )
