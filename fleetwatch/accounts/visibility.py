"""What a reader sees of what is not theirs, as the organisation decides: everything, or what is of
the own teams and the own jobs.

Engineers and leads are limited, in a browser and by token. Commands, tasks and agents see
everything. What a limited reader may open at all is on a list: a new address is closed to them
until it is added, and rows are narrowed where they are read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import ResolverMatch
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Identity, Organisation, OthersShown, User
from fleetwatch.accounts.names.holders import holders_of
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.selectors import organisation

LIMITED = (User.Role.ENGINEER, User.Role.LEAD)
ACCOUNTS = "accounts/"  # the own log-in, and whatever leads to it
# by the name of a view; what is shown there is narrowed where it is read
OPEN = frozenset(
    {
        *("home", "me", "claim", "drop_name", "make_token", "revoke_token", "theme"),
        *("jobs", "job", "findings", "finding", "finding_decide", "search", "waste", "waste_csv"),
        *("causes", "cause", "definitions"),  # what words mean
        *("api-1:jobs", "api-1:job", "api-1:findings", "api-1:finding", "api-1:decide"),
        "api-1:waste",
        *("api-openapi", "api-docs", "healthz", "readyz"),
    }
)
CHARTS = ("spend", "finding")  # the others are of machines and budgets


@dataclass(frozen=True, slots=True)
class Sight:
    """What a reader sees who does not see everything: the time of these teams, and of the jobs
    under these names.
    """

    user_id: int
    team_ids: frozenset[int]
    names: tuple[Identity, ...]


def _everything() -> Sight | None:
    return None


_sight: ContextVar[Callable[[], Sight | None]] = ContextVar("sight", default=_everything)


def sight() -> Sight | None:
    """What the reader of this request sees; None = everything, as commands and tasks do."""
    return _sight.get()()


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
    if organisation().others_shown == OthersShown.EVERYTHING:
        return None
    team_ids = frozenset(team.pk for team in teams_of(user, timezone.now()))
    return Sight(user.pk, team_ids, tuple(holders_of(user)))


def is_open(match: ResolverMatch | None) -> bool:
    """Whether who does not see everything may open the address."""
    if match is None:
        return False
    if match.view_name == "chart":
        return match.kwargs.get("name") in CHARTS
    return match.view_name in OPEN or match.route.startswith(ACCOUNTS)


def may_open(user: User, match: ResolverMatch | None) -> bool:
    """Whether there is anything at the address as far as the user may know."""
    return is_open(match) or sight_of(user) is None


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


def for_templates(_: HttpRequest) -> dict[str, Callable[[], bool]]:
    """`sees_all`: only a template that uses it asks."""
    return {"sees_all": lambda: sight() is None}


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
        if not is_open(request.resolver_match) and sight() is not None:
            raise Http404
