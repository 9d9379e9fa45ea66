"""What a rate would do is known in dollars before anybody sets it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.rate_card import rate_card
from fleetwatch.costs.rates.rate_effects import effect_of, effect_of_rate
from fleetwatch.costs.services import RateError, set_rate, withdraw_rate
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 19, 47, tzinfo=UTC)
THIS_HOUR = datetime(2026, 11, 20, 19, tzinfo=UTC)


@pytest.fixture
def gpu():
    """Two GPU-hours of one team on 2 November, at $2 from the beginning and $3 from the 10th on."""
    gpu = a_gpu(uuid="GPU-A")
    a_rate("2", gpu=gpu, valid_to=datetime(2026, 11, 10, tzinfo=UTC))
    a_rate("3", gpu=gpu, valid_from=datetime(2026, 11, 10, tzinfo=UTC))
    job = a_job(team="nlp")
    for hours in (0, 1):
        an_entry(gpu, job=job, start=HOUR + timedelta(hours=hours))
    return gpu


def rate(gpu, usd, since):
    return Rate(gpu_model=gpu.model, price_per_gpu_hour=Decimal(usd), valid_from=since)


def test_the_last_days_at_the_new_rate_stand_beside_those_at_the_old(gpu):
    effect = effect_of_rate(rate(gpu, "5", THIS_HOUR), NOW)

    [line] = [line for line in effect.whole.changes if line.label == "NLP"]
    assert (line.before_usd, line.after_usd, line.difference_usd) == (4, 10, 6)
    assert effect.whole.total.difference_usd == 6
    assert effect.charged.total.difference_usd == 0  # it holds from this hour on
    assert [str(each.price_per_gpu_hour) for each in Rate.objects.order_by("valid_from")] == [
        "2.000000",
        "3.000000",
    ]


def test_a_rate_that_reaches_back_says_what_it_changes_of_what_is_charged(gpu):
    withdraw_rate(Rate.objects.get(price_per_gpu_hour=3))
    withdraw_rate(Rate.objects.get())

    effect = effect_of_rate(rate(gpu, "5", HOUR + timedelta(hours=1)), NOW)

    assert effect.charged.total.after_usd == 5  # the second hour alone
    assert effect.whole.total.after_usd == 10


def test_the_effect_says_of_how_many_of_the_days_there_are_figures(gpu):
    whole = effect_of_rate(rate(gpu, "5", THIS_HOUR), NOW).whole

    # 21 October to 20 November, recorded from 9:00 of 2 November on: 18 days
    assert (whole.recorded_since, whole.days) == (HOUR, 18)


def test_a_month_from_the_new_rates_begin_is_told_from_the_mean_of_what_is_recorded(gpu):
    effect = effect_of_rate(rate(gpu, "5", THIS_HOUR), NOW)

    # $6 more in the 423 hours from 9:00 of 2 November to 20 November, in 730 hours
    assert effect.begins_at == THIS_HOUR
    assert round(effect.whole.month_usd, 2) == Decimal("10.35")


def test_what_a_withdrawal_would_change_is_shown_and_nothing_withdrawn(gpu):
    first = Rate.objects.get(price_per_gpu_hour=2)
    number = first.pk

    effect = effect_of(lambda: withdraw_rate(first), NOW)

    assert effect.whole is None
    assert effect.charged.total.difference_usd == -4
    assert Rate.objects.filter(pk=number).exists()


def test_what_can_not_be_set_is_refused_as_when_it_is_set(gpu):
    with pytest.raises(RateError, match="0 to 10000"):
        effect_of_rate(rate(gpu, "-1", THIS_HOUR), NOW)


def test_the_rate_card_says_what_is_in_force_what_was_and_what_comes(gpu):
    set_rate(rate(gpu, "4.5", datetime(2026, 12, 1, tzinfo=UTC)), now=NOW)

    [line] = rate_card(NOW, most=10).lines

    assert (line.name, line.in_force.price_per_gpu_hour, line.gpus) == ("H100 SXM", 3, 1)
    assert [each.price_per_gpu_hour for each in line.past] == [2]
    assert [each.price_per_gpu_hour for each in line.coming] == [Decimal("4.5")]
    assert line.change_ratio == Decimal("0.5")
    assert rate_card(NOW, most=0).left_off == 1
