from dataclasses import replace

import pytest

from fleetwatch.alerts.messaging.routing import Destination, Matter, Routes, Step, rung_after, rungs

CHAT, TEAM, OPERATORS, UNOWNED, RULE = 1, 2, 3, 4, 5
ANA = Destination(CHAT, "U1", person_id=7, why="because job user ana on della is Ana Diaz")
MATTER = Matter(
    rule_name="Job idle",
    holder="job user ana on della",
    team_id=9,
    team_name="NLP",
    person=ANA,
)
ROUTES = Routes(
    every=(CHAT, TEAM, OPERATORS, UNOWNED, RULE),
    operators=(OPERATORS,),
    unowned=(UNOWNED,),
    by_team={9: (TEAM,)},
    is_set=True,
)


def ladder(matter: Matter = MATTER, routes: Routes = ROUTES) -> list[tuple[str, list[int]]]:
    """Each step with the channels that are told."""
    return [
        (rung.step.name, [each.channel_id for each in rung.destinations])
        for rung in rungs(matter, routes)
    ]


def test_the_owner_the_owner_again_the_team_the_operators():
    assert ladder() == [
        ("OWNER", [CHAT]),
        ("AGAIN", [CHAT]),
        ("TEAM", [TEAM]),
        ("OPERATORS", [OPERATORS]),
    ]


def test_who_is_not_reached_leaves_it_to_the_team():
    assert ladder(replace(MATTER, person=None)) == [("TEAM", [TEAM]), ("OPERATORS", [OPERATORS])]


@pytest.mark.parametrize("team_id", [None, 10])
def test_what_neither_a_person_nor_a_team_is_told_of_goes_to_the_unowned(team_id):
    assert ladder(replace(MATTER, person=None, team_id=team_id)) == [
        ("TEAM", [UNOWNED]),
        ("OPERATORS", [OPERATORS]),
    ]


def test_what_nobody_can_hold_is_the_operators_at_once():
    node = Matter(rule_name="Node silent")

    assert ladder(node) == [("OPERATORS", [OPERATORS])]
    [rung] = rungs(node, ROUTES)
    assert [each.why for each in rung.destinations] == ["it goes to the operators"]


def test_of_a_team_without_a_channel_the_operators_are_told_and_it_is_said_why():
    [rung] = rungs(Matter(rule_name="Budget spent", team_id=11, team_name="vision"), ROUTES)

    [operators] = rung.destinations
    assert operators.why == "team vision has no channel, so the operators are told"


def test_a_rules_own_channels_are_always_told_with_the_first_step():
    assert ladder(replace(MATTER, rule_channels=(RULE,)))[0] == ("OWNER", [CHAT, RULE])
    assert ladder(Matter(rule_name="Node silent", rule_channels=(OPERATORS, RULE))) == [
        ("OPERATORS", [OPERATORS, RULE])
    ]


def test_on_a_hub_without_routes_every_channel_is_told():
    nothing_set = Routes(every=(CHAT, TEAM))

    assert ladder(replace(MATTER, person=None), nothing_set) == [("OPERATORS", [CHAT, TEAM])]
    # beside the owner, where he is known: his own address in the chat is not the channel
    assert ladder(MATTER, nothing_set) == [("OWNER", [CHAT, CHAT, TEAM]), ("AGAIN", [CHAT])]


def test_on_a_hub_without_routes_a_rules_channels_are_those_it_tells():
    nothing_set = Routes(every=(CHAT, TEAM, RULE))

    one = replace(MATTER, person=None, rule_channels=(RULE,))
    assert ladder(one, nothing_set) == [("OPERATORS", [RULE])]


def test_where_no_route_leads_anywhere_every_channel_is_told_rather_than_nobody():
    only_a_team = replace(ROUTES, operators=(), unowned=())

    assert ladder(Matter(rule_name="Node silent"), only_a_team) == [
        ("OPERATORS", [CHAT, TEAM, OPERATORS, UNOWNED, RULE])
    ]


def test_without_any_channel_there_is_no_ladder():
    assert ladder(replace(MATTER, person=None), Routes(every=())) == []


def test_each_is_told_why_it_is_they():
    every = [rung.destinations[0].why for rung in rungs(MATTER, ROUTES)]
    (unowned, *_) = rungs(replace(MATTER, person=None, team_id=None), ROUTES)

    assert every == [
        "because job user ana on della is Ana Diaz",
        "because job user ana on della is Ana Diaz",
        "the route of team NLP",
        "nobody before them acknowledged it",
    ]
    assert (
        unowned.destinations[0].why == "no account was linked to job user ana on della at that time"
    )


def test_operators_that_were_told_for_the_unowned_are_those_who_did_not_acknowledge_it():
    operators = replace(ROUTES, operators=ROUTES.unowned)
    *_, last = rungs(replace(MATTER, person=None, team_id=None), operators)

    assert (last.step, last.destinations[0].why) == (Step.OPERATORS, "nobody acknowledged it")


def test_the_next_step_is_the_next_that_reaches_somebody():
    without_team = rungs(replace(MATTER, team_id=None), ROUTES)

    steps = [Step.OWNER, Step.AGAIN, Step.OPERATORS]
    assert [rung.step for rung in without_team] == steps
    assert rung_after(without_team, Step.AGAIN) == without_team[-1]
    assert rung_after(without_team, Step.OPERATORS) is None
