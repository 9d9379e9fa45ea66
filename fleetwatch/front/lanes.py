"""Threads for one kind of work, and who waits for them: a queue for each sender, served in turn."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")
Work = tuple["asyncio.Future[Any]", Callable[[], Any]]


class BusyError(Exception):
    """More wait for these threads than makes sense: come again later."""


class Lane:
    """`threads` threads. At most `waiting` calls wait for one; senders take turns, so that who asks often delays nobody else.

    Where all places are taken, the newest call of the sender that has most gives way to a sender that has fewer.
    """

    def __init__(self, name: str, *, threads: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._idle = threads
        self._limit = waiting
        self._queues: OrderedDict[Hashable, deque[Work]] = OrderedDict()
        self._waiting = 0
        self._open: set[asyncio.Future[Any]] = set()

    async def run(self, sender: Hashable, call: Callable[[], Result]) -> Result:
        """What the call gives, called in one of the threads. Raises BusyError, and what the call raises."""
        if self._waiting >= self._limit:
            self._make_room(sender)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._open.add(future)
        self._queues.setdefault(sender, deque()).append((future, call))
        self._waiting += 1
        self._start()
        try:
            return await future
        finally:
            self._open.discard(future)

    def fail(self, error: Exception) -> None:
        """Everybody who waits gets the error, also those whose call has begun: its thread goes on, and nobody waits for it."""
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

    def _make_room(self, sender: Hashable) -> None:
        """Takes a place from who has most. Raises BusyError where the sender would then have more than that one."""
        most = max(self._queues.values(), key=len)
        if len(most) <= len(self._queues.get(sender, ())) + 1:
            raise BusyError
        future, _ = most.pop()
        self._waiting -= 1
        if not future.done():
            future.set_exception(BusyError())

    def _next(self) -> Work:
        """The oldest call of the sender whose turn it is; the sender then is the last in turn."""
        sender, queue = self._queues.popitem(last=False)
        self._waiting -= 1
        work = queue.popleft()
        if queue:
            self._queues[sender] = queue
        return work

    def _work(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", call: Callable[[], Any]) -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as caught:
            error = caught
        loop.call_soon_threadsafe(self._done, future, result, error)

    def _done(self, future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
        self._idle += 1
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._start()
