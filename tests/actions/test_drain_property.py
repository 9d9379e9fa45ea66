"""Whatever becomes of telemetry, answers and results (lost, late, doubled): no node is drained whose
GPUs all work as its own agent reads them, by the real evaluator and the agent's own runner together.
"""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.actions.orders import signature, signing_key
from agent.actions.runner import Runner
from agent.batch import ClosedWindow
from agent.readings import Event
from agent.window import GPUWindow
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.ingest.node_orders import _content
from tests.actions.factories import answer
from tests.actions.node_factories import NODE, a_drain_policy, a_node, broken, goes_on, operators
from tests.alerts.factories import at, ms

PART = 5  # minutes of each thing that happens
WAIT = 15
WINDOW_MS = 10_000
TOKEN = "fwa_secret"

# whether each GPU works in truth, and how many parts late the hub hears of it (None: never)
is_well = st.sampled_from([False] * 9 + [True])
late = st.sampled_from([0] * 9 + [1, 3, None])
# of the answers to batches: the orders arrive, or those of before do once more, or none does; and
# how often the hub looks, and how often it hears the result
parts = st.tuples(
    st.tuples(is_well, late),
    st.tuples(is_well, late),
    st.sampled_from(["new", "new", "again", "lost"]),
    st.sampled_from([1, 1, 2]),
    st.integers(0, 2),
)


class Slurm:
    """What the agent had Slurm do, and in which part."""

    def __init__(self) -> None:
        self.now = 0
        self.drains: list[int] = []

    def stand_in(self, patch: pytest.MonkeyPatch) -> None:
        """For its commands."""
        place = "agent.actions.draining.Draining"
        patch.setattr(f"{place}.look", lambda _: f"drain_node {NODE}")
        patch.setattr(f"{place}.do", lambda _: self.drains.append(self.now))


@pytest.fixture
def slurm(monkeypatch) -> Slurm:
    fake = Slurm()
    fake.stand_in(monkeypatch)
    return fake


@pytest.mark.django_db
@settings(max_examples=5)
@given(story=st.lists(parts, min_size=10, max_size=20))
def test_no_node_is_drained_whose_gpus_all_work_by_its_agents_reading(story):
    slurm = Slurm()
    with (
        transaction.atomic(),
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        slurm.stand_in(patch)
        orders = play(story, slurm, Path(folder))
        transaction.set_rollback(True)

    for number in slurm.drains:
        assert not all(works for works, _ in story[number][:2])
    assert len(slurm.drains) <= orders


@pytest.mark.django_db
def test_a_node_whose_gpu_is_broken_all_the_time_is_drained_once(tmp_path, slurm):
    story = [((False, 0), (True, 0), "again", 2, 2)] * 14

    assert play(story, slurm, tmp_path) == 1
    assert len(slurm.drains) == 1


@pytest.mark.django_db
def test_what_the_hub_alone_calls_broken_is_not_drained(tmp_path, slurm):
    """It never hears that the GPU works again."""
    story = [((False, 0), (True, 0), "new", 1, 1)] + [((True, None), (True, 0), "new", 1, 1)] * 13

    assert play(story, slurm, tmp_path) == 1
    assert slurm.drains == []


def play(story, slurm, folder) -> int:
    """How many orders the hub gave."""
    a_drain_policy(first_wait_minutes=WAIT, second_wait_minutes=WAIT)
    operators()
    gpus = a_node(gpus=2)
    runner = Runner(
        NODE,
        frozenset({"drain_node"}),
        folder,
        token=lambda: TOKEN,
        window_ms=WINDOW_MS,
        now_ms=lambda: ms((slurm.now + 1) * PART),
    )
    for number, (*_, orders, looks, results) in enumerate(story):
        slurm.now = number
        read_by_agent(runner, gpus, number, story)
        for index, gpu in enumerate(gpus):
            broken(gpu, *heard(story[: number + 1], index))
        end = (number + 1) * PART
        for _ in range(looks):
            goes_on(end)
        carry(runner, orders, end)
        for event in runner.events() * results:
            key, _, text = event.text.partition(" ")
            answer(gpus[0].node, key, text, end + results / 1000)
            break
    return NodeOrder.objects.count()


def heard(story, index: int) -> list[tuple[float, float | None, str]]:
    """The outages as the hub knows them by now: what is late, or lost, it does not."""
    now = len(story) - 1
    state = True
    outages: list[tuple[float, float | None, str]] = []
    for number, part in enumerate(story):
        works, after = part[index]
        if after is None or number + after > now or works == state:
            continue
        state = works
        if works:
            outages[-1] = (outages[-1][0], number * PART, "gpu_lost")
        else:
            outages.append((number * PART, None, "gpu_lost"))
    return outages or [(-3000, -2990, "gpu_lost")]


def read_by_agent(runner, gpus, number, story) -> None:
    """The windows of this part, and what the driver told of each GPU that changed."""
    start_ms = ms(number * PART)
    events = []
    for index, gpu in enumerate(gpus):
        before = story[number - 1][index][0] if number else True
        works = story[number][index][0]
        if works != before:
            events.append(Event(start_ms, "gpu_ok" if works else "gpu_lost", gpu.uuid))
    for at_ms in range(start_ms, ms((number + 1) * PART), WINDOW_MS):
        windows = [
            GPUWindow(gpu.uuid, at_ms, WINDOW_MS, {"util_max": 0.5})
            for gpu, (works, _) in zip(gpus, story[number][:2], strict=True)
            if works
        ]
        runner.note(ClosedWindow(at_ms, windows), events)
        events = []


def carry(runner, orders, minute: float) -> None:
    """The answer to a batch, as far as it arrives."""
    if orders == "lost":
        return
    now = at(minute)
    waiting = NodeOrder.objects.filter(expires_at__gt=now - timedelta(hours=orders == "again"))
    raw = [_content(order) for order in waiting.select_related("node")]
    key = signing_key(TOKEN)
    runner.take([order | {"signature": signature(order, key)} for order in raw] * 2)
