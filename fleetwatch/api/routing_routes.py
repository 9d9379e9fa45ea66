"""Routes in the API: to which channels a team's incidents go, those that nobody acknowledges, and
those that nobody owns.
"""

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Router, Schema
from ninja.security import django_auth
from pydantic import Field

from fleetwatch.accounts.models import User
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.alerts.messaging.team_routes import offered_channels, set_route, visible_routes
from fleetwatch.alerts.models import Route
from fleetwatch.api.answer_types import Answer, Joined
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.request_period import asked, required
from fleetwatch.api.rule_routes import MAX_CHANNELS, channels_named
from fleetwatch.api.schemas import MAY_BE_MISSING, Listed, Name, NameGiven, Paging
from fleetwatch.api.vocabulary import RouteKind

router = Router(tags=["notifications"])


class RouteRow(Schema):
    """To which channels, by name, something goes: `team` (its slug) is null where the kind is not
    `team`.
    """

    kind: RouteKind
    team: Name
    channels: list[NameGiven] = Field(max_length=MAX_CHANNELS)


class RoutePage(Listed[RouteRow]):
    """Those that are set: the operators', the unowned ones', then by team."""


@router.get("/routes", operation_id="listRoutes", response=RoutePage)
def list_routes(request: HttpRequest, paging: Paging) -> Answer:
    """Where incidents go; who does not see everything has the own teams'."""
    return asked(request).listed(visible_routes(), paging.limit, route_row)


@router.put(
    "/routes",
    operation_id="setRoute",
    response=RouteRow,
    auth=[WriteToken(), django_auth],
    openapi_extra=MAY_BE_MISSING,
)
def change_route(request: HttpRequest, wanted: Body[RouteRow]) -> Joined:
    """One route as it is from now on, without channels none: for operators, a team's also for who
    leads it.
    """
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    team = None
    if wanted.team is not None:
        team = required(visible_teams().filter(slug=wanted.team).first(), "team", field="team")
    channels = channels_named(wanted.channels, offered_channels())
    set_route(wanted.kind, channels, by=user, now=timezone.now(), team=team)
    names = sorted(channel.name for channel in channels)
    return Joined(kind=wanted.kind, team=wanted.team, channels=names)


def route_row(route: Route) -> Joined:
    team = route.team.slug if route.team else None
    names = sorted(channel.name for channel in route.channels.all())
    return Joined(kind=route.kind, team=team, channels=names)
