"""The parts of a daemon with a fake driver and a fake clock; no thread runs unless a test starts
it.
"""

from agent import batch
from agent.clock import Clock
from agent.host import HostReader
from agent.loop import Loop
from agent.readings import (
    Allocation,
    Job,
    ProcessReading,
    Reading,
    SourceError,
    SourceStatus,
    Workload,
)
from agent.sampler import Recorder, Sampler
from agent.sending.payloads import batch_of
from agent.sending.sender import Outcome, Pump, Verdict
from agent.sending.spool import Identity, Spool
from tests.agent.factories import START, gpu

ACCEPTED = Outcome(Verdict.ACCEPTED, status=200)


class Times:
    """A wall clock and a boot clock that a test moves; the wall clock says START + 0 s at first."""

    def __init__(self):
        self.wall, self.elapsed = START / 1000, 50.0

    def clock(self):
        return Clock(wall_s=lambda: self.wall, elapsed_s=lambda: self.elapsed)

    def go(self, seconds, *, wall=None):
        self.elapsed += seconds
        self.wall += seconds if wall is None else wall


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
        self._fail("all")
        return list(self.infos)

    def read(self, uuid, now_ms):
        self._fail(uuid)
        return Reading(at_ms=now_ms, util=0.5)

    def processes(self, uuid):
        return [ProcessReading(7)] if uuid == "GPU-1" else None

    def events(self, now_ms):
        pending, self.pending = self.pending, []
        return pending

    def close(self):
        self.is_closed = True

    def _fail(self, subject):
        trouble = self.broken.get(subject)
        if trouble is not None:
            raise SourceError(trouble) if isinstance(trouble, str) else trouble


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

    def __init__(self, folder, *, flush_s=30, send=None, kmsg=None, runner=None):
        self.times = Times()
        self.source, self.workloads = FakeSource(), FakeWorkloads()
        self.problem = None  # of opening the source
        self.sampler = Sampler(
            self.open,
            lambda _: self.workloads,
            window_ms=10_000,
            interval_ms=1000,
            recorder=Recorder(),
            kmsg=kmsg,
        )
        self.spool = Spool(folder, identity=lambda _: Identity("boot", START))
        obey = runner.take if runner else None
        self.pump = Pump(self.spool, send, flush_s=flush_s, obey=obey)
        self.clock = self.times.clock()
        sender = batch.Sender("gpu-07", "boot", START, 10)
        self.loop = Loop(
            sender,
            self.sampler,
            self.spool,
            self.pump,
            HostReader("/nowhere"),
            self.clock,
            runner=runner,
        )

    def open(self):
        if self.problem is not None:
            raise SourceError(self.problem) if isinstance(self.problem, str) else self.problem
        return self.source

    def live(self, start_s, end_s):
        """Ticks each second of [start_s, end_s]; closes each window 1.6 s after its end, as the
        loop does.
        """
        for second in range(start_s, end_s + 1):
            self.sampler.tick(START + second * 1000)
            if second % 10 == 2 and second > 10:
                self.loop.close(START + (second - 2) * 1000, now_ms=START + second * 1000)

    def go(self, seconds):
        """Lives by the fake clock, second by second."""
        for _ in range(seconds):
            self.times.go(1)
            self.sampler.tick(self.clock.now_ms())
            self.loop.advance()

    def batches(self):
        found = []
        while (entry := self.spool.peek()) is not None:
            found.append(batch_of(entry.payload))
            self.spool.ack(entry.sequence)
        return found


def windows(batches):
    """(seconds after START, GPU's position, milliseconds observed) of every window, as sent."""
    return [
        ((start - START) // 1000, place, observed)
        for one in batches
        for start, place, observed in zip(
            one.windows["start_ms"], one.windows["gpu"], one.windows["observed_ms"], strict=True
        )
    ]


def of_first_gpu(batches):
    return [(start_s, observed) for start_s, place, observed in windows(batches) if place == 0]


def kinds(batches):
    return [event["kind"] for one in batches for event in one.events]
