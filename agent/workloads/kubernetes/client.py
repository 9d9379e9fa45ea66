"""Kubernetes' books for this node: which pod holds which GPU, with or without a process on it.

The kubelet says it on its pod-resources socket, or, while that does not answer, in its checkpoint
file. Who the pod is comes from the API server where the agent runs as a pod itself, else from the
names of the log folders. Both books name pods that have ended; a pod without a control group holds
nothing. How many GPUs pods wait for is not told: each agent would have to list the whole cluster's
pods for it.
"""

import logging
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from agent.readings import Allocation, GPUInfo, Holdings, Job, SchedulerError
from agent.workloads.kubernetes import checkpoint, node_pods
from agent.workloads.kubernetes.api_server import API
from agent.workloads.kubernetes.checkpoint import CheckpointError
from agent.workloads.kubernetes.devices import (
    DRIVER,
    Slot,
    UnknownDeviceError,
    claimed_slot,
    is_gpu,
    parts,
    shares,
    slot_of,
)
from agent.workloads.kubernetes.grpc import UNIMPLEMENTED, GRPCError, call
from agent.workloads.kubernetes.places import Paths
from agent.workloads.kubernetes.pod_job import Pod, bare_job, pod_of
from agent.workloads.kubernetes.protobuf import Device, MessageError, PodDevices, allocatable, pods

log = logging.getLogger("agent.workloads")

INTERVAL_S = 10.0
KEEP_MS = 300_000  # what is read of a pod, and which devices the node has, changes rarely
RETRY_MS = 60_000
CORDONED = "cordoned"
LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"


@dataclass(frozen=True)
class _Books:
    """One answer: devices by pod, and where the books say it every device of the node."""

    held: Sequence[Tuple[str, PodDevices]]  # uid ("": not said), devices
    devices: Optional[Sequence[Device]]


@dataclass(frozen=True)
class _Node:
    """The pods of this node as its files show them; `living` is None where no control groups are to
    be seen.
    """

    names: Mapping[str, node_pods.Name]
    living: Optional[Set[str]]

    def uid(self, namespace: str, name: str) -> Optional[str]:
        """The newest living pod's of this name; "" where nothing tells, None where all of them have
        ended.
        """
        uids = [uid for uid, known in self.names.items() if known == (namespace, name)]
        alive = [uid for uid in uids if self.lives((uid,))]
        return alive[-1] if alive else None if uids else ""

    def lives(self, uids: Sequence[str]) -> bool:
        """Whether it may: False only where it is known to have ended."""
        return self.living is None or any(uid in self.living for uid in uids)


class Kubernetes:
    """One kubelet's books."""

    kind = "kubernetes"
    interval_s = INTERVAL_S

    def __init__(self, *, node: str, cluster: str, paths: Paths, api: Optional[API]) -> None:
        self._node = node
        self._cluster = cluster
        self._paths = paths
        self._api = api
        # -> (asked again at, the last answer)
        self._known: Dict[node_pods.Name, Tuple[int, Optional[Pod]]] = {}
        self._devices: Tuple[int, Optional[Sequence[Device]]] = (0, None)
        self._published: Tuple[int, Mapping[Tuple[str, str], str]] = (0, {})
        self._drained: Tuple[int, Optional[str]] = (0, None)
        # (GPU uuid, job key) -> when the books named it first
        self._seen_ms: Dict[Tuple[str, str], int] = {}
        self._has_claims = False
        self._trouble = ""

    def poll(self, gpus: Sequence[GPUInfo], now_ms: int) -> Holdings:
        """Every living pod that holds a GPU.

        Raises SchedulerError, also where a pod holds a GPU but not known which.
        """
        books = self._books(now_ms)
        on_node = _Node(node_pods.named(self._paths.logs), node_pods.living(self._paths.cgroups))
        by_pod: Dict[str, Tuple[Pod, List[Slot]]] = {}
        for pod, held in self._holders(
            [(uid, held) for uid, held in books.held if _has_gpu(held)], on_node, now_ms
        ):
            by_pod.setdefault(pod.job.key, (pod, []))[1].extend(self._slots(held, gpus, now_ms))
        if not by_pod:
            self._check_charge(books, now_ms)
        divided = (
            parts(books.devices or (), gpus)
            if any(slot.is_part for _, slots in by_pod.values() for slot in slots)
            else {}
        )
        return Holdings(
            jobs=[pod.job for pod, _ in by_pod.values()],
            allocations=self._allocations(
                [(pod.job, shares(slots, divided)) for pod, slots in by_pod.values()], now_ms
            ),
            aliases={uid: key for key, (pod, _) in by_pod.items() for uid in pod.uids},
            drained=self._cordoned(now_ms),
        )

    def _books(self, now_ms: int) -> _Books:
        """The socket's answer, else the checkpoint's."""
        try:
            held = [("", pod) for pod in pods(call(self._paths.socket, LIST))]
        except (GRPCError, MessageError) as error:
            self._complain("the kubelet's socket: %s" % error)
            return self._noted(str(error))
        self._complain("")
        self._has_claims = self._has_claims or any(_claims_gpu(pod) for _, pod in held)
        return _Books(held, self._allocatable(now_ms))

    def _noted(self, why: str) -> _Books:
        """What the checkpoint says. It knows nothing of claims, and names pods that have ended."""
        try:
            notes = checkpoint.read_checkpoint(self._paths.checkpoint)
        except CheckpointError as error:
            raise SchedulerError("%s; %s" % (why, error)) from error
        if self._has_claims or not any(is_gpu(device) for device in notes.registered):
            raise SchedulerError(
                "%s; the kubelet's checkpoint does not tell of this node's GPUs" % why
            )
        return _Books(
            [(uid, PodDevices("", "", tuple(devices))) for uid, devices in notes.held.items()],
            notes.registered,
        )

    def _allocatable(self, now_ms: int) -> Optional[Sequence[Device]]:
        """Every device of the node; None where the kubelet does not say (before 1.23)."""
        again_ms, known = self._devices
        if now_ms < again_ms:
            return known
        try:
            devices: Optional[Sequence[Device]] = allocatable(call(self._paths.socket, ALLOCATABLE))
            self._devices = (now_ms + (KEEP_MS if devices else RETRY_MS), devices)
        except (GRPCError, MessageError) as error:
            is_old = isinstance(error, GRPCError) and error.status == UNIMPLEMENTED
            self._devices = (now_ms + (KEEP_MS if is_old else RETRY_MS), None if is_old else known)
        return self._devices[1]

    def _holders(
        self, held: Sequence[Tuple[str, PodDevices]], on_node: _Node, now_ms: int
    ) -> List[Tuple[Pod, PodDevices]]:
        """The living pods among them."""
        if on_node.living is None and not on_node.names and any(uid for uid, _ in held):
            raise SchedulerError(
                "neither %s nor %s tells which pods live" % (self._paths.cgroups, self._paths.logs)
            )
        holders: List[Tuple[Pod, PodDevices]] = []
        for uid, devices in held:
            pod = (
                self._of_uid(uid, on_node, now_ms)
                if uid
                else self._of_name(devices.namespace, devices.name, on_node, now_ms)
            )
            if pod is not None:
                holders.append((pod, devices))
        names = {(pod_devices.namespace, pod_devices.name) for _, pod_devices in held} | set(
            on_node.names.values()
        )
        self._known = {name: entry for name, entry in self._known.items() if name in names}
        return holders

    def _of_uid(self, uid: str, on_node: _Node, now_ms: int) -> Optional[Pod]:
        """The pod of an entry of the checkpoint; None where it has ended."""
        if uid not in (on_node.names if on_node.living is None else on_node.living):
            return None
        namespace, name = on_node.names.get(uid, ("", ""))
        pod = self._asked(namespace, name, on_node, now_ms) if name else None
        if pod is not None and uid in pod.uids:
            return None if pod.has_ended else pod
        return Pod((uid,), False, bare_job(uid, namespace, name, cluster=self._cluster))

    def _of_name(self, namespace: str, name: str, on_node: _Node, now_ms: int) -> Optional[Pod]:
        """The pod that the socket names; None where it has ended.

        Where no uid is to be had, its names stand for it.
        """
        pod = self._asked(namespace, name, on_node, now_ms)
        if pod is not None and on_node.lives(pod.uids):
            return None if pod.has_ended else pod
        uid = on_node.uid(namespace, name)
        if uid is None or (pod is not None and not uid):
            return None
        return Pod(
            (uid,) if uid else (),
            False,
            bare_job(uid or "%s_%s" % (namespace, name), namespace, name, cluster=self._cluster),
        )

    def _asked(self, namespace: str, name: str, on_node: _Node, now_ms: int) -> Optional[Pod]:
        """The API server's word, at most five minutes old and of the pod that lives now; None where
        it has none.
        """
        again_ms, known = self._known.get((namespace, name), (0, None))
        if self._api is None or (
            now_ms < again_ms and (known is None or on_node.lives(known.uids))
        ):
            return known
        answer = self._api.pod(namespace, name, now_ms=now_ms)
        if answer is None:
            return known
        pod = pod_of(answer, cluster=self._cluster)
        self._known[namespace, name] = (now_ms + (KEEP_MS if pod else RETRY_MS), pod)
        return pod

    def _slots(self, held: PodDevices, gpus: Sequence[GPUInfo], now_ms: int) -> List[Slot]:
        try:
            plugged = [slot_of(device, gpus) for device in held.devices]
            claimed = [
                claimed_slot(device, self._names_of_claims(held, now_ms), gpus)
                for device in held.claimed
            ]
        except UnknownDeviceError as error:
            raise SchedulerError(str(error)) from error
        return [slot for slot in plugged + claimed if slot is not None]

    def _names_of_claims(self, held: PodDevices, now_ms: int) -> Mapping[Tuple[str, str], str]:
        """(pool, device) -> UUID; asked again, once a minute, when it lacks one of the pod's."""
        again_ms, known = self._published
        lacks = any(
            device.driver == DRIVER and (device.pool, device.device) not in known
            for device in held.claimed
        )
        if self._api is not None and lacks and now_ms >= again_ms:
            names = self._api.gpu_names(self._node, DRIVER, now_ms=now_ms)
            self._published = (now_ms + RETRY_MS, known if names is None else names)
        return self._published[1]

    def _check_charge(self, books: _Books, now_ms: int) -> None:
        """Raises SchedulerError where "no pod holds a GPU" means nothing, because the kubelet hands
        out none.
        """
        if (
            books.devices is None
            or any(is_gpu(device) for device in books.devices)
            or self._has_claims
        ):
            return
        if self._api is not None and not self._published[1] and now_ms >= self._published[0]:
            self._published = (
                now_ms + RETRY_MS,
                self._api.gpu_names(self._node, DRIVER, now_ms=now_ms) or {},
            )
        if not self._published[1]:
            raise SchedulerError(
                "the kubelet hands out no NVIDIA GPU: no device plugin registered any, no DRA"
                " driver published any"
            )

    def _allocations(
        self, held: Sequence[Tuple[Job, Mapping[str, Optional[float]]]], now_ms: int
    ) -> List[Allocation]:
        """From the pod's start, where it is known; else from when the books named it first."""
        since = {
            (uuid, job.key): job.start_ms or self._seen_ms.get((uuid, job.key), now_ms)
            for job, granted in held
            for uuid in granted
        }
        self._seen_ms = since
        return [
            Allocation(uuid, job.key, "kubernetes", since[uuid, job.key], share=share)
            for job, granted in held
            for uuid, share in granted.items()
        ]

    def _cordoned(self, now_ms: int) -> Optional[str]:
        again_ms, known = self._drained
        if self._api is None or now_ms < again_ms:
            return known
        node = self._api.node(self._node, now_ms=now_ms)
        spec = node.get("spec") if node else None
        reason = (
            None
            if not isinstance(spec, dict)
            else CORDONED
            if spec.get("unschedulable") is True
            else ""
        )
        self._drained = (now_ms + RETRY_MS, reason)
        return reason

    def _complain(self, text: str) -> None:
        if text and text != self._trouble:
            log.warning("%s", text)
        self._trouble = text


def _has_gpu(held: PodDevices) -> bool:
    return any(is_gpu(device) for device in held.devices) or _claims_gpu(held)


def _claims_gpu(held: PodDevices) -> bool:
    return any(device.driver == DRIVER for device in held.claimed)
