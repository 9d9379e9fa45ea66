"""Reads that one look at a page asks for again and again are answered once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponse

LOOKS = ("GET", "HEAD")  # what changes something reads what it changed

P = ParamSpec("P")
T = TypeVar("T")
Respond = Callable[[HttpRequest], HttpResponse]

_answers: ContextVar[dict[Any, Any] | None] = ContextVar("answers", default=None)


def read_once(read: Callable[P, T]) -> Callable[P, T]:
    """A read that is asked once for the same arguments within `remembering`, and elsewhere each
    time. Its arguments are hashable.
    """

    @wraps(read)
    def remembered(*arguments: P.args, **named: P.kwargs) -> T:
        answers = _answers.get()
        if answers is None:
            return read(*arguments, **named)
        asked = (read, arguments, tuple(named.items()))
        if asked not in answers:
            answers[asked] = read(*arguments, **named)
        kept: T = answers[asked]
        return kept

    return remembered


@contextmanager
def remembering() -> Iterator[None]:
    """What is read within is from one moment: nothing within changes it. One within another is part
    of it.
    """
    if _answers.get() is not None:
        yield
        return
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def remember_reads(respond: Respond) -> Respond:
    """A request that only looks remembers its reads."""

    def answer(request: HttpRequest) -> HttpResponse:
        if request.method not in LOOKS:
            return respond(request)
        with remembering():
            return respond(request)

    return answer
