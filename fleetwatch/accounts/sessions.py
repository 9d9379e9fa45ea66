"""Django's sessions in the database.

A key that Django can't have made is no session, and no question to the database. Whose a session
was when it was read last is remembered: the next look reads its user with it, by one statement.
"""

from collections import OrderedDict
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.utils import timezone

from fleetwatch.accounts.models import Organisation, User
from fleetwatch.lib import memo
from fleetwatch.lib.written_once import read_together, row_of_key

MOST_REMEMBERED = 4096
_users: "OrderedDict[str, str]" = OrderedDict()  # by session key; no permission, only what to read


class SessionStore(db.SessionStore):
    """What SESSION_ENGINE names."""

    def _validate_session_key(self, key: str | None) -> bool:
        is_long_enough = bool(super()._validate_session_key(key))  # type: ignore[misc]  # Django has it, its stubs have not
        return is_long_enough and set(key or "") <= set(VALID_KEY_CHARS)

    def _get_session_from_db(self) -> Any:
        """Django's, as each request asks it."""
        user_id = _users.get(self.session_key or "")
        if user_id and memo.is_looking():
            read_together((self.model, self.session_key), (User, user_id), (Organisation, 1))
        row = row_of_key(self.model, self.session_key)
        if row is None or row.expire_date <= timezone.now():
            self._session_key = None
            return None
        return row

    def load(self) -> dict[str, Any]:
        facts: dict[str, Any] = super().load()
        if self.session_key and SESSION_KEY in facts:
            _remember(self.session_key, facts[SESSION_KEY])
        return facts


def _remember(session_key: str, user_id: str) -> None:
    _users[session_key] = user_id
    if len(_users) > MOST_REMEMBERED:
        _users.popitem(last=False)
