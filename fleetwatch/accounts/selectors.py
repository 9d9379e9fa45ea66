"""Reads of accounts."""

from zoneinfo import ZoneInfo

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.utils.crypto import constant_time_compare

from fleetwatch.accounts.models import Organisation, Team, User
from fleetwatch.accounts.sessions import SessionStore
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.written_once import row_of_key

MAX_CHOICES = 500


@read_once
def organisation() -> Organisation:
    """The one organisation; its row is made on first use."""
    return row_of_key(Organisation, 1) or Organisation.objects.get_or_create(pk=1)[0]


def is_demo() -> bool:
    """Whether what the hub shows is simulated: it was started as a demo, or has one loaded."""
    row = organisation()
    return row.is_demo_hub or row.demo_since is not None


def locked_organisation() -> Organisation:
    """The same as it is now, and as it stays until the transaction ends."""
    return Organisation.objects.select_for_update().get(pk=organisation().pk)


def zone() -> ZoneInfo:
    """The organisation's time zone: days and weeks begin at its midnight."""
    return ZoneInfo(organisation().time_zone)


def unknown_teams(slugs: set[str]) -> set[str]:
    """Those of the slugs that no team has yet."""
    return slugs - set(Team.objects.filter(slug__in=slugs).values_list("slug", flat=True))


def team_choices() -> list[tuple[str, str]]:
    """The teams that a form offers, each its slug and name."""
    teams = Team.objects.order_by("slug")[:MAX_CHOICES]
    return [(team.slug, team.label) for team in teams]


def user_of_session(key: str) -> User | None:
    """The active user who is logged in with this session; None for none, an ended one, and one of
    before a password change.

    django.contrib.auth.get_user gives a session of an older SECRET_KEY another key, which only an
    answer could tell the browser.
    """
    session = SessionStore(key).load()
    if SESSION_KEY not in session:
        return None
    user = User.objects.filter(pk=session[SESSION_KEY], is_active=True).first()
    if user is None:
        return None
    hashes = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return (
        user
        if any(constant_time_compare(session.get(HASH_SESSION_KEY, ""), each) for each in hashes)
        else None
    )
