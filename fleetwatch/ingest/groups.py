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
        self._queue: list[tuple[Item, Callable[[Result | None], None]]] = []
        # who waits for the group that is at work
        self._waiting: list[Callable[[Result | None], None]] = []
        self._is_leading = False

    @property
    def waiting(self) -> int:
        """How many wait for their group."""
        return len(self._queue)

    def put(self, item: Item, on_done: Callable[[Result | None], None]) -> None:
        """Calls with the item's result when `work` has returned, in the loop."""
        self._queue.append((item, on_done))
        if not self._is_leading:
            self._is_leading = True
            asyncio.get_running_loop().call_soon(self._start)

    def fail(self) -> None:
        """Everybody who waits has no result; a group at work is finished, and nobody waits
        for it.
        """
        waiting = [*self._waiting, *(on_done for _, on_done in self._queue)]
        self._waiting = []
        self._queue = []
        self._tell(waiting, [None] * len(waiting))

    def close(self, last: Callable[[], object]) -> None:
        """Has the thread call `last`, as the last, and does not wait for it."""
        self._thread.submit(last)
        self._thread.shutdown(wait=False)

    def _start(self) -> None:
        """Stores the next group, if anybody waits."""
        group = self._queue[: self._limit]
        self._queue = self._queue[self._limit :]
        self._is_leading = bool(group)
        if group:
            self._waiting = [on_done for _, on_done in group]
            items = [item for item, _ in group]
            self._thread.submit(self._run, asyncio.get_running_loop(), items)

    def _run(self, loop: asyncio.AbstractEventLoop, items: Sequence[Item]) -> None:
        results: Sequence[Result | None]
        try:
            results = self._work(items)
        except Exception:
            log.exception("group failed", batches=len(items))
            results = [None] * len(items)
        loop.call_soon_threadsafe(self._end, loop, results)

    def _end(self, loop: asyncio.AbstractEventLoop, results: Sequence[Result | None]) -> None:
        waiting = self._waiting
        self._waiting = []
        if waiting:
            self._tell(waiting, results)
        if len(results) > 1:
            loop.call_later(GATHERING_S, self._start)
        else:
            self._start()

    def _tell(
        self,
        waiting: Sequence[Callable[[Result | None], None]],
        results: Sequence[Result | None],
    ) -> None:
        for on_done, result in zip(waiting, results, strict=True):
            try:
                on_done(result)
            except Exception:
                log.exception("answer failed")
