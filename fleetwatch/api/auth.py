"""Who may use the API: an API token, or somebody who is logged in."""

from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import WRITE, authenticate_api_token

_SCHEME = "bearer "


class Token(HttpBearer):
    """`Authorization: Bearer <API token>`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return authenticate_api_token(token, timezone.now())


class WriteToken(HttpBearer):
    """`Authorization: Bearer <API token of the scope "write">`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        return authenticate_api_token(token, timezone.now(), scope=WRITE)


def reader(request: HttpRequest) -> User | None:
    """The user that the token or the session speaks for; None for a stranger."""
    header = request.headers.get("Authorization", "")
    if header.lower().startswith(_SCHEME):
        return authenticate_api_token(header[len(_SCHEME) :].strip(), timezone.now())
    return request.user if isinstance(request.user, User) and request.user.is_active else None
