"""Where a team's incidents go, those that nobody acknowledges, and those that nobody owns: set by
operators, a team's own also by who leads it.
"""

from collections.abc import Sequence
from datetime import datetime

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F, Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import leads
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.models import Route
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Channel

Kind = Route.Kind
NOT_YOURS = "routes are the operators', and a team's the one's who leads it"


@transaction.atomic
def set_route(
    kind: str, channels: Sequence[Channel], *, by: User, now: datetime, team: Team | None = None
) -> Route | None:
    """The route to these channels; None, and none there is any more, where there are none.

    Raises RefusedFieldError, and PermissionDenied for whose it is not to set.
    """
    if kind not in Kind.values:
        raise RefusedFieldError(f"a route is one of {', '.join(Kind.values)}", field="kind")
    if (kind == Kind.TEAM) != (team is not None):
        raise RefusedFieldError("a team's route, and no other, names a team", field="team")
    if not may_route(by, team, now=now):
        raise PermissionDenied(NOT_YOURS)
    names = [channel.name for channel in channels]
    record("route.set", team.slug if team else kind, channels=names)
    if not channels:
        Route.objects.filter(kind=kind, team=team).delete()
        return None
    route, _ = Route.objects.get_or_create(kind=kind, team=team)
    route.channels.set(channels)
    return route


def visible_routes() -> QuerySet[Route]:
    """The routes that are set, with their teams and channels: the fleet's, then by team; who does
    not see everything has the own teams'.
    """
    routes = Route.objects.select_related("team").prefetch_related("channels")
    seen = sight()
    if seen is not None:
        routes = routes.filter(team__in=seen.team_ids)
    return routes.order_by(F("team__slug").asc(nulls_first=True), "kind")


def offered_channels() -> QuerySet[Channel]:
    """The channels that the reader can choose for a route, by name; of who does not see everything
    without those that other teams' routes alone lead to.
    """
    channels = Channel.objects.order_by("name")
    seen = sight()
    if seen is None:
        return channels
    of_teams = Route.objects.filter(kind=Kind.TEAM)
    own = of_teams.filter(team__in=seen.team_ids)
    of_others = of_teams.exclude(team__in=seen.team_ids)
    is_offered = Q(pk__in=own.values("channels")) | ~Q(pk__in=_channels_of(of_others))
    return channels.filter(is_offered)


def _channels_of(routes: QuerySet[Route]) -> QuerySet[Route, int]:
    # NOT IN of a null is never true
    return routes.filter(channels__isnull=False).values_list("channels", flat=True)


def may_route(user: User, team: Team | None, *, now: datetime) -> bool:
    """Whether the user may say where the team's incidents go; None: the fleet's."""
    return may(user, Right.FLEET) or leads(user, team, now)
