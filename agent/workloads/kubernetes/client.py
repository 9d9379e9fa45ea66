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

from agent.readings import Allocation, GPUs, Holdings, SchedulerError
from agent.workloads.kubernetes import checkpoint, node_pods
from agent.workloads.kubernetes.api_server import API, UUIDs
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
from agent.workloads.kubernetes.pod_job import Pod, bare_pod, pod_of
from agent.workloads.kubernetes.protobuf import (
    Books,
    Claimed,
    Device,
    MessageError,
    PodDevices,
    allocatable,
    pods,
)

log = logging.getLogger("agent.workloads")

INTERVAL_S = 10.0
KEEP_MS = 300_000  # what is read of a pod, and which devices the node has, changes rarely
RETRY_MS = 60_000
CORDONED = "cordoned"
LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"

Holders = Sequence[Tuple[Pod, Sequence[Slot]]]


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
        uids = [uid for uid, named in self.names.items() if named == (namespace, name)]
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
        self._published: Tuple[int, UUIDs] = (0, {})
        self._drained: Tuple[int, Optional[str]] = (0, None)
        # (GPU uuid, job key) -> when the books named it first
        self._seen_ms: Dict[Tuple[str, str], Optional[int]] = {}
        self._has_claims = False
        self._trouble = ""

    def poll(self, gpus: GPUs, now_ms: int) -> Holdings:
        """Every living pod that holds a GPU.

        Raises SchedulerError, also where a pod holds a GPU but not known which.
        """
        books = self._books(now_ms)
        on_node = _Node(node_pods.named(self._paths.logs), node_pods.living(self._paths.cgroups))
        by_pod: Dict[str, Tuple[Pod, List[Slot]]] = {}
        for devices in self._of_gpus(books, on_node):
            pod = self._pod(devices, on_node, now_ms)
            if pod is not None:
                slots = self._slots(devices, gpus, now_ms)
                by_pod.setdefault(pod.job.key, (pod, []))[1].extend(slots)
        if not by_pod:
            self._check_charge(books, now_ms)
        return self._holdings(list(by_pod.values()), books, gpus, now_ms)

    def _holdings(
        self,
        holders: Holders,
        books: Books,
        gpus: GPUs,
        now_ms: int,
    ) -> Holdings:
        is_divided = any(slot.is_part for _, slots in holders for slot in slots)
        divided = parts(books.devices or (), gpus) if is_divided else {}
        return Holdings(
            jobs=[pod.job for pod, _ in holders],
            allocations=self._allocations(holders, divided, now_ms),
            aliases={uid: pod.job.key for pod, _ in holders for uid in pod.uids},
            drained=self._cordoned(now_ms),
        )

    def _books(self, now_ms: int) -> Books:
        """The socket's answer, else the checkpoint's."""
        try:
            held = pods(call(self._paths.socket, LIST))
        except (GRPCError, MessageError) as error:
            self._complain("the kubelet's socket: %s" % error)
            return self._noted(str(error))
        self._complain("")
        self._has_claims = self._has_claims or any(map(_claims_gpu, held))
        return Books(held, self._allocatable(now_ms))

    def _noted(self, why: str) -> Books:
        """What the checkpoint says. It knows nothing of claims, and names pods that have ended."""
        try:
            notes = checkpoint.read_checkpoint(self._paths.checkpoint)
        except CheckpointError as error:
            raise SchedulerError("%s; %s" % (why, error)) from error
        if self._has_claims or not any(map(is_gpu, notes.devices or ())):
            raise SchedulerError(
                "%s; the kubelet's checkpoint does not tell of this node's GPUs" % why
            )
        return notes

    def _allocatable(self, now_ms: int) -> Optional[Sequence[Device]]:
        """Every device of the node; None where the kubelet does not say (before 1.23)."""
        again_ms, devices = self._devices
        if now_ms < again_ms:
            return devices
        try:
            devices = allocatable(call(self._paths.socket, ALLOCATABLE))
            is_settled = bool(devices)
        except (GRPCError, MessageError) as error:
            is_settled = isinstance(error, GRPCError) and error.status == UNIMPLEMENTED
            devices = None if is_settled else devices
        self._devices = (now_ms + (KEEP_MS if is_settled else RETRY_MS), devices)
        return devices

    def _of_gpus(self, books: Books, on_node: _Node) -> List[PodDevices]:
        """What the books say of GPUs. What is kept of pods that are in no books is forgotten."""
        held = [
            devices
            for devices in books.held
            if any(map(is_gpu, devices.devices)) or _claims_gpu(devices)
        ]
        if on_node.living is None and not on_node.names and any(devices.uid for devices in held):
            raise SchedulerError(
                "neither %s nor %s tells which pods live" % (self._paths.cgroups, self._paths.logs)
            )
        names = {(devices.namespace, devices.name) for devices in held}
        names.update(on_node.names.values())
        self._known = {name: entry for name, entry in self._known.items() if name in names}
        return held

    def _pod(self, devices: PodDevices, on_node: _Node, now_ms: int) -> Optional[Pod]:
        """The pod of an entry of the books; None where it has ended.

        The checkpoint names its uid, the socket its names, which stand for a uid that is not to be
        had.
        """
        uid: Optional[str] = devices.uid
        namespace = devices.namespace
        name = devices.name
        if uid:
            if uid not in (on_node.names if on_node.living is None else on_node.living):
                return None
            namespace, name = on_node.names.get(uid, ("", ""))
        pod = self._asked(namespace, name, on_node, now_ms) if name else None
        if pod is not None and (uid in pod.uids if uid else on_node.lives(pod.uids)):
            return None if pod.has_ended else pod
        if not uid:
            uid = on_node.uid(namespace, name)
            if uid is None or (pod is not None and not uid):
                return None
        return bare_pod(uid, namespace, name, cluster=self._cluster)

    def _asked(self, namespace: str, name: str, on_node: _Node, now_ms: int) -> Optional[Pod]:
        """The API server's word, at most five minutes old and of the pod that lives now; None where
        it has none.
        """
        again_ms, pod = self._known.get((namespace, name), (0, None))
        is_right = now_ms < again_ms and (pod is None or on_node.lives(pod.uids))
        if self._api is None or is_right:
            return pod
        answer = self._api.pod(namespace, name, now_ms=now_ms)
        if answer is not None:
            pod = pod_of(answer, cluster=self._cluster)
            self._known[namespace, name] = (now_ms + (KEEP_MS if pod else RETRY_MS), pod)
        return pod

    def _slots(self, held: PodDevices, gpus: GPUs, now_ms: int) -> List[Slot]:
        try:
            slots = [slot_of(device, gpus) for device in held.devices]
            if held.claimed:
                published = self._names_of_claims(held.claimed, now_ms)
                slots += [claimed_slot(device, published, gpus) for device in held.claimed]
        except UnknownDeviceError as error:
            raise SchedulerError(str(error)) from error
        return [slot for slot in slots if slot is not None]

    def _names_of_claims(self, claimed: Sequence[Claimed], now_ms: int) -> UUIDs:
        """(pool, device) -> UUID; asked again, once a minute, when it lacks one of the claimed, or
        has none at all.
        """
        again_ms, names = self._published
        missing = [
            device
            for device in claimed
            if device.driver == DRIVER and (device.pool, device.device) not in names
        ]
        is_lacking = bool(missing) if claimed else not names
        if is_lacking and self._api is not None and now_ms >= again_ms:
            answer = self._api.gpu_names(self._node, DRIVER, now_ms=now_ms)
            self._published = (now_ms + RETRY_MS, names if answer is None else answer)
        return self._published[1]

    def _check_charge(self, books: Books, now_ms: int) -> None:
        """Raises SchedulerError where "no pod holds a GPU" means nothing, because the kubelet hands
        out none.
        """
        if books.devices is None or self._has_claims or any(map(is_gpu, books.devices)):
            return
        if not self._names_of_claims((), now_ms):
            raise SchedulerError(
                "the kubelet hands out no NVIDIA GPU: no device plugin registered any, no DRA"
                " driver published any"
            )

    def _allocations(
        self,
        holders: Holders,
        divided: Mapping[str, int],
        now_ms: int,
    ) -> List[Allocation]:
        """From the pod's start, where it is known; else from when the books named it first."""
        allocations = [
            Allocation(
                uuid,
                pod.job.key,
                "kubernetes",
                pod.job.start_ms or self._seen_ms.get((uuid, pod.job.key), now_ms),
                share=share,
            )
            for pod, slots in holders
            for uuid, share in shares(slots, divided).items()
        ]
        self._seen_ms = {(item.uuid, item.job_key): item.start_ms for item in allocations}
        return allocations

    def _cordoned(self, now_ms: int) -> Optional[str]:
        again_ms, reason = self._drained
        if self._api is None or now_ms < again_ms:
            return reason
        spec = (self._api.node(self._node, now_ms=now_ms) or {}).get("spec")
        reason = None
        if isinstance(spec, dict):
            reason = CORDONED if spec.get("unschedulable") is True else ""
        self._drained = (now_ms + RETRY_MS, reason)
        return reason

    def _complain(self, text: str) -> None:
        if text and text != self._trouble:
            log.warning("%s", text)
        self._trouble = text


def _claims_gpu(held: PodDevices) -> bool:
    return any(device.driver == DRIVER for device in held.claimed)
