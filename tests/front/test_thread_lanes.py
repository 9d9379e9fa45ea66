"""Threads for one kind of work: who asked least is next, and who comes when too many wait is told
so.
"""

import asyncio
import threading

import pytest

from fleetwatch.front import thread_lanes
from fleetwatch.front.thread_lanes import BusyError, Lane


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


@pytest.fixture
def each_call_counts(monkeypatch):
    """A few calls are as many as any."""
    monkeypatch.setattr(thread_lanes, "FEW_CALLS", 0)


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


@pytest.mark.usefixtures("each_call_counts")
def test_who_asked_less_is_served_before_who_asked_more():
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run(("greedy",), calls.named("greedy 0")))]
        await until(lambda: calls.order)
        for number in (1, 2, 3):
            running.append(
                asyncio.create_task(lane.run(("greedy",), calls.named(f"greedy {number}")))
            )
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


@pytest.mark.usefixtures("each_call_counts")
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
        running.append(
            asyncio.create_task(lane.run(("192.0.2.0/24", "192.0.2.1"), calls.named("honest")))
        )
        await asyncio.sleep(0)
        calls.go_on.set()
        told = await asyncio.gather(*running, return_exceptions=True)
        return [type(each) for each in told if isinstance(each, Exception)]

    refused = asyncio.run(story())

    assert refused == [BusyError]
    assert calls.order[:2] == ["begun", "honest"]
    assert len(calls.order) == 5


@pytest.mark.usefixtures("each_call_counts")
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


@pytest.mark.usefixtures("each_call_counts")
def test_what_was_asked_is_forgotten_by_halves(monkeypatch):
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        await served_before(lane, [("once",), *[("often",)] * 6])
        monkeypatch.setattr(thread_lanes, "FORGET_HALF_S", 0.0)
        await served_before(lane, [("x",)] * 3)
        monkeypatch.setattr(thread_lanes, "FORGET_HALF_S", 30.0)
        running = [asyncio.create_task(lane.run(("x",), calls.named("begun")))]
        await until(lambda: calls.order)
        for sender in ("often", "once"):
            running.append(asyncio.create_task(lane.run((sender,), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["begun", "often", "once"]  # equal by now


async def first_of(lane, calls, senders):
    """Lets all of them wait for one thread, and the thread then go on."""
    running = [asyncio.create_task(lane.run(("x",), calls.named("begun")))]
    await until(lambda: calls.order)
    for sender in senders:
        running.append(asyncio.create_task(lane.run(sender, calls.named(sender[-1]))))
        await asyncio.sleep(0)
    calls.go_on.set()
    await asyncio.gather(*running)


@pytest.mark.parametrize(
    ("calls_before", "order"),
    [
        (0, ["guess 1", "honest", "guess 2", "guess 3"]),
        (4, ["guess 1", "honest", "guess 2", "guess 3"]),  # the fifth call is one of a few
        (5, ["guess 1", "guess 2", "guess 3", "honest"]),
    ],
)
def test_newcomers_pass_nobody_who_asked_a_few_times_before(calls_before, order):
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        await served_before(lane, [("192.0.2.0/24", "honest")] * calls_before)
        guesses = [(f"10.{number}.0.0/24", f"guess {number}") for number in (1, 2, 3)]
        await first_of(lane, calls, [guesses[0], ("192.0.2.0/24", "honest"), *guesses[1:]])

    asyncio.run(story())

    assert calls.order == ["begun", *order]


def test_who_asks_again_among_twelve_that_never_stop_is_served_after_each_of_them_once():
    calls = Calls()

    async def guess_for_ever(lane, number):
        for turn in range(20):
            await lane.run((f"10.{number}.{turn}.0/24", "address"), calls.named("guess"))

    async def story():
        lane = Lane("test", threads=1, waiting=64)
        await lane.run(("192.0.2.0/24", "honest"), lambda: "mistyped")
        guessers = [asyncio.create_task(guess_for_ever(lane, number)) for number in range(12)]
        await until(lambda: calls.order)
        honest = asyncio.create_task(lane.run(("192.0.2.0/24", "honest"), calls.named("honest")))
        await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(honest, *guessers)

    asyncio.run(story())

    assert calls.order.index("honest") == 12


def test_people_count_each_for_themselves():
    calls = Calls()
    ada, ben, token = (("name", "ada"),), (("name", "ben"),), (("token", "t"),)

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        await served_before(lane, [ada] * 20)
        await first_of(lane, calls, [ada, token, ben])

    asyncio.run(story())

    assert calls.order == ["begun", ("token", "t"), ("name", "ben"), ("name", "ada")]


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


@pytest.mark.usefixtures("each_call_counts")
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
    monkeypatch.setattr(thread_lanes, "PATIENCE_S", 0.05)
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


@pytest.mark.usefixtures("each_call_counts")
def test_a_crowd_is_not_forgotten_while_it_waits(monkeypatch):
    monkeypatch.setattr(thread_lanes, "FORGET_HALF_S", 0.0)
    calls = Calls()

    async def story():
        lane = Lane("test", threads=1, waiting=10)
        running = [asyncio.create_task(lane.run(("a",), calls.named("begun")))]
        await until(lambda: calls.order)
        for sender in ("crowd", "crowd", "honest"):
            running.append(asyncio.create_task(lane.run((sender,), calls.named(sender))))
            await asyncio.sleep(0)
        calls.go_on.set()
        await asyncio.gather(*running)

    asyncio.run(story())

    assert calls.order == ["begun", "honest", "crowd", "crowd"]
