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


def put(together, item):
    """The item's result, once it is there."""
    result = asyncio.get_running_loop().create_future()
    together.put(item, result.set_result)
    return result


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def test_alone_an_item_is_its_own_group():
    work = Work()
    work.go_on.set()

    async def story():
        together = Groups(work, limit=4)
        return [await put(together, 1), await put(together, 2)]

    assert asyncio.run(story()) == [10, 20]
    assert work.groups == [[1], [2]]


def test_what_comes_meanwhile_is_stored_together_in_groups_of_the_limit():
    work = Work()

    async def story():
        together = Groups(work, limit=3)
        calls = [put(together, 0)]
        await until(lambda: work.groups)
        calls += [put(together, item) for item in range(1, 6)]
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
        return [await put(together, 1), await put(together, 2)]

    assert asyncio.run(story()) == [None, True]


def test_everyone_is_answered_with_what_is_theirs():
    async def story():
        together = Groups(lambda group: [item + 1 for item in group], limit=4)
        return await asyncio.gather(*(put(together, item) for item in range(400)))

    assert asyncio.run(story()) == list(range(1, 401))


def test_when_the_database_is_lost_nobody_waits_for_a_group_that_does():
    work = Work()

    async def story():
        together = Groups(work, limit=1)
        calls = [put(together, item) for item in (1, 2)]
        await until(lambda: work.groups and together.waiting == 1)
        together.fail()
        answers = await asyncio.gather(*calls)
        work.go_on.set()
        return answers, await put(together, 3)

    answers, later = asyncio.run(story())

    assert answers == [None, None]
    assert later == 30
    assert work.groups == [[1], [3]]


def test_an_answer_that_fails_keeps_nobody_elses():
    async def story():
        together = Groups(lambda group: group, limit=4)
        together.put(1, None)  # not callable
        return await put(together, 2)

    assert asyncio.run(story()) == 2
