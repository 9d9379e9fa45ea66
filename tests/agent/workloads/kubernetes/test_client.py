import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from agent.readings import ProcessReading, SchedulerError, Workload
from agent.workloads import Resolver
from agent.workloads.kubernetes import detect as door
from agent.workloads.scheduler_door import Place
from tests.agent import cluster as api_server
from tests.agent import fake_proc
from tests.agent import kubelet as fake_kubelet
from tests.agent.cluster import Cluster
from tests.agent.kubelet import Kubelet, claim, container, devices, holding, pod
from tests.agent.kubernetes_node import (
    GPU,
    GPUS,
    MIG,
    NOW,
    OTHER,
    PODS,
    UID,
    books,
    cgroup,
    checkpoint,
    held,
    log_folder,
)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    with fake_kubelet.running(tmp_path) as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with api_server.running(tmp_path) as running:
        yield running


def reason(folder: Path, **options: Any) -> str:
    with pytest.raises(SchedulerError) as raised:
        books(folder, **options).poll(GPUS, NOW)
    return str(raised.value)


# Who holds what


def test_a_pod_holds_the_gpus_that_the_kubelet_gave_its_containers(
    kubelet: Kubelet, tmp_path: Path
):
    both = pod(
        "ml",
        "train-0",
        container("a", devices("nvidia.com/gpu", GPU[0])),
        container("b", devices("nvidia.com/gpu", GPU[2])),
    )
    kubelet.pods = [
        both,
        holding("kube-system", "rdma", "mlx5_0", resource="rdma/hca"),
        pod("web", "nginx", container("main")),
    ]
    log_folder(tmp_path, UID)

    holdings = books(tmp_path).poll(GPUS, NOW)

    assert held(holdings) == {"ml/train-0": [(GPU[0], 1.0), (GPU[2], 1.0)]}
    (job,) = holdings.jobs
    assert (job.key, job.scheduler, job.cluster, job.id) == (
        f"kubernetes/della/{UID}",
        "kubernetes",
        "della",
        UID,
    )
    assert (job.account, job.user, job.kind, job.state, job.start_ms) == (
        "ml",
        "",
        "batch",
        "RUNNING",
        None,
    )
    assert holdings.aliases == {UID: job.key}
    assert {one.source for one in holdings.allocations} == {"kubernetes"}


def test_without_a_start_of_the_pod_it_holds_from_when_the_books_named_it_first(
    kubelet: Kubelet, tmp_path: Path
):
    scheduler = books(tmp_path)
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    scheduler.poll(GPUS, NOW)
    kubelet.pods.append(holding("ml", "train-1", GPU[1]))
    later = scheduler.poll(GPUS, NOW + 10_000)

    assert [(one.uuid, one.start_ms) for one in later.allocations] == [
        (GPU[0], NOW),
        (GPU[1], NOW + 10_000),
    ]


def test_a_pod_of_which_only_names_are_known_is_keyed_by_them(kubelet: Kubelet, tmp_path: Path):
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    holdings = books(tmp_path).poll(GPUS, NOW)

    assert [(job.key, job.name) for job in holdings.jobs] == [
        ("kubernetes/della/ml_train-0", "ml/train-0")
    ]
    assert holdings.aliases == {}


@pytest.mark.parametrize(
    ("resource", "device", "uuid"),
    [
        ("nvidia.com/gpu", GPU[1], GPU[1]),
        ("nvidia.com/a100", GPU[1], GPU[1]),  # the operator may name the resource as he likes
        ("nvidia.com/mig-1g.10gb", MIG[0], MIG[0]),
        ("nvidia.com/gpu", MIG[1], MIG[1]),  # the plugin's strategy "single"
        ("nvidia.com/gpu", "nvidia1", GPU[2]),  # GKE: the minor number, which is not the index
        ("nvidia.com/gpu", "nvidia0/gi7", MIG[0]),
        ("nvidia.com/gpu", "nvidia0/gi2", MIG[1]),
    ],
)
def test_every_form_of_device_id_leads_to_its_gpu(
    kubelet: Kubelet, tmp_path: Path, resource: str, device: str, uuid: str
):
    kubelet.pods = [holding("ml", "train-0", device, resource=resource)]

    assert held(books(tmp_path).poll(GPUS, NOW)) == {"ml/train-0": [(uuid, 1.0)]}


@pytest.mark.parametrize(
    ("resource", "device"),
    [
        ("amd.com/gpu", "0000:3b:00.0"),
        ("gpu.intel.com/i915", "card0-0"),
        ("nvidia.com/hostdev", "0000:3b:00.1"),
        ("nvidia.com/rdma_shared", "17"),
        ("example.com/gpu", GPU[0]),
        # a card that the driver does not list any more
        ("nvidia.com/gpu", "GPU-0000000f-aaaa-bbbb-cccc-dddddddddddd"),
    ],
)
def test_what_is_no_gpu_of_this_node_is_left_out(
    kubelet: Kubelet, tmp_path: Path, resource: str, device: str
):
    kubelet.pods = [
        holding("ml", "other", device, resource=resource),
        holding("ml", "train-0", GPU[0]),
    ]

    assert held(books(tmp_path).poll(GPUS, NOW)).pop("ml/train-0") == [(GPU[0], 1.0)]


@pytest.mark.parametrize(
    ("resource", "device", "why"),
    [
        ("nvidia.com/gpu", "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd-3", "no known form"),  # HAMi's
        ("nvidia.com/mig-1g.10gb", "MIG-0000000f-aaaa-bbbb-cccc-dddddddddddd", "no MIG instance"),
        ("nvidia.com/gpu", "nvidia9", "no GPU that is nvidia9"),
        ("nvidia.com/gpu", "nvidia0/gi5", "no GPU that is nvidia0/gi5"),
        ("nvidia.com/gpu", "", "no known form"),
    ],
)
def test_a_gpu_held_but_not_known_which_makes_the_books_silent_instead_of_calling_it_free(
    kubelet: Kubelet, tmp_path: Path, resource: str, device: str, why: str
):
    kubelet.pods = [
        holding("ml", "train-0", GPU[0]),
        holding("ml", "train-1", device, resource=resource),
    ]

    assert why in reason(tmp_path)


def test_a_process_in_a_pods_control_group_belongs_to_the_pod_that_holds_the_gpu(
    kubelet: Kubelet, tmp_path: Path
):
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    log_folder(tmp_path, UID)
    root = fake_proc.host(tmp_path / "proc")
    group = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{'a' * 64}.scope"
    fake_proc.process(root, 4711, cgroup=f"0::{group}\n")
    fake_proc.process(root, 4712, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    scheduler = books(tmp_path)
    resolver = Resolver(node="gpu-07", schedulers=lambda: [scheduler], proc_root=str(root))

    workload = resolved(resolver, {GPU[0]: [ProcessReading(4711)], GPU[1]: [ProcessReading(4712)]})
    resolver._pollers["kubernetes"].stop()

    key = f"kubernetes/della/{UID}"
    assert [(one.uuid, one.job_key, one.source) for one in workload.allocations] == [
        (GPU[0], key, "kubernetes")
    ]
    assert {one.pid: one.job_key for one in workload.processes} == {4711: key, 4712: None}
    assert [(job.key, job.name) for job in workload.jobs] == [(key, "ml/train-0")]


def resolved(resolver: Resolver, processes: Any) -> Workload:
    """Once the books have been read, which happens in a thread of their own."""
    for _ in range(500):
        workload = resolver.resolve(processes, gpus=GPUS, start_ms=NOW, end_ms=NOW + 10_000)
        if any(one.kind == "kubernetes" and one.ok for one in workload.sources):
            return workload
        time.sleep(0.01)
    raise AssertionError("the books were not read")


@pytest.mark.parametrize(("cluster", "named"), [("", "default"), ("della", "della")])
def test_the_operator_names_the_cluster(
    kubelet: Kubelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, named: str
):
    monkeypatch.setattr("agent.workloads.kubernetes.detect.SOCKET", str(tmp_path / "kubelet.sock"))
    place = Place("gpu-07", cluster)

    scheduler = door.open_scheduler(place)

    assert door.is_here(place)
    assert (scheduler.kind, scheduler.interval_s) == ("kubernetes", 10.0)
    assert scheduler._cluster == named


# Shares


def test_parts_of_a_gpu_are_shares_of_all_its_parts(kubelet: Kubelet, tmp_path: Path):
    kubelet.allocatable = [
        devices("nvidia.com/gpu", *[f"{uuid}::{n}" for uuid in GPU[:2] for n in range(4)])
    ]
    kubelet.pods = [
        holding("ml", "a", f"{GPU[0]}::2"),
        holding("ml", "b", f"{GPU[0]}::0", f"{GPU[0]}::3", f"{GPU[1]}::1"),
    ]

    assert held(books(tmp_path).poll(GPUS, NOW)) == {
        "ml/a": [(GPU[0], 0.25)],
        "ml/b": [(GPU[0], 0.5), (GPU[1], 0.25)],
    }


def test_parts_in_the_form_of_gke_count_too(kubelet: Kubelet, tmp_path: Path):
    kubelet.allocatable = [
        devices(
            "nvidia.com/gpu",
            "nvidia0/gi7/vgpu0",
            "nvidia0/gi7/vgpu1",
            "nvidia1/vgpu0",
            "nvidia77/vgpu0",
        )
    ]
    kubelet.pods = [holding("ml", "a", "nvidia0/gi7/vgpu1"), holding("ml", "b", "nvidia1/vgpu0")]

    assert held(books(tmp_path).poll(GPUS, NOW)) == {
        "ml/a": [(MIG[0], 0.5)],
        "ml/b": [(GPU[2], 1.0)],
    }


def test_a_part_is_no_known_share_where_the_kubelet_does_not_list_them_all(
    kubelet: Kubelet, tmp_path: Path
):
    kubelet.allocatable = []
    kubelet.pods = [holding("ml", "a", f"{GPU[0]}::2")]

    assert held(books(tmp_path).poll(GPUS, NOW)) == {"ml/a": [(GPU[0], None)]}


def test_the_list_of_all_devices_is_asked_for_every_five_minutes(kubelet: Kubelet, tmp_path: Path):
    kubelet.allocatable = [devices("nvidia.com/gpu", *GPU)]
    scheduler = books(tmp_path)

    for at in (0, 10_000, 299_999, 300_000):
        scheduler.poll(GPUS, NOW + at)

    assert kubelet.calls == [
        "List",
        "GetAllocatableResources",
        "List",
        "List",
        "List",
        "GetAllocatableResources",
    ]


# Pods that have ended


@pytest.mark.parametrize(
    "shape",
    [
        "kubepods.slice/kubepods-pod%s.slice",  # guaranteed
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod%s.slice",
        "kubepods/burstable/pod%s",
        "kubepods/pod%s",
        "memory/kubepods/burstable/pod%s",  # v1
        # kind
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod%s.slice",
        "kubelet/kubepods/burstable/pod%s",
    ],
)
def test_a_pod_without_a_control_group_holds_nothing(kubelet: Kubelet, tmp_path: Path, shape: str):
    kubelet.pods = [holding("ml", "train-0", GPU[0]), holding("ml", "done", GPU[1])]
    log_folder(tmp_path, UID)
    log_folder(tmp_path, OTHER, name="done")
    cgroup(tmp_path, UID, shape=shape)

    assert held(books(tmp_path).poll(GPUS, NOW)) == {"ml/train-0": [(GPU[0], 1.0)]}


def test_of_two_pods_of_one_name_the_living_one_holds(kubelet: Kubelet, tmp_path: Path):
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    log_folder(tmp_path, UID)
    log_folder(tmp_path, OTHER)
    cgroup(tmp_path, UID)

    assert books(tmp_path).poll(GPUS, NOW).aliases == {UID: f"kubernetes/della/{UID}"}


def test_an_unknown_device_of_an_ended_pod_troubles_nobody(kubelet: Kubelet, tmp_path: Path):
    kubelet.pods = [holding("ml", "done", "MIG-0000000f-aaaa-bbbb-cccc-dddddddddddd")]
    kubelet.allocatable = [devices("nvidia.com/gpu", *GPU)]
    log_folder(tmp_path, OTHER, name="done")
    cgroup(tmp_path, UID)

    assert held(books(tmp_path).poll(GPUS, NOW)) == {}


# Whose GPUs they are


def test_a_node_whose_plugin_has_gpus_and_whose_pods_hold_none_is_free(
    kubelet: Kubelet, tmp_path: Path
):
    kubelet.allocatable = [devices("nvidia.com/gpu", *GPU)]

    assert held(books(tmp_path).poll(GPUS, NOW)) == {}


def test_a_kubelet_that_hands_out_no_gpu_says_nothing_of_them(kubelet: Kubelet, tmp_path: Path):
    kubelet.pods = [pod("web", "nginx", container("main"))]
    kubelet.allocatable = [devices("rdma/hca", "0")]

    assert "hands out no NVIDIA GPU" in reason(tmp_path)


# DRA


def test_a_claimed_gpu_is_found_by_what_its_driver_published(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    slices = "/apis/resource.k8s.io/%s/resourceslices"
    attributes = {"attributes": {"uuid": {"string": GPU[2]}, "type": {"string": "gpu"}}}
    mig = {"name": "gpu-0-mig-1g.10gb-0-1", "basic": {"attributes": {"uuid": {"string": MIG[0]}}}}
    spec = {"pool": {"name": "gpu-07"}, "devices": [{"name": "gpu-1", **attributes}, mig]}
    cluster.objects = {
        slices % "v1beta1": {"items": [{"spec": spec}], "metadata": {}},
        PODS + "train-0": api_server.pod(),
    }
    claims = (
        claim("gpu.nvidia.com", "gpu-07", "gpu-1"),
        claim("compute-domain.nvidia.com", "gpu-07", "channel-0"),
    )
    kubelet.pods = [
        pod(
            "ml",
            "train-0",
            container("a", claims=claims),
            container("b", claims=(claim("gpu.nvidia.com", "gpu-07", mig["name"]),)),
        )
    ]

    holdings = books(tmp_path, api=cluster).poll(GPUS, NOW)

    assert held(holdings) == {"ml/train-0": [(GPU[2], 1.0), (MIG[0], 1.0)]}
    asked = [path for path in cluster.asked if "resourceslices" in path]
    assert [path.split("/")[3] for path in asked] == ["v1", "v1beta2", "v1beta1"]
    assert (
        "fieldSelector=spec.nodeName%3Dgpu-07%2Cspec.driver%3Dgpu.nvidia.com&limit=100" in asked[0]
    )


def test_published_devices_are_read_page_by_page_and_asked_for_again_only_when_one_is_missing(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    slices = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dgpu-07%2Cspec.driver%3Dgpu.nvidia.com&limit=100&continue="

    def page(name: str, uuid: str, going: str) -> dict[str, Any]:
        device = {"name": name, "attributes": {"uuid": {"string": uuid}}}
        return {
            "items": [{"spec": {"pool": {"name": "gpu-07"}, "devices": [device]}}],
            "metadata": {"continue": going},
        }

    cluster.objects = {
        slices: page("gpu-0", GPU[3], "next"),
        slices + "next": page("gpu-1", GPU[2], ""),
    }
    kubelet.pods = [
        pod("ml", "train-0", container("a", claims=(claim("gpu.nvidia.com", "gpu-07", "gpu-1"),)))
    ]
    scheduler = books(tmp_path, api=cluster)

    for at in (0, 3_600_000):
        assert [one.uuid for one in scheduler.poll(GPUS, NOW + at).allocations] == [GPU[2]]

    assert len([path for path in cluster.asked if "resourceslices" in path]) == 2


def test_a_claimed_gpu_that_nothing_leads_to_makes_the_books_silent(
    kubelet: Kubelet, tmp_path: Path
):
    kubelet.pods = [
        pod("ml", "train-0", container("a", claims=(claim("gpu.nvidia.com", "gpu-07", "gpu-1"),)))
    ]

    assert (
        reason(tmp_path)
        == "no ResourceSlice that may be read tells which GPU gpu-1 of pool gpu-07 is"
    )


def test_a_node_whose_gpus_are_claimed_but_by_nobody_now_is_free(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    device = {"name": "gpu-0", "attributes": {"uuid": {"string": GPU[3]}}}
    cluster.objects = {
        "/apis/resource.k8s.io/v1/resourceslices": {
            "items": [{"spec": {"pool": {"name": "gpu-07"}, "devices": [device]}}]
        }
    }

    assert books(tmp_path, api=cluster).poll(GPUS, NOW).allocations == []


# The checkpoint


@pytest.mark.parametrize("ids", [[GPU[0], GPU[1]], {"0": [GPU[0]], "1": [GPU[1]], "-1": None}])
def test_while_the_socket_is_silent_the_checkpoint_tells(tmp_path: Path, ids: Any):
    checkpoint(tmp_path, {UID: ids, OTHER: [GPU[2]]})
    log_folder(tmp_path, UID)
    cgroup(tmp_path, UID)

    holdings = books(tmp_path).poll(GPUS, NOW)

    assert held(holdings) == {"ml/train-0": [(GPU[0], 1.0), (GPU[1], 1.0)]}
    assert holdings.aliases == {UID: f"kubernetes/della/{UID}"}


def test_without_control_groups_the_folders_of_logs_tell_which_pods_live(tmp_path: Path):
    checkpoint(tmp_path, {UID: [GPU[0]], OTHER: [GPU[2]]})
    log_folder(tmp_path, UID)

    assert held(books(tmp_path).poll(GPUS, NOW)) == {"ml/train-0": [(GPU[0], 1.0)]}


def test_a_checkpoint_of_pods_that_may_have_ended_says_nothing(tmp_path: Path):
    checkpoint(tmp_path, {UID: [GPU[0]]})

    assert "tells which pods live" in reason(tmp_path)


def test_a_living_pod_without_a_name_is_known_by_its_uid(tmp_path: Path):
    checkpoint(
        tmp_path,
        {UID: [f"{GPU[0]}::1"]},
        registered={"nvidia.com/gpu": [f"{GPU[0]}::0", f"{GPU[0]}::1"]},
    )
    cgroup(tmp_path, UID)

    holdings = books(tmp_path).poll(GPUS, NOW)

    assert [(job.name, job.account) for job in holdings.jobs] == [(UID, "")]
    assert [one.share for one in holdings.allocations] == [0.5]


def test_after_claims_were_seen_the_checkpoint_which_knows_none_is_not_believed(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    slices = {
        "items": [
            {
                "spec": {
                    "pool": {"name": "p"},
                    "devices": [{"name": "d", "attributes": {"uuid": {"string": GPU[0]}}}],
                }
            }
        ]
    }
    cluster.objects = {"/apis/resource.k8s.io/v1/resourceslices": slices}
    kubelet.pods = [
        pod("ml", "train-0", container("a", claims=(claim("gpu.nvidia.com", "p", "d"),)))
    ]
    checkpoint(tmp_path, {})
    scheduler = books(tmp_path, api=cluster)
    scheduler.poll(GPUS, NOW)
    kubelet.answer = lambda request, context: context.abort(grpc.StatusCode.UNAVAILABLE, "starting")

    with pytest.raises(
        SchedulerError, match="UNAVAILABLE: starting; the kubelet's checkpoint does not tell"
    ):
        scheduler.poll(GPUS, NOW + 10_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"Data": {"PodDeviceEntries": 7}}',
        '{"Data": {"PodDeviceEntries": [{"DeviceIDs": ["x"]}]}}',
        "[" * 100_000,
        '{"Data"',
    ],
)
def test_a_checkpoint_that_is_none_is_an_error_that_names_it(tmp_path: Path, text: str):
    (tmp_path / "checkpoint").write_text(text)

    assert f"{tmp_path}/checkpoint: not the kubelet's notes" in reason(tmp_path)


def test_without_socket_and_checkpoint_the_reason_names_both(tmp_path: Path):
    assert (
        reason(tmp_path)
        == f"{tmp_path}/kubelet.sock: No such file or directory; {tmp_path}/checkpoint: No such"
        " file or directory"
    )
