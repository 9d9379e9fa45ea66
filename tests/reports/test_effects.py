"""Volume, mix and rate effects, by hand, and that they always sum to the difference."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.figures.pricing import EXACT, price, usd
from fleetwatch.reports.effects import Effects, Spent, effects

HOUR_MS = 3_600_000


def spent(hours, usd_per_hour):
    return Spent(hours * HOUR_MS, Decimal(hours) * Decimal(usd_per_hour))


def explained(before, now):
    difference = sum((each.cost_usd for each in now.values()), Decimal(0)) - sum(
        (each.cost_usd for each in before.values()), Decimal(0)
    )
    return effects(before, now, difference_usd=usd(difference))


def money(volume, mix, rate):
    return Effects(Decimal(volume), Decimal(mix), Decimal(rate))


def test_the_example_of_the_docs():
    # 100 h for $250 ($2.50 each); now 120 h, H100 dearer by $0.50, and more of it
    before = {"H100": spent(50, 4), "L4": spent(50, 1)}
    now = {"H100": spent(80, "4.50"), "L4": spent(40, 1)}

    # volume: 20 h x $2.50; mix: 80 x 4 + 40 x 1 - 120 x 2.50; rate: 80 x 0.50
    assert explained(before, now) == money(50, 60, 40)


def test_more_hours_at_the_same_price_are_volume_alone():
    assert explained({"H100": spent(10, 4)}, {"H100": spent(15, 4)}) == money(20, 0, 0)


def test_the_same_hours_at_a_new_price_are_rate_alone():
    assert explained({"H100": spent(10, 4)}, {"H100": spent(10, 3)}) == money(0, 0, -10)


def test_the_same_hours_on_dearer_gpus_are_mix_alone():
    assert explained({"H100": spent(5, 4), "L4": spent(5, 1)}, {"H100": spent(10, 4)}) == money(
        0, 15, 0
    )


def test_a_model_that_is_new_has_no_change_of_rate():
    assert explained({"L4": spent(10, 1)}, {"H100": spent(10, 4)}) == money(0, 30, 0)


def test_from_nothing_and_to_nothing_everything_is_volume():
    assert explained({}, {"H100": spent(2, 4)}) == money(8, 0, 0)
    assert explained({"H100": spent(2, 4)}, {}) == money(-8, 0, 0)
    assert explained({}, {}) == money(0, 0, 0)


def test_what_rounding_leaves_goes_to_the_largest_effect():
    found = effects({"L4": spent(1, 1)}, {"L4": spent(3, 1)}, difference_usd=Decimal("2.000001"))

    assert found == money("2.000001", 0, 0)


SPENT = st.builds(
    lambda ms, rate: Spent(ms, price([(ms, Decimal(rate) / 10**6)])),
    st.integers(1, 10**12),
    st.integers(0, 10**8),
)
MODELS = st.dictionaries(st.sampled_from(["H100", "A100", "L4", "T4"]), SPENT)


@given(MODELS, MODELS)
def test_the_effects_always_sum_to_the_difference(before, now):
    cost = [
        usd(sum((each.cost_usd for each in part.values()), Decimal(0))) for part in (before, now)
    ]

    found = effects(before, now, difference_usd=cost[1] - cost[0])

    assert (
        EXACT.add(EXACT.add(found.volume_usd, found.mix_usd), found.rate_usd) == cost[1] - cost[0]
    )


@given(MODELS)
def test_nothing_changed_has_no_effect(both):
    assert effects(both, both, difference_usd=Decimal(0)) == money(0, 0, 0)
