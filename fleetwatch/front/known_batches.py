"""Batches of senders that the door knows, from the protocol's callbacks to their group and back:
no task is made for them. What is not stored so becomes a request like any other.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from django.db import connection

from fleetwatch.front.watch import Watch
from fleetwatch.ingest import door as ingest
from fleetwatch.ingest.continued import Sender
from fleetwatch.ingest.door import Door, Head
from fleetwatch.ingest.groups import Groups
from fleetwatch.ingest.taken_forms import FORMS
from fleetwatch.operations import disk

# Of one transaction: it holds its nodes' rows for some milliseconds.
MAX_GROUP = 64
# Batches that wait for their group; who comes then is told to come again. Two groups and a half:
# under a hundred milliseconds.
MAX_WAITING_BATCHES = 160
ACCEPTED = (
    (b"content-type", b"application/json"),
    *((name.lower().encode(), text.encode()) for name, text in FORMS.items()),
)


class KnownBatch(NamedTuple):
    """One on its way: no other one of its token may be."""

    head: Head
    token: str
    sender: Sender


class KnownBatches:
    """Begins, stores and ends them; nothing is begun while the database is away.

    `busy`: tokens of which a batch is being read, ids of nodes of which one is stored, known ones
    or not.
    """

    def __init__(self, door: Door, database: Watch) -> None:
        self._door = door
        self.busy: set[Hashable] = set()
        self._database = database
        self._groups = Groups(ingest.store_group, limit=MAX_GROUP)

    @property
    def is_full(self) -> bool:
        """Whether so many wait for their group that nobody more can."""
        return self._groups.waiting >= MAX_WAITING_BATCHES

    def begin(self, headers: Mapping[bytes, bytes]) -> KnownBatch | None:
        """The batch whose head has these headers, until `store` or `end`.

        None for one that has to be a request like any other, which may be refused: of an unknown
        sender, or while there is no room.
        """
        head = Head.of_headers(headers)
        sender = self._door.heard(head)
        if sender is None or not self._has_room:
            return None
        token = head.token
        if token in self.busy or sender.node_id in self.busy:
            return None
        self.busy.add(token)
        return KnownBatch(head, token, sender)

    def end(self, batch: KnownBatch) -> None:
        """Its sender is gone."""
        self.busy.discard(batch.token)

    def store(
        self, batch: KnownBatch, body: bytes, on_stored: Callable[[bytes | None], None]
    ) -> None:
        """Gives `on_stored` the body of the answer; None for a batch that is not stored."""
        node_id = batch.sender.node_id
        offered = None
        if node_id not in self.busy:
            offered = self._door.offered(batch.sender, batch.head, body)
        if offered is None:
            self.busy.discard(batch.token)
            on_stored(None)
            return
        self.busy.add(node_id)

        def on_done(windows: int | None) -> None:
            self.busy.discard(batch.token)
            self.busy.discard(node_id)
            answer = None
            try:
                answer = self._door.accepted(offered, windows) if windows else None
            finally:  # nobody else would answer: the long way finds that it is stored
                on_stored(answer)

        self._groups.put(offered, on_done)

    def fail(self) -> None:
        """Nobody waits for a group any more."""
        self._groups.fail()

    def close(self) -> None:
        """The groups' thread gives its connection to the database back, and is not waited for."""
        self._groups.close(_give_connection_back)

    @property
    def _has_room(self) -> bool:
        return not (self._database.is_away or self.is_full or disk.is_short())


def _give_connection_back() -> None:
    connection.close()  # of the thread that calls
