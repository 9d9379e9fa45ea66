"""Writes of notify: channels, and the deliveries that wait for them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from fleetwatch.accounts.audit import record
from fleetwatch.notify import secrets
from fleetwatch.notify.channel_settings import config_of, encrypted, readable_config, rotated
from fleetwatch.notify.delivering import MAX_ANSWER, WAITING, heed, identity, send
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.slack_interaction import Interaction, reason_modal
from fleetwatch.notify.transports import transport
from fleetwatch.notify.transports.base import ConfigError, Envelope, TransportError
from fleetwatch.notify.transports.email import Email
from fleetwatch.notify.transports.slack_app import API, answer_click, open_window

CLICK_TIMEOUT_S = 1.5  # Slack gives us 3 s in all


@dataclass(frozen=True, slots=True)
class Recipient:
    """Who gets a message: the channel itself, or a person by an address that its transport knows
    (an e-mail address, a Slack member id).
    """

    channel: Channel
    address: str = ""


@dataclass(frozen=True, slots=True)
class SendResult:
    """How a test message went; `text` is for people."""

    ok: bool
    text: str


@transaction.atomic
def create_channel(
    kind: str, name: str, config: Mapping[str, str], *, now: datetime, gets_digest: bool = False
) -> Channel:
    """The new channel.

    Raises ConfigError with a sentence per field, ValueError for an unknown kind.
    """
    valid = transport(kind).validate(config)
    stored = encrypted(valid)
    channel = Channel.objects.create(
        kind=kind, name=_free_name(name), config=stored, gets_digest=gets_digest, created_at=now
    )
    record("channel.create", channel.name, kind=kind)
    return channel


@transaction.atomic
def update_channel(
    channel: Channel, name: str, config: Mapping[str, str], *, gets_digest: bool
) -> Channel:
    """The channel with new settings, working again.

    A secret left blank keeps its stored value. Raises ConfigError.
    """
    way = transport(channel.kind)
    typed = dict(config)
    blank = [field.name for field in way.fields if field.is_secret and not typed.get(field.name)]
    if blank:
        kept = readable_config(channel)
        typed |= {field: kept[field] for field in blank if field in kept}
    channel.config = encrypted(way.validate(typed))
    channel.name = _free_name(name, besides=channel.pk)
    channel.gets_digest = gets_digest
    channel.is_enabled = True
    channel.disabled_reason = ""
    channel.paused_until = None
    channel.save(
        update_fields=[
            "config",
            "name",
            "gets_digest",
            "is_enabled",
            "disabled_reason",
            "paused_until",
        ]
    )
    record("channel.update", channel.name)
    return channel


@transaction.atomic
def remove_channel(channel: Channel) -> None:
    """Nothing is sent to it any more."""
    record("channel.remove", channel.name)
    channel.delete()


@transaction.atomic
def set_enabled(channel: Channel, is_enabled: bool) -> None:
    """Switches the channel by hand; what waits goes out when it is switched on again within 24
    hours.
    """
    channel.is_enabled = is_enabled
    channel.disabled_reason = "" if is_enabled else "switched off by hand"
    channel.save(update_fields=["is_enabled", "disabled_reason"])
    record("channel.switch", channel.name, is_enabled=is_enabled)


def rotate_secrets() -> dict[str, int]:
    """Re-encrypts every channel's settings by the first key; how many, and how many no key
    opens.
    """
    did = {"rotated": 0, "unreadable": 0}
    with transaction.atomic():
        for channel in Channel.objects.select_for_update():
            try:
                channel.config = rotated(bytes(channel.config))
            except secrets.SecretsUnreadableError:
                did["unreadable"] += 1
                continue
            channel.save(update_fields=["config"])
            did["rotated"] += 1
        record("channel.rotate_secrets", "", **did)
    return did


def enqueue(
    recipients: Iterable[Recipient], message: Message, *, key: str, now: datetime, thread: str = ""
) -> int:
    """How many deliveries were newly queued: one per recipient, none where `key` was queued before.

    `thread` is what the message is about for ever ("incident/7"), the key where nothing is given:
    of one thread a recipient gets everything in order, and where the channel can edit, one message
    that changes. A switched-off channel gets its row too, so that people see what did not reach
    them.
    """
    wanted = dict.fromkeys(recipients)
    queued = set(
        Delivery.objects.filter(
            channel__in={each.channel.pk for each in wanted}, key=key
        ).values_list("channel_id", "address")
    )
    fresh = [
        Delivery(
            channel=each.channel,
            address=each.address,
            thread=thread or key,
            key=key,
            message=asdict(message),
            next_attempt_at=now,
            created_at=now,
        )
        for each in wanted
        if (each.channel.pk, each.address) not in queued
    ]
    Delivery.objects.bulk_create(fresh, ignore_conflicts=True)
    return len(fresh)


def expire(delivery: Delivery, at: datetime) -> bool:
    """Whether it waits and was good for longer: it is not sent from that moment on. What is being
    sent then may arrive all the same.
    """
    waiting = Delivery.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=at), pk=delivery.pk, state__in=WAITING
    )
    return waiting.update(expires_at=at) > 0


def test_send(channel: Channel, now: datetime) -> SendResult:
    """Sends a test message at once, also through a switched-off channel; success switches it on
    again.
    """
    message = Message(
        title=f"Test from FleetWatch: {channel.name}",
        summary="This channel works: alerts and reports will look like this.",
        fields=(("Channel", channel.name), ("Sent", f"{now:%Y-%m-%d %H:%M} UTC")),
        url=settings.PUBLIC_URL,
    )
    try:
        answer = _send_now(Recipient(channel), message, now)
    except TransportError as error:
        heed(channel, error, now)
        return SendResult(False, one_line(str(error), MAX_ANSWER))
    if not channel.is_enabled:
        set_enabled(channel, True)
    return SendResult(True, answer)


def ask_reason(channel: Channel, interaction: Interaction) -> None:
    """Opens the window that asks who clicked "Not waste" why. Raises TransportError."""
    api = API(config_of(channel), settings.ALLOW_PRIVATE_WEBHOOKS, timeout_s=CLICK_TIMEOUT_S)
    open_window(api, interaction.trigger_id, reason_modal(interaction.value))


def whisper(interaction: Interaction, text: str) -> None:
    """Says it to who clicked, and to nobody else. Raises TransportError."""
    answer_click(
        interaction.response_url,
        text,
        timeout_s=CLICK_TIMEOUT_S,
        allow_private=settings.ALLOW_PRIVATE_WEBHOOKS,
    )


def mail(address: str, message: Message, *, now: datetime) -> SendResult:
    """Sends a message to one address at once, by the first e-mail channel that is on."""
    channel = Channel.objects.filter(kind=Email.kind, is_enabled=True).order_by("pk").first()
    if channel is None:
        return SendResult(False, "no e-mail channel is on")
    try:
        return SendResult(True, _send_now(Recipient(channel, address), message, now))
    except TransportError as error:
        return SendResult(False, one_line(str(error), MAX_ANSWER))


def _send_now(recipient: Recipient, message: Message, now: datetime) -> str:
    """What the other side answered. Raises TransportError."""
    key = f"now/{now.isoformat()}"
    envelope = Envelope(
        message=message,
        identity=identity(recipient.channel, recipient.address, key),
        thread=key,
        address=recipient.address,
    )
    return send(recipient.channel, envelope).answer


def _free_name(name: str, *, besides: int | None = None) -> str:
    wanted = one_line(name, 100)
    if not wanted:
        raise ConfigError({"name": "Name is needed"})
    if Channel.objects.filter(name=wanted).exclude(pk=besides or 0).exists():
        raise ConfigError({"name": f"There is already a channel called {wanted}"})
    return wanted
