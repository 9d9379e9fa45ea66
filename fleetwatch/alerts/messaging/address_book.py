"""Where people and teams are reached: routes, preferences and names in other systems, read once for
an evaluation.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from fleetwatch.accounts.models import Identity, User
from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts.messaging.routing import Routes
from fleetwatch.alerts.models import Preference, Route
from fleetwatch.notify.models import Channel
from fleetwatch.notify.selectors import person_channels
from fleetwatch.notify.transports import transport

Way = Preference.Way
# which systems a way leads to, in this order
SYSTEMS: dict[str, tuple[str, ...]] = {
    Way.ANY: (Identity.System.SLACK, Identity.System.EMAIL),
    Way.SLACK: (Identity.System.SLACK,),
    Way.EMAIL: (Identity.System.EMAIL,),
    Way.NONE: (),
}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may be told: by which channel and address; None where there is none, or he wants
    to hear nothing. `names` are his own in each system, whether he is told there or not.
    """

    user: User
    preference: Preference
    zone: ZoneInfo
    place: tuple[int, str] | None
    names: frozenset[tuple[str, str]]

    @property
    def name(self) -> str:
        """As messages call him."""
        return self.user.get_full_name() or self.user.get_username()

    def is_at(self, channel: Channel, address: str) -> bool:
        """Whether the address is his own: names are taken back, and given to others."""
        return (transport(channel.kind).person_by, address) in self.names


@dataclass(frozen=True, slots=True)
class AddressBook:
    """Every channel by its id, the routes, and the people (by id) who are asked for."""

    channels: dict[int, Channel]
    routes: Routes
    people: dict[int, Person]
    zone: ZoneInfo


def read_address_book(user_ids: Collection[int]) -> AddressBook:
    """The book with these people in it; who may not log in any more is not."""
    channels = {channel.pk: channel for channel in Channel.objects.order_by("pk")}
    zone = organisation_zone()
    return AddressBook(channels, _routes(channels), _people(user_ids, zone), zone)


def _routes(channels: Iterable[int]) -> Routes:
    every = list(Route.objects.prefetch_related("channels").order_by("pk"))
    ids = {
        (route.kind, route.team_id): tuple(sorted(each.pk for each in route.channels.all()))
        for route in every
    }
    by_team = {team_id: several for (_, team_id), several in ids.items() if team_id is not None}
    return Routes(
        every=tuple(channels),
        operators=ids.get((Route.Kind.OPERATORS, None), ()),
        unowned=ids.get((Route.Kind.UNOWNED, None), ()),
        by_team=by_team,
        is_set=any(ids.values()),
    )


def _people(user_ids: Collection[int], zone: ZoneInfo) -> dict[int, Person]:
    if not user_ids:
        return {}
    users = User.objects.filter(pk__in=user_ids, is_active=True).select_related("alert_preference")
    addresses = _addresses(user_ids)
    channels = person_channels()
    return {user.pk: _person(user, addresses[user.pk], channels, zone) for user in users}


def _addresses(user_ids: Collection[int]) -> dict[int, list[tuple[str, str]]]:
    """Of each person the confirmed names, each with its system, the oldest first."""
    addresses: dict[int, list[tuple[str, str]]] = defaultdict(list)
    rows = Identity.objects.filter(
        user__in=user_ids,
        system__in=(Identity.System.SLACK, Identity.System.EMAIL),
        confirmed_at__isnull=False,
    )
    for row in rows.order_by("pk"):
        addresses[row.user_id].append((row.system, row.name))
    return addresses


def _person(
    user: User, addresses: list[tuple[str, str]], channels: dict[str, Channel], zone: ZoneInfo
) -> Person:
    preference = preference_of(user)
    mailbox = [(str(Identity.System.EMAIL), user.email)] if user.email else []
    names = [*mailbox, *addresses]
    own = dict(reversed(names))  # of several the first
    places = [
        (channels[system].pk, own[system])
        for system in SYSTEMS[preference.way]
        if system in channels and system in own
    ]
    own_zone = ZoneInfo(preference.time_zone) if preference.time_zone else zone
    place = places[0] if places else None
    return Person(user, preference, own_zone, place, frozenset(names))


def preference_of(user: User) -> Preference:
    """The person's; the defaults, not stored, of who set nothing."""
    try:
        return user.alert_preference
    except Preference.DoesNotExist:
        return Preference(user=user)
