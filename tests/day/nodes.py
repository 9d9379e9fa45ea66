"""Eight nodes of eight GPUs that do what the story says, as their agents would tell it: batches of
the wire, through the door.
"""

import itertools
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent import __version__, wire
from agent.batch import ClosedWindow, Sender, build, entry
from agent.readings import Allocation, GPUInfo, Job, SourceStatus, Workload
from agent.sending.payloads import PACKED
from agent.sources.simulated import Simulated
from agent.sources.simulated.source import DRIVER
from agent.window import GPUWindow
from fleetwatch.demo.fleet import CLUSTER, DemoNode
from fleetwatch.demo.fleet import nodes as demo_nodes
from fleetwatch.lib.intervals import to_ms

WINDOW_S = 60
LONGEST = timedelta(hours=6)  # of a batch
BUSY = {"util_mean": 0.9, "util_max": 1.0, "power_w": 600.0}
IDLE = {"util_mean": 0.0, "util_max": 0.0, "power_w": 90.0}
HELD_BYTES = 60_000_000_000
# who else works here, node by node, and has no part in the story
OTHERS = (
    ("wei", "nlp"), ("ivan", "research"), ("wei", "nlp"), ("elena", "science"),
    ("wei", "nlp"), ("mei", "speech"), ("wei", "nlp"), ("hugo", "science"),
)  # fmt: skip
FIRST_OTHER = 60_001


@dataclass(frozen=True)
class Scene:
    """A job of the story: who holds which GPUs of which node from when to when, and during which
    spans it does nothing with them.
    """

    number: int
    name: str
    user: str
    account: str
    node: str
    gpus: tuple[int, ...]
    start: datetime
    end: datetime
    idle: tuple[tuple[datetime, datetime], ...]

    @property
    def key(self) -> str:
        return f"slurm/{CLUSTER}/{self.number}"

    def is_idle(self, at_ms: int) -> bool:
        return any(to_ms(start) <= at_ms < to_ms(end) for start, end in self.idle)


class StoryNode:
    """One node: what it sent up to when, and whether it is heard."""

    def __init__(self, member: DemoNode, scenes: Sequence[Scene], *, since: datetime) -> None:
        self.name = member.name
        self.labels = member.labels
        self.gpus: list[GPUInfo] = Simulated(member.spec, node=member.name, start_ms=0).gpus()
        self.scenes = [each for each in scenes if each.node == self.name]
        self.since = since
        self.sent_until = since
        self.is_heard = True
        self._sequences = itertools.count(1)

    def send(self, until: datetime, *, server: str, token: str) -> None:
        """All that is new, through the door; of time in which nobody heard it nothing is left."""
        until = until.replace(second=0, microsecond=0)
        while self.is_heard and self.sent_until < until:
            end = min(until, self.sent_until + LONGEST)
            self._post(self._batch(self.sent_until, end), server, token)
            self.sent_until = end
        self.sent_until = max(self.sent_until, until)

    def _post(self, batch: wire.Batch, server: str, token: str) -> None:
        body = entry(batch, next(self._sequences)).payload
        headers = {"Authorization": f"Bearer {token}", **PACKED}
        request = urllib.request.Request(f"{server}/api/v1/batches", body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 200

    def _batch(self, start: datetime, end: datetime) -> wire.Batch:
        starts = range(to_ms(start), to_ms(end), WINDOW_S * 1000)
        closed = [
            ClosedWindow(at_ms, self._windows(at_ms), self._workload(at_ms)) for at_ms in starts
        ]
        return build(
            closed,
            sender=Sender(self.name, "story", to_ms(self.since), WINDOW_S, self.labels),
            gpus=self.gpus,
            agent={"version": __version__, "driver": DRIVER, "source": "simulated"},
            events=[],
        )

    def _windows(self, at_ms: int) -> list[GPUWindow]:
        return [
            GPUWindow(gpu.uuid, at_ms, WINDOW_S * 1000, self._columns(index, at_ms))
            for index, gpu in enumerate(self.gpus)
        ]

    def _columns(self, index: int, at_ms: int) -> dict[str, float]:
        scene = self._scene(index, at_ms)
        does = IDLE if scene is not None and scene.is_idle(at_ms) else BUSY
        return {**does, "memory_used_bytes": HELD_BYTES, "process_count": 1}

    def _workload(self, at_ms: int) -> Workload:
        """Who holds which GPU in that window: the story's jobs, and another one the rest."""
        end_ms = at_ms + WINDOW_S * 1000
        holders = [self._scene(index, at_ms) or self._other() for index in range(len(self.gpus))]
        distinct = {holder.key: holder for holder in holders}
        return Workload(
            jobs=[_job(holder) for holder in distinct.values()],
            allocations=[
                Allocation(gpu.uuid, holder.key, "slurm", self._since_ms(index, holder, at_ms))
                for index, (gpu, holder) in enumerate(zip(self.gpus, holders, strict=True))
            ],
            sources=[SourceStatus("slurm", ok=True, seen_ms=end_ms)],
        )

    def _since_ms(self, index: int, holder: Scene, at_ms: int) -> int:
        """When the holder got that GPU: who works on what the story leaves, when it was left."""
        left = [to_ms(each.end) for each in self.scenes if index in each.gpus]
        before = [end_ms for end_ms in left if end_ms <= at_ms]
        return max([to_ms(holder.start), *before])

    def _scene(self, index: int, at_ms: int) -> Scene | None:
        for scene in self.scenes:
            if index in scene.gpus and to_ms(scene.start) <= at_ms < to_ms(scene.end):
                return scene
        return None

    def _other(self) -> Scene:
        """Whoever works on what the story leaves."""
        place = int(self.name.rpartition("-")[2]) - 1
        user, account = OTHERS[place]
        number = FIRST_OTHER + place
        end = self.since + timedelta(days=9)
        return Scene(number, "long-run", user, account, self.name, (), self.since, end, ())


def story_nodes(scenes: Sequence[Scene], *, since: datetime) -> list[StoryNode]:
    """The demo's eight nodes, from then on the story's."""
    return [StoryNode(member, scenes, since=since) for member in demo_nodes()]


def _job(scene: Scene) -> Job:
    return Job(
        key=scene.key,
        scheduler="slurm",
        cluster=CLUSTER,
        id=str(scene.number),
        name=scene.name,
        user=scene.user,
        account=scene.account,
        kind="batch",
        state="RUNNING",
        start_ms=to_ms(scene.start),
    )
