"""One rate of a model of which some GPUs are committed to, worked out by hand."""

from decimal import Decimal

import pytest

from fleetwatch.finance.blended import Share, blend

YEAR = Share(24, Decimal("2.790000"))


def test_the_blend_is_the_mean_of_committed_and_on_demand_gpus():
    mixed = blend([YEAR], gpus=32, on_demand=Decimal("3.990000"))

    # (66.96 + 31.92) / 32
    assert (mixed.price, mixed.committed_gpus) == (Decimal("3.09"), 24)
    assert mixed.arithmetic == "(24 × 2.79 + 8 × 3.99) / 32"


def test_several_commitments_of_a_model_are_in_one_blend():
    mixed = blend([YEAR, Share(4, Decimal("2.5"))], gpus=32, on_demand=Decimal(4))

    assert mixed.arithmetic == "(24 × 2.79 + 4 × 2.50 + 4 × 4.00) / 32"
    assert mixed.price == Decimal("2.905")


@pytest.mark.parametrize("gpus", [24, 23, 0])
def test_where_all_gpus_are_committed_to_there_is_nothing_to_blend(gpus):
    assert blend([YEAR], gpus=gpus, on_demand=Decimal(4)) is None


def test_the_price_is_rounded_to_the_micro_dollar():
    mixed = blend([Share(1, Decimal(1))], gpus=3, on_demand=Decimal(2))

    assert mixed.price == Decimal("1.666667")
