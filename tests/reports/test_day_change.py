"""What changed since the day before, by hand."""

from datetime import timedelta

import pytest

from fleetwatch.figures.posted import posted_until
from fleetwatch.figures.selectors import Scope
from fleetwatch.lib.intervals import to_ms
from fleetwatch.reports.day_change import day_change
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, a_run, an_entry

pytestmark = pytest.mark.django_db

MINUTE = 60_000
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


def test_two_days_are_as_long_though_the_newest_minutes_are_not_posted_yet():
    """$1 an hour all the time: the node is posted until 09:56, another one until 09:58."""
    late, later = a_gpu(node="n1"), a_gpu(node="n2")
    a_rate("1", gpu=late)
    for gpu, missing in ((late, 4), (later, 2)):
        for hour in range(50):
            minutes = 60 - (missing if hour == 0 else 0)
            start = HOUR - timedelta(hours=hour)
            an_entry(gpu, gpu_ms=minutes * MINUTE, start=start)
            span = {"start_ms": to_ms(start), "end_ms": to_ms(start) + minutes * MINUTE}
            a_run(gpu, **span, state_ms={"useful": minutes * MINUTE})

    change = day_change(NOW)

    assert change.until == NOW - timedelta(minutes=4)
    assert (change.whole.before.cost_usd, change.whole.totals.cost_usd) == (48, 48)
    assert (change.whole.is_unchanged, change.is_wasted_unchanged, change.reasons) == (
        True,
        True,
        [],
    )
    assert posted_until(NOW).on_average == NOW - timedelta(minutes=3)


def test_an_hour_more_is_told_in_hours(fleet):
    change = day_change(NOW, scope=Scope(team="vision"))

    assert (change.reasons, change.more_ms) == ([("GPU-hours", 1)], HOUR_MS)
    assert day_change(NOW).more_ms == 0  # as many as before, of other models
