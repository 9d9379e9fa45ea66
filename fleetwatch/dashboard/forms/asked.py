"""A form as it was sent, and what came of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, cast

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils.http import url_has_allowed_host_and_scheme

from fleetwatch.accounts.models import User
from fleetwatch.dashboard.period import read_period
from fleetwatch.lib.refusal import RefusedFieldError

Post = Mapping[str, str]
LONGEST_NUMBER = 19  # digits; int() of thousands of them raises
LARGEST_ID = 2**31

Row = TypeVar("Row", bound=Model)


@contextmanager
def refusing(field: str) -> Iterator[None]:
    """What a service refuses, said at this field of the form."""
    try:
        yield
    except RefusedFieldError as error:
        raise RefusedFieldError(str(error), field=field) from error


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
        """The field, trimmed. Raises RefusedFieldError with `needed` when it is empty."""
        value = self.post.get(name, "").strip()
        if needed and not value:
            raise RefusedFieldError(needed, field=name)
        return value

    def number(self, name: str, *, low: int, high: int) -> int:
        """The field as a whole number in [low, high]. Raises RefusedFieldError."""
        value = self.text(name)
        if (
            not value.isascii()
            or not value.isdecimal()
            or len(value) > LONGEST_NUMBER
            or not low <= int(value) <= high
        ):
            raise RefusedFieldError(f"A whole number from {low} to {high}, please.", field=name)
        return int(value)

    def id(self) -> int:
        """The row's number. Raises RefusedFieldError."""
        return self.number("id", low=1, high=LARGEST_ID)

    def row(self, rows: type[Row] | QuerySet[Row]) -> Row:
        """The row that the form is about. Raises RefusedFieldError; Http404 where there is none."""
        return get_object_or_404(rows, pk=self.id())

    def is_ticked(self, name: str) -> bool:
        return self.text(name) == "on"

    @property
    def by(self) -> str:
        """Who sent it."""
        return self.user.get_username()


def ticked(request: HttpRequest, most: int) -> list[int]:
    """The numbers of the rows that are ticked, of the first so many; what is no number is none. A
    tick of several rows names them with commas.
    """
    sent = ",".join(request.POST.getlist("id")).split(",", most)[:most]
    return [int(pk) for pk in sent if pk.isascii() and pk.isdecimal() and len(pk) < LONGEST_NUMBER]


def local_path(request: HttpRequest, path: str) -> str:
    """The path that a form says to go back to; "" where it is none of ours."""
    is_ours = path.startswith("/") and url_has_allowed_host_and_scheme(path, {request.get_host()})
    return path if is_ours else ""


def read_form(request: HttpRequest) -> Asked:
    """What somebody who is logged in sent."""
    return Asked(request.POST.dict(), cast("User", request.user), read_period(request).now)
