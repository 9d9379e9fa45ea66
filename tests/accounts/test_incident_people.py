"""Who had to do with an incident, as its reader may know them: on pages and in the API."""

import re

import pytest

from fleetwatch.alerts.models import Incident
from tests.accounts.others import PERSON, REASON, shown
from tests.accounts.test_walk_api import ask
from tests.accounts.walking import Walker, body, walker

pytestmark = pytest.mark.django_db

SOMEBODY = "somebody of another team"
CHOICES = [("teams", SOMEBODY), ("pseudonyms", r"person [0-9a-f]{10}")]


@pytest.mark.parametrize(("choice", "instead"), CHOICES)
def test_a_page_names_colleagues_and_calls_others_somebody(choice, instead, split):
    shown(choice)
    incident = Incident.objects.latest("pk")

    pages = {
        role: body(walker(split.users[role]).ask("GET", f"/incidents/{incident.pk}"))
        for role in ("lead", "operator")
    }

    # given to, chosen to be told, three lines of its history with four names, one before
    assert len(re.findall(instead, pages["lead"])) >= 6
    assert PERSON not in pages["lead"]
    assert f"acknowledged by {PERSON}: {REASON}" in pages["operator"].replace("Ack", "ack")
    assert REASON in pages["lead"]


@pytest.mark.parametrize(("choice", "instead"), CHOICES)
def test_the_api_names_colleagues_and_calls_others_somebody(choice, instead, split):
    shown(choice)
    number = Incident.objects.latest("pk").pk

    answer = ask(Walker(), "GET", f"/api/v1/incidents/{number}", split.tokens["lead read"]).json()

    lines = [line["text"] for line in answer["timeline"]]
    assert re.fullmatch(f"acknowledged by {instead}: {REASON}", lines[0])
    assert re.fullmatch(f"given to {instead} by {instead}", lines[1])
    assert re.fullmatch(f"{instead} by E-mail: because it was given to them", lines[3])
    for name in (
        answer["assignee"],
        answer["notifications"][0]["person"],
        *map(by, answer["timeline"]),
    ):
        assert re.fullmatch(instead, name)


def by(line: dict) -> str:
    return line["by"]


@pytest.mark.parametrize("choice", ["teams", "pseudonyms"])
def test_who_runs_the_fleet_is_named_to_everybody(choice, split):
    shown(choice)
    operator = split.users["operator"]
    Incident.objects.update(assignee=operator, acknowledged_by=operator)

    page = body(walker(split.users["lead"]).ask("GET", "/alerts?state=acknowledged"))

    assert "given to walker-operator" in page


@pytest.mark.parametrize("choice", ["teams", "pseudonyms"])
def test_who_approves_a_silence_does_not_tell_which_accounts_there_are(choice, split):
    shown(choice)
    wanted = {
        "matchers": [{"label": "team", "values": ["nlp-research"], "is_not": False}],
        "ends_at": "2099-01-01T00:00:00Z",
        "reason": "moved",
    }

    answers = [
        Walker().ask(
            "POST",
            "/api/v1/silences",
            json={**wanted, "approved_by": name},
            Authorization=f"Bearer {split.tokens['lead write']}",
        )
        for name in (PERSON, "no-such")
    ]

    texts = [body(answer).replace(PERSON, "no-such") for answer in answers]
    assert texts[0] == texts[1]
    assert "there is no active user" in texts[0]


@pytest.mark.parametrize("choice", ["teams", "pseudonyms"])
def test_a_filter_by_a_name_that_the_reader_may_not_know_finds_nothing(choice, split):
    shown(choice)
    of_lead, of_operator = (walker(split.users[role]) for role in ("lead", "operator"))

    counts = [
        len(reader.ask("GET", f"/api/v1/incidents?person={PERSON}&from=now-30d").json()["rows"])
        for reader in (of_lead, of_operator)
    ]

    assert counts == [0, 1]
