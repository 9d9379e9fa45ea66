"""The books of Docker and Podman: which containers run, who they are, and which GPUs they were
given.

They give no GPU to one container alone, so they are no scheduler; but a container that was given
GPUs by name holds them while no process of it runs on them.
"""

import glob
import logging
import os
import re
from dataclasses import dataclass
from typing import (
    Callable,
    Dict,
    FrozenSet,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from agent.json_parts import Object, count, part, time_ms
from agent.readings import Allocation, GPUs, Holdings, Job, SchedulerError
from agent.wire import JOB_KINDS
from agent.workloads.cgroup import alias
from agent.workloads.docker import api
from agent.workloads.docker.api import EngineError
from agent.workloads.docker.devices import gpus_named, names
from agent.workloads.docker.places import Socket, sockets
from agent.workloads.proc import user_name

log = logging.getLogger("agent.workloads")

INTERVAL_S = 15.0
KEEP_MS = 600_000  # what a container is called changes rarely, and what it was given never
MAX_CONTAINERS = 512  # of one engine
SHORT = 12  # digits that people know a container by
MAX_VALUE = 128
# Only these labels leave the host: others, and the environment, hold secrets.
LABELS = (
    "fleetwatch.user", "fleetwatch.team", "fleetwatch.account", "fleetwatch.name",
    "fleetwatch.kind", "com.docker.compose.project", "com.docker.compose.service",
    "org.opencontainers.image.title", "org.opencontainers.image.version",
)  # fmt: skip
OF_A_POD = "io.kubernetes.pod.uid"  # Kubernetes' own books tell of these
# Podman's socket starts Podman; it is asked only when the control groups of its containers are
# others than before.
PODMAN_GROUPS = (
    "machine.slice/libpod-*.scope", "libpod_parent/libpod-*",
    "user.slice/user-*.slice/user@*.service/user.slice/libpod-*.scope",
    "pids/machine.slice/libpod-*.scope", "pids/libpod_parent/libpod-*",
)  # fmt: skip
CGROUPS = "/sys/fs/cgroup"
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Container:
    """What is kept of a container: its job, and the names of the GPUs it was given; `alias` is what
    a control group calls it.
    """

    job: Job
    gpus: Sequence[str] = ()
    alias: str = ""


class Docker:
    """All engines of this host."""

    kind = "docker"
    interval_s = INTERVAL_S

    def __init__(
        self,
        *,
        node: str,
        all_counts: bool = False,
        find: Callable[[], Sequence[Socket]] = sockets,
        cgroups: str = CGROUPS,
    ) -> None:
        self._node = node
        self._all_counts = all_counts
        self._find = find
        self._cgroups = cgroups
        # (socket, id) -> (asked again at, what it is)
        self._known: Dict[Tuple[str, str], Tuple[int, Container]] = {}
        self._troubles: Set[str] = set()
        # socket -> (its groups then, its answer)
        self._podman: Dict[str, Tuple[FrozenSet[str], List[Container]]] = {}

    def poll(self, gpus: GPUs, now_ms: int) -> Holdings:
        """Every running container.

        Raises SchedulerError where one of the engines does not answer.
        """
        containers: List[Container] = []
        engines = self._find()
        has_podman = any(socket.kind == "podman" for socket in engines)
        groups = self._groups() if has_podman else frozenset()
        for socket in engines:
            try:
                containers += self._of_engine(socket, groups, now_ms)
            except EngineError as error:
                if socket.user_id is None:
                    raise SchedulerError(str(error)) from error
                # users leave dead sockets; the others' containers are known all the same
                self._complain(str(error))
        return Holdings(
            jobs=[container.job for container in containers],
            allocations=[
                Allocation(uuid, container.job.key, "docker", container.job.start_ms)
                for container in containers
                for uuid in gpus_named(container.gpus, gpus, all_counts=self._all_counts)
            ],
            aliases={container.alias: container.job.key for container in containers},
        )

    def _complain(self, text: str) -> None:
        if text not in self._troubles and len(self._troubles) < MAX_CONTAINERS:
            self._troubles.add(text)
            log.warning("a user's container engine does not answer: %s", text)

    def _of_engine(self, socket: Socket, groups: FrozenSet[str], now_ms: int) -> List[Container]:
        if socket.kind != "podman":
            return self._running(socket, now_ms)
        before, answer = self._podman.get(socket.path, (frozenset(), []))
        if groups != before:
            answer = self._running(socket, now_ms)
            self._podman[socket.path] = (groups, answer)
        return answer

    def _groups(self) -> FrozenSet[str]:
        return frozenset(
            path
            for pattern in PODMAN_GROUPS
            for path in glob.glob(os.path.join(glob.escape(self._cgroups), pattern))
        )

    def _running(self, socket: Socket, now_ms: int) -> List[Container]:
        """The engine's containers; each is asked for by itself once in ten minutes."""
        items = api.containers(socket.path)[:MAX_CONTAINERS]
        listed = [str(item.get("Id")) for item in items if OF_A_POD not in part(item, "Labels")]
        for path, identity in list(self._known):
            if path == socket.path and identity not in listed:
                del self._known[path, identity]
        containers = [self._container(socket, identity, now_ms) for identity in listed]
        return [container for container in containers if container is not None]

    def _container(self, socket: Socket, identity: str, now_ms: int) -> Optional[Container]:
        again_ms, container = self._known.get((socket.path, identity), (0, None))
        if now_ms >= again_ms and _ID.fullmatch(identity):
            answer = api.container(socket.path, identity)
            job = _job(answer, socket, identity[:SHORT], self._node)
            container = Container(job, names(answer), alias(identity, socket.user_id))
            self._known[socket.path, identity] = (now_ms + KEEP_MS, container)
        return container


def _job(answer: Object, socket: Socket, short: str, node: str) -> Job:
    """The job of a container, by the answer of /containers/{id}/json; any part of it may be null or
    missing.
    """
    labels = _labels(part(part(answer, "Config"), "Labels"))
    name = str(answer.get("Name") or "").lstrip("/")[:MAX_VALUE]
    kind = labels.get("fleetwatch.kind", "")
    user = labels.get("fleetwatch.user", "")
    if not user and socket.user_id is not None:
        user = user_name(socket.user_id)
    return Job(
        key="%s/%s/%s" % (socket.kind, node, short),
        scheduler=socket.kind,
        cluster=node,
        id=short,
        name=labels.get("fleetwatch.name") or name or short,
        user=user,
        account=labels.get("fleetwatch.account") or labels.get("fleetwatch.team", ""),
        kind=kind if kind in JOB_KINDS else "batch",
        state="RUNNING",
        start_ms=time_ms(part(answer, "State").get("StartedAt")),
        restarts=count(answer, "RestartCount"),
        labels=labels,
    )


def _labels(given: Object) -> Dict[str, str]:
    return {name: str(given[name])[:MAX_VALUE] for name in LABELS if given.get(name)}
