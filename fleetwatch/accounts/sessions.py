"""Django's sessions in the database.

A key that Django can't have made is no session, and no question to the database.
"""

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS


class SessionStore(db.SessionStore):
    """What SESSION_ENGINE names."""

    def _validate_session_key(self, key: str | None) -> bool:
        is_long_enough = bool(super()._validate_session_key(key))  # type: ignore[misc]  # Django has it, its stubs have not
        return is_long_enough and set(key or "") <= set(VALID_KEY_CHARS)
