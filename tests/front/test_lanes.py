"""Threads for one kind of work: senders take turns, and who comes when too many wait is told so."""

import asyncio
import threading

import pytest

from fleetwatch.front.lanes import BusyError, Lane


class Calls:
    """Calls that note when they are at work; the first waits for `go_on`."""

    def __init__(self):
        self.order = []
        self.go_on = threading.Event()

    def named(self, name):
        def call():
            self.order.append(name)
            self.go_on.wait(10)
            return name

        return call


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def test_a_call_gives_its_result_or_raises_what_it_raised():
    async def story():
        lane = Lane("test", threads=1, waiting=1)
        assert await lane.run("a", lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await lane.run("a", lambda: 1 // 0)
        assert await lane.run("a", lambda: 8) == 8

    asyncio.run(story())


def test_senders_take_turns_whatever_one_of_them_asks():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run("greedy", calls.named("greedy 0")))]
        await until(lambda: calls.order)
        for number in (1, 2, 3):
            running.append(asyncio.create_task(lane.run("greedy", calls.named(f"greedy {number}"))))
        await asyncio.sleep(0)
        running.append(asyncio.create_task(lane.run("modest", calls.named("modest"))))
        await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["greedy 0", "greedy 1", "modest", "greedy 2", "greedy 3"]


def test_who_comes_when_as_many_wait_as_may_is_told():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=1)
        running = [asyncio.create_task(lane.run("a", calls.named("first")))]
        await until(lambda: calls.order)
        running.append(asyncio.create_task(lane.run("a", calls.named("second"))))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await lane.run("b", calls.named("third"))
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["first", "second"]


def test_where_all_places_are_taken_who_has_most_gives_way_to_who_has_fewer():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=4)
        running = [asyncio.create_task(lane.run("greedy", calls.named("greedy 0")))]
        await until(lambda: calls.order)
        for sender in ("greedy 1", "greedy 2", "greedy 3", "other", "modest", "modest again"):
            running.append(asyncio.create_task(lane.run(sender.split()[0], calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        return await asyncio.gather(*running, return_exceptions=True)

    told = asyncio.run(story())

    assert [each if isinstance(each, str) else type(each) for each in told] == [
        "greedy 0",
        "greedy 1",
        "greedy 2",
        BusyError,
        "other",
        "modest",
        BusyError,
    ]


def test_who_waits_when_the_lane_fails_hears_so_and_what_had_not_begun_never_does():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run("a", calls.named("begun")))]
        await until(lambda: calls.order)
        running.append(asyncio.create_task(lane.run("a", calls.named("waiting"))))
        await asyncio.sleep(0)
        lane.fail(ConnectionError("lost"))
        told = await asyncio.gather(*running, return_exceptions=True)
        calls.go_on.set()
        return [type(error) for error in told], await lane.run("a", lambda: "later")

    told, later = asyncio.run(story())

    assert told == [ConnectionError, ConnectionError]
    assert later == "later"
    assert calls.order == ["begun"]
