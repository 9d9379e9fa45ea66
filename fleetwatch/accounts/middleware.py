"""Who a request is of, for the audit log."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from fleetwatch.accounts.clients import client_of
from fleetwatch.accounts.models import User
from fleetwatch.lib.actor import API, PAGE, Actor, acting

NOBODY = "somebody who is not logged in"

Respond = Callable[[HttpRequest], HttpResponse]


def name_actor(respond: Respond) -> Respond:
    """What a request does is done by its token's or its session's user, from its address."""

    def answer(request: HttpRequest) -> HttpResponse:
        def of_request() -> Actor:
            user = getattr(request, "auth", None) or request.user
            via = API if request.path_info.startswith("/api/") else PAGE
            if not isinstance(user, User):
                return Actor(NOBODY, via=via, address=client_of(request))
            token = f"{user.token.hint}…" if user.token else ""
            return Actor(user.get_username(), user.pk, via, client_of(request), token)

        with acting(of_request):
            return respond(request)

    return answer
