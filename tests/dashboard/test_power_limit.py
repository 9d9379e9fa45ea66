"""A GPU that its driver holds at its power limit: whether anything was lost by that."""

import pytest

from fleetwatch.dashboard.drawing.machine_charts import NO_LOSS, is_at_power_limit
from fleetwatch.inventory.models import GPU
from fleetwatch.telemetry.steps import StepSeries
from tests.ledger.fleet import BUSY, MINUTE, T0, Sender, post


@pytest.mark.parametrize(
    ("by_power", "clocks", "is_at_limit"),
    [
        ([0.93, 0.93], [1.98e9, 1.98e9], True),
        ([0.93, 0.93], [1.70e9, 1.70e9], True),  # 85 % of its maximum: the rule counts less
        ([0.93, 0.93], [1.69e9, 1.69e9], False),
        ([0.10, 0.10], [1.98e9, 1.98e9], True),
        ([0.09, 0.09], [1.98e9, 1.98e9], False),  # hardly held back
        ([0.93, 0.00], [1.98e9, 0.30e9], True),  # idle afterwards: that clock is no loss
        ([0.93, 0.93], [None, None], False),  # who knows
        ([None, None], [1.98e9, 1.98e9], False),
    ],
)
def test_it_is_at_its_power_limit_where_that_hardly_lowers_its_clock(by_power, clocks, is_at_limit):
    columns = {
        "throttle_power_ratio": by_power,
        "sm_clock_hz": clocks,
        "sm_clock_max_hz": [2.0e9, 2.0e9],
    }

    assert is_at_power_limit(StepSeries(MINUTE, [T0, T0 + MINUTE], columns)) is is_at_limit


@pytest.mark.django_db
@pytest.mark.parametrize(("clock_hz", "is_said"), [(1.98e9, True), (1.2e9, False)])
def test_the_chart_of_a_gpu_says_that_its_power_limit_loses_nothing(admin, clock_hz, is_said):
    held_back = {
        "throttle_power_ratio": 0.93, "sm_clock_hz": clock_hz, "sm_clock_max_hz": 1.98e9,
    }  # fmt: skip
    post(Sender().batch(T0, *[BUSY | held_back] * 60))
    uuid = GPU.objects.get().uuid

    address = f"/charts/gpu?gpu={uuid}&from={T0}&to={T0 + 60 * MINUTE}"
    titles = [each.get("text") for each in admin.get(address).json()["layout"]["annotations"]]

    title = "Slowed, share of the time"
    assert (f"{title} · {NO_LOSS}" in titles, title in titles) == (is_said, not is_said)
