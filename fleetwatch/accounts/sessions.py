"""Django's sessions in the database.

A key that Django can't have made is no session, and no question to the database.
"""

from typing import Any

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.utils import timezone

from fleetwatch.lib.written_once import row_of_key


class SessionStore(db.SessionStore):
    """What SESSION_ENGINE names."""

    def _validate_session_key(self, key: str | None) -> bool:
        is_long_enough = bool(super()._validate_session_key(key))  # type: ignore[misc]  # Django has it, its stubs have not
        return is_long_enough and set(key or "") <= set(VALID_KEY_CHARS)

    def _get_session_from_db(self) -> Any:
        """Django's, as each request asks it."""
        row = row_of_key(self.model, self.session_key)
        if row is None or row.expire_date <= timezone.now():
            self._session_key = None
            return None
        return row
