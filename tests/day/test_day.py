"""What five people of a fleet of 64 GPUs were told on a Monday, and by whom they were left alone."""

from collections.abc import Iterable

import pytest

from tests.day.site import PEOPLE
from tests.day.story import Told

PRIYA, JONAS, AMARA = (PEOPLE[name].direct for name in ("priya", "jonas", "amara"))
OPS, NLP = "C0OPS", "C0NLP"


def alerts(told: Told, at: str, place: str) -> list[str]:
    """What stands there, digests left out: its title without signs and what follows the GPUs."""
    titles = (title for title in told.moments[at].titles(place) if "GPU week" not in title)
    return [_short(title) for title in titles]


def _short(title: str) -> str:
    mark, _, text = title.rpartition("🟠 ")
    for sign in ("🟢 ", "🔴 "):
        mark, text = (mark, text) if sign not in text else text.split(sign)
    return mark + " · ".join(text.removeprefix("escalated · ").split(" · ")[:2])


def mails(told: Told, at: str) -> list[tuple[str, str]]:
    return [(str(mail["To"]), str(mail["Subject"]).strip()) for mail in told.moments[at].mails]


def texts(message: dict) -> Iterable[str]:
    for block in message["blocks"]:
        for each in (block.get("text"), *block.get("fields", ())):
            if each:
                yield each["text"]


def test_an_idle_job_is_its_owners_to_know_and_nobody_elses(told):
    assert alerts(told, "08:28", PRIYA) == []
    assert alerts(told, "08:33", PRIYA) == ["idle · h100-01 GPU 0–3 (H100 SXM)"]
    for place in (JONAS, AMARA, OPS, NLP):
        assert alerts(told, "08:33", place) == []


def test_her_time_is_told_by_her_own_clock(told):
    [title] = [each for each in told.moments["08:33"].titles(PRIYA) if "idle" in each]

    assert "since 09:00 CET (33 m)" in title


def test_a_signed_click_of_hers_acknowledges_and_others_do_not(told):
    assert told.answers == {"stranger": 200, "forged": 401, "priya": 200}
    assert ["U0NOBODY" in each["text"] for each in told.site.slack.workspace.whispers] == [True]


def test_the_message_is_edited_when_she_acknowledges_and_when_her_job_works_again(told):
    acknowledged = told.moments["acknowledged"].message(PRIYA, "h100-01")
    resolved = told.moments["09:15"].message(PRIYA, "h100-01")

    assert acknowledged["ts"] == resolved["ts"]
    assert any("Acknowledged by Priya Nair" in each for each in texts(acknowledged))
    assert "idle for 1 h 10 m" in resolved["blocks"][0]["text"]["text"]


def test_what_is_acknowledged_goes_no_further(told):
    for place in (OPS, NLP, JONAS, AMARA):
        assert not [each for each in alerts(told, "Tuesday 07:03", place) if "h100-01" in each]


@pytest.mark.parametrize(
    ("at", "owner", "team", "operators"),
    [
        ("08:33", 0, 0, 0),
        ("08:44", 1, 0, 0),  # 34 minutes idle: he
        ("09:15", 1, 0, 0),
        ("09:46", 2, 0, 0),  # an hour later he again, below the first
        ("10:41", 2, 0, 0),
        ("10:50", 2, 1, 0),  # then his team
        ("11:14", 2, 1, 0),
        ("11:55", 2, 1, 1),  # then the operators
    ],
)
def test_what_nobody_acknowledges_climbs_step_by_step(told, at, owner, team, operators):
    counts = [
        len([each for each in alerts(told, at, place) if "a100-03" in each])
        for place in (JONAS, NLP, OPS)
    ]

    assert counts == [owner, team, operators]


def test_everybody_who_heard_of_it_hears_that_it_is_over(told):
    for place in (JONAS, NLP, OPS):
        message = told.moments["12:35"].message(place, "a100-03")
        assert message["blocks"][0]["text"]["text"].startswith("🟢 resolved")


def test_a_silent_node_is_the_operators_and_alertmanagers_and_accuses_no_owner(told):
    assert "silent · l40s-05 (8 × L40S)" in alerts(told, "10:12", OPS)
    assert [alert["labels"]["node"] for alert in told.moments["10:12"].alerts] == ["l40s-05"]
    for place in (PRIYA, JONAS, AMARA, NLP):
        for at in ("10:12", "10:38", "10:41", "Tuesday 07:03"):
            assert not [each for each in alerts(told, at, place) if "l40s-05" in each]


def test_alertmanager_hears_that_the_node_is_back(told):
    assert told.moments["10:38"].alerts
    assert told.moments["10:41"].alerts == []
    sent = told.site.alertmanager.told(2)
    assert [each["status"] for each in sent] == ["firing", "resolved"]


def test_the_page_of_the_silent_node_says_what_to_do_and_whom_it_told(told):
    page = told.pages["otto incident silent"]

    assert "See on the node whether it is up" in page
    assert "gpu-ops" in page
    assert "alertmanager" in page


def test_missing_telemetry_fires_nothing(told):
    """Twenty idle minutes, forty of which nobody knows, then work."""
    for place in (PRIYA, JONAS, AMARA, NLP, OPS):
        titles = alerts(told, "Tuesday 07:03", place)
        assert not [each for each in titles if "idle" in each and "l40s-05" in each]


def test_quiet_hours_keep_a_message_until_they_end(told):
    assert alerts(told, "11:14", AMARA) == []
    assert alerts(told, "11:55", AMARA) == []
    assert alerts(told, "12:02", AMARA) == ["idle · h100-02 GPU 0, 1 (H100 SXM)"]


def test_nobody_goes_over_the_head_of_who_sleeps(told):
    for at in ("11:55", "12:02"):
        assert not [each for each in alerts(told, at, NLP) if "h100-02" in each]


def test_a_budget_at_80_percent_is_told_to_finance_by_mail_and_to_the_team(told):
    assert mails(told, "13:20") == []
    [(to, subject)] = mails(told, "14:34")
    assert to == "finance@example.org"
    assert subject.startswith("budget · nlp spent 8")
    assert [each for each in alerts(told, "14:34", NLP) if "nlp spent" in each]
    assert not [each for each in alerts(told, "14:34", PRIYA) if "budget" in each]


def test_the_mail_is_text_and_html_and_has_no_address_of_the_outside(told):
    [mail] = told.moments["14:34"].mails
    kinds = [part.get_content_type() for part in mail.walk()]
    [html] = [part for part in mail.walk() if part.get_content_type() == "text/html"]

    assert "text/plain" in kinds
    assert 'src="http' not in html.get_content()


def test_a_leads_silence_keeps_it_from_everybody_and_the_page_says_so(told):
    for place in (JONAS, NLP, OPS, AMARA):
        assert not [each for each in alerts(told, "16:02", place) if "h100-04" in each]
    for page in ("jonas incident h100-04", "jonas alerts 14:34"):
        assert "Nobody notified: silence until" in told.pages[page]
        assert "a deadline on Friday" in told.pages[page]


def test_beyond_the_number_a_day_it_waits_for_the_morning(told):
    assert [each for each in alerts(told, "15:44", PRIYA) if "h100-07" in each]
    for at in ("15:44", "16:02", "18:30", "Tuesday 06:50"):
        assert not [each for each in alerts(told, at, PRIYA) if "a100-08" in each]
    assert [each for each in alerts(told, "Tuesday 07:03", PRIYA) if "a100-08" in each]


def test_what_she_acknowledges_on_her_page_goes_no_further(told):
    assert "Acknowledged: nobody else is notified." in told.pages["priya acknowledged"]
    for place in (NLP, OPS):
        assert not [each for each in alerts(told, "Tuesday 07:03", place) if "h100-07" in each]


def test_each_has_a_week_in_the_own_zone(told):
    """Nine o'clock in Berlin is eight in UTC."""
    assert [each for each in told.moments["08:28"].titles(PRIYA) if "Your GPU week" in each]
    for place, words in ((JONAS, "Your GPU week"), (NLP, "GPU week of nlp"), (OPS, "GPU week, ")):
        assert not [each for each in told.moments["08:44"].titles(place) if words in each]
        assert [each for each in told.moments["09:05"].titles(place) if words in each]


@pytest.mark.parametrize(
    ("who", "may_act"),
    [("priya", False), ("jonas", True), ("amara", True), ("fiona", False), ("otto", True)],
)
def test_only_whose_it_is_who_leads_the_team_and_operators_act_on_it(told, who, may_act):
    page = told.pages[f"{who} alerts 09:46"]

    assert "a100-03" in page
    assert ("Select all on this page" in page) is may_act


def test_who_is_whose_page(told):
    assert "train-vit" in told.pages["priya me"]
    assert "train-vit" not in told.pages["jonas me"]
