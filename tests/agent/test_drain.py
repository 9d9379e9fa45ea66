"""A node that its scheduler takes out of service, and back: told once per change."""

import pytest

from agent.readings import Workload
from agent.sampler import Recorder, Sampler
from tests.agent.daemon import FakeSource
from tests.agent.factories import START


class Drains:
    """Workloads that say, window by window, what the test gives them."""

    def __init__(self, said):
        self.said = list(said)

    def resolve(self, processes, *, gpus, start_ms, end_ms):
        return Workload(drained=self.said.pop(0))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([""], ["resumed"]),
        (["", "", ""], ["resumed"]),
        (["drain: ECC errors"], ["drained"]),
        (["drain: ECC errors", "drain: ECC errors", "drain: ECC and more"], ["drained"]),
        (["", "drain", ""], ["resumed", "drained", "resumed"]),
        (["drain", None, "drain"], ["drained"]),
        (["drain", None, None], ["drained"]),
        ([None, None], []),
    ],
)
def test_a_drain_is_told_once_per_change_and_silence_changes_nothing(said, expected):
    workloads = Drains(said)
    sampler = Sampler(
        FakeSource, lambda _: workloads, window_ms=10_000, interval_ms=1000, recorder=Recorder()
    )

    for window in range(len(said) + 1):
        sampler.tick(START + window * 10_000)

    drains = [event for event in sampler.take_events() if event.kind in ("drained", "resumed")]
    assert [event.kind for event in drains] == expected
    assert {event.uuid for event in drains} <= {None}


def test_the_reason_and_the_time_are_told():
    workloads = Drains(["drain: ECC errors"])
    sampler = Sampler(
        FakeSource, lambda _: workloads, window_ms=10_000, interval_ms=1000, recorder=Recorder()
    )

    sampler.tick(START)
    sampler.tick(START + 10_000)

    (event,) = [event for event in sampler.take_events() if event.kind == "drained"]
    assert (event.at_ms, event.text) == (START + 10_000, "drain: ECC errors")
