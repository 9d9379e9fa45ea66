"""The view costs_gpurate: which rate holds for which GPU from when to when."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import IntegrityError

from fleetwatch.costs.models import GPURate
from tests.costs.factories import a_gpu, a_rate

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

    assert spans(gpu) == [(Decimal("2.50"), MAY, JUNE), (Decimal("1.10"), JUNE, JULY), (Decimal("2.50"), JULY, None)]
    assert spans(elsewhere) == [(Decimal("2.50"), MAY, None)]


def test_a_nodes_rate_over_a_change_of_the_models_rate_covers_both():
    gpu = a_gpu()
    a_rate("2.50", gpu=gpu, valid_from=MAY, valid_to=JULY)
    a_rate("3.00", gpu=gpu, valid_from=JULY)
    a_rate("1.10", node="gpu-01", valid_from=JUNE, valid_to=AUGUST)

    assert spans(gpu) == [(Decimal("2.50"), MAY, JUNE), (Decimal("1.10"), JUNE, AUGUST), (Decimal("3.00"), AUGUST, None)]


def test_a_mig_instance_takes_its_parents_rate():
    parent = a_gpu(model="A100-80GB")
    instance = a_gpu(model=None, parent=parent)
    a_rate("2.00", gpu=parent, valid_from=MAY)

    assert spans(instance) == [(Decimal("2.00"), MAY, None)]


def test_a_gpu_of_unknown_model_has_no_rate():
    assert spans(a_gpu(model=None)) == []


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
