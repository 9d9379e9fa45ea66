"""Who gets a weekly digest: the fleet, each team, and each person with names of jobs; what of the
fleet each is about, in whose time zone, and where it goes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q

from fleetwatch.accounts.models import Identity, Team
from fleetwatch.accounts.names.holders import names_of_jobs
from fleetwatch.accounts.visibility import NOBODY, Sight
from fleetwatch.alerts.messaging.address_book import AddressBook, Person, read_address_book
from fleetwatch.alerts.messaging.unsubscribing import unsubscribe_url
from fleetwatch.notify.selectors import digest_channels
from fleetwatch.notify.services import Recipient
from fleetwatch.reports import digest


@dataclass(frozen=True, slots=True)
class Audience:
    """Whose digest it is. `kind` and `subject` are its Report's. `sight` is what of the fleet it is
    about (None: all), as for a reader who sees no more; `incidents` says which are its own. Its
    time is that of the `group` (user or team) with one of the `keys`. `names` are a person's, and
    so is `unsubscribe_url`.
    """

    kind: str
    subject: str
    name: str
    zone: ZoneInfo
    recipients: tuple[Recipient, ...]
    sight: Sight | None = None
    incidents: Q = field(default_factory=Q)
    group: str = ""
    keys: frozenset[str] = frozenset()
    names: tuple[Identity, ...] = ()
    team: Team | None = None
    unsubscribe_url: str = ""

    @property
    def has_budget(self) -> bool:
        """Nobody sets a person one."""
        return self.kind != digest.PERSON


def audiences() -> list[Audience]:
    """Everybody who may get one: the fleet, then teams, then people who did not say no."""
    names = names_of_jobs()
    book = read_address_book(names.keys())
    fleet = Audience(digest.FLEET, "", "", book.zone, _channels(digest_channels()))
    teams = [_team(team, book) for team in Team.objects.order_by("slug")]
    wanting = [each for _, each in sorted(book.people.items()) if each.preference.gets_digest]
    return [fleet, *teams, *(_person(each, names[each.user.pk], book) for each in wanting)]


def _team(team: Team, book: AddressBook) -> Audience:
    """By the clock of the organisation, to the channels of its route."""
    channels = [book.channels[pk] for pk in book.routes.of_team(team.pk)]
    return Audience(
        digest.TEAM,
        team.slug,
        team.label,
        book.zone,
        _channels(channels),
        sight=Sight(NOBODY, frozenset({team.pk}), ()),
        incidents=Q(team=team),
        group="team",
        keys=frozenset({team.slug}),
        team=team,
    )


def _person(person: Person, names: list[Identity], book: AddressBook) -> Audience:
    place = person.place
    return Audience(
        digest.PERSON,
        str(person.user.pk),
        person.name,
        person.zone,
        () if place is None else (Recipient(book.channels[place[0]], place[1]),),
        sight=Sight(NOBODY, frozenset(), tuple(names)),
        incidents=Q(person=person.user),
        group="user",
        keys=frozenset(name.name for name in names),
        names=tuple(names),
        unsubscribe_url=unsubscribe_url(person.user, "digest"),
    )


def _channels(channels: Iterable[Any]) -> tuple[Recipient, ...]:
    return tuple(map(Recipient, channels))
