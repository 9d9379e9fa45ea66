"""Whatever jobs come and go: what the batches say that each held is what Slurm gave it, within one
window.
"""

import tempfile
import threading
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.batch import merge
from agent.readings import GPUInfo, Workload
from agent.sampler import within
from agent.workloads.poller import Poller
from agent.workloads.slurm.client import Slurm
from agent.workloads.slurm.command import CommandError
from agent.workloads.slurm.hpc_files import HPCFiles
from tests.agent.fake_slurm import node_line

NOON_MS = 1_795_348_800_000  # 2026-11-22 12:00:00 UTC
GPUS = [
    GPUInfo(f"GPU-{place}", index=place, bus_id=f"00000000:{0x10 + place:02X}:00.0")
    for place in range(3)
]
WINDOW_S, BATCH_WINDOWS, EPILOG_S = 10, 3, 2


class World:
    """A node of Slurm 22.05 whose jobs are given as (GPU, start, end), in seconds after noon; it is
    its commands, too.
    """

    def __init__(self, jobs, folder):
        self.jobs, self.folder, self.s = (
            {100 + place: job for place, job in enumerate(jobs)},
            folder,
            0,
        )

    def path(self, name):
        return "/usr/bin/" + name

    def run(self, name, *arguments):
        if "--json" in arguments:
            raise CommandError("scontrol", "scontrol: unrecognized option '--json'")
        if "config" in arguments:
            return "ClusterName = della\n"
        if "node" in arguments:
            return self._node()
        if "-w" in arguments:
            return "".join(
                f"{number}|{number}|{self._state(number)}|{at(self.jobs[number][1])}\n"
                for number in self._known()
            )
        if "-j" in arguments:
            return f"{arguments[arguments.index('-j') + 1]}|job\n"
        return self._record(int(arguments[-1])) if name == "scontrol" else ""

    def move(self):
        """A second later; slurmd makes a control group for each job and takes it away when the
        epilog is over.
        """
        self.s += 1
        for number, (_, start, end) in self.jobs.items():
            group = self.folder / "devices" / "slurm" / "uid_1" / f"job_{number}"
            if start <= self.s < end + EPILOG_S:
                group.mkdir(parents=True, exist_ok=True)
            elif group.exists():
                group.rmdir()

    def _known(self):
        return [number for number, (_, start, _) in self.jobs.items() if start <= self.s]

    def _state(self, number):
        end = self.jobs[number][2]
        return (
            "RUNNING" if self.s < end else "COMPLETING" if self.s < end + EPILOG_S else "COMPLETED"
        )

    def _node(self):
        used = sorted(
            self.jobs[number][0] for number in self._known() if self._state(number) == "RUNNING"
        )
        return node_line(
            "n01", gres="gpu:3", used=f"gpu:{len(used)}(IDX:{','.join(map(str, used)) or 'N/A'})"
        )

    def _record(self, number):
        gpu, start, end = self.jobs[number]
        state = self._state(number)
        is_on = state == "RUNNING"
        ran = time.strftime("%H:%M:%S", time.gmtime(min(self.s, end) - start))
        return (
            f"JobId={number} JobName=job UserId=ann(1) Account=nlp QOS=normal JobState={state}"
            f" Restarts=0 BatchFlag=1 RunTime={ran} StartTime={at(start)}"
            f" EndTime={at(start + 3600 if is_on else end)} Nodes=n01 CPU_IDs=0 Mem=0"
            f" GRES={f'gpu:1(IDX:{gpu})' if is_on else ''} OverSubscribe=YES Command=x\n"
        )


class Wake:
    """The poller's event: waiting for it is the world going on, with a window closed a second after
    each ten.
    """

    def __init__(self, world, close):
        self.world, self.close = world, close

    def wait(self, seconds):
        for _ in range(round(seconds)):
            self.world.move()
            if self.world.s % WINDOW_S == 1 and self.world.s > 1:
                self.close(self.world.s - 1)
        return False

    def clear(self):
        pass


def at(second):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(NOON_MS // 1000 + second))


def windows_of(world, seconds):
    """What the agent notes at the end of each window."""
    slurm = Slurm(
        ["n01"],
        commands=world,
        files=HPCFiles("/nowhere", []),
        conf_folders=[],
        cgroup_root=str(world.folder),
    )
    poller = Poller(slurm, now_ms=lambda: NOON_MS + world.s * 1000, clock_s=lambda: world.s)
    poller._thread = threading.current_thread()
    poller.look(GPUS)
    closed = []

    def close(end_s):
        answer = poller.look(GPUS)
        end_ms = NOON_MS + end_s * 1000
        workload = Workload(answer.fresh.jobs, answer.fresh.allocations, sources=[answer.status])
        closed.append((end_ms, within(workload, end_ms - WINDOW_S * 1000, end_ms)))

    poller._wake = Wake(world, close)
    is_settling = False
    while world.s < seconds:
        began_s = world.s
        poller.ask()
        is_settling = poller._pause(began_s, is_settling=is_settling)
    return closed


def charged_s(closed):
    """(Job, GPU) -> seconds that the union of all batches gives it, cut at the end that was told
    (docs/wire.md); and the last facts.
    """
    seconds, facts = {}, {}
    for place in range(0, len(closed), BATCH_WINDOWS):
        batch = closed[place : place + BATCH_WINDOWS]
        for item in merge(batch).allocations:
            until_ms = min(batch[-1][0], batch[-1][0] if item.end_ms is None else item.end_ms)
            held = range((item.start_ms - NOON_MS) // 1000, (until_ms - NOON_MS) // 1000)
            seconds.setdefault((item.job_key, item.uuid), set()).update(held)
    for _, workload in closed:
        facts.update((job.key, job) for job in workload.jobs)
    ends = {
        key: (job.end_ms - NOON_MS) // 1000 for key, job in facts.items() if job.end_ms is not None
    }
    return {
        key: len([second for second in held if second < ends.get(key[0], 10**9)])
        for key, held in seconds.items()
    }, facts


@st.composite
def days(draw):
    """Jobs one after the other on each GPU, from a few seconds to a minute, with and without pauses
    between them.
    """
    jobs = []
    for gpu in range(len(GPUS)):
        at_s = draw(st.integers(1, 20))
        for length, pause in draw(
            st.lists(st.tuples(st.integers(2, 60), st.integers(EPILOG_S, 20)), max_size=6)
        ):
            jobs.append((gpu, at_s, at_s + length))
            at_s += length + pause
    return jobs


@settings(max_examples=40, deadline=None)
@given(days())
def test_a_job_is_charged_what_slurm_gave_it_within_one_window_and_its_end_is_told(jobs):
    with tempfile.TemporaryDirectory() as folder:
        world = World(jobs, Path(folder))
        charged, facts = charged_s(
            windows_of(world, max([end for _, _, end in jobs], default=0) + 90)
        )

    for number, (gpu, start, end) in world.jobs.items():
        key = f"slurm/della/{number}"
        assert abs(charged.get((key, f"GPU-{gpu}"), 0) - (end - start)) <= WINDOW_S
        if end - start >= 8:
            assert (facts[key].state, facts[key].end_ms) == ("COMPLETED", NOON_MS + end * 1000)
            assert charged[key, f"GPU-{gpu}"] == end - start
