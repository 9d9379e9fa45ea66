from decimal import Decimal

import pytest

from fleetwatch.costs.rates.example_prices import example_price
from fleetwatch.inventory.vgpu import slice_of


@pytest.mark.parametrize(
    ("name", "board", "memory_gb", "of_gb"),
    [
        ("GRID A100-10C", "A100-PCIE-40GB", 10, 40),
        ("NVIDIA A100-3-20C", "A100-PCIE-40GB", 20, 40),
        ("NVIDIA A100-1-5CME", "A100-PCIE-40GB", 5, 40),
        ("NVIDIA H100-1-10CNOME", "H100 PCIe", 10, 80),
        ("NVIDIA H100XM-1-10CMEALL", "H100 80GB HBM3", 10, 80),
        ("NVIDIA A30-2-12CGFX", "A30", 12, 24),
        ("NVIDIA RTX6000-Ada-12Q", "RTX 6000 Ada Generation", 12, 48),
        ("NVIDIA H20-48C", "H20", 48, 96),
        ("NVIDIA H200-141C", "H200 NVL", 141, 141),
        ("GRID RTX8000-24Q", "Quadro RTX 8000", 24, 48),
        ("NVIDIA ZZ9-24C", "", 24, 0),
    ],
)
def test_the_drivers_name_says_which_part_of_which_board_it_is(name, board, memory_gb, of_gb):
    part = slice_of(name)

    assert (part.board, part.memory_gb, part.board_memory_gb) == (board, memory_gb, of_gb)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA H100 80GB HBM3",
        "NVIDIA RTX 6000 Ada Generation", "Tesla V100-SXM2-16GB", "NVIDIA A100-1-5CXX",
        "NVIDIA L40S", "Tesla T4", "GRID A100-10",
    ],
)  # fmt: skip
def test_a_whole_gpu_is_no_part(name):
    assert slice_of(name) is None


@pytest.mark.parametrize(
    ("model", "usd"),
    [("A100-1-5CME", "0.24875"), ("H100-1-10CME", "0.41125"), ("RTX6000-Ada-12Q", None)],
)
def test_a_part_with_media_engines_costs_its_share_and_never_the_board(model, usd):
    price = example_price(model)

    assert (price and price.usd_per_gpu_hour) == (usd and Decimal(usd))
