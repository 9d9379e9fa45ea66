"""How the reader hears of things: what is set, what the form says, and what is open of his now."""

from collections.abc import Collection
from datetime import datetime, time

from fleetwatch.accounts.models import Identity, User
from fleetwatch.alerts.incidents.incident_inbox import (
    Wanted,
    in_state,
    narrowed_to,
    page_of_incidents,
)
from fleetwatch.alerts.messaging.address_book import SYSTEMS, preference_of, read_address_book
from fleetwatch.alerts.messaging.preferences import MOST_A_DAY, PreferenceTerms, set_preference
from fleetwatch.alerts.models import Preference
from fleetwatch.dashboard.forms.asked import Asked
from fleetwatch.dashboard.showing import Context
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.selectors import person_channels

MAX_INCIDENTS = 5
SYSTEM_WORDS: dict[str, str] = {Identity.System.SLACK: "Slack", Identity.System.EMAIL: "e-mail"}


def context(user: User, now: datetime) -> Context:
    """The form as it is set, how the user is reached, and the dearest of what fires of his."""
    book = read_address_book([user.pk])
    person = book.people.get(user.pk)
    place = person.place if person else None
    mine = narrowed_to(Wanted(mine=user)).filter(in_state("firing", now))
    ways = _unreached(preference_of(user), person.names if person else ())
    shown = page_of_incidents(mine, sort="dearest", after="", size=MAX_INCIDENTS)
    return {
        "preference": preference_of(user),
        "ways": [(way, _in_words(way, user)) for way in Preference.Way],
        "reached_by": (book.channels[place[0]].name, place[1]) if place else None,
        **({} if place else ways),
        "my_incidents": shown.lines,
        "has_more_incidents": bool(shown.after),
    }


def _unreached(preference: Preference, names: Collection[tuple[str, str]]) -> Context:
    """Of the ways that the reader wants to be reached by those that nobody set up here, and those
    in which he has no name or address.
    """
    channels = person_channels()
    wanted = SYSTEMS[preference.way]
    named = {system for system, _ in names}
    return {
        "ways_not_set_up": [SYSTEM_WORDS[each] for each in wanted if each not in channels],
        "ways_without_name": [each for each in wanted if each in channels and each not in named],
    }


def _in_words(way: Preference.Way, user: User) -> str:
    """With the address that an e-mail goes to."""
    is_email = way == Preference.Way.EMAIL
    return f"{way.label} to {user.email or 'no address yet'}" if is_email else str(way.label)


def save(asked: Asked) -> None:
    """What the form says holds from now on. Raises RefusedFieldError."""
    terms = PreferenceTerms(
        way=asked.text("way"),
        time_zone=asked.text("time_zone"),
        quiet_from=_time(asked, "quiet_from"),
        quiet_until=_time(asked, "quiet_until"),
        daily_cap=asked.number("daily_cap", low=0, high=MOST_A_DAY),
        gets_digest=asked.is_ticked("gets_digest"),
    )
    set_preference(asked.user, terms, by=asked.user)


def _time(asked: Asked, name: str) -> time | None:
    """Raises RefusedFieldError."""
    text = asked.text(name)
    try:
        return time.fromisoformat(text).replace(second=0, microsecond=0) if text else None
    except ValueError as error:
        raise RefusedFieldError("A time of day, please, like 22:00.", field=name) from error
