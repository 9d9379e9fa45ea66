import pytest

from agent.idle_watts import idle_power_w
from fleetwatch.inventory.gpu_models import FIGURES, ModelFacts, facts_for


@pytest.mark.parametrize(
    ("driver_name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", ("H100 SXM", 70.0, 700.0)),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", ("H100 SXM", 70.0, 700.0)),
        ("NVIDIA H100 PCIe", ("H100 PCIe", 45.0, 350.0)),
        ("NVIDIA H200", ("H200 SXM", 80.0, 700.0)),
        ("NVIDIA B200", ("B200", 130.0, 1000.0)),
        ("NVIDIA GB200", ("GB200", 145.0, 1200.0)),
        ("NVIDIA A100-SXM4-80GB", ("A100-80 SXM", 60.0, 400.0)),
        ("NVIDIA L40S", ("L40S", 35.0, 350.0)),
        ("NVIDIA L4", ("L4", 13.0, 72.0)),
        ("NVIDIA A10", ("A10", 15.0, 150.0)),
        ("Tesla T4", ("T4", 10.0, 70.0)),
        ("Tesla V100-SXM2-16GB", ("V100 SXM2", 40.0, 300.0)),
    ],
)
def test_products_are_known_by_the_drivers_name(driver_name, expected):
    assert facts_for(driver_name) == ModelFacts(*expected)


@pytest.mark.parametrize(
    ("driver_name", "expected"),
    [
        ("NVIDIA H100 NVL", ("H100 NVL", None, 400.0)),
        ("NVIDIA H200 NVL", ("H200 NVL", None, 600.0)),
        ("NVIDIA A100-SXM4-40GB", ("A100-SXM4-40GB", None, 400.0)),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", ("A100-SXM4-40GB", None, 400.0)),
        ("NVIDIA A100 80GB PCIe", ("A100 80GB PCIe", None, 300.0)),
        ("NVIDIA A10G", ("A10G", 25.0, 300.0)),
        ("NVIDIA L40", ("L40", None, 300.0)),
        ("NVIDIA GeForce RTX 4090", ("GeForce RTX 4090", None, 450.0)),
        ("NVIDIA GeForce RTX 3090", ("GeForce RTX 3090", 27.0, 350.0)),
        ("Tesla V100-PCIE-16GB", ("V100-PCIE-16GB", None, 250.0)),
        ("NVIDIA GH200 480GB", ("GH200 480GB", None, None)),
        ("", ("", None, None)),
    ],
)
def test_other_products_keep_their_name_and_have_the_figures_that_are_published(
    driver_name, expected
):
    assert facts_for(driver_name) == ModelFacts(*expected)


def test_the_agent_has_the_idle_power_that_the_hub_has():
    names = [f"NVIDIA {name}" for name in FIGURES]

    assert [idle_power_w(name) for name in names] == [facts_for(name).idle_w for name in names]


def test_a_short_name_is_known_too():
    assert facts_for("A100-80 SXM").limit_w == 400.0


@pytest.mark.parametrize("name", ["L40S-24Q", "H100-20C", "GRID T4-8Q"])
def test_a_part_of_a_board_has_not_the_boards_power(name):
    assert facts_for(f"NVIDIA {name}") == ModelFacts(name, None, None)
