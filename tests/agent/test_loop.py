import gzip
import logging
import threading

import pytest

from agent import batch, wire
from agent.clock import Clock
from agent.host import HostReader
from agent.loop import STUCK_S, Loop, Parts
from agent.reading import Allocation, Event, Job, ProcessReading, Reading, SourceError, SourceStatus, Workload
from agent.sampler import Recorder, Sampler
from agent.sender import Pump
from agent.spool import Identity, Spool
from tests.agent.factories import START, gpu


class FakeSource:
    """Two GPUs at 50 %; what happens to them is set by the test."""

    name = "fake"

    def __init__(self):
        self.infos = [gpu("GPU-1"), gpu("GPU-2")]
        self.broken = {}
        self.pending = []
        self.is_closed = False

    def driver(self):
        return "580.1"

    def gpus(self):
        if "all" in self.broken:
            raise SourceError(self.broken["all"])
        return list(self.infos)

    def read(self, uuid, now_ms):
        if uuid in self.broken:
            raise SourceError(self.broken[uuid])
        return Reading(at_ms=now_ms, util=0.5)

    def processes(self, uuid):
        return [ProcessReading(7)] if uuid == "GPU-1" else None

    def events(self, now_ms):
        pending, self.pending = self.pending, []
        return pending

    def close(self):
        self.is_closed = True


class FakeWorkloads:
    def __init__(self):
        self.is_ok = True

    def resolve(self, processes, *, gpus, start_ms, end_ms):
        if not self.is_ok:
            return Workload(sources=[SourceStatus("slurm", ok=False)])
        held = [Allocation(info.uuid, "slurm/c/1", "slurm", START - 5000) for info in gpus]
        return Workload([Job("slurm/c/1")], held, [], [SourceStatus("slurm", ok=True)])


class Daemon:
    """The parts of a daemon with a fake driver and a fake clock; no thread runs."""

    def __init__(self, folder, *, flush_s=30):
        self.source, self.workloads = FakeSource(), FakeWorkloads()
        self.problem = None
        self.sampler = Sampler(self.open, lambda _: self.workloads, window_ms=10_000, interval_ms=1000, recorder=Recorder())
        self.spool = Spool(folder, identity=lambda _: Identity("boot", START))
        self.pump = Pump(self.spool, lambda payload: None, flush_s=flush_s)
        sender = batch.Sender("gpu-07", "boot", START, 10)
        self.loop = Loop(Parts(sender, self.sampler, self.spool, self.pump, HostReader("/nowhere"), Clock()))

    def open(self):
        if self.problem is not None:
            raise SourceError(self.problem)
        return self.source

    def live(self, start_s, end_s):
        """Ticks each second of [start_s, end_s]; closes each window 1.6 s after its end, as the loop does."""
        for second in range(start_s, end_s + 1):
            self.sampler.tick(START + second * 1000)
            if second % 10 == 2 and second > 10:
                self.loop.close(START + (second - 2) * 1000, now_ms=START + second * 1000)

    def batches(self):
        found = []
        while (entry := self.spool.peek()) is not None:
            found.append(wire.decode(gzip.decompress(entry.payload)))
            self.spool.ack(entry.sequence)
        return found


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path / "spool")
    yield daemon
    daemon.spool.close()


def test_three_windows_make_one_batch_of_thirty_seconds(daemon):
    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert sent.windows["gpu"] == [0, 1] * 3
    assert [start - START for start in sent.windows["start_ms"]] == [0, 0, 10_000, 10_000, 20_000, 20_000]
    assert sent.windows["observed_ms"] == [10_000] * 6
    assert sent.windows["util_mean"] == [0.5] * 6
    assert sent.windows["process_count"] == [1, None] * 3
    assert [(item["gpu"], item["end_ms"]) for item in sent.allocations] == [(0, None), (1, None)]
    assert (sent.agent["source"], sent.agent["driver"], sent.agent["dropped_windows"]) == ("fake", "580.1", 0)


def test_the_hub_may_ask_for_batches_of_another_length(daemon):
    daemon.pump.flush_s = 10

    daemon.live(0, 32)

    assert [sent.sequence for sent in daemon.batches()] == [0, 1, 2]


def test_one_gpu_that_can_not_be_read_stops_no_other_and_is_still_sent(daemon):
    daemon.source.broken["GPU-1"] = "GPU is lost"

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert sent.windows["observed_ms"] == [0, 10_000] * 3
    assert sent.windows["util_mean"] == [None, 0.5] * 3


def test_the_same_trouble_is_logged_once(daemon, caplog):
    daemon.source.broken["GPU-1"] = "GPU is lost"

    with caplog.at_level(logging.WARNING):
        daemon.live(0, 9)

    assert [record.message for record in caplog.records] == ["GPU can't be read uuid=GPU-1: GPU is lost"]


def test_a_driver_that_is_missing_is_an_event_and_the_known_gpus_stay(daemon):
    daemon.live(0, 9)
    daemon.source.broken["all"] = "driver unloaded"

    daemon.live(10, 32)
    daemon.loop.flush()

    sent = daemon.batches()
    events = [(event["kind"], event["gpu"], event["text"]) for one in sent for event in one.events]
    assert events == [("driver_ok", None, "driver answers"), ("driver_missing", None, "driver unloaded")]
    assert [observed for one in sent for observed in one.windows["observed_ms"]] == [10_000, 10_000, 1_500, 1_500, 0, 0]
    assert daemon.source.is_closed


def test_without_any_driver_the_host_is_reported_all_the_same(daemon):
    daemon.problem = "no driver"

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert (sent.gpus, sent.windows["gpu"]) == ([], [])
    assert [event["kind"] for event in sent.events] == ["driver_missing"]


def test_a_driver_that_comes_back_is_told(daemon, monkeypatch):
    daemon.problem = "no driver"
    daemon.live(0, 5)
    daemon.problem = None
    monkeypatch.setattr(daemon.sampler, "_retry_at", 0.0)

    daemon.live(6, 32)

    (sent,) = daemon.batches()
    assert [event["kind"] for event in sent.events] == ["driver_missing", "driver_ok"]
    assert len(sent.gpus) == 2


def test_events_of_the_source_are_sent(daemon):
    daemon.source.pending = [Event(START + 3, "xid", "GPU-2", 79, "fallen off the bus")]

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert sent.events[1:] == [{"gpu": 1, "at_ms": START + 3, "kind": "xid", "code": 79, "text": "fallen off the bus"}]


def test_of_a_job_source_that_fell_silent_nothing_is_concluded_but_what_it_said_before_is_kept(daemon):
    daemon.live(0, 15)
    daemon.workloads.is_ok = False

    daemon.live(16, 32)
    daemon.loop.flush()

    first, second = daemon.batches()
    assert [source["ok"] for source in first.sources] == [True]
    assert len(first.windows["gpu"]) == 2
    assert [source["ok"] for source in second.sources] == [False]
    assert second.allocations == []


def test_a_call_that_never_returns_is_told_once_and_windows_go_on(daemon, monkeypatch):
    daemon.live(0, 9)
    monkeypatch.setattr(Sampler, "stuck_s", STUCK_S + 1)
    monkeypatch.setattr(Sampler, "stuck_gpu", "GPU-2")

    for end_s in (10, 20, 30):
        daemon.loop.close(START + end_s * 1000, now_ms=START + end_s * 1000 + 1600)
    daemon.loop.flush()

    sent = daemon.batches()
    assert [(event["kind"], event["gpu"]) for one in sent for event in one.events] == [("nvml_stuck", 1), ("driver_ok", None)]
    assert sum(len(one.windows["gpu"]) for one in sent) == 6


def test_a_batch_never_speaks_of_gpus_it_does_not_list(daemon):
    daemon.live(0, 15)
    daemon.source.infos = [gpu("GPU-2")]

    daemon.live(16, 32)
    daemon.loop.flush()

    first, second = daemon.batches()
    assert [[info["uuid"] for info in sent.gpus] for sent in (first, second)] == [["GPU-1", "GPU-2"], ["GPU-2"]]


def test_a_stop_sends_the_window_that_is_still_open(tmp_path):
    daemon = Daemon(tmp_path / "spool")
    started = Clock().now_ms()
    thread = threading.Thread(target=daemon.loop.run)
    daemon.pump._send = lambda payload: (_ for _ in ()).throw(OSError("not now"))  # the network hangs on nobody
    daemon.sampler.tick(started)
    thread.start()

    daemon.loop.stop()
    thread.join(timeout=20)

    assert not thread.is_alive()
    assert daemon.spool.waiting >= 1
    daemon.spool.close()


class Times:
    def __init__(self):
        self.wall, self.elapsed = 1000.0, 50.0

    def clock(self):
        return Clock(wall_s=lambda: self.wall, elapsed_s=lambda: self.elapsed)

    def go(self, seconds, *, wall=None):
        self.elapsed += seconds
        self.wall += seconds if wall is None else wall


def test_a_small_correction_of_the_wall_clock_moves_nothing():
    times = Times()
    clock = times.clock()

    times.go(10, wall=10.4)

    assert clock.now_ms() == 1_010_000


@pytest.mark.parametrize("jump", [-3600, 0.6, 3600])
def test_a_wall_clock_that_was_set_is_followed(jump):
    times = Times()
    clock = times.clock()

    times.go(10, wall=10 + jump)

    assert clock.now_ms() == pytest.approx(1_010_000 + jump * 1000, abs=1)
