from dataclasses import replace
from datetime import time
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.alerts.incidents.muting import LATE, Mute, Mutes, Speaker, Subject
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.weekly_hours import Hours
from tests.alerts.factories import at

NOW = at(0)  # Friday, 20 November 2026, 09:00 UTC
UTC_ZONE = ZoneInfo("UTC")
SUBJECT = Subject(rule_id=1, labels={"node": ("n1", "n2"), "team": ("nlp",)})
ON_N1 = (Matcher("node", ("n1",)),)


def reason(subject: Subject = SUBJECT, *mutes: Mute, speakers=(), now=NOW) -> str:
    return Mutes(now, UTC_ZONE, mutes, speakers).reason(subject)


def a_mute(kind: str = "silence", start: float = -60, end: float = 60, **fields) -> Mute:
    usual = {"matchers": ON_N1, "reason": "GPU repair"}
    return Mute(kind=kind, starts_at=at(start), ends_at=at(end), **(usual | fields))


def a_speaker(*nodes: str) -> Speaker:
    return Speaker(2, "node", frozenset(nodes), "Node silent of n1 speaks for it")


def test_nothing_mutes_what_nothing_was_set_for():
    assert reason() == ""


NLP = Matcher("team", ("nlp",))
HUGO = Matcher("user", ("hugo",))


@pytest.mark.parametrize(
    ("matchers", "teams", "is_muted"),
    [
        ((NLP, HUGO), ("nlp",), True),
        ((NLP, HUGO), ("nlp", "vision"), False),
        ((Matcher("team", ("nlp", "vision")), HUGO), ("nlp", "vision"), True),
        ((NLP, HUGO), (), False),
    ],
)
def test_a_silence_of_teams_alone_mutes_nothing_that_another_team_has_a_part_in(
    matchers, teams, is_muted
):
    of_hugo = Subject(rule_id=1, labels={"team": teams, "user": ("hugo",)})
    of_a_lead = a_mute(matchers=matchers, of_teams_alone=True)

    assert bool(reason(of_hugo, of_a_lead)) is is_muted


def test_an_operators_silence_mutes_what_the_team_has_any_part_in():
    of_two = Subject(rule_id=1, labels={"team": ("nlp", "vision")})

    assert reason(of_two, a_mute(matchers=(NLP,)))


@pytest.mark.parametrize(("minutes", "is_muted"), [(-60.01, False), (-60, True), (59.99, True)])
def test_a_silence_holds_from_its_start_until_before_its_end(minutes, is_muted):
    assert bool(reason(SUBJECT, a_mute(), now=at(minutes))) is is_muted
    assert reason(SUBJECT, a_mute(), now=at(60)) == ""


def test_it_says_which_it_is_until_when_and_why():
    assert reason(SUBJECT, a_mute()) == "silence until 20 Nov 2026, 10:00 UTC: GPU repair"
    assert reason(SUBJECT, a_mute("maintenance")).startswith("maintenance window until")


def test_a_silence_of_other_nodes_mutes_nothing():
    assert reason(SUBJECT, a_mute(matchers=(Matcher("node", ("n3",)),))) == ""


@pytest.mark.parametrize(("start", "end", "is_muted"), [(8, 9, False), (8, 10, True), (9, 9, True)])
def test_a_weekly_window_holds_in_its_hours_only(start, end, is_muted):
    hours = Hours(time(start), time(end))

    assert bool(reason(SUBJECT, a_mute(hours=hours))) is is_muted


@pytest.mark.parametrize(
    ("hours", "until"),
    [
        (Hours(time(8), time(10)), "20 Nov 2026, 10:00"),
        (Hours(time(22), time(9, 30)), "20 Nov 2026, 09:30"),
        (Hours(time(0), time(0), days=(4, 5)), "22 Nov 2026, 00:00"),  # Friday and Saturday
        (Hours(time(0), time(0)), "20 Dec 2026, 09:00"),  # always: until the window itself ends
    ],
)
def test_a_weekly_window_says_when_its_hours_end(hours, until):
    of_a_month = a_mute("maintenance", end=30 * 24 * 60, hours=hours)

    assert reason(SUBJECT, of_a_month) == f"maintenance window until {until} UTC: GPU repair"


def test_a_rule_with_a_schedule_tells_within_it_only():
    office = Hours(time(8), time(18), "Europe/Berlin", (0, 1, 2, 3, 4))
    subject = replace(SUBJECT, schedule=office)

    assert reason(subject) == ""
    assert "its rule tells" in reason(subject, now=at(24 * 60))  # Saturday
    assert "its rule tells" in reason(subject, now=at(8 * 60))  # 18:00 in Berlin


@pytest.mark.parametrize(("minutes", "is_muted"), [(9.99, True), (10, False), (11, False)])
def test_a_snooze_always_ends(minutes, is_muted):
    subject = replace(SUBJECT, snoozed_until=at(10))

    assert bool(reason(subject, now=at(minutes))) is is_muted


@pytest.mark.parametrize(
    ("nodes", "is_muted"), [(("n1", "n2"), True), (("n1", "n2", "n3"), True), (("n1",), False)]
)
def test_a_silent_node_speaks_for_what_lies_on_silent_nodes_alone(nodes, is_muted):
    assert bool(reason(speakers=[a_speaker(*nodes)])) is is_muted


def test_nothing_speaks_for_what_has_no_node_for_itself_or_for_what_speaks():
    speakers = [a_speaker("n1", "n2")]

    assert reason(Subject(rule_id=1, labels={}), speakers=speakers) == ""
    assert reason(replace(SUBJECT, rule_id=2), speakers=speakers) == ""
    assert reason(replace(SUBJECT, speaks=True), speakers=speakers) == ""


def test_what_came_late_is_recorded_only():
    assert reason(replace(SUBJECT, is_late=True)) == LATE


def test_the_first_reason_of_the_order_is_the_one_that_is_said():
    """Justification, schedule, snooze, silence or window, exemption, inhibition, late."""
    asleep = Hours(time(1), time(2))
    subject = replace(SUBJECT, schedule=asleep, snoozed_until=at(10), is_late=True)
    mutes = [a_mute("exemption"), a_mute("silence"), a_mute("justification")]
    speakers = [a_speaker("n1", "n2")]
    words = []
    for step in range(7):
        words.append(reason(subject, *mutes, speakers=speakers).split()[0])
        if step == 1:
            subject = replace(subject, schedule=None)
        elif step == 2:
            subject = replace(subject, snoozed_until=None)
        elif mutes:
            mutes.pop()
        else:
            speakers = []

    assert words == ["accepted", "its", "snoozed", "silence", "exemption", "Node", "its"]


def test_a_hostile_reason_stays_one_line_in_bounds():
    text = reason(SUBJECT, a_mute(reason="x\n<script>" + "y" * 1000))

    assert len(text) <= 200
    assert "\n" not in text


def test_of_several_silences_the_one_that_lasts_longest_is_said():
    short, long = a_mute(end=5), a_mute(end=500, reason="the long one")

    assert reason(SUBJECT, long, short).endswith("the long one")
