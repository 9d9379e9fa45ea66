"""The door in front of Django: batches that only continue what is known, stored in groups.

It answers nothing but 200. Whatever it does not recognise, and whatever its group did not
store, goes to Django's view with its body as it came: that view is the reference and gives
every refusal. From what the view stored the door learns.
"""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.db import Error, connection
from django.utils import timezone

from agent import packed
from agent.wire import WireError
from fleetwatch.ingest import answers, fast_decode, learning, received_log
from fleetwatch.ingest.body import TooLargeError, expand
from fleetwatch.ingest.continued import (
    Arrived,
    Moment,
    Offered,
    Sender,
    arrived,
    store_together,
)
from fleetwatch.ingest.fast_decode import Repeat
from fleetwatch.ingest.node_orders import open_orders
from fleetwatch.ingest.pressure import pressure
from fleetwatch.ingest.requests import bearer_of
from fleetwatch.ingest.tokens import USE_NOTED_EVERY
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.services import CLOCK_TOLERANCE_MS

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

PATH = "/api/v1/batches"
ENCODING = b"deflate"
# Bytes of a body as sent; a minute of eight GPUs is 3 kB. What is larger (the rest of an outage)
# keeps no group waiting.
MAX_PACKED = 262_144
# And what it inflates to: all bodies of a group are held inflated at once, and two kilobytes may be
# eight megabytes.
MAX_INFLATED = 1_048_576
# Of one node, hour and process by the short way, which counts in no table: four days of a node of
# eight GPUs. What is more goes the long way, which counts (inventory/intake.py).
MAX_SHORT_BYTES = 64 * 1024 * 1024
_PACKED = packed.CONTENT_TYPE.encode()
# of a Head: headers, and the same in a WSGI environment
_HEADERS = (
    b"authorization",
    b"host",
    b"content-type",
    b"content-encoding",
    b"x-fleetwatch-sent-ms",
)
_VARIABLES = (
    "HTTP_AUTHORIZATION",
    "HTTP_HOST",
    "CONTENT_TYPE",
    "HTTP_CONTENT_ENCODING",
    "HTTP_X_FLEETWATCH_SENT_MS",
)
# Nodes that a process remembers, about 5 kB each, 15 kB with jobs; who was not heard for longest is
# forgotten for one more.
MAX_SENDERS = 20_000


class Head(NamedTuple):
    """What the door goes by in a request's head, as it came; b"" where it is missing."""

    authorization: bytes
    host: bytes
    content_type: bytes
    encoding: bytes
    sent_ms: bytes

    @classmethod
    def of_headers(cls, headers: Mapping[bytes, bytes]) -> "Head":
        """Of headers by their names in lower case."""
        return cls(*[headers.get(name, b"") for name in _HEADERS])

    @classmethod
    def of_environ(cls, environ: Environ) -> "Head":
        """Of a WSGI environment."""
        return cls(*[environ.get(name, "").encode("latin-1") for name in _VARIABLES])

    @property
    def token(self) -> str:
        """The token that it was sent with. Raises UnknownTokenError when there is none."""
        return bearer_of(self.authorization.decode("latin-1"))

    @property
    def key(self) -> bytes:
        """Who sends, and to which name of ours: Django lets the same through that it let through
        before.
        """
        return hashlib.sha256(self.authorization + b"\n" + self.host).digest()

    def is_usual(self, now: datetime) -> bool:
        """Whether the body is in packed form, by a clock that is right."""
        if (self.content_type, self.encoding) != (_PACKED, ENCODING):
            return False
        sent = self.sent_ms
        return not sent or (
            sent.isdigit() and len(sent) <= 15 and abs(to_ms(now) - int(sent)) <= CLOCK_TOLERANCE_MS
        )


class Door:
    """`POST /api/v1/batches` before Django, in parts: the front (fleetwatch/front) calls them, and
    stores in groups.
    """

    def __init__(self, django: Application) -> None:
        self.django = django
        self._senders: OrderedDict[bytes, Sender] = OrderedDict()  # heard last comes last
        self._noted: dict[int, datetime] = {}  # token id -> when its use was last noted
        self._hour_ms = 0
        self._short_bytes: Counter[int] = Counter()  # of this hour, by node id

    def known_node(self, head: Head) -> int | None:
        """The id of the node whose batches came the long way with this token, to this name
        of ours.
        """
        sender = self._senders.get(head.key)
        return None if sender is None else sender.node_id

    def forget(self, head: Head) -> None:
        """The token speaks for its node no more."""
        self._senders.pop(head.key, None)

    def heard(self, head: Head) -> Sender | None:
        """Who sent it, if that is known; it comes last of those that may be forgotten."""
        key = head.key
        sender = self._senders.get(key)
        # a thread of the long way may forget it meanwhile
        with suppress(KeyError):
            self._senders.move_to_end(key)
        return sender

    def offered(self, sender: Sender, head: Head, body: bytes) -> Offered | None:
        """What a known sender brings in the usual form; None: it has to go the long way."""
        now = timezone.now()
        if len(body) > MAX_PACKED or not head.is_usual(now):
            return None
        if not self._is_within_hour(sender.node_id, len(body), now):
            return None
        noted = self._noted.get(sender.token_id)
        return Offered(
            sender, body, now, is_use_due=noted is None or now - noted >= USE_NOTED_EVERY
        )

    def _is_within_hour(self, node_id: int, length: int, now: datetime) -> bool:
        """Whether the node may send so much more by the short way in this hour; it is counted."""
        hour_ms = to_ms(now) // HOUR_MS * HOUR_MS
        if hour_ms != self._hour_ms:
            self._hour_ms = hour_ms
            self._short_bytes.clear()
        self._short_bytes[node_id] += length
        return self._short_bytes[node_id] <= MAX_SHORT_BYTES

    def accepted(self, offered: Offered, windows: int) -> bytes:
        """The body of the answer to a batch that is stored."""
        if offered.is_use_due:
            self._noted[offered.sender.token_id] = offered.received_at
        orders = open_orders.of(offered.sender.token_id)
        return msgspec.json.encode(answers.accepted(stored=windows, duplicate=0, orders=orders))

    def long_way(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Django's view, from which the door learns what the sender's next batches are compared
        with.
        """
        answer = self.django(environ, start_response)
        lesson = environ.pop(learning.LESSON, None)
        head = Head.of_environ(environ)
        if (
            lesson is not None
            and head.is_usual(timezone.now())
            and (sender := learning.sender(lesson)) is not None
        ):
            self._senders[head.key] = sender
            while len(self._senders) > MAX_SENDERS:
                self._senders.popitem(last=False)
            used_at = lesson.token.last_used_at or lesson.received_at
            self._noted.setdefault(sender.token_id, used_at)
        return answer


def store_group(group: Sequence[Offered]) -> list[int]:
    """How many windows of each are stored: 0 = none, it goes the long way.

    One thread reads and stores for all: threads that read side by side only take the interpreter
    from each other.
    """
    received = Moment.of(group[-1].received_at)
    batches = _arrived(group, received)
    done = iter(_stored([batch for batch in batches if batch is not None]))
    stored = [batch.windows if batch is not None and next(done) else 0 for batch in batches]
    received_log.received.count(batches=len(stored) - stored.count(0), windows=sum(stored))
    return stored


def _arrived(group: Sequence[Offered], received: Moment) -> list[Arrived | None]:
    """Each batch that is valid and only continues."""
    contents = [_expanded(offered.packed) for offered in group]
    repeats = [
        Repeat(content, offered.sender.facts, offered.sender.known_words)
        for offered, content in zip(group, contents, strict=True)
    ]
    return [
        None if read is None else arrived(offered, read, received)
        for offered, read in zip(group, fast_decode.decode_repeats(repeats), strict=True)
    ]


def _expanded(body: bytes) -> bytes:
    """What it inflates to; nothing where it does not, or to too much for a group."""
    try:
        return expand(body, ENCODING.decode(), limit=MAX_INFLATED)
    except (TooLargeError, WireError):
        return b""


def _stored(group: Sequence[Arrived]) -> list[bool]:
    if not group:
        return []
    try:
        pressure.measure(group[0].received.at)
        open_orders.look(group[0].received.at)
        return [False] * len(group) if pressure.is_refusing else store_together(group)
    except Error:
        return [False] * len(group)  # the long way says what is wrong
    finally:
        if connection.errors_occurred and not connection.in_atomic_block:
            connection.close()  # else it is kept: the groups' thread has one of its own
