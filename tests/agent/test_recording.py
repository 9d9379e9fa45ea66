import json
import resource
import signal
from contextlib import contextmanager

import pytest

from agent.readings import Reading
from agent.recording import FileRecorder
from agent.sampler import Sampler
from tests.agent.daemon import FakeSource, FakeWorkloads
from tests.agent.factories import START

LIMIT = 2000


@contextmanager
def small_disk():
    """Files of this process end at LIMIT bytes, in the middle of whatever is being written."""
    before, handler = (
        resource.getrlimit(resource.RLIMIT_FSIZE),
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_is_full_ends_the_recording_with_a_whole_line_and_not_the_readings(
    tmp_path, caplog
):
    recorder = FileRecorder(tmp_path / "recording", interval_ms=1000)
    sampler = Sampler(
        FakeSource, lambda _: FakeWorkloads(), window_ms=10_000, interval_ms=1000, recorder=recorder
    )

    with small_disk():
        for second in range(32):
            sampler.tick(START + second * 1000)
    observed = sampler.take(START + 20_000, START + 30_000)

    assert {uuid: len(readings) for uuid, readings in observed.readings.items()} == {
        "GPU-1": 12,
        "GPU-2": 12,
    }
    assert observed.workload.allocations
    assert caplog.text.count("the recording ends here") == 1
    lines = (tmp_path / "recording").read_text().splitlines()
    assert len(lines) > 10
    assert all(json.loads(line) for line in lines)


@pytest.mark.parametrize("times", [1, 2])
def test_nothing_is_written_after_the_end(tmp_path, times):
    recorder = FileRecorder(tmp_path / "recording", interval_ms=1000)
    for _ in range(times):
        recorder.close()

    recorder.reading("GPU-1", Reading(at_ms=START, util=0.5))

    assert len((tmp_path / "recording").read_text().splitlines()) == 1
