"""Free capacity is never spread silently, and spreading it neither makes nor loses a
micro-dollar.
"""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.costs.spreading import EVEN, OWN_LINE, PROPORTIONAL, spread, with_free
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.selectors import totals_by
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, an_entry

TEAMS = {"nlp": Decimal(60), "vision": Decimal(30), "speech": Decimal(0)}


def free_of(found):
    return [found.free_usd[key] for key in TEAMS], found.left_usd


def test_by_default_it_stays_a_line_of_its_own():
    assert free_of(spread(TEAMS, Decimal(10), OWN_LINE)) == ([0, 0, 0], 10)


def test_proportional_follows_each_teams_own_dollars():
    found = spread(TEAMS, Decimal("9"), PROPORTIONAL)

    assert free_of(found) == ([6, 3, 0], 0)
    assert [found.line_usd(key) for key in TEAMS] == [66, 33, 0]


def test_even_is_the_same_for_each_to_the_micro_dollar():
    assert free_of(spread(TEAMS, Decimal(10), EVEN)) == (
        [Decimal("3.333334"), Decimal("3.333333"), Decimal("3.333333")],
        0,
    )


def test_where_no_team_has_dollars_proportional_is_even():
    assert spread({"a": Decimal(0), "b": Decimal(0)}, Decimal(1), PROPORTIONAL).free_usd == {
        "a": Decimal("0.5"),
        "b": Decimal("0.5"),
    }


@pytest.mark.parametrize("way", [OWN_LINE, PROPORTIONAL, EVEN])
def test_without_teams_all_stays_apart(way):
    assert spread({}, Decimal(3), way).left_usd == 3


def test_another_way_is_refused():
    with pytest.raises(ValueError, match="is spread own, proportional, even, not 'fairly'"):
        spread(TEAMS, Decimal(1), "fairly")


@pytest.mark.django_db
def test_lines_of_a_breakdown_keep_their_sum_and_what_no_job_held_keeps_all_but_the_free():
    gpu = a_gpu()
    a_rate("6", gpu=gpu)
    for number, (state, team) in enumerate(
        [
            ("useful", "nlp"),
            ("useful", "nlp"),
            ("idle", "vision"),
            ("free", None),
            ("orphaned", None),
        ]
    ):
        an_entry(
            gpu, state, job=a_job(team=team) if team else None, start=HOUR + timedelta(hours=number)
        )
    day = Interval(HOUR, HOUR + timedelta(hours=8))
    groups = totals_by(day, "team")

    assert with_free(groups, OWN_LINE) == {"nlp": 12, "vision": 6, "": 12}
    assert with_free(groups, PROPORTIONAL) == {"nlp": 16, "vision": 8, "": 6}
    assert with_free(groups, EVEN) == {"nlp": 15, "vision": 9, "": 6}
    assert with_free([], EVEN) == {}


money = st.decimals(0, 10**7, places=9)


@given(
    st.lists(money, max_size=12),
    money,
    st.sampled_from([OWN_LINE, PROPORTIONAL, EVEN]),
)
def test_the_sum_before_is_the_sum_after_to_the_micro_dollar(amounts, free, way):
    costs = {f"team-{number}": amount for number, amount in enumerate(amounts)}

    found = spread(costs, free, way)

    assert found.total_usd == usd(sum(amounts, free))
    assert (
        sum(found.own_usd.values(), sum(found.free_usd.values(), found.left_usd)) == found.total_usd
    )
    assert all(part >= 0 for part in (*found.free_usd.values(), found.left_usd))
    assert all(
        part == usd(part)
        for part in (*found.free_usd.values(), found.left_usd, *found.own_usd.values())
    )
    assert found.free_usd.keys() == found.own_usd.keys() == costs.keys()
