"""Who may use the API: an API token, or somebody who is logged in."""

from django.http import HttpRequest
from django.utils import timezone
from ninja.errors import AuthenticationError
from ninja.security import HttpBearer

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import WRITE, authenticate_api_token
from fleetwatch.accounts.visibility import may_open
from fleetwatch.api.request_period import RequestError

_SCHEME = "bearer "


class Token(HttpBearer):
    """`Authorization: Bearer <API token>`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return _let_in(request, authenticate_api_token(token, timezone.now()))


class WriteToken(HttpBearer):
    """`Authorization: Bearer <API token of the scope "write">`."""

    def authenticate(self, request: HttpRequest, token: str) -> User:
        """Whom the token speaks for.

        Raises, so that nobody who sent a token is told of the session's form token instead.
        """
        now = timezone.now()
        if user := _let_in(request, authenticate_api_token(token, now, scope=WRITE)):
            return user
        if authenticate_api_token(token, now):
            raise RequestError(
                "this token may only read; manage.py create_api_token USER --scope write makes one"
                " that may write, and so does My jobs",
                field="Authorization",
                status=403,
            )
        raise AuthenticationError


def _let_in(request: HttpRequest, user: User | None) -> User | None:
    """The token's user. Raises RequestError where the address is closed to that user, as of one
    that there is not.
    """
    if user is not None and not may_open(user, request.resolver_match):
        raise RequestError("there is nothing at this address", field=None, status=404)
    return user


def reader(request: HttpRequest) -> User | None:
    """The user that the token or the session speaks for; None for a stranger."""
    header = request.headers.get("Authorization", "")
    if header.lower().startswith(_SCHEME):
        token = header[len(_SCHEME) :].strip()
        return _let_in(request, authenticate_api_token(token, timezone.now()))
    return request.user if isinstance(request.user, User) and request.user.is_active else None
