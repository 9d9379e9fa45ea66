"""Group commit: batches that arrive at once are stored in one transaction.

The first request that finds nobody at work stores what has gathered, its own among
it; whoever comes meanwhile waits, and one of them stores the next group. No thread
of its own; alone, a request stores itself at once.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


# While requests do come at once, a group waits this long for more: a commit costs the same for one as for many.
GATHERING_S = 0.004


class _Waiting(Generic[Item, Result]):
    """One request; `turn` is free when it is done or has to lead."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.is_done = False
        self.result: Result | None = None
        self.turn = threading.Lock()
        self.turn.acquire()


class Groups(Generic[Item, Result]):
    """`store` gives each item to `work`, together with those that came at the same time.

    `work` answers with one result for each item and raises nothing; should it raise
    all the same, the results of its group are None.
    """

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result]], *, limit: int) -> None:
        self._work = work
        self._limit = limit
        self._guard = threading.Lock()
        self._queue: list[_Waiting[Item, Result]] = []
        self._is_led = False
        self._is_busy = False  # several came at once last time

    def store(self, item: Item) -> Result | None:
        """The item's result, when `work` has returned."""
        mine: _Waiting[Item, Result] = _Waiting(item)
        with self._guard:
            self._queue.append(mine)
            must_wait, self._is_led = self._is_led, True
        if must_wait:
            mine.turn.acquire()
        if not mine.is_done:
            self._lead()
        return mine.result

    def _lead(self) -> None:
        """Stores the oldest of the queue, of which the caller is the first; then another one leads."""
        if self._is_busy:
            time.sleep(GATHERING_S)
        with self._guard:
            group, self._queue = self._queue[: self._limit], self._queue[self._limit :]
            self._is_busy = len(group) > 1
        try:
            for one, result in zip(group, self._work([one.item for one in group]), strict=True):
                one.result = result
        finally:
            with self._guard:
                following = self._queue[:1]
                self._is_led = bool(following)
            for one in group:
                one.is_done = True
            for one in (*group, *following):
                one.turn.release()
