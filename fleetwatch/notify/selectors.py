"""Reads of notify."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, OuterRef, Q, Subquery

from fleetwatch.notify.channel_settings import config_of, readable_config
from fleetwatch.notify.delivering import WAITING
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.secrets import SecretsUnreadableError
from fleetwatch.notify.slack_interaction import is_signed
from fleetwatch.notify.transports import TRANSPORTS, transport
from fleetwatch.notify.transports.base import Transport
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG
from fleetwatch.notify.transports.slack_app import SLACK_APP

ARRIVED = (Delivery.State.SENT, Delivery.State.SUPERSEDED)


def is_kept(kind: str, state: str) -> bool:
    """Whether what a channel of that kind delivered reached nobody: kept, and not sent."""
    return kind == DELIVERY_LOG.kind and state == Delivery.State.SENT


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel as the settings page shows it: never with a secret.

    `last` is its newest tried delivery.
    """

    channel: Channel
    way: Transport
    where: str
    last: Delivery | None
    pending: int

    @property
    def reaches_nobody(self) -> bool:
        """Whether all that it takes is kept, and nothing sent."""
        return self.way is DELIVERY_LOG

    @property
    def sends(self) -> bool:
        """Whether it is on, and somebody may be reached by it."""
        return self.channel.is_enabled and not self.reaches_nobody

    @property
    def is_failing(self) -> bool:
        """Whether nobody is reached by it: it was switched off for an error, or its newest message
        did not arrive. One that people switched off is none.
        """
        if not self.channel.is_enabled:
            return self.channel.disabled_reason != ""
        return self.last is not None and self.last.state not in ARRIVED

    @property
    def values(self) -> dict[str, str]:
        """The settings for its form; secrets are left out."""
        config = readable_config(self.channel)
        return {
            field.name: config[field.name]
            for field in self.way.fields
            if not field.is_secret and field.name in config
        }


def transports() -> tuple[Transport, ...]:
    """Every kind of channel, with the fields of its form."""
    return TRANSPORTS


def sends_nothing(channels: Iterable[Channel]) -> bool:
    """Whether none of these is on and reaches anybody."""
    return all(transport(each.kind) is DELIVERY_LOG for each in channels if each.is_enabled)


def channels() -> list[ChannelStatus]:
    """All channels by name, each with what became of its newest tried delivery and how many
    wait.
    """
    newest = (
        Delivery.objects.filter(channel=OuterRef("pk"), attempts__gt=0)
        .order_by("-created_at", "-pk")
        .values("pk")[:1]
    )
    waiting = Count("deliveries", filter=Q(deliveries__state__in=WAITING))
    rows = list(
        Channel.objects.annotate(newest_id=Subquery(newest), waiting=waiting).order_by("name")
    )
    last = Delivery.objects.in_bulk([row.newest_id for row in rows if row.newest_id])
    return [
        ChannelStatus(row, transport(row.kind), where(row), last.get(row.newest_id), row.waiting)
        for row in rows
    ]


def failing_channels() -> list[ChannelStatus]:
    """Those by which nobody is reached, by name."""
    return [each for each in channels() if each.is_failing]


def where(channel: Channel) -> str:
    """Where the channel's messages go, without any secret."""
    try:
        return transport(channel.kind).describe(config_of(channel))
    except SecretsUnreadableError:
        return "settings unreadable: enter them again"


def person_channels() -> dict[str, Channel]:
    """By accounts.Identity.System (Slack member, e-mail address) the first channel that is on and
    reaches people by their names there.
    """
    by_system: dict[str, Channel] = {}
    for channel in Channel.objects.filter(is_enabled=True).order_by("pk"):
        system = transport(channel.kind).person_by
        if system:
            by_system.setdefault(system, channel)
    return by_system


def slack_signers(body: bytes, *, timestamp: str, signature: str, now: datetime) -> list[Channel]:
    """The channels that are on of the Slack app whose secret signed this request; none: nobody's.
    The texts are the headers X-Slack-Request-Timestamp and X-Slack-Signature.
    """
    now_s = now.timestamp()
    return [
        channel
        for channel in Channel.objects.filter(kind=SLACK_APP.kind, is_enabled=True).order_by("pk")
        if is_signed(
            body,
            timestamp=timestamp,
            signature=signature,
            secret=readable_config(channel).get("signing_secret", ""),
            now_s=now_s,
        )
    ]


def carrier(channels: Iterable[Channel], thread: str) -> Channel | None:
    """By which of these channels the thread was told last; None: by none."""
    rows = Delivery.objects.filter(channel__in=list(channels), thread=thread, attempts__gt=0)
    delivery = rows.select_related("channel").order_by("-pk").first()
    return delivery.channel if delivery else None


def digest_channels() -> list[Channel]:
    """The channels that get the weekly digest."""
    return list(Channel.objects.filter(gets_digest=True).order_by("pk"))


def deliveries(
    limit: int, *, before: int | None = None, keys: Sequence[str] = ()
) -> list[Delivery]:
    """The newest deliveries with their channels: older than the one with the id `before`, of which
    the keys begin with one of `keys` (none: any).
    """
    rows = Delivery.objects.select_related("channel").order_by("-created_at", "-pk")
    if before is not None:
        at = Subquery(Delivery.objects.filter(pk=before).values("created_at"))
        rows = rows.filter(Q(created_at__lt=at) | Q(created_at=at, pk__lt=before))
    begins = Q()
    for key in keys:
        begins |= Q(key__startswith=key)
    return list(rows.filter(begins)[:limit])


def newest_tried() -> Delivery | None:
    """The newest delivery that was tried, with its channel; None before the first."""
    tried = Delivery.objects.filter(attempts__gt=0).select_related("channel")
    return tried.order_by("-created_at", "-pk").first()


def waiting_deliveries() -> int:
    """How many messages are to be delivered still, retries included."""
    return Delivery.objects.filter(state__in=WAITING).count()
