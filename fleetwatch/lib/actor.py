"""Who acts now: a person at a page, in Slack or by a link in mail, a token at the API, a command at
a shell, or the hub itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

PAGE = "page"
API = "api"
SLACK = "slack"
MAIL = "link in mail"
COMMAND = "command"
HUB = "hub"


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` None: no account of ours. `address` "": not over the network. `token`: how the API
    token that spoke for the user begins. `at`: when, of what a demo plays of the past (None: now).
    """

    name: str
    user_id: int | None = None
    via: str = HUB
    address: str = ""
    token: str = ""
    at: datetime | None = None


THE_HUB = Actor("FleetWatch")  # what nobody asked for: its clock


def _the_hub() -> Actor:
    return THE_HUB


_actor: ContextVar[Callable[[], Actor]] = ContextVar("actor", default=_the_hub)


def actor() -> Actor:
    """Who acts in this request, command or task."""
    return _actor.get()()


@contextmanager
def acting(who: Callable[[], Actor]) -> Iterator[None]:
    """What is done within is done by the actor, who is asked for only where that matters."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)
