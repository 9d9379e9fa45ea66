"""The books of Docker and Podman: which containers run, who they are, and which GPUs they were
given.

They give no GPU to one container alone, so they are no scheduler; but a container that was given
GPUs by name holds them while no process of it runs on them.
"""

import glob
import logging
import os
import pwd
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Sequence, Set, Tuple

from agent.json_parts import part, time_ms
from agent.readings import Allocation, GPUInfo, Holdings, Job, SchedulerError
from agent.wire import JOB_KINDS
from agent.workloads.cgroup import alias
from agent.workloads.docker import api
from agent.workloads.docker.api import EngineError
from agent.workloads.docker.devices import gpus_named, names
from agent.workloads.docker.places import Socket, sockets

log = logging.getLogger("agent.workloads")

INTERVAL_S = 15.0
KEEP_MS = 600_000  # what a container is called changes rarely, and what it was given never
MAX_CONTAINERS = 512  # of one engine
SHORT = 12  # digits that people know a container by
MAX_VALUE = 128
# Only these labels leave the host: others, and the environment, hold secrets.
LABELS = (
    "fleetwatch.user", "fleetwatch.team", "fleetwatch.account", "fleetwatch.name",
    "fleetwatch.kind", "com.docker.compose.project",
    "com.docker.compose.service", "org.opencontainers.image.title",
    "org.opencontainers.image.version",
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
_USERS_SOCKET = re.compile(r"/user/(\d{1,10})/")


@dataclass(frozen=True)
class Container:
    """What is kept of a container: its job, and the names of the GPUs it was given; `alias` is what
    a control group calls it.
    """

    id: str
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

    def poll(self, gpus: Sequence[GPUInfo], now_ms: int) -> Holdings:
        """Every running container.

        Raises SchedulerError where one of the engines does not answer.
        """
        containers: List[Container] = []
        known = self._find()
        groups = self._groups() if any(socket.kind == "podman" for socket in known) else frozenset()
        for socket in known:
            try:
                containers += (
                    self._of_podman(socket, groups, now_ms)
                    if socket.kind == "podman"
                    else self._running(socket, now_ms)
                )
            except EngineError as error:
                if _USERS_SOCKET.search(socket.path) is None:
                    raise SchedulerError(str(error)) from error
                # users leave dead sockets; the others' containers are known all the same
                self._complain(str(error))
        return Holdings(
            jobs=[container.job for container in containers],
            allocations=[
                allocation
                for container in containers
                for allocation in self._allocations(container, gpus)
            ],
            aliases={container.alias: container.job.key for container in containers},
        )

    def _complain(self, text: str) -> None:
        if text not in self._troubles and len(self._troubles) < MAX_CONTAINERS:
            self._troubles.add(text)
            log.warning("a user's container engine does not answer: %s", text)

    def _allocations(self, container: Container, gpus: Sequence[GPUInfo]) -> List[Allocation]:
        uuids = gpus_named(container.gpus, gpus, all_counts=self._all_counts)
        return [
            Allocation(uuid, container.job.key, "docker", container.job.start_ms) for uuid in uuids
        ]

    def _of_podman(self, socket: Socket, groups: FrozenSet[str], now_ms: int) -> List[Container]:
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
        listed = [
            str(item.get("Id"))
            for item in api.containers(socket.path)[:MAX_CONTAINERS]
            if not _is_of_a_pod(item)
        ]
        known = {
            key: entry
            for key, entry in self._known.items()
            if key[0] != socket.path or key[1] in listed
        }
        self._known = known
        containers: List[Container] = []
        for identity in listed:
            again_ms, container = known.get((socket.path, identity), (0, None))
            if now_ms >= again_ms and _ID.fullmatch(identity):
                container = container_of(
                    api.container(socket.path, identity),
                    socket=socket,
                    identity=identity,
                    node=self._node,
                )
                known[socket.path, identity] = (now_ms + KEEP_MS, container)
            if container is not None:
                containers.append(container)
        return containers


def container_of(
    answer: Mapping[str, Any], *, socket: Socket, identity: str, node: str
) -> Container:
    """The container in an answer of /containers/{id}/json; any part of it may be null or
    missing.
    """
    config = part(answer, "Config")
    state = part(answer, "State")
    given = part(config, "Labels")
    labels = {name: str(given[name])[:MAX_VALUE] for name in LABELS if given.get(name)}
    kind = labels.get("fleetwatch.kind", "")
    restarts = answer.get("RestartCount")
    job = Job(
        key="%s/%s/%s" % (socket.kind, node, identity[:SHORT]),
        scheduler=socket.kind,
        cluster=node,
        id=identity[:SHORT],
        name=labels.get("fleetwatch.name")
        or str(answer.get("Name") or "").lstrip("/")[:MAX_VALUE]
        or identity[:SHORT],
        user=labels.get("fleetwatch.user") or _user(socket.path),
        account=labels.get("fleetwatch.account") or labels.get("fleetwatch.team", ""),
        kind=kind if kind in JOB_KINDS else "batch",
        state="RUNNING",
        start_ms=time_ms(state.get("StartedAt")),
        restarts=restarts if isinstance(restarts, int) and 0 <= restarts < 2**20 else 0,
        labels=labels,
    )
    users = _USERS_SOCKET.search(socket.path)
    return Container(
        identity,
        job,
        names(answer),
        alias(identity, None if users is None else int(users.group(1))),
    )


def _is_of_a_pod(listed: Mapping[str, Any]) -> bool:
    return OF_A_POD in part(listed, "Labels")


def _user(path: str) -> str:
    """Whose engine it is, where it is a user's own."""
    match = _USERS_SOCKET.search(path)
    try:
        return "" if match is None else pwd.getpwuid(int(match.group(1))).pw_name
    except (KeyError, OverflowError):
        return "" if match is None else match.group(1)
