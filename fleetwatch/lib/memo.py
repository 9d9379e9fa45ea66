"""Reads that one look at a page asks for again and again are answered once."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.http import HttpRequest, HttpResponse

LOOKS = ("GET", "HEAD")  # what changes something reads what it changed

P = ParamSpec("P")
T = TypeVar("T")
Respond = Callable[[HttpRequest], HttpResponse]

NOT_KEPT = object()

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


def is_looking() -> bool:
    """Whether what is read now is remembered."""
    return _answers.get() is not None


def kept_answer(*asked: Hashable) -> Any:
    """What was kept for the rest of this look; NOT_KEPT where nothing was, or nobody only looks."""
    answers = _answers.get()
    return NOT_KEPT if answers is None else answers.get(asked, NOT_KEPT)


def keep_answer(answer: Any, *asked: Hashable) -> None:
    """Keeps it for the rest of this look, if it is one."""
    answers = _answers.get()
    if answers is not None:
        answers[asked] = answer


def kept_while(digest: Callable[[], str]) -> Callable[[Callable[[], T]], Callable[[], T]]:
    """A read that the process keeps while the digest of what it follows from is the same."""

    def decorated(read: Callable[[], T]) -> Callable[[], T]:
        kept: tuple[str, T] | None = None

        @wraps(read)
        def kept_or_read() -> T:
            nonlocal kept
            now = digest()
            if kept is not None and kept[0] == now:
                return kept[1]
            answer = read()
            # else it changed between the two: whose digest this is nobody knows
            if digest() == now:
                kept = (now, answer)
            return answer

        return kept_or_read

    return decorated


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
