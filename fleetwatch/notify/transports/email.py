"""E-mail through the organisation's own SMTP server, text and HTML in one message."""

import hashlib
import smtplib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.header import Header
from email.mime.image import MIMEImage
from email.utils import formatdate
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.smtp import EmailBackend
from django.core.validators import validate_email
from django.template.loader import render_to_string

from fleetwatch.lib import outbound
from fleetwatch.notify.message import Message, one_line, sparkline
from fleetwatch.notify.plain_text import plain_text
from fleetwatch.notify.spark_png import MAX_BARS, spark_png
from fleetwatch.notify.transports.base import (
    AddressRefusedError,
    Config,
    ConfigError,
    ConfigField,
    Envelope,
    MessageRefusedError,
    Receipt,
    TransportError,
    reaching,
    required,
)

TIMEOUT_S = 20.0  # for the whole SMTP dialogue
MAX_SUBJECT = 180
LONGEST_WORD = 60  # beside "Subject: " in a line of 78
MAX_RECIPIENTS = 50
SECURITY = (
    ("starttls", "STARTTLS"),
    ("tls", "TLS from the start"),
    ("none", "none (readable on the way)"),
)
COLOURS = {
    "info": "#2563eb",
    "warning": "#d97706",
    "critical": "#dc2626",
    "resolved": "#15803d",
}
CREDENTIALS = {"username": "User name", "password": "Password"}
Connect = Callable[[int], socket.socket]  # to a port

USUAL_PORT = {"starttls": "587", "tls": "465", "none": "25"}


class Email:
    """Sends one message to all recipients of the channel."""

    kind = "email"
    label = "E-mail"
    needs = (
        "Your SMTP server, who it is from and to whom; user name and password where it wants them."
        " People get their own mail too."
    )
    can_edit = False
    person_by = "email"
    fields: tuple[ConfigField, ...] = (
        ConfigField("host", "SMTP server"),
        ConfigField("security", "Encryption", choices=SECURITY, default="starttls"),
        ConfigField(
            "port",
            "Port",
            help="Empty: 587 for STARTTLS, 465 for TLS, 25 for none.",
            is_required=False,
        ),
        ConfigField("username", "User name", help="Empty: no log-in.", is_required=False),
        ConfigField("password", "Password", is_required=False, is_secret=True),
        ConfigField("sender", "From", help="fleetwatch@example.com"),
        ConfigField("recipients", "To", help="One or more addresses, separated by commas."),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        values, errors = required(self.fields, config)
        values["port"] = values["port"] or USUAL_PORT.get(values["security"], "")
        values["sender"] = _ascii_domain(values["sender"])
        recipients = [_ascii_domain(address) for address in _addresses(values["recipients"])]
        if not values["port"].isdecimal() or not 1 <= int(values["port"]) <= 65535:
            errors["port"] = "Port must be a number from 1 to 65535"
        if values["host"] and not _is_host(values["host"]):
            errors["host"] = (
                "SMTP server must be a host name or an IP address, without https:// or a path"
            )
        errors |= _sender_errors(values["sender"])
        errors |= _recipient_errors(recipients) | _credential_errors(values)
        if errors:
            raise ConfigError(errors)
        return {**values, "recipients": ", ".join(recipients)}

    def describe(self, config: Mapping[str, str]) -> str:
        return f"{config['recipients']} via {config['host']}:{config['port']}"

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        host = config["host"]
        port = int(config["port"])
        mail = compose(envelope, sender=config["sender"], recipients=_to(config, envelope.address))
        with reaching():
            addresses = outbound.resolve(host, port, allow_private=allow_private)
        with outbound.Deadline(TIMEOUT_S) as deadline:
            try:
                refused = _deliver(_backend(config, partial(deadline.connect, addresses)), mail)
            except (smtplib.SMTPException, OSError) as error:
                raise _judged(error, host, envelope.address, is_late=deadline.is_over) from error
        missed = _refusals(refused, ", ")
        return Receipt(f"accepted, but not for {missed}" if missed else "accepted")


@dataclass(frozen=True, slots=True)
class Chart:
    """A message's series as a picture in its mail."""

    cid: str
    message: Message

    @property
    def alt(self) -> str:
        """The same in characters, a gap as a blank one."""
        return sparkline(self.message.spark[-MAX_BARS:])

    def picture(self) -> MIMEImage:
        """The mail's part."""
        part = MIMEImage(spark_png(self.message.spark), "png")
        part.add_header("Content-ID", f"<{self.cid}>")
        part.add_header("Content-Disposition", "inline", filename="chart.png")
        return part


class _PinnedSMTP(smtplib.SMTP):
    """SMTP to a judged address of the host: asked again, its name may lead elsewhere.

    TLS is verified against the name.
    """

    connect_to: Connect

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """What smtplib opens its connection by, and SMTP_SSL wraps with the host's name."""
        return self.connect_to(port)


class _PinnedSMTPS(smtplib.SMTP_SSL, _PinnedSMTP):
    """The same with TLS from the start."""


class _PinnedBackend(EmailBackend):
    """Django's way to open, secure and log in, to judged addresses."""

    connect_to: Connect

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        kind = _PinnedSMTPS if self.use_ssl else _PinnedSMTP
        return type(kind.__name__, (kind,), {"connect_to": staticmethod(self.connect_to)})


def _sender_errors(sender: str) -> dict[str, str]:
    if not sender or _is_address(sender):
        return {}
    return {"sender": f"{one_line(sender, 80)} is no e-mail address"}


def _recipient_errors(recipients: Sequence[str]) -> dict[str, str]:
    if not recipients:
        return {"recipients": "To is needed"}
    if len(recipients) > MAX_RECIPIENTS:
        return {"recipients": f"At most {MAX_RECIPIENTS} addresses; use a mailing list for more"}
    wrong = [address for address in recipients if not _is_address(address)]
    return {"recipients": f"{one_line(wrong[0], 80)} is no e-mail address"} if wrong else {}


def _credential_errors(values: Mapping[str, str]) -> dict[str, str]:
    errors = {}
    if bool(values["username"]) != bool(values["password"]):
        errors["password" if values["username"] else "username"] = (
            "User name and password go together"
        )
    # smtplib sends no others
    return errors | {
        name: f"{label} must be of ASCII characters"
        for name, label in CREDENTIALS.items()
        if not values[name].isascii()
    }


def _backend(config: Mapping[str, str], connect_to: Connect) -> _PinnedBackend:
    backend = _PinnedBackend(
        host=config["host"],
        port=int(config["port"]),
        username=config["username"] or None,
        password=config["password"] or None,
        use_tls=config["security"] == "starttls",
        use_ssl=config["security"] == "tls",
    )
    backend.connect_to = connect_to
    return backend


def _to(config: Mapping[str, str], address: str) -> list[str]:
    """The channel's recipients, or the one person. Raises AddressRefusedError."""
    if not address:
        return _addresses(config["recipients"])
    person = _ascii_domain(address)
    if not _is_address(person):
        raise AddressRefusedError(f"{one_line(address, 80)} is no e-mail address")
    return [person]


def compose(envelope: Envelope, *, sender: str, recipients: list[str]) -> EmailMultiAlternatives:
    """The mail: text and HTML of the same message.

    A second try carries the same Message-ID, so that it can be recognised. All of a thread refer to
    the same one, by which mail programs show them together (RFC 5322 3.6.4: it need not exist).
    """
    message = envelope.message
    domain = sender.rpartition("@")[2]
    chart = Chart(f"chart.{envelope.identity}@{domain}", message) if message.has_spark else None
    mail = EmailMultiAlternatives(
        subject=_subject(message.title),
        body=plain_text(message, chart=chart, links=message.links),
        from_email=f"FleetWatch <{sender}>",
        to=recipients,
        headers=_headers(envelope, domain),
    )
    mail.attach_alternative(html(message, chart), "text/html")
    if chart:
        # the picture belongs into the text: RFC 2387
        mail.mixed_subtype = "related"  # type: ignore[attr-defined]  # Django has it
        mail.attach(chart.picture())
    return mail


def html(message: Message, chart: Chart | None = None, *, about: str = "") -> str:
    """The message as a mail's HTML; the chart is a picture that the mail carries, `about` stands
    above it where it is shown and not sent.
    """
    shown = {
        "message": message,
        "about": about,
        "colour": COLOURS[message.severity],
        "chart": chart,
        "links": message.links,
        "head": message.rows[:1],
        "rows": message.rows[1:],
    }
    return render_to_string("notify/message.html", shown)


def _subject(title: str) -> str:
    """The title in encoded words (RFC 2047), each short enough for a line. A word that is too long
    for what is left of the first one would begin the next, and the subject with a space.
    """
    text = one_line(title, MAX_SUBJECT)
    words = text.split()
    if text.isascii() and "=?" not in text and all(len(word) <= LONGEST_WORD for word in words):
        return text
    return Header(text, "utf-8", header_name="Subject").encode(linesep="")


def _headers(envelope: Envelope, domain: str) -> dict[str, str]:
    thread = hashlib.sha256(f"thread/{envelope.thread}".encode()).hexdigest()[:32]
    return {
        "Message-ID": f"<{envelope.identity}@{domain}>",
        "References": f"<{thread}@{domain}>",
        "Date": formatdate(),
        "Auto-Submitted": "auto-generated",  # RFC 3834: no out-of-office answers, please
        "X-Auto-Response-Suppress": "All",
        **_unsubscribing(envelope.message.unsubscribe_url),
    }


def _unsubscribing(url: str) -> dict[str, str]:
    """What mail programs make a button of: RFC 2369, and RFC 8058 by one click of theirs."""
    if not url:
        return {}
    return {
        "List-Unsubscribe": f"<{url}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def _deliver(
    connection: EmailBackend, mail: EmailMultiAlternatives
) -> dict[str, tuple[int, bytes]]:
    """The recipients that the server refused while taking the message for the others.

    Django's send_messages drops this list: a mistyped address would look delivered.
    """
    try:
        connection.open()
        raw = mail.message().as_bytes(linesep="\r\n")  # type: ignore[call-arg]  # Django's own messages take it
        sender = mail.from_email.rpartition("<")[2].rstrip(">")
        server = connection.connection
        return dict(server.sendmail(sender, mail.recipients(), raw)) if server else {}
    finally:
        connection.close()


def _judged(error: Exception, host: str, address: str, *, is_late: bool) -> TransportError:
    """What an SMTP failure means: RFC 5321 4.2.1, 4yz heals by itself, 5yz does not.

    That a person's address is refused says nothing about the channel.
    """
    if is_late or isinstance(error, TimeoutError):
        return TransportError(f"{host}: no answer within {TIMEOUT_S:g} s")
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _refused_recipients(error.recipients, host, address)
    if isinstance(error, smtplib.SMTPResponseException):
        return _judged_answer(error, host)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return TransportError(
            f"{host} does not offer what the channel asks for: {one_line(str(error))}",
            permanent=True,
        )
    return TransportError(f"{host}: {one_line(str(error)) or 'the connection failed'}")


def _refused_recipients(refused: Mapping[str, Any], host: str, address: str) -> TransportError:
    is_final = all(code >= 500 for code, _ in refused.values())
    if address and is_final:
        return AddressRefusedError(f"{host} refused {_refusals(refused, '; ')}")
    return TransportError(
        f"{host} refused every recipient: {_refusals(refused, '; ')}", permanent=is_final
    )


def _refusals(refused: Mapping[str, Any], separator: str) -> str:
    """Each refused address with what the server said of it."""
    return separator.join(
        f"{address}: {_answer_text(code, text)}" for address, (code, text) in refused.items()
    )


def _judged_answer(error: smtplib.SMTPResponseException, host: str) -> TransportError:
    answer = _answer_text(error.smtp_code, error.smtp_error)
    is_final = error.smtp_code >= 500
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return TransportError(
            f"{host} refused the user name or password: {answer}", permanent=is_final
        )
    if isinstance(error, smtplib.SMTPSenderRefused):
        return TransportError(
            f"{host} refused the sender {error.sender}: {answer}", permanent=is_final
        )
    if isinstance(error, smtplib.SMTPDataError) and is_final:
        return MessageRefusedError(f"{host} did not take the message: {answer}")
    return TransportError(f"{host} answered {answer}")


def _answer_text(code: int, text: bytes | str) -> str:
    return (
        f"{code}"
        f" {one_line(text.decode('utf-8', 'replace') if isinstance(text, bytes) else text, 120)}"
    )


def _addresses(text: str) -> list[str]:
    return list(
        dict.fromkeys(
            part.strip()
            for part in text.replace(";", ",").replace("\n", ",").split(",")
            if part.strip()
        )
    )


def _ascii_domain(address: str) -> str:
    """The address with its domain as the network writes it (xn--...); unchanged where that can't be
    done.
    """
    name, sign, domain = address.rpartition("@")
    try:
        return f"{name}{sign}{domain.encode('idna').decode()}" if not domain.isascii() else address
    except UnicodeError:
        return address


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except ValidationError:
        return False
    return text.isascii()


def _is_host(text: str) -> bool:
    return len(text) <= 253 and all(character.isalnum() or character in ".-:" for character in text)


EMAIL = Email()
