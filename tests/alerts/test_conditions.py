"""A condition is one file: it has incidents, messages, a place on pages, in settings and the API."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from fleetwatch.alerts import conditions
from fleetwatch.alerts.conditions import CONDITIONS
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.inventory.models import Node
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from tests.alerts import toy_condition
from tests.dashboard import factories, fleet
from tests.markup import tight

DOCS = Path(__file__).parents[2] / "docs/notifications.md"
NAME = "toy-<script>-a-long-name"


@pytest.fixture
def rule(db, monkeypatch) -> Rule:
    """A rule on the toy, beside the one that watches idle jobs."""
    monkeypatch.setattr(conditions, "CONDITIONS", (*CONDITIONS, toy_condition.CONDITION))
    return Rule.objects.create(
        name="Names", condition="name_long", threshold=20, minutes=30, created_at=factories.NOW
    )


def test_each_rule_ships_switched_on_or_off_as_the_docs_say():
    rows = re.findall(r"^\| ([^|]+) \| (on|off)(?:,[^|]*)? \|", DOCS.read_text(), re.MULTILINE)

    assert dict(rows) == {each.label: "on" if each.is_on else "off" for each in CONDITIONS}


def test_a_toy_in_one_file_opens_tells_and_resolves(rule):
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=factories.NOW)
    node = factories.node(NAME)

    first = announcing.run(factories.NOW)
    second = announcing.run(factories.NOW)
    Node.objects.filter(pk=node.pk).update(name="gpu-01")
    third = announcing.run(factories.NOW)

    assert (first["opened"], second["kept"], third["resolved"]) == (1, 1, 1)
    assert Incident.objects.get().resolution == "it has a shorter name"
    opened, resolved = (one.message for one in Delivery.objects.order_by("pk"))
    assert opened["title"] == f"long · {NAME} · since 11:00 UTC (1 h 00 m)"
    assert opened["summary"] == f"Node {NAME} had a long name for 1 h 00 m."
    assert opened["url"].endswith(f"/incidents/{Incident.objects.get().pk}")
    assert ["Letters", "24"] in opened["fields"]
    assert ["Burning", "$1.50/h, ≈ $1,100/month if left"] in opened["fields"]
    assert ["Rule", "Names: longer than 20 letters"] in opened["fields"]
    assert opened["text"] == "Fix: call it gpu-01."
    assert resolved["title"] == f"resolved · {NAME} · long for 1 h 00 m, cost $1.50"
    assert resolved["summary"] == (
        f"Node {NAME}: it has a shorter name. It had been long for 1 h 00 m."
    )


@pytest.mark.usefixtures("plain_static_files")
def test_a_toy_in_one_file_is_on_the_page_has_its_form_and_is_in_the_api(rule, client):
    fleet.make(nodes=1, gpus=1, hours=2)  # with an incident of an idle job, as stored before
    factories.node(NAME)
    with time_machine.travel(factories.NOW, tick=False):
        client.force_login(factories.user())
        announcing.run(factories.NOW - timedelta(hours=1))

        overview = client.get("/").content.decode()
        address = f"/incidents/{rule.incidents.get().pk}"
        its_page = client.get(address).content.decode()
        form = f"/alerts/rules/{rule.pk}"
        asked = client.get(form).content.decode()
        refused = client.post(f"{form}/watch", {"threshold": "301", "minutes": "30"})
        saved = client.post(f"{form}/watch", {"threshold": "9", "minutes": "30"}, follow=True)
        rows = client.get("/api/v1/incidents").json()["rows"]

    assert f'href="{address}"' in overview
    assert 'href="/nodes/toy-%3Cscript%3E-a-long-name?from=' in its_page
    assert '<span class="tag idle-c">long name</span>' in tight(overview)
    assert "toy-&lt;script&gt;-a-long-name</b></a><p>Names, since" in tight(overview)
    assert ">Threshold, letters</label>" in tight(asked)
    assert "Name longer than: 1 to 300 letters" in refused.content.decode()
    assert "is longer than 9 letters." in saved.content.decode()
    [row] = [row for row in rows if row["condition"] == "name_long"]
    assert (row["rule"], row["subject"], row["facts"]) == ("Names", NAME, {"letters": 24})
