"""Group commit: batches that arrive at once are stored in one transaction.

The first to come is stored at once, by the one thread there is; whoever comes meanwhile waits in
the event loop, holding no thread, and is in the next group.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog

Item = TypeVar("Item")
Result = TypeVar("Result")

# While batches do come at once, a group waits this long for more: a commit costs the same for one
# as for many.
GATHERING_S = 0.004

log = structlog.get_logger(__name__)


class Groups(Generic[Item, Result]):
    """`put` gives each item to `work`, in a thread, together with those that came at the same
    time.

    `work` answers with one result for each item and raises nothing; should it raise
    all the same, the results of its group are None.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result]], *, limit: int) -> None:
        self._work = work
        self._limit = limit
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="groups")
        self._queue: list[tuple[Item, asyncio.Future[Result | None]]] = []
        self._stored: list[asyncio.Future[Result | None]] = []  # the group that is at work
        self._leading: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many wait for their group."""
        return len(self._queue)

    def put(self, item: Item) -> asyncio.Future[Result | None]:
        """The item's result, when `work` has returned."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result | None] = loop.create_future()
        self._queue.append((item, future))
        if self._leading is None:
            self._leading = loop.create_task(self._lead())
        return future

    def fail(self, error: Exception) -> None:
        """Everybody who waits gets the error; a group at work is finished, and nobody waits
        for it.
        """
        waiting = [future for _, future in self._queue]
        self._queue = []
        for future in (*waiting, *self._stored):
            if not future.done():
                future.set_exception(error)

    def close(self) -> None:
        """The thread is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _lead(self) -> None:
        """Stores group after group until nobody waits."""
        is_busy = False
        while self._queue:
            if is_busy:
                await asyncio.sleep(GATHERING_S)
            group = self._queue[: self._limit]
            self._queue = self._queue[self._limit :]
            is_busy = len(group) > 1
            self._stored = [future for _, future in group]
            results = await self._results([item for item, _ in group])
            for future, result in zip(self._stored, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._stored = []
        self._leading = None

    async def _results(self, items: Sequence[Item]) -> Sequence[Result | None]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, items)
        except Exception:
            log.exception("group failed", batches=len(items))
            return [None] * len(items)
