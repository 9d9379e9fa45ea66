"""Whatever becomes of telemetry, answers and results (lost, late, doubled): no job is ended that did
something within its grace, by the real evaluator and the agent's own runner together.
"""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.actions.orders import signature, signing_key
from agent.actions.runner import Runner
from agent.batch import ClosedWindow
from agent.readings import Allocation, Job, SourceStatus, Workload
from agent.window import GPUWindow
from fleetwatch.actions.taking_steps import advance
from fleetwatch.alerts.messaging import announcing
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.ingest.node_orders import _content
from fleetwatch.ledger.models import HourRuns
from tests.actions.factories import a_policy, an_idle_job, answer, deliver
from tests.alerts import people
from tests.alerts.factories import a_rule, at, ms, ran
from tests.costs.factories import a_gpu

PART = 5  # minutes of each thing that happens
GRACE = 10  # minutes
WAIT = 15
WINDOW_MS = 10_000
TOKEN = "fwa_secret"
ON_AGENT = Job("slurm/della/1", scheduler="slurm", cluster="della", id="1", labels={"nodes": "1"})

# what each GPU did, how many parts late the hub hears of it (None: never), and whether the agent
# read it
did = st.tuples(
    st.sampled_from(["quiet"] * 12 + ["active"]),
    st.sampled_from([0] * 12 + [1, 3, None]),
    st.sampled_from([True] * 12 + [False]),
)
# of the answers to batches: the orders arrive, or those of before do once more, or none does; and
# how often the hub looks, and how often it hears the result
parts = st.tuples(
    did,
    did,
    st.sampled_from(["new", "new", "again", "lost"]),
    st.sampled_from([1, 1, 1, 2]),
    st.integers(0, 2),
)


@pytest.mark.django_db
@settings(max_examples=5)
@given(story=st.lists(parts, min_size=10, max_size=24))
def test_no_job_is_ended_that_did_something_within_its_grace(story):
    ended: list[int] = []
    clock = [0]
    with (
        transaction.atomic(),
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("agent.actions.stopping.stop", lambda *_: ended.append(clock[0]))
        play(story, clock, Path(folder))
        transaction.set_rollback(True)

    for number in ended:
        for index in range(2):
            within = [
                story[place][index] for place in range(number + 1 - GRACE // PART, number + 1)
            ]
            assert all(what == "quiet" and is_read for what, _, is_read in within)
    for earlier, later in pairwise(ended):
        assert any(did_something(part) for part in story[earlier + 1 : later])


def did_something(part) -> bool:
    """Whether the job worked on, after an end that it outlived: its next rest is another."""
    first, second, *_ = part
    return "active" in (first[0], second[0])


@pytest.mark.django_db
def test_a_job_that_never_did_anything_is_ended_once(tmp_path, monkeypatch):
    ended: list[int] = []
    monkeypatch.setattr("agent.actions.stopping.stop", lambda *_: ended.append(1))
    quiet = ("quiet", 0, True)

    play([(quiet, quiet, "new", 2, 2)] * 14, [0], tmp_path)

    assert ended == [1]


def play(story, clock, folder) -> None:
    a_policy(
        a_rule(minutes=GRACE), first_wait_minutes=WAIT, second_wait_minutes=WAIT,
        teams=[people.team("nlp")],
    )  # fmt: skip
    first = an_idle_job(minutes=0.001)
    lanes = [first.gpu, a_gpu(node="node-014", index=1)]
    HourRuns.objects.all().delete()
    runner, workload = a_runner(folder, [gpu.uuid for gpu in lanes], clock)
    due: list[tuple[int, int, str, int]] = []
    for number, (*each, orders, looks, results) in enumerate(story):
        clock[0] = number
        for index, (what, late, _) in enumerate(each):
            due += [] if late is None else [(number + late, index, what, number)]
        for _, index, what, place in [arrival for arrival in due if arrival[0] == number]:
            ran(lanes[index], what, place * PART, (place + 1) * PART, job=first.job)
        read_by_agent(runner, workload, lanes, (number, each))
        now = at((number + 1) * PART)
        for _ in range(looks):
            announcing.run(now)
            advance(now)
            deliver(now)
        carry(runner, orders, now)
        for event in runner.events() * results:
            key, _, text = event.text.partition(" ")
            answer(first.gpu.node, key, text, (number + 1) * PART + results / 1000)
            break


def a_runner(folder, uuids, clock) -> tuple[Runner, Workload]:
    workload = Workload(
        jobs=[ON_AGENT],
        allocations=[Allocation(uuid, ON_AGENT.key, "slurm") for uuid in uuids],
        sources=[SourceStatus("slurm", ok=True)],
    )
    runner = Runner(
        "node-014",
        frozenset({"stop_job"}),
        folder,
        token=lambda: TOKEN,
        window_ms=WINDOW_MS,
        now_ms=lambda: ms((clock[0] + 1) * PART),
    )
    return runner, workload


def read_by_agent(runner, workload, lanes, part) -> None:
    """The windows of this part, of the GPUs that were read."""
    number, each = part
    for start_ms in range(ms(number * PART), ms((number + 1) * PART), WINDOW_MS):
        windows = [
            GPUWindow(gpu.uuid, start_ms, WINDOW_MS, {"util_max": 0.0 if what == "quiet" else 0.9})
            for gpu, (what, _, is_read) in zip(lanes, each, strict=True)
            if is_read
        ]
        runner.note(ClosedWindow(start_ms, windows, workload), ())


def carry(runner, orders, now) -> None:
    """The answer to a batch, as far as it arrives."""
    if orders == "lost":
        return
    waiting = NodeOrder.objects.filter(expires_at__gt=now - timedelta(hours=orders == "again"))
    raw = [_content(order) for order in waiting.select_related("node")]
    key = signing_key(TOKEN)
    runner.take([order | {"signature": signature(order, key)} for order in raw] * 2)
