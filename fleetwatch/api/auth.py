"""Who may use the API: an API token, or somebody who is logged in."""

from django.http import HttpRequest
from django.utils import timezone
from ninja.errors import AuthenticationError
from ninja.security import HttpBearer

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import WRITE, authenticate_api_token
from fleetwatch.api.request_period import RequestError

_SCHEME = "bearer "


class Token(HttpBearer):
    """`Authorization: Bearer <API token>`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return authenticate_api_token(token, timezone.now())


class WriteToken(HttpBearer):
    """`Authorization: Bearer <API token of the scope "write">`."""

    def authenticate(self, request: HttpRequest, token: str) -> User:
        """Whom the token speaks for.

        Raises, so that nobody who sent a token is told of the session's form token instead.
        """
        now = timezone.now()
        if user := authenticate_api_token(token, now, scope=WRITE):
            return user
        if authenticate_api_token(token, now):
            raise RequestError(
                "this token may only read; manage.py create_api_token USER --scope write makes one"
                " that may write, and so does My jobs",
                field="Authorization",
                status=403,
            )
        raise AuthenticationError


def reader(request: HttpRequest) -> User | None:
    """The user that the token or the session speaks for; None for a stranger."""
    header = request.headers.get("Authorization", "")
    if header.lower().startswith(_SCHEME):
        return authenticate_api_token(header[len(_SCHEME) :].strip(), timezone.now())
    return request.user if isinstance(request.user, User) and request.user.is_active else None
