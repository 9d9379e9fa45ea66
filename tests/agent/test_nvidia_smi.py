import stat
import time

import pytest

from agent.reading import SourceError
from agent.sources.nvidia_smi import NvidiaSMI, Stream

GPU_HEADER = "uuid, index, name, driver_version, utilization.gpu [%], memory.used [MiB], power.draw [W]"


def fake(folder, gpu_part, process_part="echo 'timestamp, gpu_uuid, pid, used_gpu_memory [MiB]'; sleep 60"):
    """An nvidia-smi that says what the test wants; $1 is the query."""
    script = folder / "nvidia-smi"
    script.write_text(f'#!/bin/sh\ncase "$1" in\n--query-gpu*)\n{gpu_part}\n;;\n*)\n{process_part}\n;;\nesac\n')
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
        fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 97 %, 100 MiB, 70.00 W", "GPU-2, 1, NVIDIA L4, 580.1, [N/A], ERR!, 13.00 W"))
    )
    until(lambda: len(source.gpus()) == 2)

    first, second = source.read("GPU-1", 1), source.read("GPU-2", 1)

    assert [gpu.uuid for gpu in source.gpus()] == ["GPU-1", "GPU-2"]
    assert (first.util, first.power_w) == (0.97, 70.0)
    assert (second.util, second.memory_used_bytes, second.power_w) == (None, None, 13.0)
    assert source.driver() == "580.1"
    assert source.read("GPU-1", 2) is None


def test_the_processes_of_the_last_poll_are_told(tmp_path, opened):
    lines = ["timestamp, gpu_uuid, pid, used_gpu_memory [MiB]", "t1, GPU-1, 7, 5 MiB", "t2, GPU-1, 8, [N/A]", "t2, GPU-1, 9, 6 MiB"]
    processes = "\n".join(f"echo '{line}'" for line in lines) + "\nexec sleep 60"
    source = opened(fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 0 %, 0 MiB, 13.00 W"), processes))
    until(lambda: [process.pid for process in source.processes("GPU-1") or ()] == [8, 9])

    assert [process.memory_bytes for process in source.processes("GPU-1")] == [None, 6 * 1024 * 1024]
    assert source.processes("GPU-2") == []


def test_before_its_first_poll_the_processes_are_not_known(tmp_path, opened):
    source = opened(fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 0 %, 0 MiB, 13.00 W"), "exec sleep 60"))

    assert source.processes("GPU-1") is None


def test_a_field_that_an_old_driver_does_not_know_is_left_out(tmp_path, opened):
    gpu_part = 'case "$1" in *memory.reserved*) echo \'Field "memory.reserved" is not a valid field to query.\'; exit 2;; esac\n' + rows(
        "GPU-1, 0, NVIDIA L4, 450.1, 5 %, 0 MiB, 13.00 W"
    )

    source = opened(fake(tmp_path, gpu_part))

    assert source.read("GPU-1", 1).util == 0.05


def test_a_driver_that_answers_nothing_is_said(tmp_path):
    command = fake(
        tmp_path,
        "echo 'NVIDIA-SMI has failed because it found no driver. Make sure it is installed, and running.'; exit 9",
    )

    with pytest.raises(SourceError, match="nvidia-smi names no GPU: NVIDIA-SMI has failed"):
        NvidiaSMI(command=command)


def test_no_nvidia_smi_at_all_is_said(tmp_path):
    with pytest.raises(SourceError, match="can't be started: No such file"):
        NvidiaSMI(command=str(tmp_path / "nvidia-smi"))


def test_a_process_that_ended_is_said_and_started_again(tmp_path, opened):
    source = opened(fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W", then="sleep 0.2; exit 1")))
    source.read("GPU-1", 1)
    until(lambda: not source._gpu_stream.is_alive)

    with pytest.raises(SourceError, match="nvidia-smi ended"):
        source.read("GPU-1", 2)

    source.gpus()
    assert source.read("GPU-1", 3).util == 0.05


def test_a_driver_that_falls_silent_is_noticed_and_told_once(tmp_path, opened):
    source = opened(fake(tmp_path, rows("GPU-1, 0, NVIDIA L4, 580.1, 5 %, 0 MiB, 13.00 W")), silence_s=0.2)
    until(lambda: source._gpu_stream.silence_s > 0.2)

    for now_ms in (1, 2):
        with pytest.raises(SourceError):
            source.read("GPU-1", now_ms)

    assert [(event.kind, event.at_ms) for event in source.events(3)] == [("nvml_stuck", 1)]
    assert source.events(4) == []
    assert [gpu.uuid for gpu in source.gpus()] == ["GPU-1"]


def test_a_stream_ends_with_its_reason(tmp_path):
    stream = Stream(["sh", "-c", "echo a, b; echo 1, 2; echo broken"], first="a", on_row=lambda table, row: None)

    until(lambda: not stream.is_alive and stream.said)

    assert stream.said == ["broken"]
    stream.close()
