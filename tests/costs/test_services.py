"""Setting rates: the one before ends where the new one begins; examples make room."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.models import Rate
from fleetwatch.costs.services import (
    BEGINNING,
    RateError,
    ensure_example_rates,
    withdraw_rate,
)
from tests.costs.factories import a_gpu, a_rate, set_rate

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 19, 47, tzinfo=UTC)
MAY, JUNE, JULY = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7))


def spans():
    return [
        (rate.price_per_gpu_hour, rate.valid_from, rate.valid_to)
        for rate in Rate.objects.order_by("valid_from")
    ]


def test_a_new_rate_closes_the_one_before():
    gpu = a_gpu()
    set_rate(gpu.model, Decimal("2.50"), valid_from=MAY, now=NOW)

    set_rate(
        gpu.model,
        Decimal("2.75"),
        valid_from=JUNE,
        now=NOW,
        source="contract 7",
        source_date=date(2026, 5, 20),
    )

    assert spans() == [(Decimal("2.50"), MAY, JUNE), (Decimal("2.75"), JUNE, None)]


def test_a_rate_with_an_end_gives_way_to_the_one_before():
    gpu = a_gpu()
    set_rate(gpu.model, Decimal("2.50"), valid_from=MAY, now=NOW)

    set_rate(gpu.model, Decimal("2.00"), valid_from=JUNE, valid_to=JULY, now=NOW)

    assert spans() == [
        (Decimal("2.50"), MAY, JUNE),
        (Decimal("2.00"), JUNE, JULY),
        (Decimal("2.50"), JULY, None),
    ]


def test_history_is_not_overwritten_in_passing():
    gpu = a_gpu()
    set_rate(gpu.model, Decimal("2.50"), valid_from=JUNE, now=NOW)

    for moment in (MAY, JUNE):
        with pytest.raises(RateError, match="stands from 2026-06-01 00:00 UTC") as refused:
            set_rate(gpu.model, Decimal("9.99"), valid_from=moment, now=NOW)
        assert refused.value.field == "valid_from"

    assert spans() == [(Decimal("2.50"), JUNE, None)]


def test_a_rate_before_a_later_one_may_end_where_that_begins():
    gpu = a_gpu()
    set_rate(gpu.model, Decimal("2.50"), valid_from=JUNE, now=NOW)

    set_rate(gpu.model, Decimal("2.25"), valid_from=MAY, valid_to=JUNE, now=NOW)

    assert spans() == [(Decimal("2.25"), MAY, JUNE), (Decimal("2.50"), JUNE, None)]


def test_a_withdrawn_rate_leaves_its_time_to_the_one_before():
    gpu = a_gpu()
    set_rate(gpu.model, Decimal("2.50"), valid_from=MAY, now=NOW)
    mistake = set_rate(gpu.model, Decimal("27.5"), valid_from=JUNE, now=NOW)

    withdraw_rate(mistake)

    assert spans() == [(Decimal("2.50"), MAY, None)]


def test_of_two_admins_the_second_withdraws_the_rate_as_the_first_left_it():
    gpu = a_gpu()
    set_rate(gpu.model, Decimal("2.50"), valid_from=MAY, now=NOW)
    seen_by_the_second = set_rate(gpu.model, Decimal("27.5"), valid_from=JUNE, now=NOW)
    set_rate(gpu.model, Decimal("2.75"), valid_from=JULY, now=NOW)

    withdraw_rate(seen_by_the_second)

    assert spans() == [(Decimal("2.50"), MAY, JULY), (Decimal("2.75"), JULY, None)]


def test_a_nodes_rate_and_a_models_rate_are_apart():
    gpu = a_gpu(node="gpu-01")

    set_rate(gpu.model, Decimal("2.50"), valid_from=MAY, now=NOW)
    set_rate(gpu.node, Decimal("1.00"), valid_from=MAY, now=NOW)

    assert Rate.objects.filter(valid_to__isnull=True).count() == 2


@pytest.mark.parametrize("minutes", [1, 30, 59])
def test_a_rate_changes_on_a_full_hour(minutes):
    with pytest.raises(RateError, match="full UTC hour") as refused:
        set_rate(a_gpu().model, Decimal(1), valid_from=JUNE + timedelta(minutes=minutes), now=NOW)
    assert refused.value.field == "valid_from"


def test_or_at_the_organisations_midnight():
    here = organisation()
    here.time_zone = "Asia/Kolkata"
    here.save(update_fields=["time_zone"])

    set_rate(
        a_gpu().model, Decimal(1), valid_from=datetime(2026, 5, 31, 18, 30, tzinfo=UTC), now=NOW
    )

    assert Rate.objects.count() == 1


@pytest.mark.parametrize("amount", ["-0.01", "10000.01", "NaN", "Infinity", "1.0000001", "1E+30"])
def test_a_price_that_can_not_be_is_refused(amount):
    with pytest.raises(RateError) as refused:
        set_rate(a_gpu().model, Decimal(amount), valid_from=MAY, now=NOW)
    assert refused.value.field == "price"


@pytest.mark.parametrize("end", [MAY, MAY - timedelta(hours=1)])
def test_a_rate_has_to_end_after_it_begins(end):
    with pytest.raises(RateError, match="end after"):
        set_rate(a_gpu().model, Decimal(1), valid_from=MAY, valid_to=end, now=NOW)


def test_free_of_charge_is_a_price():
    assert set_rate(a_gpu().model, Decimal(0), valid_from=MAY, now=NOW).price_per_gpu_hour == 0


def test_a_model_first_seen_gets_its_example_price_once():
    a_gpu(model="H100 SXM")
    a_gpu(model="H100 SXM")

    assert ensure_example_rates(NOW) == {"created": 1}
    assert ensure_example_rates(NOW) == {"created": 0}
    rate = Rate.objects.get()
    assert (rate.price_per_gpu_hour, rate.valid_from, rate.valid_to, rate.is_example) == (
        Decimal("3.99"),
        BEGINNING,
        None,
        True,
    )
    assert "Lambda" in rate.source
    assert rate.source_date is not None


def test_a_model_with_a_rate_of_its_own_or_no_known_price_gets_no_example():
    a_rate("1.00", gpu=a_gpu(model="H100 SXM"))
    a_gpu(model="Quadro 9000X")

    assert ensure_example_rates(NOW) == {"created": 0}


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("H100 SXM", "3.99"),
        ("H100 PCIe", "3.29"),
        ("H200 SXM", "6.305"),
        ("B200", "6.89"),
        ("GB200", "10.50"),
        ("A100-80 SXM", "2.79"),
        ("A100 80GB PCIe", "2.79"),
        ("A100-SXM4-40GB", "1.99"),
        ("L40S", "1.861"),
        ("L4", "0.8048"),
        ("A10", "1.29"),
        ("T4", "0.526"),
        ("V100 SXM2", "0.79"),
        ("RTX A6000", "1.09"),
    ],
)
def test_each_known_model_has_its_own_example_price(model, price):
    a_gpu(model=model)
    ensure_example_rates(NOW)

    assert Rate.objects.get().price_per_gpu_hour == Decimal(price)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("A100-10C", "0.4975"),  # 10 of 40 GB, 1.99
        ("GRID A100-40C", "1.99"),
        ("GRID A100D-10C", "0.34875"),  # 10 of 80 GB, 2.79
        ("A100-1-5C", "0.24875"),  # of a MIG slice, 5 of 40 GB
        ("L40S-24Q", "0.9305"),
        ("GRID T4-4Q", "0.1315"),
        ("H100XM-80C", "3.99"),
    ],
)
def test_a_virtual_gpu_costs_its_share_of_the_board(model, price):
    a_gpu(model=model)
    ensure_example_rates(NOW)

    assert Rate.objects.get().price_per_gpu_hour == Decimal(price)
    assert " GB of it" in Rate.objects.get().source


@pytest.mark.parametrize("model", ["A9999-8C", "A40-12Q"])
def test_a_virtual_gpu_of_a_board_without_a_price_has_none(model):
    a_gpu(model=model)

    assert ensure_example_rates(NOW) == {"created": 0}


@pytest.mark.parametrize(
    "model",
    [
        "L40",
        "A100X",
        "H100 NVL",
        "RTX PRO 6000 Blackwell",
        "RTX 6000 Ada Generation",
        "A1000",
        "T400",
        "GeForce GTX 1080",
    ],
)
def test_a_model_with_a_similar_name_is_another_product(model):
    a_gpu(model=model)

    assert ensure_example_rates(NOW) == {"created": 0}


def test_an_own_rate_from_now_on_ends_the_example_and_one_from_the_beginning_replaces_it():
    first, second = a_gpu(model="H100 SXM"), a_gpu(model="L4")
    ensure_example_rates(NOW)

    set_rate(first.model, Decimal("2.00"), valid_from=JUNE, now=NOW)
    set_rate(second.model, Decimal("0.40"), valid_from=BEGINNING, now=NOW)

    assert Rate.objects.get(gpu_model=first.model, is_example=True).valid_to == JUNE
    assert not Rate.objects.filter(gpu_model=second.model, is_example=True).exists()
    assert ensure_example_rates(NOW) == {"created": 0}


def test_rates_of_a_gpu_a_pool_and_a_class_close_the_one_before_of_their_own_only():
    gpu = a_gpu()
    subjects = [
        gpu,
        {"pool": "train"},
        {"gpu_model": gpu.model, "node_class": "spot"},
        {"gpu_model": gpu.model, "region": "eu"},
    ]
    for subject in [*subjects, gpu.model]:
        set_rate(subject, Decimal(2), valid_from=MAY, now=NOW)
    for subject in subjects:
        set_rate(subject, Decimal(3), valid_from=JUNE, now=NOW)

    assert Counter(spans()) == {(2, MAY, JUNE): 4, (3, JUNE, None): 4, (2, MAY, None): 1}
    withdraw_rate(Rate.objects.get(pool="train", valid_from=JUNE))
    assert Rate.objects.get(pool="train").valid_to is None


def test_a_rate_for_a_class_of_nodes_is_of_that_class():
    model = a_gpu().model

    assert (
        set_rate(
            {"gpu_model": model, "node_class": "spot"}, Decimal(1), valid_from=MAY, now=NOW
        ).pricing_class
        == "spot"
    )
    assert (
        set_rate(model, Decimal(1), valid_from=MAY, now=NOW, pricing_class="owned").pricing_class
        == "owned"
    )


@pytest.mark.parametrize(
    ("subject", "field"),
    [
        ({"pool": "x" * 64}, "pool"),
        ({"pool": "a\nb"}, "pool"),
        ({"pool": " a"}, "pool"),
        ({}, "subject"),
        ({"pool": "a", "region": "eu"}, "region"),
    ],
)
def test_a_subject_that_can_not_be_is_refused(subject, field):
    with pytest.raises(RateError) as refused:
        set_rate(subject, Decimal(1), valid_from=MAY, now=NOW)
    assert refused.value.field == field


def test_a_class_that_is_none_is_refused():
    model = a_gpu().model

    with pytest.raises(RateError, match="A class is on_demand, reserved, spot, owned, not 'gold'"):
        set_rate(model, Decimal(1), valid_from=MAY, now=NOW, pricing_class="gold")
    with pytest.raises(RateError) as refused:
        set_rate({"gpu_model": model, "node_class": "gold"}, Decimal(1), valid_from=MAY, now=NOW)
    assert refused.value.field == "node_class"


def test_an_instance_has_no_rate_of_its_own():
    instance = a_gpu(parent=a_gpu())

    with pytest.raises(RateError, match="share of its GPU"):
        set_rate(instance, Decimal(1), valid_from=MAY, now=NOW)


def test_a_model_with_a_rate_for_spot_nodes_only_still_gets_its_example():
    gpu = a_gpu(model="H100 SXM")
    set_rate({"gpu_model": gpu.model, "node_class": "spot"}, Decimal(1), valid_from=MAY, now=NOW)

    assert ensure_example_rates(NOW) == {"created": 1}
