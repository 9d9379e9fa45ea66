"""The view costs_gpurate: which rate holds for which GPU from when to when."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.costs.models import GPURate, NodePlace, Rate
from fleetwatch.costs.rates import book
from tests.costs.factories import LONG_AGO, a_gpu, a_place, a_rate

pytestmark = pytest.mark.django_db

MAY, JUNE, JULY, AUGUST = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7, 8))


def spans(gpu):
    rates = GPURate.objects.filter(gpu=gpu).order_by("valid_from")
    return [(rate.usd_per_gpu_hour, rate.valid_from, rate.valid_to) for rate in rates]


def test_a_gpu_costs_what_its_model_costs():
    gpu = a_gpu()
    a_rate("2.50", gpu=gpu, valid_from=MAY)

    assert spans(gpu) == [(Decimal("2.50"), MAY, None)]


def test_a_nodes_rate_beats_the_models_within_its_span_only():
    gpu = a_gpu(node="gpu-01")
    elsewhere = a_gpu(node="gpu-02")
    a_rate("2.50", gpu=gpu, valid_from=MAY)
    a_rate("1.10", node="gpu-01", valid_from=JUNE, valid_to=JULY)

    assert spans(gpu) == [
        (Decimal("2.50"), MAY, JUNE),
        (Decimal("1.10"), JUNE, JULY),
        (Decimal("2.50"), JULY, None),
    ]
    assert spans(elsewhere) == [(Decimal("2.50"), MAY, None)]


def test_a_nodes_rate_over_a_change_of_the_models_rate_covers_both():
    gpu = a_gpu()
    a_rate("2.50", gpu=gpu, valid_from=MAY, valid_to=JULY)
    a_rate("3.00", gpu=gpu, valid_from=JULY)
    a_rate("1.10", node="gpu-01", valid_from=JUNE, valid_to=AUGUST)

    assert spans(gpu) == [
        (Decimal("2.50"), MAY, JUNE),
        (Decimal("1.10"), JUNE, AUGUST),
        (Decimal("3.00"), AUGUST, None),
    ]


def test_a_mig_instance_takes_its_parents_rate():
    parent = a_gpu(model="A100-80GB")
    instance = a_gpu(model=None, parent=parent)
    a_rate("2.00", gpu=parent, valid_from=MAY)

    assert spans(instance) == [(Decimal("2.00"), MAY, None)]


def test_a_gpu_of_unknown_model_has_no_rate():
    assert spans(a_gpu(model=None)) == []


def test_a_gpu_of_unknown_model_has_its_nodes_and_its_own_rate():
    gpu = a_gpu(model=None, node="gpu-01")
    a_rate("1.10", node="gpu-01", valid_from=MAY)
    a_rate("0.90", only=gpu, valid_from=JUNE)

    assert spans(gpu) == [(Decimal("1.10"), MAY, JUNE), (Decimal("0.90"), JUNE, None)]


@pytest.mark.parametrize("valid_to", [JULY, None])
def test_two_rates_of_one_model_never_hold_at_the_same_moment(valid_to):
    gpu = a_gpu()
    a_rate("2.50", gpu=gpu, valid_from=MAY, valid_to=JULY)

    with pytest.raises(IntegrityError, match="one_rate_per_model_at_a_time"):
        a_rate("2.60", gpu=gpu, valid_from=JUNE, valid_to=valid_to)


def test_two_rates_of_one_node_never_hold_at_the_same_moment():
    a_gpu(node="gpu-01")
    a_rate("2.50", node="gpu-01", valid_from=MAY)

    with pytest.raises(IntegrityError, match="one_rate_per_node_at_a_time"):
        a_rate("2.60", node="gpu-01", valid_from=JUNE)


def test_a_rate_may_begin_where_the_one_before_ends_and_other_models_are_their_own():
    gpu, other = a_gpu(), a_gpu(model="L4")
    a_rate("2.50", gpu=gpu, valid_from=MAY, valid_to=JUNE)
    a_rate("2.60", gpu=gpu, valid_from=JUNE)
    a_rate("0.70", gpu=other, valid_from=MAY)

    assert len(spans(gpu)) == 2


def test_a_rate_ends_after_it_starts():
    with pytest.raises(IntegrityError, match="a_rate_ends_after_it_starts"):
        a_rate("2.50", gpu=a_gpu(), valid_from=JUNE, valid_to=JUNE)


def test_each_more_specific_rate_is_stronger_within_its_span_only():
    gpu = a_gpu(node="gpu-01")
    a_place("gpu-01", pool="train", node_class="spot", region="eu")
    days = [datetime(2026, 5, day, tzinfo=UTC) for day in range(1, 15)]
    a_rate("7", gpu=gpu, valid_from=days[0])
    a_rate("6", gpu=gpu, region="eu", valid_from=days[1], valid_to=days[13])
    a_rate("5", gpu=gpu, node_class="spot", valid_from=days[2], valid_to=days[12])
    a_rate("4", gpu=gpu, node_class="spot", region="eu", valid_from=days[3], valid_to=days[11])
    a_rate("3", pool="train", valid_from=days[4], valid_to=days[10])
    a_rate("2", node="gpu-01", valid_from=days[5], valid_to=days[9])
    a_rate("1", only=gpu, valid_from=days[6], valid_to=days[8])

    prices = [7, 6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6, 7]
    changes = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
    wanted = [
        (Decimal(prices[at]), days[at], days[until] if until is not None else None)
        for at, until in zip(changes, [*changes[1:], None], strict=True)
    ]
    assert spans(gpu) == wanted


def test_rates_of_other_gpus_pools_classes_and_regions_do_not_hold():
    gpu = a_gpu(node="gpu-01")
    other = a_gpu(node="gpu-01")
    a_place("gpu-01", pool="train", node_class="spot", region="eu")
    a_rate("1", only=other)
    a_rate("3", pool="serve")
    a_rate("4", gpu=gpu, node_class="spot", region="us")
    a_rate("5", gpu=gpu, node_class="owned")
    a_rate("6", gpu=gpu, region="us")

    assert spans(gpu) == []
    assert [price for price, _, _ in spans(other)] == [1]


def test_a_node_whose_labels_change_keeps_the_price_of_its_past():
    gpu = a_gpu(node="gpu-01")
    a_place("gpu-01", pool="train", valid_to=JUNE)
    a_place("gpu-01", pool="serve", valid_from=JUNE)
    a_rate("3", pool="train", valid_from=MAY)
    a_rate("4", pool="serve", valid_from=MAY)

    assert spans(gpu) == [(3, MAY, JUNE), (4, JUNE, None)]


def test_a_mig_instance_takes_its_parents_own_rate():
    parent = a_gpu()
    instance = a_gpu(parent=parent)
    a_rate("2.00", gpu=parent, valid_from=MAY)
    a_rate("1.00", only=parent, valid_from=JUNE)

    assert spans(instance) == [(2, MAY, JUNE), (1, JUNE, None)]


@pytest.mark.parametrize(
    "fields",
    [
        {"pool": "train"},
        {"node": "gpu-01"},
        {"only": True},
        {"gpu": True},
        {"gpu": True, "node_class": "spot", "region": "eu"},
    ],
)
def test_two_rates_of_one_subject_never_hold_at_the_same_moment(fields):
    gpu = a_gpu(node="gpu-01")
    fields = {name: gpu if value is True else value for name, value in fields.items()}
    a_rate("2.50", valid_from=MAY, **fields)

    with pytest.raises(IntegrityError, match="one_rate_per_"):
        a_rate("2.60", valid_from=JUNE, **fields)


def test_pools_classes_and_regions_are_their_own_subjects():
    gpu = a_gpu()
    for fields in ({"pool": "a"}, {"pool": "b"}):
        a_rate("1", **fields)
    for node_class, region in (
        ("", ""),
        ("spot", ""),
        ("owned", ""),
        ("", "eu"),
        ("spot", "eu"),
        ("spot", "us"),
    ):
        a_rate("1", gpu=gpu, node_class=node_class, region=region)

    assert Rate.objects.count() == 2 + 6


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pool": "a", "gpu_model": True},
        {"pool": "a", "region": "eu"},
        {"gpu_model": True, "node": True},
    ],
)
def test_a_rate_is_for_exactly_one_subject(fields):
    gpu = a_gpu()
    subjects = {"gpu_model": gpu.model, "node": gpu.node}
    values = {name: subjects[name] if value is True else value for name, value in fields.items()}

    with pytest.raises(
        IntegrityError, match="a_rate_is_for_one_subject|class_and_region_are_of_a_models_rate"
    ):
        Rate.objects.create(price_per_gpu_hour=1, valid_from=MAY, created_at=MAY, **values)


@given(data=st.data())
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_at_every_moment_the_most_specific_rate_that_holds_is_the_one(data):
    """Against the definition, moment by moment, over random rates and places."""
    with transaction.atomic():
        gpus = [
            a_gpu(node=f"n{number % 2}", model=["H100 SXM", "L4"][number // 2])
            for number in range(4)
        ]
        days = [datetime(2026, 5, day, tzinfo=UTC) for day in range(1, 9)]
        for name in ("n0", "n1"):
            turn = data.draw(st.integers(1, 6))
            for begin, end in ((LONG_AGO, days[turn]), (days[turn], None)):
                place = data.draw(
                    st.tuples(
                        st.sampled_from(["", "a", "b"]),
                        st.sampled_from(["", "spot"]),
                        st.sampled_from(["", "eu"]),
                    )
                )
                a_place(
                    name,
                    pool=place[0],
                    node_class=place[1],
                    region=place[2],
                    valid_from=begin,
                    valid_to=end,
                )
        kinds = [{"only": gpus[0]}, {"only": gpus[3]}, {"node": "n0"}, {"pool": "a"}, {"pool": "b"}]
        kinds += [
            {"gpu": gpus[at], "node_class": cls, "region": reg}
            for at in (0, 2)
            for cls in ("", "spot")
            for reg in ("", "eu")
        ]
        for number, kind in enumerate(kinds):
            cut = sorted(data.draw(st.lists(st.integers(0, 7), max_size=3, unique=True)))
            for begin, end in pairwise(cut):
                a_rate(f"{number}.{begin}", valid_from=days[begin], valid_to=days[end], **kind)

        rates, places = list(Rate.objects.all()), list(NodePlace.objects.all())
        for gpu in gpus:
            found = list(GPURate.objects.filter(gpu=gpu))
            for day in days:
                assert [rate.rate_id for rate in found if holds(rate, day)] == defined(
                    gpu, day, rates, places
                )
        transaction.set_rollback(True)


def holds(row, moment):
    return row.valid_from <= moment and (row.valid_to is None or moment < row.valid_to)


def defined(gpu, moment, rates, places):
    """The rate that holds by docs/money.md, as a list of none or one."""
    [place] = [place for place in places if place.node_id == gpu.node_id and holds(place, moment)]
    ladder = [
        lambda rate: rate.gpu_id == gpu.pk,
        lambda rate: rate.node_id == gpu.node_id,
        lambda rate: rate.pool != "" and rate.pool == place.pool,
        lambda rate: (
            is_for(rate, place.node_class, place.region) and place.node_class and place.region
        ),
        lambda rate: is_for(rate, place.node_class, "") and place.node_class,
        lambda rate: is_for(rate, "", place.region) and place.region,
        lambda rate: is_for(rate, "", ""),
    ]

    def is_for(rate, node_class, region):
        return rate.gpu_model_id == gpu.model_id and (rate.node_class, rate.region) == (
            node_class,
            region,
        )

    return next(
        ([rate.pk] for step in ladder for rate in rates if holds(rate, moment) and step(rate)), []
    )


def test_a_models_price_is_told_from_its_least_to_its_most_where_its_memory_is_known():
    large, small = (
        a_gpu(model="H100", node="gpu-01", memory_total_bytes=80),
        a_gpu(model="L4", node="gpu-02", memory_total_bytes=24),
    )
    elsewhere = a_gpu(model="L4", node="gpu-03", memory_total_bytes=23)
    a_gpu(model="T4", node="gpu-04", memory_total_bytes=16)  # without a rate
    a_rate("4.00", gpu=large, valid_from=MAY)
    a_rate("0.80", gpu=small, valid_from=MAY, valid_to=JULY)
    a_rate("1.00", node="gpu-03", valid_from=MAY)

    told = {price.memory_bytes: price for price in book.prices_of_models(JUNE)}

    assert {memory: (price.least_usd, price.most_usd) for memory, price in told.items()} == {
        80: (4, 4),
        23: (Decimal("0.8"), 1),
    }
    assert elsewhere.model == small.model
    assert book.cheaper_than(told[80], told.values()) == ((23.0, 0.25),)
    assert book.cheaper_than(told[23], told.values()) == ()
    assert book.prices_of_models(datetime(2026, 4, 30, tzinfo=UTC)) == []


def test_a_smaller_model_that_costs_as_much_is_not_cheaper():
    own = book.ModelPrice(1, 80, Decimal(4), Decimal(5))

    assert (
        book.cheaper_than(
            own,
            [
                book.ModelPrice(2, 24, Decimal(1), Decimal(4)),
                book.ModelPrice(3, 80, Decimal(1), Decimal(1)),
            ],
        )
        == ()
    )
