"""Group commit: who comes while others are stored is stored with those that came meanwhile."""

import asyncio
import threading

import pytest

from fleetwatch.ingest import groups
from fleetwatch.ingest.groups import Groups


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(groups, "GATHERING_S", 0)


class Work:
    """What stores: it notes its groups, and while `go_on` is clear the first of them takes its
    time.
    """

    def __init__(self):
        self.groups = []
        self.go_on = threading.Event()

    def __call__(self, group):
        self.groups.append(list(group))
        self.go_on.wait(10)
        return [item * 10 for item in group]


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def test_alone_an_item_is_its_own_group():
    work = Work()
    work.go_on.set()

    async def story():
        together = Groups(work, limit=4)
        return [await together.put(1), await together.put(2)]

    assert asyncio.run(story()) == [10, 20]
    assert work.groups == [[1], [2]]


def test_what_comes_meanwhile_is_stored_together_in_groups_of_the_limit():
    work = Work()

    async def story():
        together = Groups(work, limit=3)
        calls = [together.put(0)]
        await until(lambda: work.groups)
        calls += [together.put(item) for item in range(1, 6)]
        await until(lambda: together.waiting == 5)
        work.go_on.set()
        return await asyncio.gather(*calls)

    assert asyncio.run(story()) == [0, 10, 20, 30, 40, 50]
    assert work.groups == [[0], [1, 2, 3], [4, 5]]


def test_a_group_that_fails_has_no_results_and_the_next_goes_on():
    def work(group):
        if group == [1]:
            raise RuntimeError("the first")
        return [True] * len(group)

    async def story():
        together = Groups(work, limit=4)
        return [await together.put(1), await together.put(2)]

    assert asyncio.run(story()) == [None, True]


def test_everyone_is_answered_with_what_is_theirs():
    async def story():
        together = Groups(lambda group: [item + 1 for item in group], limit=4)
        return await asyncio.gather(*(together.put(item) for item in range(400)))

    assert asyncio.run(story()) == list(range(1, 401))


def test_when_the_database_is_lost_nobody_waits_for_a_group_that_does():
    work = Work()

    async def story():
        together = Groups(work, limit=1)
        calls = [together.put(item) for item in (1, 2)]
        await until(lambda: work.groups and together.waiting == 1)
        together.fail(ConnectionError("lost"))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        work.go_on.set()
        return answers, await together.put(3)

    answers, later = asyncio.run(story())

    assert [type(answer) for answer in answers] == [ConnectionError, ConnectionError]
    assert later == 30
    assert work.groups == [[1], [3]]
