"""Routes: to which channels a team's incidents go, those that nobody answers, those of nobody."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import Right, may, role_of
from fleetwatch.accounts.visibility import sight, visible_teams
from fleetwatch.alerts.breach import Condition
from fleetwatch.alerts.messaging.routing import Step
from fleetwatch.alerts.messaging.team_routes import offered_channels, set_route, visible_routes
from fleetwatch.alerts.models import Route, Rule
from fleetwatch.alerts.selectors import rules
from fleetwatch.dashboard.forms.asked import read_form
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.dashboard.threshold_words import of_minutes
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify import selectors as notify
from fleetwatch.notify.models import Channel

MAX_TEAMS = 500
TEAM = Route.Kind.TEAM
OF_FLEET = {
    Route.Kind.OPERATORS: ("The operators", "what nobody before them acknowledged"),
    Route.Kind.UNOWNED: (
        "Users without an account here",
        "what is held by a job user whom no account is linked to",
    ),
}

# what each step is the first of; what has no owner whom it could ask begins later
BEGINS = {
    Step.OWNER: "From 1, the owner",
    Step.TEAM: "From 3, the team’s channels",
    Step.OPERATORS: "At 4, the operators at once",
}


@dataclass(frozen=True, slots=True)
class RouteLine:
    """Where something goes: its name, what it is for, the channels (none: nowhere of its own)."""

    kind: str
    slug: str
    name: str
    about: str
    channels: tuple[Channel, ...]
    may_set: bool

    @property
    def form(self) -> str:
        """What its fields' ids begin with."""
        return f"route-{self.slug or self.kind}"


@require_GET
@login_required
@never_cache
@takes()
def routes(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
@login_required
@never_cache
def change(request: HttpRequest) -> HttpResponse:
    """One route, as it is from now on."""
    asked = read_form(request)
    slug = asked.text("team")
    team = get_object_or_404(visible_teams(), slug=slug) if slug else None
    channels = [
        channel for channel in offered_channels() if asked.is_ticked(f"channel-{channel.pk}")
    ]
    kind = asked.text("kind")
    try:
        set_route(kind, channels, by=asked.user, now=asked.now, team=team)
    except RefusedFieldError as error:
        return _page(request, errors={error.field: str(error)})
    names = ", ".join(channel.name for channel in channels) or "no channel of its own"
    messages.success(request, f"{team.name if team else kind.capitalize()}: {names}.")
    return redirect("routes")


def _page(request: HttpRequest, **outcome: object) -> HttpResponse:
    period = read_period(request)
    teams = list(visible_teams()[: MAX_TEAMS + 1])
    channels = list(offered_channels())
    context: Context = {
        "lines": _lines(cast("User", request.user), teams[:MAX_TEAMS], period.now),
        "has_more_teams": len(teams) > MAX_TEAMS,
        "channels": channels,
        "is_set": Route.objects.exists(),
        "sends_nothing": sight() is None and notify.sends_nothing(channels),
        "begins": _begins(),
        "step_after": of_minutes(Rule._meta.get_field("escalate_minutes").default),
        "errors": {},
        **outcome,
    }
    return page(request, period, "dashboard/routes.html", "alerts", context)


def _begins() -> list[tuple[str, list[Rule]]]:
    """With which step of the order each rule that is on begins: a place of BEGINS and its rules."""
    begins: dict[str, list[Rule]] = {text: [] for text in BEGINS.values()}
    for rule, watched in rules():
        if rule.is_enabled:
            begins[BEGINS[_first_step(rule, watched)]].append(rule)
    return [(text, every) for text, every in begins.items() if every]


def _first_step(rule: Rule, watched: Condition) -> Step:
    if watched.is_owned:
        return Step.OWNER if rule.tells_owner else Step.TEAM
    return Step.TEAM if watched.is_of_teams else Step.OPERATORS


def _lines(user: User, teams: Sequence[Team], now: datetime) -> list[RouteLine]:
    """The fleet's two, where the reader sees everything, then each team's."""
    channels = {(row.kind, row.team_id): tuple(row.channels.all()) for row in visible_routes()}
    runs_fleet = may(user, Right.FLEET)
    led = {team.pk for team in teams_of(user, now)} if role_of(user) == User.Role.LEAD else set()
    fleet = [
        RouteLine(kind, "", name, about, channels.get((kind, None), ()), runs_fleet)
        for kind, (name, about) in (OF_FLEET.items() if sight() is None else ())
    ]
    return fleet + [
        _of_team(team, channels.get((TEAM, team.pk), ()), runs_fleet or team.pk in led)
        for team in teams
    ]


def _of_team(team: Team, channels: tuple[Channel, ...], may_set: bool) -> RouteLine:
    return RouteLine(TEAM, team.slug, team.label, "", channels, may_set)
