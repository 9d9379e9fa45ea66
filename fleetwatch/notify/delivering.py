"""How what waits goes out: claimed in the order of its thread, sent, noted."""

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fleetwatch.notify import secrets
from fleetwatch.notify.channel_settings import config_of
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.models import Channel, Delivery, RemoteMessage
from fleetwatch.notify.transports import transport
from fleetwatch.notify.transports.base import (
    AddressRefusedError,
    Envelope,
    MessageRefusedError,
    Receipt,
    TransportError,
)

BACK_OFF_MINUTES = (1, 2, 4, 8, 16, 32, 60)  # then each hour
JITTER = 0.2  # share of the wait: many deliveries that failed together do not come back together
GIVE_UP_AFTER = timedelta(hours=24)
# a Retry-After beyond this is taken as this: what waits for it is given up anyway
LONGEST_WAIT_S = GIVE_UP_AFTER.total_seconds()
# longer than any key can come again: incidents and weeks have keys of their own
KEEP = timedelta(days=90)
# A claim must outlive the send: SMTP has at most eight steps of 15 s, Slack's app three of 10 s.
CLAIM = timedelta(minutes=5)
BUDGET = timedelta(minutes=2)  # of one call; then the clock starts the next one
# of one channel in one call: what can't be reached costs a time-out each time
MAX_FAILURES = 2
MAX_ANSWER = 300
EXPIRED = "it was not taken in time, or was taken back"
REPEAT_FAILED_AFTER = timedelta(minutes=10)

DID = ("sent", "retry", "failed", "disabled")  # what becomes of deliveries, and of channels

State = Delivery.State
# not done with; a claim that ran out is waiting again
WAITING = (State.PENDING, State.SENDING)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a delivery that was tried: `at` is when it was sent, given up, or may be
    tried again.
    """

    state: State
    text: str
    at: datetime
    remote_id: str = ""
    repeat_after_s: float | None = None


def deliver_due(
    now: datetime,
    limit: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    dice: Callable[[], float] = random.random,
) -> dict[str, int]:
    """What became of at most `limit` deliveries that are due: sent, retry, failed; disabled counts
    channels.

    What one address gets of one thread goes out in the order in which it was queued, one at a
    time: "resolved" never overtakes "opened"; another thread waits for none. A claim is a row's
    `next_attempt_at` moved ahead, so no transaction is open while something is sent, and a killed
    worker's claim ends by itself. A worker that dies between the send and its note sends again: at
    least once, never silently not at all.
    """
    did = dict.fromkeys(DID, 0) | _sort_out(now)
    failures: Counter[int] = Counter()
    started = clock()

    def moment() -> datetime:
        return now + timedelta(seconds=clock() - started)

    for _ in range(limit):
        at = moment()
        delivery = _claim(at, failures) if at - now < BUDGET else None
        if delivery is None:
            break
        outcome = _attempt(delivery, moment, jitter=dice())
        did[outcome] += 1
        failures[delivery.channel_id] += outcome == "retry"
        did["disabled"] += not delivery.channel.is_enabled
    return did


def is_sending(now: datetime) -> bool:
    """Whether some worker is sending something at this moment."""
    return Delivery.objects.filter(state=State.SENDING, next_attempt_at__gt=now).exists()


def prune_deliveries(now: datetime) -> dict[str, int]:
    """How many deliveries were forgotten: done with for 90 days. So is what stands of a thread of
    which nothing was sent in that time.
    """
    old = now - KEEP
    standing = RemoteMessage.objects.filter(delivery=OuterRef("pk"), repeat_at__isnull=False)
    past = Delivery.objects.filter(~Exists(standing), created_at__lt=old)
    deleted, _ = past.exclude(state__in=WAITING).delete()
    RemoteMessage.objects.filter(updated_at__lt=old).delete()
    return {"deleted": deleted}


def wait_s(attempts: int, *, retry_after_s: float | None, jitter: float) -> float:
    """Seconds until the next try after `attempts` failed ones; `jitter` is 0 to 1.

    Never before Retry-After.
    """
    minutes = BACK_OFF_MINUTES[min(attempts, len(BACK_OFF_MINUTES)) - 1]
    usual = minutes * 60 * (1 - JITTER + 2 * JITTER * jitter)
    return usual if retry_after_s is None else min(max(retry_after_s, 1.0), LONGEST_WAIT_S)


def send(channel: Channel, envelope: Envelope) -> Receipt:
    """What the other side answered. Raises TransportError."""
    way = transport(channel.kind)
    if envelope.address and not way.person_by:
        # else everybody in the channel would read what is for one person
        raise AddressRefusedError(f"a channel of {way.label} reaches no person by an address")
    try:
        config = config_of(channel)
    except secrets.SecretsUnreadableError as error:
        raise TransportError(str(error), permanent=True) from error
    try:
        return way.send(config, envelope, allow_private=settings.ALLOW_PRIVATE_WEBHOOKS)
    except TransportError:
        raise
    except Exception as error:
        # what no transport foresaw keeps no other channel from being served, and is given up like
        # any failure
        log.exception("transport failed", channel=channel.pk, kind=channel.kind)
        raise TransportError(
            f"sending failed unexpectedly ({type(error).__name__}); the log says more"
        ) from error


def heed(channel: Channel, error: TransportError, now: datetime) -> None:
    """What the failure means for the whole channel: it is switched off, waits, or goes on.

    Nothing, where it was given other settings or removed while we sent.
    """
    same = Channel.objects.filter(pk=channel.pk, config=bytes(channel.config))
    if error.permanent:
        channel.is_enabled = False
        channel.disabled_reason = one_line(str(error), MAX_ANSWER)
        same.update(is_enabled=False, disabled_reason=channel.disabled_reason)
        log.warning(
            "channel disabled",
            channel=channel.pk,
            kind=channel.kind,
            reason=channel.disabled_reason,
        )
    elif error.retry_after_s is not None:
        seconds = wait_s(1, retry_after_s=error.retry_after_s, jitter=0)
        same.update(paused_until=now + timedelta(seconds=seconds))
        log.info("channel paused", channel=channel.pk, kind=channel.kind, seconds=seconds)


def identity(channel: Channel, address: str, key: str) -> str:
    """The same for every try of one delivery, and for no other."""
    return hashlib.sha256(f"{channel.pk}/{address}/{key}".encode()).hexdigest()[:32]


def _claim(now: datetime, failures: Counter[int]) -> Delivery | None:
    """The delivery to try next, ours for CLAIM from `now` on; None when nothing is due.

    What was never tried comes first: what fails again and again holds up none of it.
    """
    with transaction.atomic():
        oldest = (
            _due(now)
            .exclude(channel__in=[pk for pk, count in failures.items() if count >= MAX_FAILURES])
            .select_related("channel")
            .order_by("attempts", "next_attempt_at", "pk")
            .select_for_update(skip_locked=True, of=("self",))
            .first()
        )
        if oldest is None:
            return None
        delivery = _newest_state(oldest)
        delivery.state = State.SENDING
        delivery.attempts = delivery.attempts + 1
        delivery.next_attempt_at = now + CLAIM
        delivery.save(update_fields=["state", "attempts", "next_attempt_at"])
        return delivery


def _due(now: datetime) -> QuerySet[Delivery]:
    """The oldest waiting delivery of each thread that may be tried, of channels that are open."""
    earlier = Delivery.objects.filter(
        channel=OuterRef("channel"),
        address=OuterRef("address"),
        thread=OuterRef("thread"),
        state__in=WAITING,
        pk__lt=OuterRef("pk"),
    )
    return Delivery.objects.filter(
        Q(channel__paused_until=None) | Q(channel__paused_until__lte=now),
        Q(expires_at=None) | Q(expires_at__gt=now),
        ~Exists(earlier),
        state__in=WAITING,
        next_attempt_at__lte=now,
        channel__is_enabled=True,
    )


def _newest_state(oldest: Delivery) -> Delivery:
    """What to send of the thread whose oldest waiting delivery this is.

    Where a message can be edited only the last state matters: of messages that follow each other
    the older ones are superseded. A reply is sent in its place, and ends the run.
    """
    if not transport(oldest.channel.kind).can_edit:
        return oldest
    waiting = Delivery.objects.filter(
        channel=oldest.channel_id,
        address=oldest.address,
        thread=oldest.thread,
        state__in=WAITING,
        pk__gte=oldest.pk,
    )
    run: list[Delivery] = []
    for delivery in waiting.select_related("channel").order_by("pk"):
        if delivery.message.get("is_reply"):
            break
        run.append(delivery)
    if len(run) < 2:
        return oldest
    older = [delivery.pk for delivery in run[:-1]]
    Delivery.objects.filter(pk__in=older).update(
        state=State.SUPERSEDED, last_answer="a newer message of its thread says how it stands"
    )
    return run[-1]


def _attempt(delivery: Delivery, moment: Callable[[], datetime], *, jitter: float) -> str:
    """Sends one claimed delivery and notes what happened: sent, retry or failed."""
    try:
        receipt = send(delivery.channel, _envelope(delivery))
    except TransportError as error:
        now = moment()
        heed(delivery.channel, error, now)
        return _note(delivery, _failure(delivery, error, now, jitter=jitter))
    sent = Outcome(State.SENT, receipt.answer, moment(), receipt.remote_id, receipt.repeat_after_s)
    return _note(delivery, sent)


def _envelope(delivery: Delivery) -> Envelope:
    """Raises MessageRefusedError where another version wrote what this one can't read."""
    try:
        message = msgspec.convert(delivery.message, Message)
    except msgspec.ValidationError as error:
        raise MessageRefusedError(f"this version can't read the message: {error}") from error
    standing = RemoteMessage.objects.filter(
        channel=delivery.channel_id, address=delivery.address, thread=delivery.thread
    )
    return Envelope(
        message=message,
        identity=identity(delivery.channel, delivery.address, delivery.key),
        thread=delivery.thread,
        address=delivery.address,
        remote_id=standing.values_list("remote_id", flat=True).first() or "",
    )


def _failure(delivery: Delivery, error: TransportError, now: datetime, *, jitter: float) -> Outcome:
    if error.permanent or isinstance(error, MessageRefusedError | AddressRefusedError):
        return Outcome(State.FAILED, str(error), now)
    seconds = wait_s(delivery.attempts, retry_after_s=error.retry_after_s, jitter=jitter)
    again_at = now + timedelta(seconds=seconds)
    waits_since = delivery.sent_at or delivery.created_at  # it may be a repetition
    if again_at > waits_since + GIVE_UP_AFTER:
        reason = f"gave up after {delivery.attempts} tries: {error}"
        return Outcome(State.FAILED, reason, now)
    return Outcome(State.PENDING, str(error), again_at)


@transaction.atomic
def _note(delivery: Delivery, outcome: Outcome) -> str:
    """Writes the outcome, unless another worker claimed the row since: then that one's counts."""
    sent_at = {"sent_at": outcome.at} if outcome.state == State.SENT else {}
    is_ours = Delivery.objects.filter(
        pk=delivery.pk, attempts=delivery.attempts, state=State.SENDING
    ).update(
        state=outcome.state,
        last_answer=one_line(outcome.text, MAX_ANSWER),
        next_attempt_at=outcome.at,
        **sent_at,
    )
    if is_ours and outcome.remote_id:
        _remember(delivery, outcome)
    word = "retry" if outcome.state == State.PENDING else str(outcome.state.value)
    log.info(
        "delivery tried",
        delivery=delivery.pk,
        channel=delivery.channel_id,
        attempts=delivery.attempts,
        outcome=word,
    )
    return word


def _remember(delivery: Delivery, outcome: Outcome) -> None:
    """Where later messages of its thread find what they edit."""
    after_s = outcome.repeat_after_s
    standing = RemoteMessage(
        channel=delivery.channel,
        address=delivery.address,
        thread=delivery.thread,
        remote_id=outcome.remote_id,
        delivery=delivery,
        repeat_at=None if after_s is None else outcome.at + timedelta(seconds=after_s),
        updated_at=outcome.at,
    )
    RemoteMessage.objects.bulk_create(
        [standing],
        update_conflicts=True,
        unique_fields=["channel", "address", "thread"],
        update_fields=["remote_id", "delivery", "repeat_at", "updated_at"],
    )


def _sort_out(now: datetime) -> dict[str, int]:
    """What no longer waits, and what waits again."""
    return {"expired": _expire(now), "repeated": _repeat(now)}


def _expire(now: datetime) -> int:
    """How many deliveries were given up: what holds no longer, and is not being sent at this
    moment; those of switched-off channels that are older than 24 hours.
    """
    over = Delivery.objects.filter(
        Q(state=State.PENDING) | Q(next_attempt_at__lte=now),
        state__in=WAITING,
        expires_at__lte=now,
    ).update(state=State.FAILED, last_answer=EXPIRED)
    return over + _expire_switched_off(now)


@transaction.atomic
def _repeat(now: datetime) -> int:
    """How many messages wait again because the other side would forget them. Nothing of a thread
    that has a newer one waiting: that one says how it stands. What fails for good is tried again
    after a while: it stands as long as nothing else was sent.
    """
    waiting = Delivery.objects.filter(
        channel=OuterRef("channel"),
        address=OuterRef("address"),
        thread=OuterRef("thread"),
        state__in=WAITING,
    )
    standing = RemoteMessage.objects.filter(
        ~Exists(waiting), repeat_at__lte=now, channel__is_enabled=True
    ).select_for_update(skip_locked=True, of=("self",))
    due = dict(standing.values_list("pk", "delivery"))
    RemoteMessage.objects.filter(pk__in=due).update(repeat_at=now + REPEAT_FAILED_AFTER)
    return Delivery.objects.filter(
        pk__in=[pk for pk in due.values() if pk], state__in=[State.SENT, State.FAILED]
    ).update(state=State.PENDING, attempts=0, next_attempt_at=now)


def _expire_switched_off(now: datetime) -> int:
    stale = Delivery.objects.filter(
        state__in=WAITING,
        next_attempt_at__lte=now,
        channel__is_enabled=False,
        created_at__lte=now - GIVE_UP_AFTER,
    )
    return stale.update(state=State.FAILED, last_answer="the channel was switched off for 24 hours")
