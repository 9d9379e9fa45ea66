"""A form as it was sent, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.accounts.models import User

Post = Mapping[str, str]
LONGEST_NUMBER = 19  # digits; int() of thousands of them raises


class RefusedError(Exception):
    """A form that can't be taken; `errors` says per field what to change ("" = the form as a
    whole).
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, for people; `secret` is shown once, `secret_kind` says how it is used."""

    text: str
    secret: str = ""
    secret_kind: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A form as it was sent, by whom and when."""

    post: Post
    user: User
    now: datetime

    def text(self, name: str, *, needed: str = "") -> str:
        """The field, trimmed. Raises RefusedError with `needed` when it is empty."""
        value = self.post.get(name, "").strip()
        if needed and not value:
            raise RefusedError({name: needed})
        return value

    def number(self, name: str, *, low: int, high: int) -> int:
        """The field as a whole number in [low, high]. Raises RefusedError."""
        value = self.text(name)
        if (
            not value.isascii()
            or not value.isdecimal()
            or len(value) > LONGEST_NUMBER
            or not low <= int(value) <= high
        ):
            raise RefusedError({name: f"A whole number from {low} to {high}, please."})
        return int(value)
