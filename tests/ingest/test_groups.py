"""Group commit: who comes while others are stored is stored with those that came meanwhile."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleetwatch.ingest import groups
from fleetwatch.ingest.groups import Groups


class Announcing(list):
    """A queue that tells when somebody has queued."""

    def __init__(self, told):
        super().__init__()
        self.told = told

    def append(self, item):
        super().append(item)
        self.told.release()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(groups, "GATHERING_S", 0)


def test_alone_an_item_is_its_own_group():
    seen = []
    store = Groups(lambda group: seen.append(list(group)) or [True], limit=4).store

    assert [store(1), store(2)] == [True, True]
    assert seen == [[1], [2]]


def test_what_comes_meanwhile_is_stored_together_in_groups_of_the_limit():
    seen, first, go_on, waiting = [], threading.Event(), threading.Event(), threading.Semaphore(0)

    def work(group):
        seen.append(list(group))
        if len(seen) == 1:
            first.set()
            go_on.wait(10)
        return [item * 10 for item in group]

    together = Groups(work, limit=3)
    with ThreadPoolExecutor(6) as pool:
        leader = pool.submit(together.store, 0)
        first.wait(10)

        together._queue = Announcing(waiting)
        others = [pool.submit(together.store, item) for item in range(1, 6)]
        for _ in others:
            waiting.acquire(timeout=10)
        go_on.set()
        results = [leader.result(10), *(other.result(10) for other in others)]

    assert results == [0, 10, 20, 30, 40, 50]
    assert [len(group) for group in seen] == [1, 3, 2]


def test_a_group_that_fails_has_no_results_and_the_next_goes_on():
    calls = []

    def work(group):
        calls.append(group)
        if len(calls) == 1:
            raise RuntimeError("the first")
        return [True] * len(group)

    together = Groups(work, limit=4)

    with pytest.raises(RuntimeError):
        together.store(1)

    assert together.store(2) is True


def test_everyone_is_answered_with_what_is_theirs():
    store = Groups(lambda group: [item + 1 for item in group], limit=4).store

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(store, range(400)))

    assert results == list(range(1, 401))
