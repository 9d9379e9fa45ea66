"""What a reader sees of what is not theirs, as the organisation decides: everything, what is of the
own teams and the own jobs, or everything with pseudonyms for others.

Engineers and leads are limited, in a browser and by token. Commands, tasks and agents see
everything. What a limited reader may open at all is on a list: a new address is closed to them
until it is added, and rows are narrowed, or names replaced (figures.others_names), where they are
read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import ResolverMatch
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Identity, Organisation, OthersShown, Team, User
from fleetwatch.accounts.names.holders import holders_of
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.selectors import is_demo, organisation

LIMITED = (User.Role.ENGINEER, User.Role.LEAD)
ACCOUNTS = "accounts/"  # the own log-in, and whatever leads to it
# by the name of a view; what is shown there is narrowed where it is read
OPEN = frozenset(
    {
        *("home", "me", "claim", "drop_name", "make_token", "revoke_token", "theme"),
        "favicon",
        *("device", "device_code", "device_token", "device_end"),  # the own command line
        *("cli_file", "cli_checksum"),
        *("set_notifications", "views", "view", "view_save", "view_drop"),  # the own ones
        *("jobs", "job", "findings", "finding", "finding_decide", "findings_act"),
        *("search", "search_quickly", "filters"),
        *("jobs_csv", "waste", "waste_csv", "costs", "costs_file"),
        *("alerts", "incident", "incident_act", "incidents_act", "incident_keep"),
        *("silences", "silence_add", "silence_end", "routes", "route_set"),
        *("causes", "cause", "definitions", "glossary"),  # what words mean
        # of the own jobs and teams
        *("explain", "explain_csv", "budget", "reports", "report", "report_print", "report_file"),
        "digest_mail",
        *("team", "team_statement", "team_change"),
        *("api-1:jobs", "api-1:job", "api-1:findings", "api-1:finding", "api-1:decide"),
        "api-1:finding_patterns",
        *("api-1:waste", "api-1:reports", "api-1:report", "api-1:incidents", "api-1:incident"),
        *("api-1:act_on_incident", "api-1:list_silences", "api-1:add_silence"),
        *("api-1:end_silence", "api-1:list_routes", "api-1:change_route"),
        *("api-1:me", "api-1:preferences", "api-1:change_preferences"),
        *("api-1:actions", "api-1:action", "api-1:keep_job"),
        *("api-openapi", "api-docs", "healthz", "readyz"),
    }
)
# beside these where sums are everybody's
OPEN_WITH_PSEUDONYMS = frozenset(
    {
        *("overview", "overview_recoverable", "overview_worst", "overview_wasters"),
        *("overview_changes", "api-1:fleet_summary"),
    }
)
NOBODY = 0  # an id that no user has: what was given to somebody is not theirs
CHARTS = ("spend", "wasted", "costs", "job", "finding", "budget")  # the others are of machines


@dataclass(frozen=True, slots=True)
class Sight:
    """What a reader sees who does not see everything: the time of these teams, and of the jobs
    under these names. With pseudonyms sums are of all time, and these are what is called by name.
    """

    user_id: int
    team_ids: frozenset[int]
    names: tuple[Identity, ...]
    with_pseudonyms: bool = False


def _everything() -> Sight | None:
    return None


_sight: ContextVar[Callable[[], Sight | None]] = ContextVar("sight", default=_everything)


def sight() -> Sight | None:
    """What the reader of this request sees; None = everything, as commands and tasks do."""
    return _sight.get()()


def narrowed() -> Sight | None:
    """What the reader sees from whom others' time is left out; None = sums are of everybody's."""
    seen = sight()
    return None if seen is None or seen.with_pseudonyms else seen


def pseudonymous() -> Sight | None:
    """What is called by name where the rest has pseudonyms; None = nothing has."""
    seen = sight()
    return seen if seen is not None and seen.with_pseudonyms else None


def visible_teams() -> QuerySet[Team]:
    """The teams that the reader sees by name, by slug."""
    teams = Team.objects.order_by("slug")
    seen = sight()
    return teams if seen is None else teams.filter(pk__in=seen.team_ids)


@contextmanager
def seeing(what: Callable[[], Sight | None]) -> Iterator[None]:
    """What is read within is of what the reader sees, who is asked for only where that matters."""
    token = _sight.set(what)
    try:
        yield
    finally:
        _sight.reset(token)


def sight_of(user: User) -> Sight | None:
    """What the user sees, with a token in the role that both may; None = everything."""
    if role_of(user) not in LIMITED:
        return None
    choice = organisation().others_shown
    if choice == OthersShown.EVERYTHING:
        return None
    team_ids = frozenset(team.pk for team in teams_of(user, timezone.now()))
    has_pseudonyms = choice == OthersShown.PSEUDONYMS
    return Sight(user.pk, team_ids, tuple(holders_of(user)), has_pseudonyms)


def sight_of_teams(team_ids: frozenset[int]) -> Sight | None:
    """What those see who read a channel of these teams, whoever they are; None = everything."""
    choice = organisation().others_shown
    if choice == OthersShown.EVERYTHING:
        return None
    return Sight(NOBODY, team_ids, (), choice == OthersShown.PSEUDONYMS)


def is_open(match: ResolverMatch | None) -> bool:
    """Whether everybody who is let in may open the address, whatever he sees of others."""
    if match is None:
        return False
    if match.view_name == "chart":
        return match.kwargs.get("name") in CHARTS
    return match.view_name in OPEN or match.route.startswith(ACCOUNTS)


def is_open_to(seen: Sight | None, match: ResolverMatch | None) -> bool:
    """Whether who sees that may open the address, which not everybody may."""
    if seen is None:
        return True
    return seen.with_pseudonyms and match is not None and match.view_name in OPEN_WITH_PSEUDONYMS


def may_open(user: User, match: ResolverMatch | None) -> bool:
    """Whether there is anything at the address as far as the user may know."""
    return is_open(match) or is_open_to(sight_of(user), match)


def set_others_shown(choice: str) -> None:
    """What engineers and leads see of others from now on. Raises ValueError for no choice of
    OthersShown.
    """
    choice = OthersShown(choice).value
    with transaction.atomic():
        row = Organisation.objects.select_for_update().get(pk=organisation().pk)
        if row.others_shown == choice:
            return
        record("access.others_shown", choice, before=row.others_shown)
        row.others_shown = choice
        row.save(update_fields=["others_shown"])


def for_templates(_: HttpRequest) -> dict[str, Callable[[], Any]]:
    """`sees_all`, and `sees_sums`, of everybody; whether the hub shows a demo, and since when one
    is loaded (None: none that can be removed): only a template that uses one asks.
    """
    return {
        "sees_all": lambda: sight() is None,
        "sees_sums": lambda: narrowed() is None,
        "is_demo": is_demo,
        "demo_since": lambda: organisation().demo_since,
    }


class NarrowToReader:
    """The middleware: what a request reads is what its token's or its session's user sees; an
    address that is closed to a session's user is as one that there is not (404). Of a token's user
    the API asks may_open() once it knows the token.
    """

    def __init__(self, respond: Callable[[HttpRequest], HttpResponse]) -> None:
        self.respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sights: dict[tuple[int, int | None], Sight | None] = {}

        def of_request() -> Sight | None:
            user = getattr(request, "auth", None) or request.user
            if not isinstance(user, User):
                return None
            key = (user.pk, user.token.pk if user.token else None)
            if key not in sights:
                sights[key] = sight_of(user)
            return sights[key]

        with seeing(of_request):
            return self.respond(request)

    def process_view(
        self,
        request: HttpRequest,
        _view: Callable[..., HttpResponse],
        _args: tuple[Any, ...],
        _kwargs: Mapping[str, Any],
    ) -> None:
        match = request.resolver_match
        if not is_open(match) and not is_open_to(sight(), match):
            raise Http404
