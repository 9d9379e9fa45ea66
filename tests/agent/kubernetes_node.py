"""A node of a Kubernetes cluster in a folder: the kubelet's socket, checkpoint, log folders and
control groups.
"""

import json
from pathlib import Path
from typing import Any

from agent.readings import GPUInfo, Holdings
from agent.workloads.kubernetes.api_server import API
from agent.workloads.kubernetes.client import Kubernetes
from agent.workloads.kubernetes.places import Paths
from tests.agent.cluster import Cluster

NOW = 1_794_000_100_000
STARTED = 1_793_944_133_000  # 2026-11-06T05:48:53Z
UID, OTHER = "0b7c1111-2222-3333-4444-555566667777", "0b7c9999-2222-3333-4444-555566667777"
GPU = ["GPU-0000000%d-aaaa-bbbb-cccc-dddddddddddd" % number for number in range(4)]
MIG = ["MIG-0000000%d-aaaa-bbbb-cccc-dddddddddddd" % number for number in range(2)]
GPUS = [GPUInfo(uuid, index=number, minor=3 - number) for number, uuid in enumerate(GPU)] + [
    GPUInfo(MIG[0], parent_uuid=GPU[3], mig_profile="1g.10gb", gpu_instance=7),
    GPUInfo(MIG[1], parent_uuid=GPU[3], mig_profile="3g.40gb", gpu_instance=2),
]
PODS = "/api/v1/namespaces/ml/pods/"


def books(folder: Path, *, api: Cluster | None = None) -> Kubernetes:
    paths = Paths(
        str(folder / "kubelet.sock"),
        str(folder / "checkpoint"),
        str(folder / "pods"),
        str(folder / "cgroup"),
    )
    return Kubernetes(
        node="gpu-07",
        cluster="della",
        paths=paths,
        api=API("127.0.0.1", api.port, str(api.account)) if api is not None else None,
    )


def log_folder(folder: Path, uid: str, *, namespace: str = "ml", name: str = "train-0") -> None:
    (folder / "pods" / f"{namespace}_{name}_{uid}").mkdir(parents=True)


def cgroup(
    folder: Path,
    uid: str,
    *,
    shape: str = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice",
) -> None:
    named = uid.replace("-", "_") if shape.endswith(".slice") else uid
    (folder / "cgroup" / (shape % named)).mkdir(parents=True)


def checkpoint(folder: Path, held: dict[str, Any], *, registered: Any = None) -> None:
    entries = [
        {
            "PodUID": uid,
            "ContainerName": "main",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": ids,
            "AllocResp": "CgY=",
        }
        for uid, ids in held.items()
    ]
    data = {
        "PodDeviceEntries": entries,
        "RegisteredDevices": registered or {"nvidia.com/gpu": GPU, "rdma/hca": ["0"]},
    }
    (folder / "checkpoint").write_text(json.dumps({"Data": data, "Checksum": 1}))


def held(holdings: Holdings) -> dict[str, list[tuple[str, float | None]]]:
    """Job's name -> (GPU, share)."""
    names = {job.key: job.name for job in holdings.jobs}
    found: dict[str, list[tuple[str, float | None]]] = {name: [] for name in names.values()}
    for one in holdings.allocations:
        found[names[one.job_key]].append((one.uuid, one.share))
    return found
