import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from fleetwatch.notify.message import Button
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, TransportError
from fleetwatch.notify.transports.email import EMAIL
from tests.notify.factories import envelope, message, smtp_config


def send(config, text=None, **changes) -> str:
    sent = envelope(message=text or message(), identity="abc", **changes)
    return EMAIL.send(EMAIL.validate(config), sent, allow_private=True).answer


def test_a_mail_arrives_as_text_and_html(smtp):
    said = send(smtp_config(smtp.port, recipients="ana@example.com, ben@example.com"))

    (mail,) = smtp.script.mails
    text = mail.get_body(("plain",)).get_content()
    html = mail.get_body(("html",)).get_content()
    assert said == "accepted"
    assert smtp.script.recipients == [["ana@example.com", "ben@example.com"]]
    assert smtp.script.senders[0].startswith("FROM:<fleet@example.com>")
    assert (mail["Subject"], mail["From"]) == (
        "idle · node-014 GPU 3, 4",
        "FleetWatch <fleet@example.com>",
    )
    assert (mail["Message-ID"], mail["Auto-Submitted"]) == ("<abc@example.com>", "auto-generated")
    for part in (text, html):
        for expected in (
            "2 GPUs idle since 09:10 (3 h 20 m)",
            "ana (nlp)",
            "$21.60",
            "0 %",
            "Fix: scancel 48213",
            "http://fleet.example/jobs/1",
        ):
            assert expected in part


def test_its_series_is_a_picture_within_it_and_characters_for_who_sees_none(smtp):
    send(smtp_config(smtp.port), message(spark=(0.0, None, 1.0), spark_label="<b>active</b>"))

    (mail,) = smtp.script.mails
    html = mail.get_body(("html",)).get_content()
    [picture] = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    assert [part.get_content_type() for part in mail.walk()] == [
        "multipart/related",
        "multipart/alternative",
        "text/plain",
        "text/html",
        "image/png",
    ]
    assert f'src="cid:{picture["Content-ID"].strip("<>")}"' in html
    assert picture.get_content().startswith(b"\x89PNG")
    assert 'alt="▁ █"' in html
    assert "&lt;b&gt;active&lt;/b&gt;" in html
    assert "<b>active</b>: ▁ █" in mail.get_body(("plain",)).get_content()


def test_a_series_of_nothing_is_no_picture(smtp):
    send(smtp_config(smtp.port), message(spark=(None, None)))

    (mail,) = smtp.script.mails
    assert "<img" not in mail.get_body(("html",)).get_content()
    assert mail.get_content_type() == "multipart/alternative"


def test_who_gets_it_can_stop_it_by_one_click_of_the_mail_program(smtp):
    send(smtp_config(smtp.port), message(unsubscribe_url="http://fleet.example/u/t0ken"))

    (mail,) = smtp.script.mails
    assert mail["List-Unsubscribe"] == "<http://fleet.example/u/t0ken>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    for part in ("html", "plain"):
        assert "http://fleet.example/u/t0ken" in mail.get_body((part,)).get_content()


def test_what_goes_to_no_person_is_stopped_by_no_link(smtp):
    send(smtp_config(smtp.port))

    (mail,) = smtp.script.mails
    assert mail["List-Unsubscribe"] is None
    assert "No more of these" not in mail.get_body(("html",)).get_content()


def test_it_has_other_colours_where_it_is_dark(smtp):
    send(smtp_config(smtp.port))

    html = smtp.script.mails[0].get_body(("html",)).get_content()
    assert '<meta name="color-scheme" content="light dark">' in html
    assert "prefers-color-scheme: dark" in html
    assert ".link { color: #8ab4ff !important; }" in html


def test_each_action_has_one_link(smtp):
    acts = (Button("Ack", "ack", "http://f/7"), Button("The job", "open", "http://f/job"))
    send(smtp_config(smtp.port), message(buttons=acts))

    text = smtp.script.mails[0].get_body(("plain",)).get_content()
    assert text.split("\r\n\r\n")[-3].splitlines() == ["Ack: http://f/7", "The job: http://f/job"]
    assert "Open in FleetWatch" not in text


def test_log_in_works(smtp):
    smtp.script.login = ("fleet", "pass word")

    assert send(smtp_config(smtp.port, username="fleet", password="pass word")) == "accepted"


def test_a_hostile_name_adds_no_header_and_no_markup(smtp):
    send(
        smtp_config(smtp.port),
        message(title="job\r\nBcc: evil@example.com\r\n\r\n<b>", summary="<script>x</script>"),
    )

    (mail,) = smtp.script.mails
    assert mail["Bcc"] is None
    assert mail["Subject"] == "job Bcc: evil@example.com <b>"
    assert "<script>" not in mail.get_body(("html",)).get_content()
    assert "&lt;script&gt;" in mail.get_body(("html",)).get_content()
    assert "<script>x</script>" in mail.get_body(("plain",)).get_content()


def test_domains_of_any_script_are_reached(smtp):
    send(smtp_config(smtp.port, sender="fleet@exämple.com", recipients="ana@bücher.example"))

    assert smtp.script.recipients == [["ana@xn--bcher-kva.example"]]
    assert smtp.script.senders[0].startswith("FROM:<fleet@xn--exmple-cua.com>")


def failing(config: dict[str, str]) -> TransportError:
    with pytest.raises(TransportError) as caught:
        send(config)
    return caught.value


def test_a_wrong_password_is_permanent_and_not_repeated_in_the_reason(smtp):
    smtp.script.login = ("fleet", "right")

    error = failing(smtp_config(smtp.port, username="fleet", password="wr0ng"))

    assert error.permanent
    assert (
        str(error)
        == "127.0.0.1 refused the user name or password: 535 5.7.8 bad user name or password"
    )


def test_a_log_in_that_fails_for_now_heals(smtp):
    smtp.script.login = ("fleet", "right")
    smtp.script.answers["AUTH"] = "454 4.7.0 temporary authentication failure"

    assert not failing(smtp_config(smtp.port, username="fleet", password="right")).permanent


def test_a_server_without_log_in_cannot_take_a_password(smtp):
    error = failing(smtp_config(smtp.port, username="fleet", password="x"))

    assert error.permanent
    assert "AUTH" in str(error)


def test_a_server_without_starttls_is_permanent_and_gets_no_password(smtp):
    smtp.script.login = ("fleet", "right")

    error = failing(smtp_config(smtp.port, security="starttls", username="fleet", password="right"))

    assert error.permanent
    assert "STARTTLS" in str(error)
    assert smtp.script.mails == []


def test_every_recipient_refused_for_good_is_permanent(smtp):
    smtp.script.answers["ana@example.com"] = "550 5.1.1 no such user"

    error = failing(smtp_config(smtp.port))

    assert error.permanent
    assert (
        str(error) == "127.0.0.1 refused every recipient: ana@example.com: 550 5.1.1 no such user"
    )


def test_a_recipient_refused_for_now_heals(smtp):
    smtp.script.answers["ana@example.com"] = "450 4.2.1 greylisted"

    assert not failing(smtp_config(smtp.port)).permanent


def test_one_refused_recipient_of_two_is_named(smtp):
    smtp.script.answers["ben@example.com"] = "550 5.1.1 no such user"

    said = send(smtp_config(smtp.port, recipients="ana@example.com, ben@example.com"))

    assert said == "accepted, but not for ben@example.com: 550 5.1.1 no such user"
    assert smtp.script.recipients == [["ana@example.com"]]


@pytest.mark.parametrize(
    ("answer", "permanent"),
    [("550 5.7.1 sender not allowed", True), ("451 4.3.0 try later", False)],
)
def test_a_refused_sender(smtp, answer, permanent):
    smtp.script.answers["MAIL"] = answer

    assert failing(smtp_config(smtp.port)).permanent is permanent


def test_a_mail_refused_as_spam_says_nothing_about_the_channel(smtp):
    smtp.script.answers["."] = "554 5.7.1 looks like spam"

    error = failing(smtp_config(smtp.port))

    assert isinstance(error, MessageRefusedError)
    assert not error.permanent


@pytest.mark.parametrize("key", ["CONNECT", "DATA", "."])
def test_a_busy_server_heals(smtp, key):
    smtp.script.answers[key] = (
        "421 4.3.2 shutting down" if key == "CONNECT" else "452 4.3.1 out of space"
    )

    error = failing(smtp_config(smtp.port))

    assert not error.permanent
    assert not isinstance(error, MessageRefusedError)


def test_no_server_heals():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    assert not failing(smtp_config(port)).permanent


def test_an_unencrypted_server_where_tls_is_asked_for_gets_nothing(smtp):
    error = failing(smtp_config(smtp.port, security="tls"))

    assert not error.permanent
    assert smtp.script.mails == []


def test_a_metadata_address_is_no_mail_server():
    assert failing(smtp_config(25, host="169.254.169.254")).permanent


@pytest.mark.parametrize(
    ("changes", "field", "error"),
    [
        ({"host": ""}, "host", "SMTP server is needed"),
        (
            {"host": "https://mail.example.com"},
            "host",
            "SMTP server must be a host name or an IP address, without https:// or a path",
        ),
        ({"port": "0"}, "port", "Port must be a number from 1 to 65535"),
        ({"port": "65536"}, "port", "Port must be a number from 1 to 65535"),
        ({"port": "smtp"}, "port", "Port must be a number from 1 to 65535"),
        ({"security": "rot13"}, "security", "Encryption must be one of starttls, tls, none"),
        ({"sender": "fleet"}, "sender", "fleet is no e-mail address"),
        (
            {"sender": "a@example.com\r\nBcc: b@example.com"},
            "sender",
            "a@example.com Bcc: b@example.com is no e-mail address",
        ),
        ({"recipients": "ana@example.com, ben"}, "recipients", "ben is no e-mail address"),
        ({"recipients": " , "}, "recipients", "To is needed"),
        ({"username": "ana"}, "password", "User name and password go together"),
        ({"password": "x"}, "username", "User name and password go together"),
        (
            {"username": "ana", "password": "pässword"},
            "password",
            "Password must be of ASCII characters",
        ),
        ({"username": "änä", "password": "x"}, "username", "User name must be of ASCII characters"),
        (
            {"recipients": "ana@" + "ä" * 70 + ".com"},
            "recipients",
            "ana@" + "ä" * 70 + ".com is no e-mail address",
        ),
    ],
)
def test_the_form_says_which_setting_is_wrong(changes, field, error):
    with pytest.raises(ConfigError) as caught:
        EMAIL.validate(smtp_config(25, **changes))

    assert caught.value.errors[field] == error


@pytest.mark.parametrize(
    ("security", "port"), [("starttls", "587"), ("tls", "465"), ("none", "25")]
)
def test_an_empty_port_is_the_usual_one(security, port):
    assert EMAIL.validate(smtp_config(0, port="", security=security))["port"] == port


def test_a_channel_is_described_without_its_password():
    config = EMAIL.validate(smtp_config(587, username="fleet", password="s3cr3t"))

    assert EMAIL.describe(config) == "ana@example.com via 127.0.0.1:587"


@contextmanager
def dripping(greeting: bytes, *, bytes_at_most: int = 100) -> Iterator[int]:
    """The port of a server that goes on with its greeting byte by byte, each well within any
    time-out of a read.
    """
    done = threading.Event()

    def drip() -> None:
        peer, _ = listening.accept()
        with peer, suppress(OSError):
            peer.sendall(greeting)
            for _ in range(bytes_at_most):
                if done.wait(0.05):
                    return
                peer.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        yield listening.getsockname()[1]
        done.set()
        thread.join(5)


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_server_that_drips_holds_nobody(monkeypatch, security):
    monkeypatch.setattr("fleetwatch.notify.transports.email.TIMEOUT_S", 0.3)

    with dripping(b"\x16\x03\x03\x10\x00" if security == "tls" else b"220-") as port:
        error = failing(smtp_config(port, security=security))

    assert not error.permanent
    assert str(error) == "127.0.0.1: no answer within 0.3 s"


def test_a_mail_has_the_messages_buttons_as_links(smtp):
    acts = (
        Button("Acknowledge", "ack", "http://fleet.example/incidents/7#ack"),
        Button("Snooze", "snooze"),
    )

    send(smtp_config(smtp.port), message(buttons=acts, severity="critical"))

    (mail,) = smtp.script.mails
    text, html = (part.get_content() for part in mail.iter_parts())
    assert "Acknowledge: http://fleet.example/incidents/7#ack" in text
    assert 'href="http://fleet.example/incidents/7#ack"' in html
    assert "Snooze" not in text + html
    assert "#dc2626" in html


def test_a_person_gets_the_mail_alone(smtp):
    send(smtp_config(smtp.port), address="eve@example.com")

    assert smtp.script.recipients == [["eve@example.com"]]


@pytest.mark.parametrize(
    "title",
    [
        "idle · " + "k" * 100,
        "k" * 60 + " idle",
        "k" * 61,
        "ä" * 90,
        "idle GPU · " * 12,
        "=?utf-8?b?ZXZpbA==?= idle",  # not what it says, encoded, but these characters
    ],
)
def test_a_subject_is_its_title_whatever_is_long_in_it(smtp, title):
    send(smtp_config(smtp.port), message(title=title))

    (mail,) = smtp.script.mails
    assert mail["Subject"] == title.strip()
