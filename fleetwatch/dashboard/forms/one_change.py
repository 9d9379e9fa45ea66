"""One change of one thing, by a button or a form of its page; and trials of it, which may not take
long.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from django.contrib import messages
from django.db import OperationalError, transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from fleetwatch.dashboard.forms.asked import Asked, read_form
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import limit_waits

AT_ONCE_MS = 2_000  # of a trial, while somebody waits

Row = TypeVar("Row", bound=Model)
# the row that is looked at afterwards (without a key: it is gone), and what was done, in words
Change = Callable[[Row, Asked], tuple[Row, str]]


@dataclass(frozen=True, slots=True)
class Home:
    """Where a row is looked at: its template, its part of the menu, and the names of its address
    and of the list's.
    """

    template: str
    rail: str
    name: str
    list_name: str


def change_one(
    request: HttpRequest,
    home: Home,
    row: Row,
    change: Change[Row],
    shown: Callable[[Asked, dict[str, str]], Context],
) -> HttpResponse:
    """The way to where the row is looked at, once it is changed; where that is refused, its page
    with the errors by field, as `shown` has it.
    """
    asked = read_form(request)
    try:
        changed, text = change(row, asked)
    except RefusedFieldError as error:
        context = shown(asked, {error.field: str(error)})
        return page(request, read_period(request), home.template, home.rail, context)
    messages.success(request, text)
    return redirect(home.name, changed.pk) if changed.pk else redirect(home.list_name)


class TakesLongError(Exception):
    """It takes longer than somebody waits: it is a worker's."""


@contextmanager
def at_once() -> Iterator[Callable[[], None]]:
    """What is read within ends with TakesLongError when a statement of it takes too long, or all of
    it; what is given is called after each step.
    """
    began = time.monotonic()

    def on_step() -> None:
        if time.monotonic() - began >= AT_ONCE_MS / 1000:
            raise TakesLongError

    try:
        with transaction.atomic():
            limit_waits(lock_ms=AT_ONCE_MS, statement_ms=AT_ONCE_MS)
            yield on_step
    except OperationalError as error:
        raise TakesLongError from error
