"""Mail by a real Postfix: what arrives in a maildir, what is deferred and what is refused."""

import re
from datetime import timedelta
from email.message import EmailMessage

import pytest
from django.conf import settings
from django.test import Client

from fleetwatch.alerts.models import Incident
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.services import Recipient, create_channel
from tests.alerts import people
from tests.alerts.factories import a_rule, at
from tests.alerts.test_announcing import run
from tests.channels.postfix import DOMAIN, GREYLISTED, PASSWORD, USER, Postfix
from tests.notify.factories import NOON, deliver, queue, smtp_config

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]

ANA = f"ana@{DOMAIN}"
LINK = re.compile(re.escape(settings.PUBLIC_URL) + r"(/notifications/act/[^\s\"<>]+)")


@pytest.fixture(scope="module")
def server():
    postfix = Postfix()
    postfix.start()
    yield postfix
    postfix.stop()


@pytest.fixture
def postfix(server, monkeypatch):
    """With nothing delivered yet; its certificate is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(server.trusted))
    yield server
    server.forget()


def a_channel(postfix: Postfix, **changes) -> Channel:
    facts = {
        "host": "localhost",
        "security": "starttls",
        "username": f"{USER}@{DOMAIN}",
        "password": PASSWORD,
        "recipients": ANA,
    }
    config = smtp_config(postfix.port, **(facts | changes))
    return create_channel("email", "mail", config, now=NOON)


def parts(mail: EmailMessage) -> list[str]:
    return [each.get_content_type() for each in mail.walk()]


def text_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return part.get_content()


def test_a_mail_lies_in_the_maildir_as_it_was_meant(postfix):
    channel = a_channel(postfix)
    queue(
        Recipient(channel, ANA),
        title="idle · node-014 GPU 3, ä 🟠",
        spark=(0.0, None, 1.0),
        spark_label="active",
        unsubscribe_url="http://fleet.example/u/t0ken",
    )
    did = deliver()
    [mail] = postfix.mails(1)

    assert did["sent"] == 1
    assert mail["Subject"] == "idle · node-014 GPU 3, ä 🟠"
    assert (mail["From"], mail["To"]) == ("FleetWatch <fleet@example.com>", ANA)
    assert mail["List-Unsubscribe"] == "<http://fleet.example/u/t0ken>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert parts(mail) == [
        "multipart/related",
        "multipart/alternative",
        "text/plain",
        "text/html",
        "image/png",
    ]
    [picture] = [each for each in mail.walk() if each.get_content_type() == "image/png"]
    assert picture.get_content().startswith(b"\x89PNG")
    assert picture.get_content_disposition() == "inline"
    assert f"cid:{picture['Content-ID'].strip('<>')}" in text_of(mail, "html")
    assert "Fix: scancel 48213" in text_of(mail, "plain")
    # encrypted, and by log-in: RFC 3848
    assert "with ESMTPSA" in mail["Received"]


def test_a_link_of_the_mail_acts(postfix, time_machine):
    time_machine.move_to(at(60), tick=False)
    people.prefers(people.person(email=ANA), way="email")
    people.route("operators", people.webhook())
    a_channel(postfix)
    a_rule()
    people.idle_job()
    run(31)
    deliver(at(31))
    [mail] = postfix.mails(1)
    paths = [LINK.findall(text_of(mail, kind)) for kind in ("plain", "html")]

    assert paths[0] == paths[1]
    assert len(set(paths[0])) == 4
    assert [Client().post(path).status_code for path in paths[0][:1] * 2] == [200, 410]
    assert Incident.objects.get().state == "acknowledged"


def test_greylisting_defers_it_and_the_next_try_is_taken(postfix):
    channel = a_channel(postfix)
    queue(channel)
    postfix.policy.answer = GREYLISTED
    first = deliver()
    waiting = Delivery.objects.get()
    postfix.policy.answer = "DUNNO"
    second = deliver(NOON + timedelta(minutes=2))

    channel.refresh_from_db()
    assert (first["sent"], second["sent"], channel.is_enabled) == (0, 1, True)
    assert "451 4.7.1" in waiting.last_answer
    assert "Greylisted, see you in 5 minutes" in waiting.last_answer
    assert len(postfix.mails(1)) == 1


def test_a_recipient_whom_it_does_not_know_is_named_and_the_other_has_it(postfix):
    channel = a_channel(postfix, recipients=f"nobody@{DOMAIN}, {ANA}")
    queue(channel)
    did = deliver()

    assert did["sent"] == 1
    answer = Delivery.objects.get().last_answer
    assert answer.startswith(f"accepted, but not for nobody@{DOMAIN}: 550 5.1.1")
    assert len(postfix.mails(1)) == 1


def test_a_person_whom_it_does_not_know_fails_alone(postfix):
    channel = a_channel(postfix)
    queue(Recipient(channel, f"nobody@{DOMAIN}"), channel)
    did = deliver()

    channel.refresh_from_db()
    assert (did["sent"], did["failed"], channel.is_enabled) == (1, 1, True)
    refused = Delivery.objects.get(address=f"nobody@{DOMAIN}")
    assert "User unknown in virtual mailbox table" in refused.last_answer


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"password": "wrong"}, "refused the user name or password: 535 5.7.8"),
        ({"recipients": f"nobody@{DOMAIN}"}, "refused every recipient"),
        # no relay for who did not log in
        (
            {"username": "", "password": "", "recipients": "x@elsewhere.example"},
            "Relay access denied",
        ),
    ],
)
def test_what_no_retry_heals_switches_the_channel_off(postfix, changes, why):
    channel = a_channel(postfix, **changes)
    queue(channel)
    deliver()

    channel.refresh_from_db()
    assert not channel.is_enabled
    assert why in channel.disabled_reason
    assert "wrong" not in channel.disabled_reason


def test_it_gets_nothing_where_its_certificate_is_not_trusted(postfix, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    channel = a_channel(postfix)
    queue(channel)
    deliver()

    channel.refresh_from_db()
    assert channel.is_enabled
    assert "certificate verify failed" in Delivery.objects.get().last_answer


def test_a_password_is_not_sent_where_nothing_is_encrypted(postfix):
    """Postfix offers AUTH only within TLS: so the channel says what is missing."""
    channel = a_channel(postfix, security="none")
    queue(channel)
    deliver()

    channel.refresh_from_db()
    assert (channel.is_enabled, "AUTH" in channel.disabled_reason) == (False, True)
