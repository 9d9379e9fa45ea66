"""Reads of notify."""

from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from fleetwatch.notify.channel_settings import config_of, readable_config
from fleetwatch.notify.delivering import WAITING
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.secrets import SecretsUnreadableError
from fleetwatch.notify.transports import TRANSPORTS, transport
from fleetwatch.notify.transports.base import Transport


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


def channels() -> list[ChannelStatus]:
    """All channels by name, each with what became of its newest tried delivery and how many
    wait.
    """
    newest = (
        Delivery.objects.filter(channel=OuterRef("pk"), attempts__gt=0)
        .order_by("-pk")
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


def where(channel: Channel) -> str:
    """Where the channel's messages go, without any secret."""
    try:
        return transport(channel.kind).describe(config_of(channel))
    except SecretsUnreadableError:
        return "settings unreadable: enter them again"


def digest_channels() -> list[Channel]:
    """The channels that get the weekly digest."""
    return list(Channel.objects.filter(gets_digest=True).order_by("pk"))


def deliveries(limit: int) -> QuerySet[Delivery]:
    """The newest deliveries with their channels."""
    return Delivery.objects.select_related("channel").order_by("-pk")[:limit]


def waiting_deliveries() -> int:
    """How many messages are to be delivered still, retries included."""
    return Delivery.objects.filter(state__in=WAITING).count()
