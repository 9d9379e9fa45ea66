"""Reads of accounts."""

from zoneinfo import ZoneInfo

from fleetwatch.accounts.models import Organisation, Team


def organisation() -> Organisation:
    """The one organisation; its row is made on first use."""
    return Organisation.objects.get_or_create(pk=1)[0]


def zone() -> ZoneInfo:
    """The organisation's time zone: days and weeks begin at its midnight."""
    return ZoneInfo(organisation().time_zone)


def unknown_teams(slugs: set[str]) -> set[str]:
    """Those of the slugs that no team has yet."""
    return slugs - set(Team.objects.filter(slug__in=slugs).values_list("slug", flat=True))
