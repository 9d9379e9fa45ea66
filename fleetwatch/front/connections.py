"""Who is connected, for how long we wait for them, and who has to go. Pure: the time comes in.

An address may hold many connections (agents behind one router), and none of them for ever: who lets
us wait longer than is fair is disconnected, and where an address holds too many, the one that let
us wait longest goes.
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


class Waits(enum.Enum):
    """What we wait for of a peer."""

    HEAD = "the head of a request"
    NEXT = "another request"
    BODY = "the body of a request"
    BATCH = "the body of a known sender's batch"
    ANSWER = "its taking of our answer"


# Seconds. How long a body may take depends on its size: bodies.py.
HEAD_S = 10.0
# longer than a proxy in front of us keeps idle connections (nginx: 60 s), so that it is the one who
# ends them
NEXT_S = 75.0
ANSWER_S = 20.0  # for each 28 KiB, by the marks of a full and an empty buffer
BATCH_S = 20.0  # a quarter of a megabyte at most
LIMITS_S = {
    Waits.HEAD: HEAD_S,
    Waits.NEXT: NEXT_S,
    Waits.BATCH: BATCH_S,
    Waits.ANSWER: ANSWER_S,
}


@dataclass(slots=True, eq=False)
class Connection:
    """One connection. `address` None: a proxy's, which speaks for many, until its request says for
    whom.

    `waits_for` None: the peer waits for us, since `since` (seconds of a monotonic clock).
    """

    abort: Callable[[], None]
    unsent: Callable[[], int]  # bytes of answers that it did not take yet
    address: str | None
    since: float
    waits_for: Waits | None = Waits.HEAD
    # when it last was seen to take what we send, or to have taken all
    taken_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.taken_at = self.since

    @property
    def waiting_since(self) -> float | None:
        """Since when we wait for it, be it only for its taking of an answer; None: it waits for us
        alone.
        """
        if self.unsent():
            return self.taken_at
        return None if self.waits_for is None else self.since

    def wait_for(self, what: Waits | None, now: float) -> None:
        """From now on we wait for `what`."""
        self.waits_for = what
        self.since = now

    def is_overdue(self, now: float) -> bool:
        """Whether it let us wait too long.

        An answer that was not taken counts, whatever came after it.
        """
        if not self.unsent():
            self.taken_at = now
        elif now - self.taken_at > ANSWER_S:
            return True
        return self.waits_for in LIMITS_S and now - self.since > LIMITS_S[self.waits_for]


@dataclass(slots=True)
class Connections:
    """All connections of this process, at most `per_address` of one address and `in_all`
    together.
    """

    per_address: int
    in_all: int
    _all: set[Connection] = field(default_factory=set)
    _of_address: dict[str, set[Connection]] = field(default_factory=lambda: defaultdict(set))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> bool:
        """Whether there is room for it, made where necessary at the cost of who let us wait
        longest.
        """
        if len(self._all) >= self.in_all and not self._end_longest_wait(self._largest()):
            return False
        self._all.add(connection)
        return connection.address is None or self._join(connection, connection.address)

    def move_to(self, connection: Connection, address: str) -> bool:
        """Counts it at the address that a trusted proxy names; whether there is room there."""
        if connection.address == address:
            return True
        self._leave(connection)
        connection.address = address
        return self._join(connection, address)

    def remove(self, connection: Connection) -> None:
        """It is closed; more than once is fine."""
        self._all.discard(connection)
        self._leave(connection)

    def end_overdue(self, now: float) -> int:
        """How many were disconnected because they let us wait too long."""
        overdue = [connection for connection in self._all if connection.is_overdue(now)]
        for connection in overdue:
            self._end(connection)
        return len(overdue)

    def _join(self, connection: Connection, address: str) -> bool:
        of_address = self._of_address[address]
        of_address.add(connection)
        if len(of_address) <= self.per_address or self._end_longest_wait(of_address - {connection}):
            return True
        self.remove(connection)
        return False

    def _leave(self, connection: Connection) -> None:
        if connection.address is None:
            return
        of_address = self._of_address.get(connection.address, set())
        of_address.discard(connection)
        if not of_address:
            self._of_address.pop(connection.address, None)

    def _largest(self) -> set[Connection]:
        """The connections of the address that holds most, or of the proxy."""
        groups: Iterator[set[Connection]] = iter(self._of_address.values())
        largest = max(groups, key=len, default=set())
        unnamed = len(self._all) - sum(map(len, self._of_address.values()))
        if unnamed <= len(largest):
            return largest
        return {connection for connection in self._all if connection.address is None}

    def _end_longest_wait(self, connections: set[Connection]) -> bool:
        """Whether one of them was disconnected; never one that only waits for us."""
        waiting = [
            (since, each) for each in connections if (since := each.waiting_since) is not None
        ]
        if not waiting:
            return False
        self._end(min(waiting, key=lambda wait: wait[0])[1])
        return True

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.abort()
