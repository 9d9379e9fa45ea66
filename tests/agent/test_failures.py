"""What breaks around the agent, and what becomes of the data: the list of failure modes, each with
its test.

Where a test is: here, or in test_failures_hub (hub:), test_failures_clock (clock:), or as named.

| what breaks | what the agent does | test |
|---|---|---|
| hub down for a day | keeps all of it and its order, asks at most once a minute, catches up | hub:
a_hub_that_is_down_for_a_day |
| hub slow, or dripping | waits 30 s, then keeps the batch | hub: answers_within_its_time,
answers_too_late, drips_its_answer |
| hub answers garbage | keeps the batch, says so in one line | hub: an_answer_that_is_garbage;
test_sender: a_200_that_is_not |
| 422 poison | set aside in a file that the log names, 100 at most | hub: poison; test_sender:
what_can_never_be_accepted |
| 413 | split, down to one window | test_sender: a_batch_too_large, one_window; hub:
too_large_and_damaged |
| 401, 403: revoked | kept, asked once a minute, said once; a new token in its file is taken | hub:
a_new_token; test_sender |
| 429, 503 with Retry-After | obeyed, an hour at most | test_sender: retry_after |
| TLS certificate wrong | one clear line | hub: a_certificate; test_sender: speaks_no_tls |
| disk spool at its cap | the oldest go, counted | test_spool: at_the_cap |
| disk full, read-only, failing, also at the start | goes on in memory (4 MiB), says so once |
test_store: a_disk_that, the_memory |
| disk that hangs | five minutes are caught up with | clock: a_loop_that_waited |
| spool file torn, damaged, deleted | set aside or passed over, the rest goes on | test_spool: torn,
damaged; test_store: passed_over |
| kill -9 of the daemon | loses the open window only, doubles nothing | here: kill_9; test_store:
draft; test_spool: kill_9 |
| power cut | loses what is not yet a batch: fsync before append returns | told in agent/sending/spool.py |
| reboot | a new boot_id, with its own start | test_spool: a_reboot; test_store: after_a_reboot |
| clock set an hour ahead or back, drifting | nothing mixed, no batch over hours, no window lost |
clock: the_clock, an_allocation |
| suspend | claims nothing for the sleep | clock: a_suspend, durations |
| driver call hangs | told after 30 s, the host goes on; readings go on afterwards | here:
a_call_that_hangs, took_longer |
| driver upgraded under the agent | told, flushed, replaces itself, at most once a minute | here:
a_changed_driver, replaces_itself |
| driver away, and back | told once each, tried after 5 to 60 s | test_loop:
a_driver_that_is_missing, comes_back |
| GPU lost, reset | the others go on; told well again | test_loop: one_gpu; here:
a_gpu_that_was_reset |
| hot-plug, MIG reconfiguration | a batch never speaks of GPUs it does not list | here: hot_plug,
mig; test_loop: never_speaks |
| operator needs the driver | SIGUSR1 lets go of it for --release-min | here: released, sigusr1 |
| XID that NVML missed | read from the kernel's log, told once | test_kmsg |
| a bug in one reading, in the jobs or in a window | the rest goes on, logged once | here: a_bug,
a_window_that_fails |
| a fact that can't be written | the windows go without it | here: a_job_that_can_not_be_written,
a_value |
| a day of the agent's own life | it does not grow | here: nothing_grows |
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from agent import loop as loops
from agent import sampler as samplers
from agent import wire
from agent.readings import DriverChangedError, Event, Job, Reading, Workload
from tests.agent.daemon import ACCEPTED, Daemon, kinds, of_first_gpu, windows
from tests.agent.factories import START, gpu

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path / "spool")
    yield daemon
    daemon.spool.close()


def test_a_call_that_hangs_is_told_the_host_goes_on_and_readings_follow(daemon, monkeypatch):
    monkeypatch.setattr(loops, "STUCK_S", 0.05)
    monkeypatch.setattr(samplers.Sampler, "_margin_ms", 40)
    daemon.go(12)
    answered, reads = threading.Event(), daemon.source.read

    def hang(uuid, now_ms):
        if uuid == "GPU-2":
            answered.wait(10)
        return reads(uuid, now_ms)

    daemon.source.read = hang
    hung = threading.Thread(target=daemon.sampler.tick, args=(START + 13_000,))
    hung.start()
    time.sleep(0.1)
    for second in (20, 30, 40):
        daemon.loop.close(START + second * 1000, now_ms=START + second * 1000 + 1600)
    answered.set()
    hung.join()
    daemon.source.read = reads
    daemon.times.go(38)
    daemon.go(25)
    daemon.loop.flush()

    sent = daemon.batches()
    told = [
        (event["kind"], event["gpu"])
        for one in sent
        for event in one.events
        if event["kind"] != "driver_ok"
    ]
    assert told == [("nvml_stuck", 1)]
    second = {start: observed for start, place, observed in windows(sent) if place == 1}
    assert (second[20], second[30]) == (0, 0)
    assert (second[50], second[60]) == (9000, 10_000)  # first read again at 51 s


def test_a_reading_that_took_longer_than_it_counts_is_nobodys(daemon, monkeypatch):
    daemon.go(1)
    seconds = iter([0.0, 0.0, 0.0, 100.0, *[100.0] * 50])
    monkeypatch.setattr(samplers.time, "monotonic", lambda: next(seconds))
    seen = []
    monkeypatch.setattr(
        daemon.source,
        "read",
        lambda uuid, now_ms: seen.append((uuid, now_ms)) or Reading(now_ms, util=0.9),
    )

    daemon.sampler.tick(START + 2000)

    monkeypatch.undo()
    taken = daemon.sampler.take(START, START + 200_000).readings
    assert seen == [("GPU-1", START + 2000), ("GPU-2", START + 102_000)]
    assert [reading.util for reading in taken["GPU-1"]] == [0.5]
    assert [reading.at_ms - START for reading in taken["GPU-2"]] == [1000, 102_000]


def test_a_changed_driver_is_told_once_and_asks_for_a_new_process(daemon):
    daemon.go(12)
    changed = DriverChangedError("the driver was changed")
    daemon.source.broken["GPU-2"] = daemon.problem = changed

    daemon.go(20)
    daemon.loop.flush()

    assert kinds(daemon.batches()) == ["driver_ok", "driver_mismatch"]
    assert daemon.sampler.is_driver_changed
    assert daemon.source.is_closed


def test_a_changed_driver_replaces_the_process_only_once_it_is_a_minute_old(daemon, monkeypatch):
    daemon.problem = DriverChangedError("the driver was changed")
    daemon.go(1)
    began = daemon.loop._began

    monkeypatch.setattr(loops.time, "monotonic", lambda: began + 59.9)
    assert not daemon.loop.must_restart
    monkeypatch.setattr(loops.time, "monotonic", lambda: began + 60.0)
    assert daemon.loop.must_restart


CHILD = """
import os, sys
from pathlib import Path
from agent import dispatch, loop
from agent.readings import DriverChangedError
from agent.sources import factory, simulated
marker = Path(os.environ["MARKER"])
made = factory._made
def changed(*arguments, **options):
    if marker.exists():
        return made(*arguments, **options)
    if sys._getframe(1).f_code.co_name == "open_source" and sys._getframe(3).f_code.co_name == "run":
        return made(*arguments, **options)
    marker.write_text(str(os.getpid()))
    raise DriverChangedError("the driver was changed")
factory._made = changed
loop.ALIVE_S, loop.WINDOW_S, loop.GRACE_MS = 0.0, 1, 100
sys.exit(dispatch.main())
"""


def test_a_changed_driver_in_a_real_daemon_makes_it_replace_itself_and_go_on(hub, tmp_path):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    flags = [
        "run",
        "--source",
        "simulated:1xH100,seed=7",
        "--server",
        hub.url,
        "--node",
        "n",
        "--spool",
        str(tmp_path / "spool"),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MARKER": str(tmp_path / "marker"),
        "FLEETWATCH_TOKEN": "t",
    }
    process = subprocess.Popen(
        [sys.executable, "-u", str(script), *flags],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )

    lines = []
    for line in process.stderr:
        lines.append(line)
        if "source opened" in line:
            break
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=30)

    said = "".join(lines)
    assert process.returncode == 0, said + rest
    assert said.count("agent started") == 2
    assert said.count("the agent replaces itself") == 1
    assert int((tmp_path / "marker").read_text()) == process.pid
    told = [event["kind"] for batch in hub.batches for event in batch["events"]]
    assert told == ["driver_mismatch", "driver_ok"]


RESTARTED = """
import os, sys
from agent.restart import restart
if os.environ.setdefault("LIVES", "1") == "1":
    os.environ["LIVES"] = "2"
    restart()
print(os.getpid(), sys.argv[1:], sys.flags.ignore_environment, os.environ["KEPT"])
"""


@pytest.mark.parametrize("form", ["script", "module", "zip"])
def test_a_process_that_replaces_itself_keeps_number_arguments_and_environment(tmp_path, form):
    (tmp_path / "again.py").write_text(RESTARTED)
    with zipfile.ZipFile(tmp_path / "again.pyz", "w") as archive:
        archive.writestr("__main__.py", RESTARTED)
    command = {"script": ["again.py"], "module": ["-m", "again"], "zip": ["again.pyz"]}[form]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KEPT": "yes"}

    process = subprocess.Popen(
        [sys.executable, *command, "run", "--node", "a b", ""],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
    )
    out, _ = process.communicate(timeout=30)

    assert out.decode().split("\n")[0] == "%d ['run', '--node', 'a b', ''] 0 yes" % process.pid


def test_a_gpu_that_was_reset_while_the_driver_was_released_is_told_well_again(daemon, monkeypatch):
    daemon.source.pending = [Event(START, "gpu_lost", "GPU-2", 15, "fallen off the bus")]
    daemon.go(5)
    daemon.source.broken["GPU-2"] = "GPU is lost"
    daemon.go(5)
    daemon.sampler.release(300)
    daemon.go(5)
    daemon.source.broken.clear()
    monkeypatch.setattr(daemon.sampler, "_released_until", 0.0)

    daemon.go(25)
    daemon.loop.flush()

    assert kinds(daemon.batches()) == ["driver_ok", "gpu_lost", "gpu_ok"]


def test_a_driver_that_is_released_sends_its_gpus_as_unobserved_and_is_opened_again(
    daemon, monkeypatch
):
    daemon.go(10)
    daemon.sampler.release(300)
    daemon.go(20)
    assert daemon.source.is_closed

    daemon.source.is_closed = False
    monkeypatch.setattr(daemon.sampler, "_released_until", 0.0)
    daemon.go(25)
    daemon.loop.flush()

    sent = daemon.batches()
    assert [observed for _, observed in of_first_gpu(sent)] == [9000, 1500, 0, 9000, 10_000]
    assert all(len(one.gpus) == 2 for one in sent)
    assert kinds(sent) == ["driver_ok"]  # it was let go of, not lost


def test_sigusr1_makes_a_real_daemon_let_go_of_the_driver_and_not_end(hub, tmp_path):
    flags = [
        "--source",
        "simulated:1xH100",
        "--server",
        hub.url,
        "--node",
        "n",
        "--spool",
        tmp_path,
        "--release-min",
        "7",
    ]
    environment = {**os.environ, "FLEETWATCH_TOKEN": "t"}
    process = subprocess.Popen(
        [sys.executable, "-m", "agent", "run", *flags],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if "source opened" in line:
            process.send_signal(signal.SIGUSR1)
        if "the driver is released" in line:
            break

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == 0
    assert "the driver is released minutes=7" in said[-1]


def test_hot_plug_shows_the_new_gpu_from_the_next_window_on(daemon):
    daemon.go(15)
    daemon.source.infos.append(gpu("GPU-3", index=2))

    daemon.go(30)
    daemon.loop.flush()

    first, second = daemon.batches()
    assert ([info["uuid"] for info in first.gpus], [info["uuid"] for info in second.gpus]) == (
        ["GPU-1", "GPU-2"],
        ["GPU-1", "GPU-2", "GPU-3"],
    )
    third = {start: observed for start, place, observed in windows([second]) if place == 2}
    # found at the end of the window, first read a second later
    assert third == {10: 0, 20: 9000, 30: 10_000}


def test_mig_reconfigurations_by_the_hundred_leave_nothing_behind(daemon):
    for number in range(100):
        daemon.source.infos = [gpu("GPU-1"), gpu("MIG-%d" % number, parent_uuid="GPU-1")]
        daemon.go(20)
    daemon.go(5)
    daemon.loop.flush()

    assert set(daemon.sampler._readings) <= {"GPU-1", "MIG-98", "MIG-99"}
    batches = daemon.batches()
    assert all(max(one.windows["gpu"]) < len(one.gpus) for one in batches)
    assert len({info["uuid"] for one in batches for info in one.gpus}) == 101


def test_a_job_that_can_not_be_written_does_not_cost_the_windows(daemon, caplog):
    broken = Workload(
        [Job("slurm/c/\ud800")],
        sources=daemon.workloads.resolve({}, gpus=[], start_ms=0, end_ms=0).sources,
    )
    daemon.workloads.resolve = lambda *_, **__: broken

    daemon.go(35)

    (sent,) = daemon.batches()
    assert [observed for _, observed in of_first_gpu([sent])] == [9000, 10_000, 10_000]
    assert [(source["kind"], source["ok"]) for source in sent.sources] == [("slurm", False)]


@pytest.mark.parametrize(
    ("value", "is_sent"),
    [(float("nan"), False), (float("inf"), False), (-1.0, False), (1e19, False), (0.0, True)],
)
def test_a_value_that_the_hub_would_refuse_is_left_out_alone(daemon, value, is_sent):
    daemon.source.read = lambda uuid, now_ms: Reading(
        now_ms, util=0.5, power_w=value if uuid == "GPU-2" else 300.0
    )

    daemon.go(35)

    (sent,) = daemon.batches()
    assert sent.windows["power_w"][:2] == [300.0, value if is_sent else None]
    wire.decode(wire.encode(sent))


def test_a_window_that_fails_does_not_end_the_daemon(daemon, caplog, monkeypatch):
    monkeypatch.setattr(daemon.loop.host, "read", lambda: 1 / 0)

    with caplog.at_level(logging.ERROR):
        for _ in range(15):
            daemon.times.go(1)
            daemon.loop._safely(daemon.loop.advance)

    assert caplog.text.count("ZeroDivisionError") == 1


def test_a_bug_in_what_one_gpu_says_or_in_the_jobs_blinds_nobody_else_and_is_logged_once(
    daemon, caplog
):
    read = daemon.source.read
    daemon.source.read = lambda uuid, now_ms: 1 / 0 if uuid == "GPU-1" else read(uuid, now_ms)
    daemon.go(12)
    daemon.workloads.resolve = lambda *_, **__: 1 / 0

    daemon.go(30)
    daemon.loop.flush()

    sent = daemon.batches()
    assert [observed for start, place, observed in windows(sent) if place == 1] == [
        9000,
        10_000,
        10_000,
        10_000,
    ]
    assert [source["ok"] for source in sent[-1].sources] == [False]
    assert caplog.text.count("ZeroDivisionError") == 2


def test_kill_9_of_a_real_daemon_loses_no_closed_window(hub, tmp_path):
    flags = [
        "run",
        "--source",
        "simulated:2xH100,seed=7",
        "--server",
        hub.url,
        "--node",
        "n",
        "--spool",
        str(tmp_path),
    ]
    environment = {**os.environ, "FLEETWATCH_TOKEN": "t"}
    short = (
        "import sys; from agent import loop; loop.WINDOW_S, loop.GRACE_MS = 1, 100; from agent"
        " import daemon; daemon.MAX_PHASE_MS = 1"
    )
    command = [
        sys.executable,
        "-c",
        short + "; from agent.dispatch import main; sys.exit(main())",
        *flags,
    ]
    first = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    draft = tmp_path / "draft"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (
        draft.exists() and draft.read_bytes().count(b"FWB1") >= 2
    ):
        time.sleep(0.02)
    first.kill()
    first.wait()
    noted, at_hub = draft.read_bytes().count(b"FWB1"), len(hub.batches)

    second = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    for line in second.stderr:
        if "source opened" in line:
            break
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=30)

    of_first = hub.batches[at_hub : at_hub + noted]
    assert [batch["sequence"] for batch in of_first] == list(range(at_hub, at_hub + noted))
    starts = [batch["windows"]["start_ms"] for batch in of_first]
    assert starts == [[starts[0][0] + 1000 * number] * 2 for number in range(noted)]
    assert len({batch["sequence"] for batch in hub.batches}) == len(hub.batches)
    assert hub.contradictions == []


def test_nothing_grows_over_a_simulated_day(tmp_path):
    day = Daemon(tmp_path, send=lambda payload: ACCEPTED)
    # what grows by GPU grows with two
    day.source.infos = [gpu("GPU-%d" % place, index=place) for place in range(2)]
    day.source.read = lambda uuid, now_ms: Reading(now_ms, util=0.5)
    # a day's fsyncs prove nothing here
    day.spool._store.write = lambda name, content: day.spool._store.hold(name, content) or True
    blocks = []

    for window in range(8640):
        end_ms = START + window * 10_000
        day.sampler.tick(end_ms)
        day.loop.close(end_ms, now_ms=end_ms + 1600)
        while day.pump.step() is not None:
            pass
        if window % 360 == 359:
            blocks.append(sys.getallocatedblocks())

    assert day.spool.waiting == 0
    assert max(blocks[6:]) - blocks[6] < 200  # objects, over 18 hours; one per window would be 6480
    day.spool.close()
