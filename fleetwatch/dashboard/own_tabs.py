"""Tabs that narrow a list to the reader's own jobs, or to those of one of the reader's teams."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.http import HttpRequest

from fleetwatch.accounts.models import User
from fleetwatch.accounts.names.holders import holders_of
from fleetwatch.accounts.people import teams_of


@dataclass(frozen=True, slots=True)
class OwnTab:
    """The filters that it asks for, "" = none, and whether the list is narrowed by them now."""

    label: str
    user: str
    team: str
    is_shown: bool


def own_tabs(request: HttpRequest, filters: Mapping[str, str], now: datetime) -> list[OwnTab]:
    """One for each name that the reader's jobs run under, then one for each of the reader's teams;
    none for who has neither.
    """
    user = cast("User", request.user)
    names = sorted({identity.name for identity in holders_of(user)})
    shown = (filters.get("user", ""), filters.get("team", ""))
    named = [("Mine" if len(names) == 1 else f"Mine: {name}", name, "") for name in names]
    of_teams = [(team.label, "", team.slug) for team in teams_of(user, now)]
    return [OwnTab(*tab, is_shown=tab[1:] == shown) for tab in (*named, *of_teams)]
