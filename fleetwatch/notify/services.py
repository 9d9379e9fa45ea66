"""Writes of notify: channels, and the deliveries that wait for them."""

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import msgspec
import structlog
from cryptography.fernet import MultiFernet
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from fleetwatch.accounts.audit import record
from fleetwatch.notify import secrets
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports import transport
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, TransportError
from fleetwatch.notify.transports.email import Email

BACK_OFF_MINUTES = (1, 2, 4, 8, 16, 32, 60)  # then each hour
JITTER = 0.2  # share of the wait: many deliveries that failed together do not come back together
LONGEST_WAIT_S = 6 * 3600.0  # a Retry-After beyond this is taken as this
GIVE_UP_AFTER = timedelta(hours=24)
# longer than any key can come again: incidents and weeks have keys of their own
KEEP = timedelta(days=90)
# A claim must outlive the send: SMTP has at most eight steps of 15 s. One call of deliver_due stops
# claiming after its budget, because its claims count from the `now` it was given.
BUDGET_S = 120.0
CLAIM = timedelta(seconds=BUDGET_S + 180)
MAX_ANSWER = 300

State = Delivery.State
# not done with; a claim that ran out is waiting again
WAITING = (State.PENDING, State.SENDING)

log = structlog.get_logger(__name__)


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
    stored = secrets.encrypt(valid, _ring())
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
    channel.config = secrets.encrypt(way.validate(typed), _ring())
    channel.name = _free_name(name, besides=channel.pk)
    channel.gets_digest = gets_digest
    channel.is_enabled = True
    channel.disabled_reason = ""
    channel.save(update_fields=["config", "name", "gets_digest", "is_enabled", "disabled_reason"])
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
                channel.config = secrets.rotate(bytes(channel.config), _ring())
            except secrets.SecretsUnreadableError:
                did["unreadable"] += 1
                continue
            channel.save(update_fields=["config"])
            did["rotated"] += 1
        record("channel.rotate_secrets", "", **did)
    return did


def config_of(channel: Channel) -> dict[str, str]:
    """The channel's settings in the clear. Raises SecretsUnreadableError."""
    return secrets.decrypt(bytes(channel.config), _ring())


def enqueue(channels: Iterable[Channel], message: Message, *, key: str, now: datetime) -> int:
    """How many deliveries were newly queued: one per channel, none where `key` was queued before.

    A switched-off channel gets its row too, so that people see what did not reach them.
    """
    wanted = list(channels)
    queued_ids = set(
        Delivery.objects.filter(channel__in=wanted, key=key).values_list("channel_id", flat=True)
    )
    fresh = [
        Delivery(
            channel=channel, key=key, message=asdict(message), next_attempt_at=now, created_at=now
        )
        for channel in wanted
        if channel.pk not in queued_ids
    ]
    Delivery.objects.bulk_create(fresh, ignore_conflicts=True)
    return len(fresh)


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
        answer = _send(channel, message, key=f"test/{now.isoformat()}")
    except TransportError as error:
        if error.permanent:
            _disable(channel, str(error))
        return SendResult(False, one_line(str(error), MAX_ANSWER))
    if not channel.is_enabled:
        set_enabled(channel, True)
    return SendResult(True, answer)


def mail(address: str, message: Message, *, now: datetime) -> SendResult:
    """Sends a message to one address at once, by the first e-mail channel that is on."""
    channel = Channel.objects.filter(kind=Email.kind, is_enabled=True).order_by("pk").first()
    if channel is None:
        return SendResult(False, "no e-mail channel is on")
    try:
        answer = _send(
            channel,
            message,
            key=f"{address}/{now.isoformat()}",
            to={"recipients": address},
        )
    except TransportError as error:
        return SendResult(False, one_line(str(error), MAX_ANSWER))
    return SendResult(True, answer)


def deliver_due(
    now: datetime,
    limit: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    dice: Callable[[], float] = random.random,
) -> dict[str, int]:
    """What became of at most `limit` deliveries that are due: sent, retry, failed; disabled counts
    channels.

    Each channel's deliveries go out in the order they were queued, one at a time: "resolved"
    never overtakes "opened". A claim is a row's `next_attempt_at` moved ahead, so no transaction
    is open while something is sent, and a killed worker's claim ends by itself. A worker that dies
    between the send and its note sends again: at least once, never silently not at all.
    """
    did = {"sent": 0, "retry": 0, "failed": 0, "disabled": 0, "expired": _expire(now)}
    started = clock()
    for _ in range(limit):
        delivery = _claim(now) if clock() - started < BUDGET_S else None
        if delivery is None:
            break
        outcome = _attempt(delivery, now, jitter=dice())
        did[outcome] += 1
        did["disabled"] += not delivery.channel.is_enabled
    return did


def is_sending(now: datetime) -> bool:
    """Whether some worker is sending something at this moment."""
    return Delivery.objects.filter(state=State.SENDING, next_attempt_at__gt=now).exists()


def prune_deliveries(now: datetime) -> dict[str, int]:
    """How many deliveries were forgotten: done with for 90 days."""
    deleted, _ = (
        Delivery.objects.filter(created_at__lt=now - KEEP).exclude(state__in=WAITING).delete()
    )
    return {"deleted": deleted}


def wait_s(attempts: int, *, retry_after_s: float | None, jitter: float) -> float:
    """Seconds until the next try after `attempts` failed ones; `jitter` is 0 to 1.

    Never before Retry-After.
    """
    minutes = BACK_OFF_MINUTES[min(attempts, len(BACK_OFF_MINUTES)) - 1]
    usual = minutes * 60 * (1 - JITTER + 2 * JITTER * jitter)
    return usual if retry_after_s is None else min(max(retry_after_s, 1.0), LONGEST_WAIT_S)


def _claim(now: datetime) -> Delivery | None:
    """The delivery to try next, ours until `now` + CLAIM; None when nothing is due."""
    earlier = Delivery.objects.filter(
        channel=OuterRef("channel"), state__in=WAITING, pk__lt=OuterRef("pk")
    )
    with transaction.atomic():
        delivery = (
            Delivery.objects.filter(
                ~Exists(earlier),
                state__in=WAITING,
                next_attempt_at__lte=now,
                channel__is_enabled=True,
            )
            .select_related("channel")
            .order_by("next_attempt_at", "pk")
            .select_for_update(skip_locked=True, of=("self",))
            .first()
        )
        if delivery is None:
            return None
        delivery.state = State.SENDING
        delivery.attempts = delivery.attempts + 1
        delivery.next_attempt_at = now + CLAIM
        delivery.save(update_fields=["state", "attempts", "next_attempt_at"])
        return delivery


def _attempt(delivery: Delivery, now: datetime, *, jitter: float) -> str:
    """Sends one claimed delivery and notes what happened: sent, retry or failed."""
    channel = delivery.channel
    try:
        message = msgspec.convert(delivery.message, Message)
        answer = _send(channel, message, key=delivery.key)
    except TransportError as error:
        if error.permanent:
            _disable(channel, str(error))
        if error.permanent or isinstance(error, MessageRefusedError):
            return _note(delivery, State.FAILED, str(error), now)
        seconds = wait_s(delivery.attempts, retry_after_s=error.retry_after_s, jitter=jitter)
        again_at = now + timedelta(seconds=seconds)
        if again_at > delivery.created_at + GIVE_UP_AFTER:
            reason = f"gave up after {delivery.attempts} tries: {error}"
            return _note(delivery, State.FAILED, reason, now)
        return _note(delivery, State.PENDING, str(error), again_at)
    return _note(delivery, State.SENT, answer, now)


def _note(delivery: Delivery, state: State, text: str, at: datetime) -> str:
    """Writes the outcome, unless another worker claimed the row since: then that one's counts."""
    answer = one_line(text, MAX_ANSWER)
    Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts, state=State.SENDING).update(
        state=state,
        last_answer=answer,
        next_attempt_at=at,
        sent_at=at if state == State.SENT else None,
    )
    outcome = "retry" if state == State.PENDING else str(state.value)
    log.info(
        "delivery tried",
        delivery=delivery.pk,
        channel=delivery.channel_id,
        attempts=delivery.attempts,
        outcome=outcome,
    )
    return outcome


def _send(
    channel: Channel, message: Message, *, key: str, to: Mapping[str, str] | None = None
) -> str:
    """What the other side answered; `to` is said instead of the channel's own. Raises
    TransportError.
    """
    # the same for every try
    identity = hashlib.sha256(f"{channel.pk}/{key}".encode()).hexdigest()[:32]
    try:
        config = config_of(channel) | dict(to or {})
    except secrets.SecretsUnreadableError as error:
        raise TransportError(str(error), permanent=True) from error
    try:
        return transport(channel.kind).send(
            config, message, identity=identity, allow_private=settings.ALLOW_PRIVATE_WEBHOOKS
        )
    except TransportError:
        raise
    except Exception as error:
        # what no transport foresaw keeps no other channel from being served, and is given up like
        # any failure
        log.exception("transport failed", channel=channel.pk, kind=channel.kind)
        raise TransportError(
            f"sending failed unexpectedly ({type(error).__name__}); the log says more"
        ) from error


def _disable(channel: Channel, reason: str) -> None:
    """Switches the channel off, unless it was given other settings or removed while we sent."""
    channel.is_enabled = False
    channel.disabled_reason = one_line(reason, MAX_ANSWER)
    same = Channel.objects.filter(pk=channel.pk, config=bytes(channel.config))
    same.update(is_enabled=False, disabled_reason=channel.disabled_reason)
    log.warning(
        "channel disabled", channel=channel.pk, kind=channel.kind, reason=channel.disabled_reason
    )


def _expire(now: datetime) -> int:
    """How many deliveries of switched-off channels were given up: older than 24 hours."""
    stale = Delivery.objects.filter(
        state__in=WAITING,
        next_attempt_at__lte=now,
        channel__is_enabled=False,
        created_at__lte=now - GIVE_UP_AFTER,
    )
    return stale.update(state=State.FAILED, last_answer="the channel was switched off for 24 hours")


def _free_name(name: str, *, besides: int | None = None) -> str:
    wanted = one_line(name, 100)
    if not wanted:
        raise ConfigError({"name": "Name is needed"})
    if Channel.objects.filter(name=wanted).exclude(pk=besides or 0).exists():
        raise ConfigError({"name": f"There is already a channel called {wanted}"})
    return wanted


def readable_config(channel: Channel) -> dict[str, str]:
    """The channel's settings in the clear, nothing where no key opens them."""
    try:
        return config_of(channel)
    except secrets.SecretsUnreadableError:
        return {}  # the form then asks for the secret again


def _ring() -> MultiFernet:
    return secrets.keyring([settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS])
