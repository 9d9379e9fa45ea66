"""A virtual GPU costs its share of what its board does, unless a rate is set for it itself."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from fleetwatch.costs.models import ExchangeRate, GPURate, Rate
from fleetwatch.costs.rates.book import priced_models
from fleetwatch.costs.rates.subjects import doubt, find
from fleetwatch.costs.services import BEGINNING, ensure_example_rates, withdraw_rate
from fleetwatch.inventory.gpu_models import facts_for
from fleetwatch.inventory.models import GPU, GPUModel
from fleetwatch.inventory.vgpu import slice_of
from tests.costs.factories import HOUR, a_gpu, a_place, a_rate, set_rate

pytestmark = pytest.mark.django_db
MAY, JUNE, JULY = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 7))


@pytest.fixture
def quarter() -> GPU:
    """A GRID A100-10C: 10 of the 40 GB of an A100."""
    return a_part("GRID A100-10C")


def a_part(model: str, *, board_from: datetime | None = None) -> GPU:
    """A virtual GPU, its model as a batch that names it makes it (gpu_rows)."""
    gpu = a_gpu(model=model)
    part = slice_of(model)
    if part.board:
        gpu.model.board = GPUModel.objects.create(name=facts_for(part.board).name)
        gpu.model.board_share, gpu.model.board_from = part.share, board_from
        gpu.model.save()
    return gpu


def spans(gpu: GPU) -> list[tuple[Decimal, datetime, datetime | None]]:
    rates = GPURate.objects.filter(gpu=gpu).order_by("valid_from")
    return [(rate.usd_per_gpu_hour, rate.valid_from, rate.valid_to) for rate in rates]


def board(gpu: GPU) -> GPUModel:
    return gpu.model.board


def test_a_rate_that_an_admin_set_for_the_board_is_shared_by_its_parts(quarter):
    ensure_example_rates(HOUR)
    assert spans(quarter) == [(Decimal("0.4975"), BEGINNING, None)]  # a quarter of the list price

    rate = set_rate(find("gpu_model", "A100-PCIE-40GB"), Decimal("1.60"), valid_from=JUNE, now=HOUR)

    assert spans(quarter) == [(Decimal("0.4975"), BEGINNING, JUNE), (Decimal("0.40"), JUNE, None)]
    assert not GPURate.objects.get(gpu=quarter, valid_from=JUNE).is_example
    withdraw_rate(rate)
    assert spans(quarter) == [(Decimal("0.4975"), BEGINNING, None)]


def test_the_boards_rate_of_a_class_a_pool_and_a_node_are_each_stronger_than_the_one_before(
    quarter,
):
    a_place("gpu-01", pool="train", node_class="spot", region="eu")
    for usd, fields in (
        ("8", {}),
        ("7", {"region": "eu"}),
        ("6", {"node_class": "spot"}),
        ("5", {"node_class": "spot", "region": "eu"}),
    ):
        set_rate({"gpu_model": board(quarter), **fields}, Decimal(usd), valid_from=MAY, now=HOUR)
        assert spans(quarter) == [(Decimal(usd) / 4, MAY, None)]
    a_rate("4", pool="train", valid_from=MAY)
    assert spans(quarter) == [(1, MAY, None)]
    a_rate("3", node="gpu-01", valid_from=MAY)
    assert spans(quarter) == [(Decimal("0.75"), MAY, None)]


def test_a_rate_of_the_part_itself_is_stronger_and_whole(quarter):
    a_rate("4", node="gpu-01", valid_from=MAY)
    a_rate("0.90", gpu=quarter, valid_from=JUNE)
    a_rate("0.80", only=quarter, valid_from=JULY)

    assert spans(quarter) == [
        (1, MAY, JUNE),
        (Decimal("0.90"), JUNE, JULY),
        (Decimal("0.80"), JULY, None),
    ]


def test_a_boards_shipped_example_reaches_no_part_and_other_boards_rates_neither(quarter):
    a_rate("9", gpu=a_gpu(model="A100-PCIE-40GB", node="gpu-02"), is_example=True)
    a_rate("9", gpu=a_gpu(model="A100-80 SXM", node="gpu-02"))

    assert spans(quarter) == []


def test_a_whole_gpu_beside_it_costs_the_whole_rate(quarter):
    whole = a_gpu(model="A100-PCIE-40GB")
    a_rate("2", gpu=whole, valid_from=MAY)
    a_rate("3", node="gpu-01", valid_from=JUNE)

    assert spans(whole) == [(2, MAY, JUNE), (3, JUNE, None)]
    assert spans(quarter) == [(Decimal("0.5"), MAY, JUNE), (Decimal("0.75"), JUNE, None)]


def test_a_share_that_no_decimal_is_and_another_currency_are_rounded_to_the_micro_dollar():
    part = a_part("NVIDIA A10-10Q")  # 10 of 24 GB
    ExchangeRate.objects.create(
        currency="EUR", usd_per_unit=Decimal("1.1"), valid_from=MAY, created_at=HOUR
    )
    a_rate("1", node="gpu-01", valid_from=MAY, currency="EUR")

    assert spans(part) == [(Decimal("0.458333"), MAY, None)]


def test_of_a_board_that_is_not_known_there_is_no_share():
    part = a_part("GRID A9999-8C")
    a_rate("4", node="gpu-01", valid_from=MAY)

    assert (part.model.board, spans(part)) == (None, [(4, MAY, None)])


def test_until_rates_of_its_board_reach_it_a_part_costs_what_whole_gpus_do():
    part = a_part("GRID A100-10C", board_from=JUNE)
    a_rate("4", node="gpu-01", valid_from=MAY, valid_to=JULY)
    a_rate("2", gpu=a_gpu(model="A100-PCIE-40GB", node="gpu-02"), valid_from=MAY)

    assert spans(part) == [(4, MAY, JUNE), (1, JUNE, JULY), (Decimal("0.5"), JULY, None)]


def test_an_admin_may_choose_a_board_that_no_node_shows_whole(quarter):
    GPUModel.objects.create(name="H200 SXM")
    assert [[model.name for model in models] for models in priced_models()] == [
        ["GRID A100-10C"],
        ["A100-PCIE-40GB", "GRID A100-10C"],
    ]
    assert doubt(Rate(gpu_model=board(quarter))) == ""
    assert (
        doubt(Rate(gpu_model=GPUModel.objects.create(name="L4")))
        == "No GPU of the model L4 is known."
    )
