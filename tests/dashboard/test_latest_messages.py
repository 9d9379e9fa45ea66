"""The messages that channels were sent, on their page."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.models import IncidentGroup, Rule
from fleetwatch.notify.message import Button
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import Recipient
from tests.dashboard import factories
from tests.dashboard.shown_incidents import incident
from tests.diagnosis import told
from tests.notify.factories import NOON, email_channel, queue, slack_channel

pytestmark = pytest.mark.django_db


def test_a_message_that_was_sent_is_read_by_operators_without_its_readers_own_links(admin):
    channel = slack_channel("https://hooks.slack.com/services/T0/B0/x")
    queue(
        channel,
        text="Fix: <b>scancel</b> 48213",
        url="http://fleet.example/secret",
        unsubscribe_url="http://fleet.example/never-again",
    )

    page = admin.get("/settings/channels").content.decode()
    admin.force_login(factories.user(role="engineer", username="vera"))
    others = admin.get("/settings/channels").content.decode()

    assert "Fix: &lt;b&gt;scancel&lt;/b&gt; 48213" in page
    assert "GPU | util" in page
    assert "fleet.example" not in page
    assert "scancel" not in others


def test_a_message_is_seen_as_a_mail_shows_it_without_its_readers_own_links(admin):
    own = {"url": "http://fleet.example/secret", "unsubscribe_url": "http://fleet.example/never"}
    queue(slack_channel("https://hooks.slack.com/services/T0/B0/x"), text="<b>scancel</b>", **own)
    address = f"/settings/channels/messages/{Delivery.objects.get().pk}"

    page = admin.get("/settings/channels").content.decode()
    mail = admin.get(address)
    admin.force_login(factories.user(role="engineer", username="vera"))

    assert f'href="{address}"' in page
    assert "&lt;b&gt;scancel&lt;/b&gt;" in mail.content.decode()
    assert "fleet.example" not in mail.content.decode()
    assert mail["Content-Security-Policy"].startswith("default-src 'none'")
    assert admin.get(address).status_code == 403


def test_a_message_says_to_whom_and_when_it_went_and_leads_back(admin):
    queue(slack_channel("https://hooks.slack.com/services/T0/B0/x", name="<b>ops"))
    Delivery.objects.update(state="sent", sent_at=NOON)

    mail = admin.get(f"/settings/channels/messages/{Delivery.objects.get().pk}").content.decode()

    back = 'href="/settings/channels">All messages</a>'
    assert f"{back} · to &lt;b&gt;ops: Sent, {NOON:%a %-d %b %Y, %H:%M} UTC" in mail


def test_a_message_of_an_incident_leads_to_its_page_and_loses_what_is_signed_for_its_reader(admin):
    page = "http://fleet.example/incidents/7"
    buttons = (
        Button("Acknowledge", "ack", f"{page}/signed-for-ann"),
        Button("Snooze 4 h", "snooze", page),
        Button("Open in FleetWatch", "open", page),
    )
    channel = slack_channel("https://hooks.slack.com/services/T0/B0/x")
    queue(channel, status="firing", url=page, buttons=buttons)

    mail = admin.get(f"/settings/channels/messages/{Delivery.objects.get().pk}").content.decode()

    assert mail.count(f'href="{page}"') == 2
    assert ("Snooze 4 h" in mail, "signed-for-ann" in mail) == (True, False)


def test_what_was_said_of_an_earlier_time_is_below_what_is_newer_however_late_it_is_queued(admin):
    channel = slack_channel("https://hooks.slack.com/services/T0/B0/x")
    queue(channel, key="new", title="GPU fault")
    queue(channel, key="digest", title="GPU week", now=NOON - timedelta(days=1))
    Delivery.objects.update(attempts=1, state="sent")

    page = admin.get("/settings/channels")

    assert [each.message["title"] for each in page.context["deliveries"]] == [
        "GPU fault",
        "GPU week",
    ]
    assert page.context["channels"][0].last.message["title"] == "GPU fault"


def test_older_messages_are_pages_on_and_each_kind_has_a_list_of_its_own(admin):
    channel = slack_channel("https://hooks.slack.com/services/T0/B0/x")
    for number in range(11):
        queue(channel, key=f"group/1/{number}", title=f"GPU {number}")
    queue(channel, key="digest/2026-W47", title="GPU week", now=NOON - timedelta(days=1))

    def titles(query: str) -> list[str]:
        page = admin.get(f"/settings/channels{query}")
        return [each.message["title"] for each in page.context["deliveries"]]

    first = admin.get("/settings/channels").context
    assert [each.message["title"] for each in first["deliveries"]][-1] == "GPU 1"
    assert titles(f"?after={first['pager'].after}") == ["GPU 0", "GPU week"]
    assert titles("?about=digests") == ["GPU week"]
    assert titles("?about=statements") == []
    assert len(titles("?after=nowhere")) == 10


def test_what_was_sent_and_to_whom_is_not_shown_to_who_edits_no_channel(viewer):
    channel = email_channel(2525, name="mail to people")
    queue(Recipient(channel, "nora@example.com"), title="Nora's week: 41 idle GPU-hours")
    Delivery.objects.update(attempts=1, state="failed", last_answer="550 no nora@example.com")

    shown = [viewer.get(page).content.decode() for page in ("/settings/channels", "/status")]

    for page in shown:
        assert "mail to people" in page
        for secret in (">Messages<", "Nora", "example.com", "127.0.0.1", "2525"):
            assert secret not in page


def test_an_operator_reads_where_a_channel_goes(client, viewer):
    email_channel(2525, name="mail to people")
    client.force_login(factories.user(role="operator", username="olga"))

    assert "ana@example.com" in client.get("/settings/channels").content.decode()


def test_a_message_in_a_form_that_is_no_longer_read_does_not_break_the_page(admin):
    queue(slack_channel("https://hooks.slack.com/services/T0/B0/x"))
    Delivery.objects.update(message={"title": 7})

    assert admin.get("/settings/channels").status_code == 200


@pytest.mark.parametrize("is_diagnosed", [True, False])
def test_a_message_that_named_no_cause_says_so_once_its_incident_does(admin, is_diagnosed):
    job = told.job("slurm/della/7")
    group = IncidentGroup.objects.create(
        rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=factories.NOW
    )
    one = incident(group=group)
    channel = slack_channel("https://hooks.slack.com/services/T0/B0/x")
    for key, fields in (("opened", ()), ("reminder", (("Likely", "Waits for its input"),))):
        queue(channel, key=key, fields=fields, thread=f"group/{group.pk}", now=factories.NOW)
    if is_diagnosed:
        told.cause("data_starved", of=job, start=told.NOW - timedelta(hours=1))

    page = admin.get(f"/incidents/{one.pk}").content.decode()
    opened, reminder = (
        admin.get(f"/settings/channels/messages/{each.pk}").content.decode()
        for each in Delivery.objects.order_by("pk")
    )

    words = "cause found later"
    leads = f'{words}: <a class="link" href="/incidents/{one.pk}">its incident</a> names it'
    assert (page.count(words), leads in opened) == (int(is_diagnosed), is_diagnosed)
    assert words not in reminder
