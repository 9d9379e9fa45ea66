"""When an agent drains its own node: whatever the hub believes of its GPUs."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.actions.faults import RESET_XIDS, Faults
from agent.actions.rest import FRESH_MS
from agent.actions.runner import Runner
from agent.batch import ClosedWindow
from agent.readings import Event
from agent.window import GPUWindow
from fleetwatch.ledger.judgement import outages
from tests.agent.actions.test_orders import MINUTE, NOW, TOKEN, WINDOW, an_order, texts

REASON = "FleetWatch incident 42: GPU 3 lost"
LOST = Event(NOW - 5 * MINUTE, "gpu_lost", "GPU-a", text="GPU is lost")

# answers as Slurm 22.05 does, and is drained by its own command
SCRIPT = """#!/bin/sh
here=${0%/*}
printf '%s|' "$@" >> "$here/calls"; echo >> "$here/calls"
for last do :; done
case "$*" in
  *"show node gpu-07") echo "NodeName=gpu-07 Gres=gpu:a100:4 State=$(cat "$here/state") Owner=N/A" ;;
  *"show node "*) echo "Node $last not found" >&2; exit 1 ;;
  update*) if [ -f "$here/refuses" ]; then
      echo "slurm_update error: Invalid user id" >&2; exit 1
    fi
    echo "IDLE+DRAIN" > "$here/state" ;;
esac
"""


@dataclass(frozen=True)
class Slurm:
    """A folder with an scontrol that knows gpu-07."""

    folder: Path

    def is_now(self, state: str) -> None:
        (self.folder / "state").write_text(state)

    def refuses(self) -> None:
        (self.folder / "refuses").touch()

    @property
    def updates(self) -> list[str]:
        path = self.folder / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        return [call for call in calls if call.startswith("update|")]


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Slurm:
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "scontrol"
    script.write_text(SCRIPT)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-07")
    fake = Slurm(folder)
    fake.is_now("IDLE")
    return fake


@pytest.fixture
def runner(tmp_path) -> Runner:
    return a_runner(tmp_path)


def a_runner(folder, allowed=("drain_node",)) -> Runner:
    return Runner(
        "gpu-07",
        frozenset(allowed),
        folder,
        token=lambda: TOKEN,
        window_ms=WINDOW,
        now_ms=lambda: NOW,
    )


def a_drain(**fields) -> dict:
    usual = {"kind": "drain_node", "job": "", "gpus": ["GPU-a"], "reason": REASON}
    return an_order(**(usual | fields))


def closed(start_ms: int = NOW - WINDOW, **columns) -> ClosedWindow:
    """A window of GPU-a, of which nothing was read unless said otherwise."""
    window = GPUWindow("GPU-a", start_ms, WINDOW if columns else 0, columns)
    return ClosedWindow(start_ms, [window])


def after(runner: Runner, events=(LOST,), order=None) -> str:
    runner.note(closed(), events)
    runner.take([order or a_drain()])
    [text] = texts(runner)
    return text.partition(" ")[2]


def test_a_node_with_a_lost_gpu_is_drained_once_with_the_reason(runner, slurm):
    assert after(runner) == "done: drain_node gpu-07"

    runner.take([a_drain()])

    assert texts(runner) == []
    assert slurm.updates == [f"update|NodeName=gpu-07|State=DRAIN|Reason={REASON}|"]


def test_a_restarted_agent_does_not_do_it_again(runner, slurm, tmp_path):
    after(runner)
    slurm.is_now("IDLE")  # somebody resumed it

    again = a_runner(tmp_path)
    again.note(closed(), (LOST,))
    again.take([a_drain()])

    assert (texts(again), len(slurm.updates)) == ([], 1)


@pytest.mark.parametrize(
    "state", ["IDLE+DRAIN", "MIXED+DRAIN", "DOWN*+DRAIN", "DRAINING", "drained"]
)
def test_a_node_that_is_drained_already_keeps_its_reason(runner, slurm, state):
    slurm.is_now(state)

    assert after(runner) == "done: drain_node gpu-07, which is drained already"
    assert slurm.updates == []


@pytest.mark.parametrize("state", ["ALLOCATED", "MIXED", "DOWN*", "IDLE+MAINTENANCE"])
def test_a_node_that_is_not_drained_is(runner, slurm, state):
    slurm.is_now(state)

    assert after(runner) == "done: drain_node gpu-07"
    assert len(slurm.updates) == 1


def test_a_dry_run_says_what_it_would(runner, slurm):
    assert after(runner, order=a_drain(is_dry_run=True)) == "would: drain_node gpu-07"
    assert slurm.updates == []


def test_who_allowed_to_end_jobs_did_not_allow_to_drain(tmp_path, slurm):
    text = after(a_runner(tmp_path, allowed=("stop_job",)))

    assert text == "refused: this host's operator does not allow drain_node"
    assert slurm.updates == []


@pytest.mark.parametrize(
    ("event", "is_drained"),
    [
        (Event(NOW - MINUTE, "gpu_lost", "GPU-a"), True),
        (Event(NOW - MINUTE, "gpu_lost", "GPU-b"), False),
        (Event(NOW - MINUTE, "gpu_lost", None), False),
        (Event(NOW - MINUTE, "xid", "GPU-a", 79), True),
        (Event(NOW - MINUTE, "xid", "GPU-a", 31), False),  # a job's own fault
        (Event(NOW - MINUTE, "xid", None, 79), False),
        (Event(NOW - MINUTE, "recovery_action", "GPU-a", 1), True),
        (Event(NOW - MINUTE, "recovery_action", "GPU-a", 0), False),
        (Event(NOW - MINUTE, "recovery_action", "GPU-a", None), False),
        (Event(NOW - MINUTE, "driver_missing"), True),
        (Event(NOW - MINUTE, "driver_mismatch"), True),
        (Event(NOW - MINUTE, "nvml_stuck", "GPU-a"), False),
        (Event(NOW - MINUTE, "drained"), False),
    ],
)
def test_only_a_fault_that_this_agent_saw_drains(runner, slurm, event, is_drained):
    text = after(runner, [event])

    assert text.startswith("done" if is_drained else "refused: a GPU of the order works")
    assert len(slurm.updates) == is_drained


@pytest.mark.parametrize(
    "end", [Event(NOW, "gpu_ok", "GPU-a"), Event(NOW, "recovery_action", "GPU-a", 0)]
)
def test_what_is_over_drains_nothing(runner, slurm, end):
    assert "works" in after(runner, [LOST, end])
    assert slurm.updates == []


def test_a_driver_that_answers_again_drains_nothing(runner, slurm):
    gone = Event(NOW - MINUTE, "driver_missing")

    assert "works" in after(runner, [gone, Event(NOW, "driver_ok")])
    assert slurm.updates == []


def test_each_gpu_of_the_order_must_be_broken(runner, slurm):
    assert "works" in after(runner, order=a_drain(gpus=["GPU-a", "GPU-b"]))
    assert slurm.updates == []


@pytest.mark.parametrize(
    ("start_ms", "util", "is_drained"),
    [
        (NOW - MINUTE, 0.021, False),  # begins with the fault
        (NOW - MINUTE + 1, 0.021, False),
        (NOW - MINUTE - 1, 0.021, True),  # it may have worked before the fault
        (NOW - MINUTE + 1, 0.02, True),
    ],
)
def test_what_did_something_after_its_fault_works(runner, slurm, start_ms, util, is_drained):
    runner.note(closed(start_ms, util_max=util), [Event(NOW - MINUTE, "xid", "GPU-a", 48)])

    assert after(runner, []).startswith("done" if is_drained else "refused")


@pytest.mark.parametrize(("late_ms", "is_broken"), [(0, True), (1, False)])
def test_what_was_heard_last_long_ago_says_nothing_of_now(late_ms, is_broken):
    faults = Faults(WINDOW)
    faults.note(closed(NOW - WINDOW), [LOST])

    assert bool(faults.fault("GPU-a", NOW + FRESH_MS + late_ms)) == is_broken


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"scheduler": "kubernetes"}, "can't drain a node of kubernetes"),
        ({"reason": "FleetWatch incident 42: GPU 3 lost\nState=RESUME"}, "its reason"),
        ({"reason": "FleetWatch incident 42: $(reboot)"}, "its reason"),
        ({"reason": "FleetWatch incident 4٢: lost"}, "its reason"),
        ({"reason": "all nodes"}, "its reason"),
        ({"job": "7"}, "no plain name"),
        ({"gpus": []}, "no GPU"),
        ({"node": "gpu-08"}, "another node"),
    ],
)
def test_an_order_that_is_not_whole_for_us_is_refused(runner, slurm, fields, why):
    assert why in after(runner, order=a_drain(**fields))
    assert slurm.updates == []


def test_slurm_that_may_not_be_told_so_is_refused_with_its_words(runner, slurm):
    slurm.refuses()

    assert "Invalid user id" in after(runner)


def test_a_node_that_slurm_does_not_know_is_refused(runner, slurm, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-99")
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-98.example.org")

    text = after(runner)

    assert text == "refused: Slurm knows no node called gpu-99 or gpu-98 or gpu-98.example.org"
    assert slurm.updates == []


def test_the_faults_are_those_that_the_ledger_knows():
    assert outages.RESET_XIDS == RESET_XIDS
    assert set(outages.BEGINNINGS) - {"drained"} == {
        "gpu_lost", "xid", "recovery_action", "driver_missing", "driver_mismatch"
    }  # fmt: skip


told = st.lists(
    st.tuples(
        st.sampled_from(["gpu_lost", "gpu_ok", "xid", "driver_missing", "driver_ok", "works", "rests"]),
        st.booleans(),
    ),
    max_size=20,
)  # fmt: skip


@given(told)
def test_no_history_calls_a_gpu_broken_that_worked_or_answered_since(story):
    """Told window by window: of the last word of each sort, what it means."""
    faults = Faults(WINDOW)
    device = driver = False
    for place, (what, is_ours) in enumerate(story):
        start_ms = NOW - (len(story) - place) * WINDOW
        uuid = "GPU-a" if is_ours else "GPU-b"
        events = (
            []
            if what in ("works", "rests")
            else [Event(start_ms, what, None if "driver" in what else uuid, 79)]
        )
        columns = {"works": {"util_max": 0.5}, "rests": {"util_max": 0.0}}.get(what, {})
        window = GPUWindow(uuid, start_ms, WINDOW, columns)
        faults.note(ClosedWindow(start_ms, [window]), events)
        if what.startswith("driver"):
            driver = what == "driver_missing"
        elif is_ours and what != "rests":
            device = what in ("gpu_lost", "xid")
            driver = driver and what != "works"

    assert bool(faults.fault("GPU-a", NOW)) == (device or driver)
