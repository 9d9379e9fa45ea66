"""The curves of a finding: what the rules compare, as shares."""

import pytest

from fleetwatch.dashboard.drawing.finding_charts import curves_of
from fleetwatch.inventory.models import GPU, GPUModel

H100 = GPUModel(name="H100 SXM", idle_w=100, limit_w=700)


def drawn(column: str, told: dict[str, list[float | None]], gpu: GPU) -> list[list[float | None]]:
    return [list(line.values) for line in curves_of(told, [column], gpu).values()]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("gpu", "shares"),
    [
        (GPU(model=H100), [[0.0, None, 0.5]]),
        # its own limit, below the model's
        (GPU(model=H100, power_limit_w=500), [[0.0, None, 0.75]]),
        (GPU(model=GPUModel(name="unknown", limit_w=700)), []),
        (GPU(), []),
    ],
)
def test_power_is_drawn_between_idle_and_limit_as_the_rules_read_it(gpu, shares):
    assert drawn("power_w", {"power_w": [100.0, None, 400.0]}, gpu) == shares


def test_a_clock_is_drawn_by_its_maximum():
    told = {"sm_clock_hz": [1.2e9, 1.8e9], "sm_clock_max_hz": [2e9, None]}

    assert drawn("sm_clock_hz", told, GPU()) == [[0.6, 0.9]]
    assert drawn("sm_clock_hz", told | {"sm_clock_max_hz": [None, None]}, GPU()) == []


def test_what_was_not_read_is_not_drawn():
    assert drawn("util_mean", {"util_mean": [None, None]}, GPU()) == []
