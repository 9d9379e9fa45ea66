"""What a request that only looks reads once, and what reads anew."""

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from fleetwatch.lib.memo import kept_while, read_once, remember_reads, remembering


@pytest.fixture
def count():
    """A read whose answer is how often it was asked."""
    asked: list[None] = []

    @read_once
    def count() -> int:
        asked.append(None)
        return len(asked)

    return count


def test_each_read_is_a_new_one_outside(count):
    assert (count(), count()) == (1, 2)


def test_a_read_is_one_within_and_a_new_one_after(count):
    with remembering():
        within = count(), count()

    assert (within, count()) == ((1, 1), 2)


def test_what_is_nothing_is_remembered_too():
    asked: list[None] = []
    nothing = read_once(lambda: asked.append(None))

    with remembering():
        assert (nothing(), nothing(), len(asked)) == (None, None, 1)


def test_another_read_has_its_own_answer(count):
    other = read_once(lambda: "other")

    with remembering():
        assert (count(), other(), count()) == (1, "other", 1)


def test_each_argument_has_its_own_answer():
    asked: list[tuple[int, str]] = []

    @read_once
    def ask(number: int, *, of: str = "") -> int:
        asked.append((number, of))
        return number

    with remembering():
        answers = [ask(1), ask(2), ask(1), ask(1, of="a"), ask(1, of="a"), ask(1, of="b")]

    assert answers == [1, 2, 1, 1, 1, 1]
    assert asked == [(1, ""), (2, ""), (1, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("method", "reads"), [("GET", "1 1"), ("HEAD", "1 1"), ("POST", "1 2"), ("PUT", "1 2")]
)
def test_a_request_that_may_change_something_reads_anew(method, reads, count):
    respond = remember_reads(lambda _: HttpResponse(f"{count()} {count()}"))

    answer = respond(RequestFactory().generic(method, "/"))

    assert answer.content.decode() == reads


def test_the_next_request_reads_anew(count):
    respond = remember_reads(lambda _: HttpResponse(str(count())))
    answers = [respond(RequestFactory().get("/")).content for _ in range(2)]

    assert answers == [b"1", b"2"]


def test_what_follows_from_the_same_is_kept_and_else_read_again():
    state = {"digest": "a", "reads": 0}

    @kept_while(lambda: state["digest"])
    def read():
        state["reads"] += 1
        return state["reads"]

    assert [read(), read()] == [1, 1]
    state["digest"] = "b"
    assert [read(), read()] == [2, 2]


def test_what_changed_while_it_was_read_is_not_kept():
    digests = iter(["a", "b", "a", "a", "a"])

    @kept_while(lambda: next(digests))
    def read():
        return object()

    first = read()

    assert read() is not first
