import stat
import time

import pytest

from agent.readings import GPUInfo, SourceError
from agent.sources.nvidia_smi import NvidiaSMI, smi_stream
from agent.sources.nvidia_smi import source as nvidia_smi
from agent.sources.nvidia_smi.smi_stream import Stream

GPU_HEADER = (
    "uuid, index, name, driver_version, utilization.gpu [%], memory.used [MiB], power.draw [W]"
)


def fake(
    folder,
    gpu_part,
    process_part="echo 'timestamp, gpu_uuid, pid, used_gpu_memory [MiB]'; sleep 60",
):
    """An nvidia-smi that says what the test wants; $1 is the query."""
    script = folder / "nvidia-smi"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in\n--query-gpu*)\n{gpu_part}\n;;\n*)\n{process_part}\n;;\nesac\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def rows(*lines, then="exec sleep 60"):
    return "\n".join(f"echo '{line}'" for line in (GPU_HEADER, *lines)) + "\n" + then


def until(question, seconds=10):
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def opened():
    sources = []

    def start(command, **options):
        sources.append(NvidiaSMI(command=command, **options))
        return sources[-1]

    yield start
    for source in sources:
        source.close()


def test_one_process_tells_of_all_gpus(tmp_path, opened):
    source = opened(
        fake(
            tmp_path,
            rows(
                "GPU-1, 0, NVIDIA L4, 580.1, 97 %, 100 MiB, 70.00 W",
                "GPU-2, 1, NVIDIA L4, 580.1, [N/A], ERR!, 13.00 W",
            ),
        )
    )
    until(lambda: len(source.gpus()) == 2)

    first, second = source.read("GPU-1", 1), source.read("GPU-2", 1)

    assert [gpu.uuid for gpu in source.gpus()] == ["GPU-1", "GPU-2"]
    assert (first.util, first.power_w) == (0.97, 70.0)
    assert (second.util, second.memory_used_bytes, second.power_w) == (None, None, 13.0)
    assert source.driver() == "580.1"
    assert source.read("GPU-1", 2) is None


def test_the_processes_of_the_last_poll_are_told(tmp_path, opened):
    lines = [
        "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]",
        "t1, GPU-1, 7, 5 MiB",
        "t2, GPU-1, 8, [N/A]",
        "t2, GPU-1, 9, 6 MiB",
    ]
    processes = "\n".join(f"echo '{line}'" for line in lines) + "\nexec sleep 60"
    source = opened(
        fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 0 %, 0 MiB, 13.00 W"), processes)
    )
    until(lambda: [process.pid for process in source.processes("GPU-1") or ()] == [8, 9])

    assert [process.memory_bytes for process in source.processes("GPU-1")] == [
        None,
        6 * 1024 * 1024,
    ]
    assert source.processes("GPU-2") == []


def test_before_its_first_poll_the_processes_are_not_known(tmp_path, opened):
    source = opened(
        fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 0 %, 0 MiB, 13.00 W"), "exec sleep 60")
    )

    assert source.processes("GPU-1") is None


def test_a_field_that_an_old_driver_does_not_know_is_left_out(tmp_path, opened):
    gpu_part = (
        'case "$1" in *memory.reserved*) echo \'Field "memory.reserved" is not a valid field to'
        " query.'; exit 2;; esac\n" + rows("GPU-1, 0, NVIDIA L4, 450.1, 5 %, 0 MiB, 13.00 W")
    )

    source = opened(fake(tmp_path, gpu_part))

    assert source.read("GPU-1", 1).util == 0.05


def test_a_driver_that_answers_nothing_is_said(tmp_path):
    command = fake(
        tmp_path,
        "echo 'NVIDIA-SMI has failed because it found no driver. Make sure it is installed, and"
        " running.'; exit 9",
    )

    with pytest.raises(SourceError, match="nvidia-smi names no GPU: NVIDIA-SMI has failed"):
        NvidiaSMI(command=command)


def test_no_nvidia_smi_at_all_is_said(tmp_path):
    with pytest.raises(SourceError, match="can't be started: No such file"):
        NvidiaSMI(command=str(tmp_path / "nvidia-smi"))


def test_a_process_that_ended_is_said_and_started_again(tmp_path, opened):
    source = opened(
        fake(
            tmp_path,
            rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W", then="sleep 0.2; exit 1"),
        )
    )
    source.read("GPU-1", 1)
    until(lambda: not source._gpu_stream.is_alive)

    with pytest.raises(SourceError, match="nvidia-smi ended"):
        source.read("GPU-1", 2)

    source.gpus()
    assert source.read("GPU-1", 3).util == 0.05


def test_a_driver_that_falls_silent_is_noticed_and_told_once(tmp_path, opened):
    source = opened(
        fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W")), silence_s=0.2
    )
    until(lambda: source._gpu_stream.silence_s > 0.2)

    for now_ms in (1, 2):
        with pytest.raises(SourceError):
            source.read("GPU-1", now_ms)

    assert [(event.kind, event.at_ms) for event in source.events(3)] == [("nvml_stuck", 1)]
    assert source.events(4) == []
    assert [gpu.uuid for gpu in source.gpus()] == ["GPU-1"]


def test_a_stream_ends_with_its_reason(tmp_path):
    stream = Stream(
        ["sh", "-c", "echo a, b; echo 1, 2; echo broken"], first="a", on_row=lambda row: None
    )

    until(lambda: not stream.is_alive and stream.said)

    assert stream.said == ["broken"]
    stream.close()


def counted(folder, gpu_part):
    """A fake that also notes each of its starts."""
    return fake(folder, "echo start >> %s/starts\n%s" % (folder, gpu_part))


def starts(folder):
    return (folder / "starts").read_text().count("start")


def test_nothing_is_started_per_poll(tmp_path, opened):
    source = opened(counted(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W")))

    for second in range(100):
        source.read("GPU-1", second)
        source.gpus()
        source.processes("GPU-1")

    assert starts(tmp_path) == 1


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("[GPU is lost], [GPU is lost], [GPU is lost]", "GPU is lost"),
        ("[GPU requires reset], 0 MiB, [GPU requires reset]", "GPU requires reset"),
        ("[Unknown Error], [Unknown Error], [Unknown Error]", "Unknown Error"),
        ("ERR!, ERR!, ERR!", "ERR!"),
    ],
)
def test_a_lost_gpu_is_told_once_and_the_others_go_on(tmp_path, opened, cells, said):
    lost = "GPU-1, 0, NVIDIA L4, 580.1, %s" % cells
    source = opened(
        fake(tmp_path, rows(lost, lost, "GPU-2, 1, NVIDIA L4, 580.1, 9 %, 0 MiB, 13.00 W"))
    )
    until(lambda: len(source.gpus()) == 2)

    with pytest.raises(SourceError, match="GPU GPU-1 is lost: "):
        source.read("GPU-1", 1)

    assert source.read("GPU-2", 1).util == 0.09
    assert [(event.kind, event.uuid, event.text) for event in source.events(2)] == [
        ("gpu_lost", "GPU-1", said)
    ]


def test_a_gpu_with_no_sensors_is_not_lost(tmp_path, opened):
    source = opened(fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, [N/A], [N/A], [N/A]")))

    assert source.read("GPU-1", 1).util is None
    assert source.events(2) == []


def test_a_gpu_that_answers_again_is_told(tmp_path, opened):
    answers = "GPU-1, 0, NVIDIA L4, 580.1, 9 %, 0 MiB, 13.00 W"
    source = opened(fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, ERR!, ERR!, ERR!", answers)))
    until(lambda: source._cards["GPU-1"].lost is None)

    assert source.read("GPU-1", 1).util == 0.09
    assert [event.kind for event in source.events(2)] == ["gpu_lost", "gpu_ok"]


def test_a_gpu_that_is_no_longer_listed_is_lost(tmp_path, opened):
    line = "GPU-%d, %d, NVIDIA L4, 580.1, 9 %%, 0 MiB, 13.00 W"
    again = "while :; do echo '%s'; sleep 0.05; done" % (line % (2, 1))
    source = opened(fake(tmp_path, rows(line % (1, 0), then=again)), silence_s=0.3)
    until(lambda: source._gpu_stream.heard_at - source._cards["GPU-1"].heard_at > 0.3)

    with pytest.raises(SourceError, match="no longer lists it"):
        source.read("GPU-1", 1)

    assert source.read("GPU-2", 1).util == 0.09
    assert [(event.kind, event.uuid) for event in source.events(2)] == [("gpu_lost", "GPU-1")]


def test_a_gpu_without_a_handle_does_not_cost_the_others(tmp_path, opened):
    for bus in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (tmp_path / "driver" / "gpus" / bus).mkdir(parents=True)
    broken = (
        "echo 'Unable to determine the device handle for GPU0000:02:00.0: Unknown Error'; exit 255"
    )
    asked = 'case "$*" in *"-i 0000:01:00.0,0000:03:00.0"*) ;; *) %s;; esac\n' % broken
    command = fake(tmp_path, asked + rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W"))

    source = opened(command, driver_root=str(tmp_path / "driver"))

    assert source.read("GPU-1", 1).util == 0.05
    assert [(event.kind, event.text) for event in source.events(2)] == [
        ("gpu_lost", "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error")
    ]


def test_a_driver_with_other_names_is_asked_by_those(tmp_path, opened):
    first = 'echo "$1" | grep -o "clocks_event[a-z_.]*" | head -1'
    refuse = (
        'case "$1" in *clocks_event*) echo "Field \\"$(%s)\\" is not a valid field to query."; exit'
        " 2;; esac\n" % first
    )
    header = "uuid, utilization.gpu [%], clocks_throttle_reasons.active"
    needed = "case $1 in *clocks_throttle_reasons.active*) ;; *) exit 3;; esac\n"
    answer = "echo '%s'\necho 'GPU-1, 5 %%, 0x0000000000000040'\nexec sleep 60" % header
    source = opened(fake(tmp_path, refuse + needed + answer))

    assert source.read("GPU-1", 1).means == {
        "throttle_power_ratio": 0.0,
        "throttle_thermal_ratio": 1.0,
    }


def test_the_counters_of_throttling_give_its_share(tmp_path, opened):
    counter = "clocks_event_reasons_counters."
    header = (
        "uuid, utilization.gpu [%%], clocks_event_reasons.active, %ssw_power_cap [us],"
        " %shw_thermal_slowdown [us]" % (counter, counter)
    )
    lines = (
        "echo '%s'; echo 'GPU-1, 5 %%, 0x4, 1000000 us, 0 us'; sleep 0.2; echo 'GPU-1, 5 %%, 0x4,"
        " 1100000 us, 0 us'; exec sleep 60" % header
    )
    source = opened(fake(tmp_path, lines))
    until(lambda: len(source._cards["GPU-1"].rows) == 2)

    first, second = source.read("GPU-1", 1), source.read("GPU-1", 2)

    # only the bits, at this instant
    assert first.means == {"throttle_power_ratio": 1.0, "throttle_thermal_ratio": 0.0}
    assert 0 < second.means["throttle_power_ratio"] < 1  # the bits alone would say 1
    assert second.means["throttle_thermal_ratio"] == 0


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [(1.0, 1.1, 0.5), (1.0, 1.0, 0.0), (1.0, 1.3, 1.0), (1.0, 0.0, None)],
)
def test_a_counter_of_seconds_gives_a_share_of_the_time_between_two_rows(before, after, share):
    card = nvidia_smi.Card(GPUInfo("GPU-1"), heard_at=10.0)
    card.throttled_since({"throttle_power_ratio": before})
    card.heard_at = 10.2

    shares = card.throttled_since({"throttle_power_ratio": after})

    assert shares.get("throttle_power_ratio") == (None if share is None else pytest.approx(share))


def test_what_the_driver_asks_for_is_told_once(tmp_path, opened):
    line = "echo 'GPU-1, 5 %%, %s'"
    lines = "; ".join(
        [
            "echo 'uuid, utilization.gpu [%], gpu_recovery_action'",
            *(line % word for word in ("None", "Reset", "Reset", "N/A")),
        ]
    )
    source = opened(fake(tmp_path, lines.replace("%%", "%") + "; exec sleep 60"))
    until(lambda: source._cards["GPU-1"].recovery == "N/A")

    assert [(event.kind, event.code, event.uuid) for event in source.events(1)] == [
        ("recovery_action", 1, "GPU-1")
    ]


def test_a_hanging_child_is_killed_with_all_it_started_and_leaves_no_zombie(tmp_path, opened):
    line = rows(
        "GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W",
        then="sleep 61 & echo $! > %s/grandchild; wait" % tmp_path,
    )
    source = opened(fake(tmp_path, line), silence_s=0.2)
    until(
        lambda: (tmp_path / "grandchild").exists() and (tmp_path / "grandchild").read_text().strip()
    )
    child, grandchild = source._gpu_stream._child, int((tmp_path / "grandchild").read_text())
    until(lambda: source._gpu_stream.silence_s > 0.2)

    with pytest.raises(SourceError, match="nvidia-smi hangs"):
        source.read("GPU-1", 1)

    assert child.returncode == -9
    until(lambda: not is_running(grandchild))


def is_running(pid):
    try:
        return "Z" not in open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_driver_that_hangs_again_after_the_restart_is_an_error_and_not_waited_for_twice(
    tmp_path, opened
):
    once = "test -e %s/again && exec sleep 60\ntouch %s/again\n" % (tmp_path, tmp_path)
    source = opened(
        fake(tmp_path, once + rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W")),
        silence_s=0.1,
        start_s=0.2,
    )
    until(lambda: source._gpu_stream.silence_s > 0.1)
    with pytest.raises(SourceError, match="hangs"):
        source.read("GPU-1", 1)

    with pytest.raises(SourceError, match="names no GPU: no answer"):
        source.gpus()


def test_no_more_are_started_while_three_can_not_be_killed(tmp_path, monkeypatch):
    class Stuck:
        def poll(self):
            return None

    monkeypatch.setattr(smi_stream, "_undead", [Stuck(), Stuck(), Stuck()])

    with pytest.raises(
        SourceError,
        match="3 nvidia-smi hang in the driver and can't be killed: this node needs a reboot",
    ):
        NvidiaSMI(command=fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W")))


def test_silence_means_no_process_only_of_a_child_that_is_awake(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(nvidia_smi, "PROCESS_INTERVAL_S", 0.1)
    monkeypatch.setattr(nvidia_smi, "SETTLED_S", 0.05)
    gpus = rows(
        "GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W",
        then="while :; do echo 'GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 1 W'; sleep 0.02; done",
    )
    header = "echo 'timestamp, gpu_uuid, pid, used_gpu_memory [MiB]'\n"
    awake = opened(fake(tmp_path, gpus, header + "while :; do sleep 0.02; done"))
    until(lambda: awake._process_stream.silence_s > 0.16 and awake._process_stream.has_header)
    until(lambda: awake.processes("GPU-1") == [])

    asleep = opened(fake(tmp_path, gpus, header + "exec sleep 60"))
    until(lambda: asleep._process_stream.has_header)
    asleep.processes("GPU-1")
    until(lambda: asleep._process_stream.silence_s > 0.4 and (asleep.processes("GPU-1") is None))

    assert asleep.processes("GPU-1") is None
