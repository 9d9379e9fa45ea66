"""Prices in other currencies: each hour converted once, exactly, by its own rate of exchange."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.costs.day_sums import sum_days
from fleetwatch.costs.models import ExchangeRate, GPURate, Rate
from fleetwatch.costs.rates.exchange import set_exchange_rate, withdraw_exchange_rate
from fleetwatch.costs.rates.imports import import_rates
from fleetwatch.costs.services import BEGINNING, RateError
from fleetwatch.figures.selectors import totals
from fleetwatch.ledger.models import ClosedMonth, Policy
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import HOUR_MS, a_gpu, a_rate, an_entry, set_rate
from tests.costs.test_day_sums import counted

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 19, 47, tzinfo=UTC)
MAY, JUNE, JULY = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7))


def euro(usd, since):
    return set_exchange_rate("EUR", Decimal(usd), valid_from=since, now=NOW)


def spans(gpu):
    return list(
        GPURate.objects.filter(gpu=gpu)
        .order_by("valid_from")
        .values_list("usd_per_gpu_hour", "valid_from", "valid_to")
    )


def test_a_price_follows_the_exchange_exactly():
    gpu = a_gpu()
    euro("1.08423457", BEGINNING)
    euro("1.1", JUNE)
    a_rate("2.345678", gpu=gpu, currency="EUR", valid_from=MAY)

    # 2.345678 x 1.08423457 and x 1.1, not rounded
    assert spans(gpu) == [
        (Decimal("2.54326517768846"), MAY, JUNE),
        (Decimal("2.5802458"), JUNE, None),
    ]


def test_a_stronger_price_in_another_currency_covers_a_weaker_one_in_dollars():
    gpu = a_gpu()
    euro("2", BEGINNING)
    a_rate("5", gpu=gpu, valid_from=MAY)
    a_rate("3", only=gpu, currency="EUR", valid_from=JUNE, valid_to=JULY)

    assert spans(gpu) == [(5, MAY, JUNE), (6, JUNE, JULY), (5, JULY, None)]


def test_a_day_in_which_the_exchange_changes_is_priced_hour_by_hour_from_sums_or_not():
    gpu = a_gpu()
    for hour in range(24):
        counted(gpu, "useful", HOUR_MS, start=JUNE + timedelta(hours=hour))
    euro("1", BEGINNING)
    euro("1.5", JUNE + timedelta(hours=6))
    a_rate("2", gpu=gpu, currency="EUR")
    day = Interval(JUNE, JUNE + timedelta(days=1))

    assert totals(day).cost_usd == 6 * 2 + 18 * 3
    sum_days(NOW, 100)
    assert totals(day).cost_usd == 6 * 2 + 18 * 3


def test_a_currency_that_nobody_exchanged_then_is_no_price():
    model = a_gpu().model
    euro("1.1", JUNE)

    with pytest.raises(
        RateError, match="Nobody said what one 'EUR' is in dollars at 2026-05-01 00:00 UTC"
    ) as refused:
        set_rate(model, Decimal(2), currency="EUR", valid_from=MAY, now=NOW)
    assert refused.value.field == "currency"
    assert set_rate(model, Decimal(2), currency="EUR", valid_from=JUNE, now=NOW).currency == "EUR"


def test_the_most_that_a_gpu_hour_costs_is_in_dollars():
    model = a_gpu().model
    set_exchange_rate("KRW", Decimal("0.0007"), valid_from=BEGINNING, now=NOW)

    assert set_rate(model, Decimal(14_000_000), currency="KRW", valid_from=MAY, now=NOW)
    with pytest.raises(RateError, match="0 to 10000 dollars"):
        set_rate(model, Decimal(14_300_000), currency="KRW", valid_from=JUNE, now=NOW)


@pytest.mark.parametrize(
    ("currency", "amount", "since", "field"),
    [
        ("USD", "1", MAY, "currency"),
        ("eur", "1", MAY, "currency"),
        ("EURO", "1", MAY, "currency"),
        ("EUR", "0", MAY, "usd_per_unit"),
        ("EUR", "-1", MAY, "usd_per_unit"),
        ("EUR", "NaN", MAY, "usd_per_unit"),
        ("EUR", "Infinity", MAY, "usd_per_unit"),
        ("EUR", "1000001", MAY, "usd_per_unit"),
        ("EUR", "1E+30", MAY, "usd_per_unit"),
        ("EUR", "1.123456789", MAY, "usd_per_unit"),
        ("EUR", "1", MAY + timedelta(minutes=1), "valid_from"),
        ("EUR", "1", JULY, "valid_from"),
    ],
)
def test_an_exchange_that_can_not_be_is_refused(currency, amount, since, field):
    euro("1.1", JULY)

    with pytest.raises(RateError) as refused:
        set_exchange_rate(currency, Decimal(amount), valid_from=since, now=NOW)
    assert refused.value.field == field
    assert ExchangeRate.objects.count() == 1


def test_an_exchange_that_prices_need_stays():
    gpu = a_gpu()
    first, second = euro("1.1", MAY), euro("1.2", JULY)
    rate = a_rate("2", gpu=gpu, currency="EUR", valid_from=JUNE)

    with pytest.raises(RateError, match="Prices in EUR need it"):
        withdraw_exchange_rate(first)
    withdraw_exchange_rate(second)
    assert spans(gpu) == [(Decimal("2.2"), JUNE, None)]
    rate.delete()
    withdraw_exchange_rate(first)
    assert not ExchangeRate.objects.exists()


def test_one_that_begins_after_the_next_does_not_need_the_first():
    first, _ = euro("1.1", MAY), euro("1.2", JUNE)
    a_rate("2", gpu=a_gpu(), currency="EUR", valid_from=JUNE)

    withdraw_exchange_rate(first)

    assert ExchangeRate.objects.count() == 1


def test_a_closed_month_stays_converted_as_it_was():
    gpu = a_gpu()
    an_entry(gpu, start=MAY)
    first = euro("1.1", MAY)
    ClosedMonth.objects.create(
        month=date(2026, 5, 1),
        start=MAY,
        end=JUNE,
        policy=Policy.objects.get(),
        closed_at=NOW,
        closed_by="ann",
    )

    with pytest.raises(RateError, match="is closed"):
        euro("1.2", JUNE - timedelta(hours=1))
    with pytest.raises(RateError, match="is closed"):
        withdraw_exchange_rate(first)
    assert euro("1.2", JUNE).usd_per_unit == Decimal("1.2")


def test_a_file_has_prices_in_other_currencies():
    a_gpu()
    content = b"gpu_model,price,currency,valid_from\nH100 SXM,2,eur,2026-05-01\n"

    with pytest.raises(RefusedError) as refused:
        import_rates(content, now=NOW)
    assert [(fault.line, fault.field) for fault in refused.value.faults] == [(2, "currency")]
    euro("1.1", MAY)
    assert import_rates(content, now=NOW).set == 1
    assert import_rates(content, now=NOW).stood == 1
    assert Rate.objects.get().currency == "EUR"
