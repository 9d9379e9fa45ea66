"""Kinds of events as people read them."""

from agent.wire import EVENT_KINDS
from fleetwatch.dashboard import words


def test_every_kind_of_event_has_words():
    assert words.EVENTS.keys() >= set(EVENT_KINDS)
    assert words.event("gpu_lost") == "GPU lost"


def test_a_newer_agents_event_is_told_in_plain_letters():
    assert words.event("fan_stuck") == "fan stuck"
