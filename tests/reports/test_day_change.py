"""What changed since the day before, by hand."""

from datetime import timedelta

import pytest

from fleetwatch.figures.selectors import Scope
from fleetwatch.reports.day_change import day_change
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

NOW = HOUR + timedelta(hours=1)
YESTERDAY = HOUR - timedelta(hours=24)
FIRST = NOW - timedelta(hours=48)


@pytest.fixture
def fleet():
    """Yesterday two hours of an H100 at $4, today one, and one of an L4 at $1; nlp wasted a half
    hour yesterday and none today, vision none yesterday and an hour of the L4 today.
    """
    dear, cheap = a_gpu(), a_gpu(model="L4")
    a_rate("4", gpu=dear)
    a_rate("1", gpu=cheap)
    nlp, vision = (a_job(key=key, user=key, team=key) for key in ("nlp", "vision"))
    an_entry(dear, "useful", HOUR_MS, job=nlp, start=FIRST)
    an_entry(dear, "idle", HOUR_MS // 2, job=nlp, tier="certain", start=YESTERDAY)
    an_entry(dear, "useful", HOUR_MS // 2, job=nlp, start=YESTERDAY)
    an_entry(dear, "useful", HOUR_MS, job=nlp)
    an_entry(cheap, "idle", HOUR_MS, job=vision, tier="certain")


def test_dollars_change_by_volume_mix_and_rate_that_sum_to_it(fleet):
    change = day_change(NOW)

    assert (change.whole.before.cost_usd, change.whole.totals.cost_usd) == (8, 5)
    # the same two GPU-hours, one of them of a GPU that costs $3 less
    assert change.reasons == [("other GPU models", -3)]


def test_the_teams_named_are_those_whose_waste_moved_as_the_whole_did(fleet):
    change = day_change(NOW)

    assert change.wasted_usd == -1
    assert change.wasted_ratio == -0.5
    assert change.teams == [("NLP", -2)]


def test_the_states_named_moved_most(fleet):
    assert day_change(NOW).states == [("useful", -HOUR_MS // 2), ("idle", HOUR_MS // 2)]


def test_a_scope_has_its_own_change(fleet):
    change = day_change(NOW, scope=Scope(team="vision"))

    assert (change.whole.change_usd, change.whole.change_ratio, change.wasted_ratio) == (
        1,
        None,
        None,
    )
    assert change.reasons == [("GPU-hours", 1)]


@pytest.mark.parametrize(("late", "is_known"), [(0, True), (1, False)])
def test_a_day_before_that_is_known_in_part_is_nothing_to_compare_with(late, is_known):
    an_entry(a_gpu(), start=FIRST + timedelta(milliseconds=late))

    assert (day_change(NOW) is not None) == is_known


def test_nothing_moved():
    gpu = a_gpu()
    for start in (FIRST, HOUR):
        an_entry(gpu, start=start)

    change = day_change(NOW)

    assert (change.reasons, change.teams, change.states, change.wasted_usd) == ([], [], [], 0)
