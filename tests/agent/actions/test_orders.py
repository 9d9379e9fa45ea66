"""Which orders an agent believes, and when it ends a job: whatever the hub believes of it."""

import json
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.actions.order_taking import NOTHING_ALLOWED, Refuser
from agent.actions.orders import LONGEST_MS, OrderError, believed, signature, signing_key
from agent.actions.rest import ACTIVE_ABOVE, ENGINE_ABOVE, ENGINES, LINK_ABOVE, LINKS, Rests
from agent.actions.runner import Runner
from agent.batch import ClosedWindow
from agent.readings import Allocation, Job, Process, SourceStatus, Workload
from agent.window import GPUWindow
from fleetwatch.ledger.judgement import activity
from fleetwatch.ledger.policy import Policy

TOKEN = "fwa_secret"
NOW = 1_800_000_000_000
WINDOW = 10_000
MINUTE = 60_000
GPUS = ("GPU-a", "GPU-b")
JOB = Job("slurm/della/7", scheduler="slurm", cluster="della", id="7", labels={"nodes": "1"})
HELD = Workload(
    jobs=[JOB],
    allocations=[Allocation(uuid, JOB.key, "slurm") for uuid in GPUS],
    sources=[SourceStatus("slurm", ok=True)],
)
BARE = replace(
    HELD,
    jobs=[replace(JOB, scheduler="process")],
    processes=[Process("GPU-a", 17, job_key=JOB.key), Process("GPU-b", 18, job_key="other")],
)


def an_order(**fields) -> dict:
    order = {
        "key": "order-0001",
        "kind": "stop_job",
        "node": "gpu-07",
        "scheduler": "slurm",
        "job": "7",
        "gpus": list(GPUS),
        "grace_ms": 10 * MINUTE,
        "expires_ms": NOW + 5 * MINUTE,
        "reason": "idle since 09:10",
        "is_dry_run": False,
    } | fields
    return order | {"signature": signature(order, signing_key(TOKEN))}


def windows(minutes: float, *, workload=HELD, until_ms: int = NOW, **columns) -> list[ClosedWindow]:
    """Windows of both GPUs up to then, quiet unless said otherwise."""
    count = int(minutes * MINUTE / WINDOW)
    quiet = {"util_max": 0.0} | columns
    return [
        ClosedWindow(
            until_ms - (count - place) * WINDOW,
            [
                GPUWindow(uuid, until_ms - (count - place) * WINDOW, WINDOW, dict(quiet))
                for uuid in GPUS
            ],
            workload,
        )
        for place in range(count)
    ]


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A scancel that writes down what it was asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    asked = tmp_path / "asked"
    script = folder / "scancel"
    script.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: asked.read_text().splitlines() if asked.exists() else []


@pytest.fixture
def runner(tmp_path, slurm) -> Runner:
    return a_runner(tmp_path)


def a_runner(folder, allowed=("stop_job",)) -> Runner:
    return Runner(
        "gpu-07",
        frozenset(allowed),
        folder,
        token=lambda: TOKEN,
        window_ms=WINDOW,
        now_ms=lambda: NOW,
    )


def texts(runner: Runner) -> list[str]:
    return [event.text for event in runner.events()]


def after(runner: Runner, closed: list[ClosedWindow], order: dict) -> str:
    for window in closed:
        runner.note(window, ())
    runner.take([order])
    [text] = texts(runner)
    return text


def test_a_job_that_rested_through_its_grace_is_ended_once(runner, slurm):
    assert after(runner, windows(10), an_order()) == "order-0001 done: stop_job 7"

    runner.take([an_order()])

    assert (texts(runner), slurm()) == ([], ["-- 7"])


@pytest.mark.parametrize(
    ("labels", "ended"),
    [
        ({"array_job": "7", "array_task": "3"}, ["-- 7_3"]),  # 7 alone is the whole array
        ({"array_job": "7", "array_task": "0"}, ["-- 7_0"]),
        ({"array_job": "7"}, ["-- 7"]),
        ({"het_job": "6"}, []),
        ({}, []),  # of a prolog's file alone: it may be an array's last task, or a part
    ],
)
def test_what_is_ended_is_the_job_alone(runner, slurm, labels, ended):
    known = {"nodes": "1"} if labels else {}
    workload = replace(HELD, jobs=[replace(JOB, labels=known | labels)])

    after(runner, windows(10, workload=workload), an_order())

    assert slurm() == ended


def test_what_became_of_two_orders_of_one_moment_has_two_moments(runner):
    runner.take([an_order(node="gpu-08"), an_order(key="order-0002", node="gpu-08")])

    assert [event.at_ms for event in runner.events()] == [NOW, NOW + 1]


def test_a_restarted_agent_does_not_do_it_again(runner, slurm, tmp_path):
    after(runner, windows(10), an_order())

    again = a_runner(tmp_path)
    for window in windows(10):
        again.note(window, ())
    again.take([an_order()])

    assert (texts(again), slurm()) == ([], ["-- 7"])


def test_a_dry_run_says_what_it_would(runner, slurm):
    text = after(runner, windows(10), an_order(is_dry_run=True))

    assert (text, slurm()) == ("order-0001 would: stop_job 7", [])


def test_what_the_operator_did_not_allow_is_not_done(tmp_path, slurm):
    text = after(a_runner(tmp_path, allowed=()), windows(10), an_order())

    assert "operator does not allow" in text
    assert slurm() == []


def test_an_agent_that_may_do_nothing_says_so_once_of_each_order():
    refuser = Refuser(lambda: NOW)

    refuser.take([an_order(), an_order(key="order-0002")])
    refuser.take([an_order()])

    assert [(event.at_ms, event.text) for event in refuser.events()] == [
        (NOW, f"order-0001 {NOTHING_ALLOWED}"),
        (NOW + 1, f"order-0002 {NOTHING_ALLOWED}"),
    ]
    assert refuser.events() == []


@pytest.mark.parametrize(
    ("closed", "why"),
    [
        ([], "not known who holds"),
        (windows(9.5), "within the grace"),
        ([*windows(1, until_ms=NOW - 9 * MINUTE, util_max=0.03), *windows(9)], "within the grace"),
        ([*windows(6, until_ms=NOW - 6 * MINUTE), *windows(5)], "within the grace"),  # a gap
        (windows(20, until_ms=NOW - MINUTE), "within the grace"),  # nothing new
        ([*windows(20)[:-1], *windows(0.5, power_w=700.0, util_max=0.5)[-1:]], "within the grace"),
        (windows(10, workload=HELD.unknown()), "not known who holds"),
        (windows(10, workload=replace(HELD, allocations=HELD.allocations[:1])), "these GPUs"),
        (
            windows(
                10,
                workload=replace(
                    HELD, allocations=[*HELD.allocations, Allocation("GPU-c", JOB.key, "slurm")]
                ),
            ),
            "or others too",
        ),
        (
            windows(
                10,
                workload=replace(
                    HELD, allocations=[*HELD.allocations, Allocation("GPU-b", "slurm/x/8", "slurm")]
                ),
            ),
            "another job",
        ),
    ],
)
def test_nothing_is_ended_that_did_something_or_was_not_read(runner, slurm, closed, why):
    assert why in after(runner, closed, an_order())
    assert slurm() == []


@pytest.mark.parametrize(
    ("column", "noise", "work"),
    [
        *((name, 0.02, 0.021) for name in ENGINES),
        *((name, 50 * 1024**2, 50 * 1024**2 + 1) for name in LINKS),
    ],
)
def test_engines_and_links_at_work_are_no_rest_though_utilisation_is_zero(
    tmp_path, slurm, column, noise, work
):
    at_work = [*windows(20)[:-1], windows(1, **{column: work})[-1]]
    quiet = [*windows(20)[:-1], windows(1, **{column: noise})[-1]]

    assert "within the grace" in after(a_runner(tmp_path), at_work, an_order())
    assert slurm() == []
    assert "done" in after(a_runner(tmp_path), quiet, an_order(key="order-0002"))


def test_what_the_agent_takes_for_work_is_what_the_ledger_does():
    policy = Policy()

    assert ENGINES == activity.ENGINES
    assert set(LINKS) == {name for name, _ in activity.CONTRADICTIONS}
    assert policy.quiet_max == ACTIVE_ABOVE
    assert policy.contradiction_codec_ratio == ENGINE_ABOVE
    assert policy.contradiction_link_bytes_s == LINK_ABOVE


def test_what_was_hardly_read_does_not_rest(runner, slurm):
    closed = windows(20)
    for window in closed[-3:]:
        window.windows[0] = replace(window.windows[0], observed_ms=7_900)

    assert "within the grace" in after(runner, closed, an_order())


def test_a_gpu_whose_activity_can_not_be_read_does_not_rest(runner, slurm):
    closed = [
        ClosedWindow(
            each.start_ms,
            [replace(gpu, columns={"power_w": 60.0}) for gpu in each.windows],
            HELD,
        )
        for each in windows(20)
    ]

    assert "within the grace" in after(runner, closed, an_order())


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"node": "gpu-08"}, "another node"),
        ({"expires_ms": NOW}, "expired"),
        ({"expires_ms": NOW + LONGEST_MS + 1}, "expired"),
        ({"job": "7; reboot"}, "no plain name"),
        ({"job": "-rf"}, "no plain name"),
        ({"gpus": []}, "no GPU"),
        ({"gpus": ["GPU-a", 7]}, "no plain name"),
        ({"grace_ms": 0}, "a time that is none"),
        ({"grace_ms": True}, "a time that is none"),
        ({"kind": "format_disk"}, "can't do"),
        ({"shell": "true"}, "not an order"),
        ({"scheduler": "cron"}, "can't end a job of cron"),
    ],
)
def test_an_order_that_is_not_whole_for_us_and_good_is_refused(runner, slurm, fields, why):
    workload = replace(HELD, jobs=[replace(JOB, scheduler=fields.get("scheduler", "slurm"))])

    assert why in after(runner, windows(10, workload=workload), an_order(**fields))
    assert slurm() == []


@pytest.mark.parametrize("change", [{"job": "8"}, {"grace_ms": 1}, {"is_dry_run": 0}])
def test_a_changed_order_is_not_believed(change):
    with pytest.raises(OrderError, match="signature"):
        believed(an_order() | change, key=signing_key(TOKEN), node="gpu-07", now_ms=NOW)


def test_another_nodes_token_signs_nothing_here():
    with pytest.raises(OrderError, match="signature"):
        believed(an_order(), key=signing_key("other"), node="gpu-07", now_ms=NOW)


def test_an_order_that_is_not_believed_is_told_once(runner):
    wrong = an_order() | {"signature": "0" * 64}

    runner.take([wrong])
    runner.take([wrong])

    assert texts(runner) == ["order-0001 refused: its signature is not this node's hub's"]


def test_what_can_not_be_written_down_is_not_done(runner, slurm, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent.actions.runner.write_safely", full)

    assert "No space left" in after(runner, windows(10), an_order())
    assert slurm() == []


CONTAINER = "4f" * 32


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize(
    ("running", "text", "stopped"),
    [
        (CONTAINER, f"done: stop_job {CONTAINER}", [f"stop -- {CONTAINER}"]),
        # as the engine says it
        ("0a" * 32, "refused: {engine} ended with status 1: Error: No such container", []),
    ],
)
def test_a_container_is_stopped_by_its_engine_which_has_the_last_word(
    tmp_path, monkeypatch, engine, running, text, stopped
):
    asked = tmp_path / "asked"
    script = tmp_path / engine
    script.write_text(
        f"#!/bin/sh\n[ \"$3\" = {running} ] || {{ echo 'Error: No such container' >&2; exit 1; }}\n"
        f'echo "$@" >> {asked}\necho "$3"\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    job = Job(f"{engine}//{CONTAINER}", scheduler=engine, id=CONTAINER)
    held = [Allocation(uuid, job.key, "process") for uuid in GPUS]
    workload = replace(HELD, jobs=[job], allocations=held)
    order = an_order(scheduler=engine, job=CONTAINER)

    assert after(a_runner(tmp_path), windows(9.5, workload=workload), order).endswith("the grace")
    told = after(
        a_runner(tmp_path),
        windows(10, workload=workload),
        an_order(key="order-0002", scheduler=engine, job=CONTAINER),
    )

    assert told == f"order-0002 {text.format(engine=engine)}"
    assert (asked.read_text().splitlines() if asked.exists() else []) == stopped


def test_of_bare_processes_those_of_the_job_are_asked_to_end(runner, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "agent.actions.stopping.ask_to_end", lambda listed: asked.extend(listed) or len(listed)
    )

    text = after(runner, windows(10, workload=BARE), an_order(scheduler="process"))

    assert (text, asked) == ("order-0001 done: stop_job 7", [BARE.processes[0]])


def test_a_job_whose_processes_are_others_by_now_is_not_ended(runner, monkeypatch):
    monkeypatch.setattr("agent.actions.stopping.ask_to_end", lambda _: 0)

    text = after(runner, windows(10, workload=BARE), an_order(scheduler="process"))

    assert text == "order-0001 refused: no process of the job is known that holds a GPU still"


minutes = st.lists(
    st.tuples(
        st.sampled_from(["quiet", "active", "missing", "partly", "unread"]), st.integers(1, 8)
    ),
    min_size=1,
    max_size=12,
)


@given(minutes, st.integers(1, 30))
def test_no_history_ends_a_job_that_did_something_or_was_not_seen_within_its_grace(story, grace):
    """Told window by window: it rests only where each window of the grace was read and quiet."""
    rests = Rests(WINDOW)
    told = [what for what, count in story for _ in range(count)]
    for place, what in enumerate(told):
        start_ms = NOW - (len(told) - place) * WINDOW
        columns = {"quiet": {"util_max": 0.02}, "active": {"util_max": 0.021}}.get(what, {})
        columns = {"util_max": 0.0} if what == "partly" else columns
        observed_ms = WINDOW // 2 if what == "partly" else WINDOW
        gpus = [] if what == "missing" else [GPUWindow("GPU-a", start_ms, observed_ms, columns)]
        rests.note(ClosedWindow(start_ms, gpus, HELD))

    needed = told[-grace:]
    may = rests.rested_ms("GPU-a", NOW) >= grace * WINDOW

    assert may == (len(needed) == grace and set(needed) == {"quiet"})


def test_the_file_of_done_orders_is_the_agents_alone(runner, tmp_path):
    after(runner, windows(10), an_order())

    file = tmp_path / "orders.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"order-0001": NOW + 5 * MINUTE}
