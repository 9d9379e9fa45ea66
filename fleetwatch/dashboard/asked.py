"""A form as it was sent, and what came of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404

from fleetwatch.accounts.models import User

Post = Mapping[str, str]
LONGEST_NUMBER = 19  # digits; int() of thousands of them raises
LARGEST_ID = 2**31

Row = TypeVar("Row", bound=Model)


class RefusedError(Exception):
    """A form that can't be taken; `errors` says per field what to change ("" = the form as a
    whole).
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


@contextmanager
def refusing(
    error_type: type[ValueError], field: str = "", *, names: Mapping[str, str] | None = None
) -> Iterator[None]:
    """What a service refuses by such an error, as the form's: at `field`, or, where there are
    `names`, at the field that the error names, by its name in the form.
    """
    try:
        yield
    except error_type as error:
        if names is not None:
            refused: str = error.field  # type: ignore[attr-defined]
            field = names.get(refused, refused)
        raise RefusedError({field: str(error)}) from error


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

    def id(self) -> int:
        """The row's number. Raises RefusedError."""
        return self.number("id", low=1, high=LARGEST_ID)

    def row(self, rows: type[Row] | QuerySet[Row]) -> Row:
        """The row that the form is about. Raises RefusedError, and Http404 where there is none."""
        return get_object_or_404(rows, pk=self.id())

    def is_ticked(self, name: str) -> bool:
        return self.text(name) == "on"

    @property
    def by(self) -> str:
        """Who sent it."""
        return self.user.get_username()
