"""The form that makes an API token for the reader: what uses it, what it may, and until when."""

from datetime import timedelta

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import WITHIN, role_of
from fleetwatch.accounts.services import MAX_DAYS, READ, WRITE, create_api_token
from fleetwatch.dashboard.forms.asked import Asked, Done
from fleetwatch.dashboard.showing import Context

SCOPES = {READ: "read only", WRITE: "read, and act on findings"}
DAYS = 90  # proposed


def choices(user: User) -> Context:
    """What the form offers the user."""
    within = WITHIN[role_of(user)]
    return {
        "token_scopes": SCOPES.items(),
        "token_roles": [(role, label) for role, label in User.Role.choices if role in within],
        "token_days": DAYS,
    }


def make(asked: Asked) -> Done:
    """The token, shown once. Raises RefusedFieldError."""
    name = asked.text("name", needed="What will use it?")
    days = asked.number("days", low=1, high=MAX_DAYS) if asked.text("days") else None
    text = create_api_token(
        asked.user,
        scope=asked.text("scope") or READ,
        now=asked.now,
        name=name[:100],
        role=asked.text("role"),
        expires_at=asked.now + timedelta(days=days) if days else None,
    )
    return Done(f"An API token for {name}:", text, "api")
