"""Threads for one kind of work, and who waits for them: first come, first served, but who asked
much of late comes last.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")
Work = tuple["asyncio.Future[Any]", Callable[[], Any]]
# From the widest to the narrowest of what names somebody, such as a network and an address in it:
# who asks from many addresses of one network comes behind who asks from another, and within a
# network each address counts for itself.
Sender = tuple[Hashable, ...]

FORGET_HALF_S = 10.0
MOST_REMEMBERED = 20_000
# Who asked no more of late is as good as new: a password that was mistyped is tried again.
FEW_CALLS = 5
# whoever waited so long for a thread has mostly gone, and would only stand in the way
PATIENCE_S = 10.0


class BusyError(Exception):
    """More wait for these threads than makes sense: come again later."""


def _groups(sender: Sender) -> list[Sender]:
    """Everything that the sender belongs to, from the widest on: a network, an address in it."""
    return [sender[:end] for end in range(1, len(sender) + 1)]


class Lane:
    """`threads` threads. At most `waiting` calls wait for one; who asked least of late is the next,
    of equals who came first.

    Few calls are as good as none: so newcomers, however many they are, pass nobody who asked a few
    times. Who comes seldom does not wait behind those who come all the time.

    Where all places are taken, the newest call of the sender that asked most gives way to one that
    asked less.
    """

    def __init__(self, name: str, *, threads: int, waiting: int = 256) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._idle = threads
        self._limit = waiting
        self._queues: dict[Sender, deque[Work]] = {}
        self._waiting = 0
        # calls of late: of a network, and of each address in it
        self._asked: Counter[Sender] = Counter()
        self._forgot_at = 0.0
        self._open: set[asyncio.Future[Any]] = set()

    async def run(self, sender: Sender, call: Callable[[], Result]) -> Result:
        """What the call gives, called in one of the threads.

        Raises BusyError, and what the call raises.
        """
        loop = asyncio.get_running_loop()
        self._forget(loop.time())
        self._asked.update(_groups(sender))
        if self._waiting >= self._limit:
            self._make_room(sender)
        future: asyncio.Future[Result] = loop.create_future()
        work = (future, call)
        self._open.add(future)
        self._queues.setdefault(sender, deque()).append(work)
        self._waiting += 1
        self._start()
        end = loop.call_later(PATIENCE_S, self._expire, sender, work)
        try:
            return await future
        finally:
            end.cancel()
            self._open.discard(future)

    def fail(self, error: Exception) -> None:
        """Everybody who waits gets the error, also those whose call has begun: its thread goes on,
        and nobody waits for it.
        """
        for future in self._open:
            if not future.done():
                future.set_exception(error)

    def close(self) -> None:
        """No thread is waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        while self._idle and self._queues:
            future, call = self._next()
            if not future.done():
                self._idle -= 1
                self._pool.submit(self._work, asyncio.get_running_loop(), future, call)

    def _forget(self, now: float) -> None:
        if now - self._forgot_at < FORGET_HALF_S and len(self._asked) < MOST_REMEMBERED:
            return
        self._forgot_at = now
        # else a crowd would come before who comes now
        waiting = {group for sender in self._queues for group in _groups(sender)}
        kept = {
            group: count if group in waiting else count // 2 for group, count in self._asked.items()
        }
        self._asked = +Counter(kept)  # without what is 0

    def _of_late(self, sender: Sender) -> tuple[int, ...]:
        """How much more than a few calls came, answered or not, from the sender's network, and from
        itself.
        """
        return tuple(max(0, self._asked[group] - FEW_CALLS) for group in _groups(sender))

    def _make_room(self, sender: Sender) -> None:
        """Takes a place from who asked most. Raises BusyError where the sender asked as much."""
        most = max(self._queues, key=self._of_late)
        if self._of_late(most) <= self._of_late(sender):
            raise BusyError
        self._refuse(most, self._queues[most][-1])

    def _expire(self, sender: Sender, work: Work) -> None:
        """Ends the wait of a call that has not begun."""
        if work in self._queues.get(sender, ()):
            self._refuse(sender, work)

    def _refuse(self, sender: Sender, work: Work) -> None:
        self._take(sender, work)
        future, _ = work
        if not future.done():
            future.set_exception(BusyError())

    def _next(self) -> Work:
        """The oldest call of the sender whose turn it is; of equals with more calls each has its
        turn.
        """
        sender = min(self._queues, key=self._of_late)
        work = self._queues[sender][0]
        self._take(sender, work)
        return work

    def _take(self, sender: Sender, work: Work) -> None:
        """Takes the call from the queue of its sender, who then comes after its equals."""
        queue = self._queues.pop(sender)
        queue.remove(work)
        if queue:
            self._queues[sender] = queue
        self._waiting -= 1

    def _work(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        call: Callable[[], Any],
    ) -> None:
        result = None
        error = None
        try:
            result = call()
        except BaseException as caught:
            error = caught
        loop.call_soon_threadsafe(self._done, future, result, error)

    def _done(
        self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None
    ) -> None:
        self._idle += 1
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._start()
