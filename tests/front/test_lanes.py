"""Threads for one kind of work: who asked least is next, and who comes when too many wait is told so."""

import asyncio
import threading

import pytest

from fleetwatch.front import lanes
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
        assert await lane.run(("a",), lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await lane.run(("a",), lambda: 1 // 0)
        assert await lane.run(("a",), lambda: 8) == 8

    asyncio.run(story())


def test_who_asked_less_is_served_before_who_asked_more():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run(("greedy",), calls.named("greedy 0")))]
        await until(lambda: calls.order)
        for number in (1, 2, 3):
            running.append(asyncio.create_task(lane.run(("greedy",), calls.named(f"greedy {number}"))))
        await asyncio.sleep(0)
        running.append(asyncio.create_task(lane.run(("modest",), calls.named("modest"))))
        await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["greedy 0", "modest", "greedy 1", "greedy 2", "greedy 3"]


def test_equals_are_served_in_the_order_in_which_they_came():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run(("first",), calls.named("first")))]
        await until(lambda: calls.order)
        for sender in ("b", "a", "c"):
            running.append(asyncio.create_task(lane.run((sender,), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["first", "b", "a", "c"]


async def served_before(lane, senders):
    """All of them, one after the other."""
    for sender in senders:
        await lane.run(sender, lambda: None)


def test_who_asks_for_the_first_time_comes_before_a_crowd_that_keeps_asking_and_takes_a_place_of_it():
    calls = Calls()
    crowd = [(f"10.{number}.0.0/24", f"10.{number}.0.1") for number in range(4)]

    async def story():
        lane = Lane("test", threads=1, waiting=4)
        await served_before(lane, crowd * 2)
        running = [asyncio.create_task(lane.run(("x", "x"), calls.named("begun")))]
        await until(lambda: calls.order)
        for sender in crowd:
            running.append(asyncio.create_task(lane.run(sender, calls.named(sender[1]))))
        await asyncio.sleep(0)
        running.append(asyncio.create_task(lane.run(("192.0.2.0/24", "192.0.2.1"), calls.named("honest"))))
        await asyncio.sleep(0)
        calls.go_on.set()
        told = await asyncio.gather(*running, return_exceptions=True)
        return [type(each) for each in told if isinstance(each, Exception)]

    refused = asyncio.run(story())

    assert refused == [BusyError]
    assert calls.order[:2] == ["begun", "honest"]
    assert len(calls.order) == 5


def test_addresses_of_one_network_count_together_and_apart_within_it():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        await served_before(lane, [("near", "a"), ("near", "b"), ("far", "c")])
        running = [asyncio.create_task(lane.run(("x", "x"), calls.named("begun")))]
        await until(lambda: calls.order)
        for sender in (("near", "a"), ("near", "new"), ("far", "c")):
            running.append(asyncio.create_task(lane.run(sender, calls.named(sender[1]))))
        await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["begun", "c", "new", "a"]


@pytest.mark.parametrize(("newest_first", "order"), [(False, ["often", "once"]), (True, ["once", "often"])])
def test_what_was_asked_is_forgotten_by_halves(monkeypatch, newest_first, order):
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10, newest_first=newest_first)
        await served_before(lane, [("once",), *[("often",)] * 6])
        monkeypatch.setattr(lanes, "FORGET_HALF_S", 0.0)
        await served_before(lane, [("x",)] * 3)
        monkeypatch.setattr(lanes, "FORGET_HALF_S", 30.0)
        running = [asyncio.create_task(lane.run(("x",), calls.named("begun")))]
        await until(lambda: calls.order)
        for sender in ("often", "once"):
            running.append(asyncio.create_task(lane.run((sender,), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["begun", *order]  # equal by now


def test_of_equal_strangers_the_one_that_came_last_is_next():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10, newest_first=True)
        running = [asyncio.create_task(lane.run(("first",), calls.named("first")))]
        await until(lambda: calls.order)
        for sender in ("b", "a", "c", "b"):
            running.append(asyncio.create_task(lane.run((sender,), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["first", "c", "a", "b", "b"]


def test_who_comes_when_as_many_wait_as_may_is_told():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=1)
        running = [asyncio.create_task(lane.run(("a",), calls.named("first")))]
        await until(lambda: calls.order)
        running.append(asyncio.create_task(lane.run(("a",), calls.named("second"))))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await lane.run(("a",), calls.named("third"))
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["first", "second"]


def test_where_all_places_are_taken_who_asked_most_gives_way_to_who_asked_less():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=4)
        running = [asyncio.create_task(lane.run(("greedy",), calls.named("greedy 0")))]
        await until(lambda: calls.order)
        for sender in ("greedy 1", "greedy 2", "greedy 3", "other", "modest", "modest again"):
            running.append(asyncio.create_task(lane.run((sender.split()[0],), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        return await asyncio.gather(*running, return_exceptions=True)

    told = asyncio.run(story())

    assert [each if isinstance(each, str) else type(each) for each in told] == [
        "greedy 0",
        "greedy 1",
        BusyError,
        BusyError,
        "other",
        "modest",
        "modest again",
    ]


def test_who_waits_when_the_lane_fails_hears_so_and_what_had_not_begun_never_does():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run(("a",), calls.named("begun")))]
        await until(lambda: calls.order)
        running.append(asyncio.create_task(lane.run(("a",), calls.named("waiting"))))
        await asyncio.sleep(0)
        lane.fail(ConnectionError("lost"))
        told = await asyncio.gather(*running, return_exceptions=True)
        calls.go_on.set()
        return [type(error) for error in told], await lane.run(("a",), lambda: "later")

    told, later = asyncio.run(story())

    assert told == [ConnectionError, ConnectionError]
    assert later == "later"
    assert calls.order == ["begun"]


def test_who_waited_long_for_a_thread_is_told_and_what_has_begun_goes_on(monkeypatch):
    monkeypatch.setattr(lanes, "PATIENCE_S", 0.05)
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        begun = asyncio.create_task(lane.run(("a",), calls.named("begun")))
        await until(lambda: calls.order)
        with pytest.raises(BusyError):
            await lane.run(("b",), calls.named("waited"))
        calls.go_on.set()
        return await begun, await lane.run(("b",), lambda: "later")

    assert asyncio.run(story()) == ("begun", "later")
    assert calls.order == ["begun"]


def test_a_crowd_is_not_forgotten_while_it_waits(monkeypatch):
    monkeypatch.setattr(lanes, "FORGET_HALF_S", 0.0)
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10, newest_first=True)
        running = [asyncio.create_task(lane.run(("a",), calls.named("begun")))]
        await until(lambda: calls.order)
        for sender in ("crowd", "honest"):
            running.append(asyncio.create_task(lane.run((sender,), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["begun", "honest", "crowd"]
