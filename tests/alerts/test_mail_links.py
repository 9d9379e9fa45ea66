"""Links of a person's mail that act: what its reader, a scanner, a stranger and a leaver can do."""

import threading
from datetime import time, timedelta

import pytest
from django.conf import settings
from django.core import signing
from django.db import connection
from django.test import Client

from fleetwatch.accounts.models import AuditEntry, Membership, User
from fleetwatch.alerts.incidents.open_names import in_words
from fleetwatch.alerts.messaging.mail_links import LASTS, SALT
from fleetwatch.alerts.models import Incident, IncidentEvent, Notification, Silence
from fleetwatch.ledger.models import Run
from fleetwatch.notify.models import Delivery
from tests.alerts import people
from tests.alerts.factories import a_rule, at, longer
from tests.alerts.test_announcing import run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]

TOLD = at(31)
NOW = at(60)


@pytest.fixture(autouse=True)
def _at_now(time_machine):
    time_machine.move_to(NOW, tick=False)


@pytest.fixture
def ana() -> User:
    """An engineer who gets mail, and was told of her idle job."""
    user = people.person(role="engineer")
    people.prefers(user, way="email")
    people.mail()
    people.route("operators", people.webhook())
    a_rule()
    people.idle_job()
    run(31)
    return user


def to_her() -> Delivery:
    """The newest of the person, beside what its channel is told."""
    return Delivery.objects.exclude(address="").latest("pk")


def buttons() -> dict[str, str]:
    """Of her newest mail by action the path of its link."""
    message = to_her().message
    return {
        each["action"]: each["url"].removeprefix(settings.PUBLIC_URL) for each in message["buttons"]
    }


def follow(action: str, reason: str = "", *, client: Client | None = None):
    return (client or Client()).post(buttons()[action], {"reason": reason})


def stands() -> tuple[str, str, str]:
    incident = Incident.objects.get()
    return incident.state, incident.muted, incident.verdict


def entries() -> list[tuple[str, str]]:
    rows = AuditEntry.objects.filter(action__startswith="incident.").order_by("pk")
    return list(rows.values_list("action", "name"))


UNTOUCHED = ("firing", "", "")


def test_a_mail_offers_what_can_be_done_and_each_link_says_who_and_what(ana):
    message = to_her().message
    labels = [each["label"] for each in message["buttons"]]
    assert labels == ["Acknowledge", "Snooze 24 h", "Not waste", "Resolve", "Open in FleetWatch"]
    asked = Client().get(buttons()["snooze"])
    text = asked.content.decode()

    assert asked.status_code == 200
    assert "Snooze 24 h?" in text
    assert "Nobody is notified of it for 24 hours, in the name of Ana Diaz" in text
    assert "node-014" in text
    assert "no-store" in asked["Cache-Control"]
    # its address is the secret: no other site is told where a reader comes from
    assert asked["Referrer-Policy"] == "same-origin"


def test_a_scanner_that_opens_every_link_changes_nothing(ana):
    for path in buttons().values():
        Client().get(path)
        Client().head(path)

    assert (stands(), entries()) == (UNTOUCHED, [])
    assert Notification.objects.get().used_links == []


@pytest.mark.parametrize(
    ("action", "then", "text"),
    [
        ("ack", ("acknowledged", "", ""), "acknowledged by Ana Diaz by a link in mail"),
        (
            "snooze",
            ("firing", "snoozed until 21 Nov 2026, 10:00 UTC", ""),
            "snoozed until 21 Nov 2026, 10:00 UTC by Ana Diaz by a link in mail",
        ),
        ("fixed", ("resolved", "", "confirmed"), "fixed by Ana Diaz by a link in mail"),
    ],
)
def test_its_button_does_it_in_the_persons_name_without_a_log_in(ana, action, then, text):
    answer = follow(action)

    assert (answer.status_code, b"Done" in answer.content, stands()) == (200, True, then)
    event = IncidentEvent.objects.get(kind=action)
    assert (event.by, in_words(event.text, by=ana)) == (ana, text)
    entry = AuditEntry.objects.get(action=f"incident.{action}")
    assert (entry.user, entry.name, entry.via) == (ana, "ana", "link in mail")
    assert (entry.address, entry.detail["text"]) == ("127.0.0.1", text)


def test_no_waste_wants_a_reason_and_can_be_sent_again_with_one(ana):
    empty = follow("not_waste")
    long = follow("not_waste", "x" * 301)
    before = stands()
    answer = follow("not_waste", "a debugger waits")

    assert (empty.status_code, long.status_code, before) == (422, 422, UNTOUCHED)
    assert b"A reason is needed" in empty.content
    assert (answer.status_code, stands()[2]) == (200, "rejected")
    assert Silence.objects.get().reason == "a debugger waits"
    assert Silence.objects.get().by == ana


def test_a_link_is_good_once_and_the_mails_others_stay(ana):
    first, again, looked = (follow("snooze"), follow("snooze"), Client().get(buttons()["snooze"]))
    other = follow("ack")

    assert (first.status_code, again.status_code, looked.status_code) == (200, 410, 410)
    assert b"It was used already" in again.content
    assert other.status_code == 200
    assert [action for action, _ in entries()] == ["incident.snooze", "incident.ack"]


def test_it_is_good_for_seven_days_and_no_moment_longer(ana, time_machine):
    time_machine.move_to(TOLD + LASTS - timedelta(seconds=1), tick=False)
    before = Client().get(buttons()["ack"]).status_code
    time_machine.move_to(TOLD + LASTS, tick=False)
    after = follow("ack")

    assert (before, after.status_code, stands()) == (200, 410, UNTOUCHED)
    assert b"It is older than 7 days" in after.content


def test_what_we_did_not_sign_for_that_mail_person_and_action_is_not_there(ana):
    row = Notification.objects.get()
    eve = people.person("eve", name="Eve")
    path = buttons()["ack"]
    named = (
        [row.pk, eve.pk, "ack"],  # another person
        [row.pk + 1, ana.pk, "ack"],  # another mail
    )
    forged = [
        f"{path}x",
        path.replace(path[-3:], "AAA"),
        "/notifications/act/none",
        f"/notifications/act/{signing.dumps([row.pk, ana.pk, 'ack'])}",  # another purpose
        *(f"/notifications/act/{signing.dumps(each, salt=SALT)}" for each in named),
        f"/notifications/act/{signing.dumps([row.pk, ana.pk, 'ack'], key='another', salt=SALT)}",
    ]

    for ask in (Client().get, Client().post):
        assert {ask(each).status_code for each in forged} == {404}
    assert (stands(), entries()) == (UNTOUCHED, [])


def test_a_forwarded_mail_acts_for_nobody_else_who_is_logged_in(ana, client):
    eve = people.person("eve", name="Eve", role="admin")
    client.force_login(eve)
    looked = client.get(buttons()["ack"])
    answer = follow("ack", client=client)

    assert (looked.status_code, answer.status_code, stands()) == (403, 403, UNTOUCHED)
    assert b"This link is for Ana Diaz, not for you" in answer.content
    assert f"/incidents/{Incident.objects.get().pk}".encode() in answer.content
    # nor is anything of the incident said that the mail did not
    assert b"node-014" not in answer.content


def test_its_own_person_may_be_logged_in(ana, client):
    client.force_login(ana)

    assert follow("ack", client=client).status_code == 200
    assert AuditEntry.objects.get(action="incident.ack").via == "link in mail"


def test_who_left_left_the_links_too(ana):
    paths = buttons()
    User.objects.filter(pk=ana.pk).update(is_active=False)

    assert {Client().get(path).status_code for path in paths.values() if "act" in path} == {404}
    assert (follow("ack").status_code, stands()) == (404, UNTOUCHED)


def test_who_may_no_more_is_told_so_and_does_nothing(ana):
    """Leo led the team when he was told; its time is another's now."""
    leo = people.person("leo", name="Leo", role="lead")
    people.team("nlp", leo)
    Notification.objects.update(person=leo)
    incident = Incident.objects.get()
    incident.team = people.team("nlp")
    incident.save(update_fields=["team"])
    token = signing.dumps([Notification.objects.get().pk, leo.pk, "ack"], salt=SALT)
    path = f"/notifications/act/{token}"
    led = Client().get(path).status_code
    Membership.objects.filter(user=leo).update(valid_until=at(50))
    answer = Client().post(path)

    assert (led, answer.status_code, stands()) == (200, 403, UNTOUCHED)
    assert b"It is for whose it is" in answer.content
    assert entries() == []


def test_a_link_does_nothing_to_what_joined_after_its_mail(ana):
    path = buttons()["ack"]
    people.idle_job(60, key="slurm/della/2", index=1)
    run(61)
    answer = Client().post(path)

    states = dict(Incident.objects.values_list("subject", "state"))
    assert answer.status_code == 200
    assert states == {"slurm/della/1": "acknowledged", "slurm/della/2": "firing"}


def test_what_is_over_is_not_touched(ana):
    Incident.objects.update(state="resolved", resolved_at=at(40), resolution="busy again")
    answer = follow("fixed")

    assert (answer.status_code, stands()) == (410, ("resolved", "", ""))
    assert b"What it is about is over" in answer.content


def test_a_reminder_has_links_of_its_own(ana):
    first = buttons()
    follow("snooze")
    Incident.objects.update(snoozed_until=None, muted="")
    longer(Run.objects.get(), 60 * 25)
    run(60 * 24 + 31)

    assert buttons()["snooze"] != first["snooze"]
    assert Client().get(buttons()["snooze"]).status_code == 200


def test_what_was_kept_for_the_night_has_links_too():
    user = people.person()
    people.prefers(user, way="email", quiet_from=time(9), quiet_until=time(9, 50))
    people.mail()
    a_rule()
    longer(people.idle_job(), 200)
    run(31)
    run(50)

    assert to_her().message["unsubscribe_url"]
    assert (follow("ack").status_code, stands()[0]) == (200, "acknowledged")


@pytest.mark.parametrize("way", ["slack", "none"])
def test_only_a_persons_mail_has_them(way):
    """A list's mail is read by many, and Slack's clicks are signed by Slack."""
    people.prefers(people.person(), way=way)
    people.app()
    people.mail()
    people.route("operators", people.mail("list"))
    a_rule()
    people.idle_job()
    run(31)

    sent = Delivery.objects.all()
    pages = {button["url"] for each in sent for button in each.message["buttons"]}
    assert pages == {f"{settings.PUBLIC_URL}/incidents/{Incident.objects.get().pk}"}


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_once_are_one(ana):
    path = buttons()["snooze"]
    statuses = []

    def click():
        statuses.append(Client().post(path).status_code)
        connection.close()

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200, 410]
    assert len(entries()) == 1
