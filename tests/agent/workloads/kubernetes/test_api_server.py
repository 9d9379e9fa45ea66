from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.workloads.kubernetes.api_server import from_environment
from tests.agent import cluster as api_server
from tests.agent import kubelet as fake_kubelet
from tests.agent.cluster import Cluster
from tests.agent.kubelet import Kubelet, devices, holding
from tests.agent.kubernetes_node import (
    GPU,
    GPUS,
    NOW,
    OTHER,
    PODS,
    STARTED,
    UID,
    books,
    cgroup,
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


def owned(kind: str, **labels: str) -> dict[str, Any]:
    owners = [{"kind": "Other", "name": "x"}, {"kind": kind, "name": "llama", "controller": True}]
    return api_server.pod(metadata={"ownerReferences": owners, "labels": labels})


def test_the_api_server_tells_who_the_pod_is(kubelet: Kubelet, cluster: Cluster, tmp_path: Path):
    labels = {
        "team": "nlp",
        "kueue.x-k8s.io/queue-name": "gpu-large",
        "fleetwatch.user": "ann",
        "db-password": "hunter2",
    }
    owners = [{"kind": "PyTorchJob", "name": "llama", "controller": True}]
    cluster.objects[PODS + "train-0"] = api_server.pod(
        metadata={"labels": labels, "ownerReferences": owners}, spec={"priorityClassName": "high"}
    )
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    holdings = books(tmp_path, api=cluster).poll(GPUS, NOW)

    (job,) = holdings.jobs
    assert (job.key, job.name, job.user, job.account) == (
        f"kubernetes/della/{UID}",
        "ml/train-0",
        "ann",
        "ml",
    )
    assert (job.kind, job.state, job.restarts) == ("batch", "RUNNING", 3)
    assert (job.submit_ms, job.start_ms) == (STARTED - 53_000, STARTED)
    assert job.labels == {
        "team": "nlp",
        "owner": "PyTorchJob/llama",
        "queue": "gpu-large",
        "priority": "high",
    }
    assert [one.start_ms for one in holdings.allocations] == [STARTED]
    assert "hunter2" not in repr(holdings)


def test_a_pod_that_names_its_team_belongs_to_it_and_not_to_its_namespace(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    marks = {"annotations": {"fleetwatch.team": "vision"}, "labels": {"fleetwatch.user": "ann"}}
    cluster.objects[PODS + "train-0"] = api_server.pod(metadata=marks)
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    (job,) = books(tmp_path, api=cluster).poll(GPUS, NOW).jobs

    assert (job.user, job.account) == ("ann", "vision")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (owned("Job"), "batch"),
        (owned("RayCluster"), "batch"),
        (owned("RayCluster", **{"ray.io/originated-from-crd": "RayService"}), "service"),
        (owned("ReplicaSet"), "service"),
        (owned("ReplicaSet", **{"fleetwatch.kind": "interactive"}), "interactive"),
        (owned("ReplicaSet", **{"fleetwatch.kind": "party"}), "service"),
        (owned("StatefulSet"), "service"),
        (owned("StatefulSet", **{"notebook-name": "ann"}), "interactive"),
        (api_server.pod(metadata={"labels": {"component": "singleuser-server"}}), "interactive"),
        (api_server.pod(metadata={"labels": {"component": "hub"}}), "batch"),
        (api_server.pod(), "batch"),
    ],
)
def test_the_owner_and_its_marks_tell_the_kind(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path, answer: dict[str, Any], kind: str
):
    cluster.objects[PODS + "train-0"] = answer
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    assert [job.kind for job in books(tmp_path, api=cluster).poll(GPUS, NOW).jobs] == [kind]


def test_a_notebook_of_jupyterhub_is_its_users(kubelet: Kubelet, cluster: Cluster, tmp_path: Path):
    cluster.objects[PODS + "train-0"] = api_server.pod(
        metadata={"annotations": {"hub.jupyter.org/username": "ann@example.org"}}
    )
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    assert [job.user for job in books(tmp_path, api=cluster).poll(GPUS, NOW).jobs] == [
        "ann@example.org"
    ]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_by_the_api_servers_word_holds_nothing(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path, phase: str
):
    cluster.objects[PODS + "train-0"] = api_server.pod(status={"phase": phase})
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    kubelet.allocatable = [devices("nvidia.com/gpu", *GPU)]

    assert books(tmp_path, api=cluster).poll(GPUS, NOW).allocations == []


def test_a_pod_from_a_file_on_the_node_is_found_by_both_its_uids(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    cluster.objects[PODS + "train-0"] = api_server.pod(
        metadata={"annotations": {"kubernetes.io/config.hash": "f" * 32}}
    )
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    cgroup(tmp_path, "f" * 32)

    assert books(tmp_path, api=cluster).poll(GPUS, NOW).aliases == dict.fromkeys(
        (UID, "f" * 32), f"kubernetes/della/{UID}"
    )


def test_a_pod_is_asked_for_once_in_five_minutes_and_at_once_when_another_lives_under_its_name(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    cluster.objects[PODS + "train-0"] = api_server.pod()
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    cgroup(tmp_path, UID)
    scheduler = books(tmp_path, api=cluster)

    for at in (0, 10_000, 299_999, 300_000):
        scheduler.poll(GPUS, NOW + at)
    before = [path for path in cluster.asked if "pods" in path]
    (tmp_path / "cgroup/kubepods.slice/kubepods-burstable.slice").rename(tmp_path / "gone")
    cgroup(tmp_path, OTHER)
    cluster.objects[PODS + "train-0"] = api_server.pod(uid=OTHER)
    after = scheduler.poll(GPUS, NOW + 310_000)

    assert before == [PODS + "train-0?resourceVersion=0"] * 2
    assert list(after.aliases) == [OTHER]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{",
        b'{"metadata": 7}',
        b'{"metadata": {"uid": 7}}',
        b"[" * 100_000,
        b"x" * (4 << 20) + b"xx",
    ],
)
def test_an_answer_that_is_no_pod_leaves_the_names_of_the_node(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path, answer: bytes
):
    cluster.objects[PODS + "train-0"] = answer
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    log_folder(tmp_path, UID)

    assert [job.key for job in books(tmp_path, api=cluster).poll(GPUS, NOW).jobs] == [
        f"kubernetes/della/{UID}"
    ]


def test_hostile_values_in_a_pod_do_no_harm(kubelet: Kubelet, cluster: Cluster, tmp_path: Path):
    status = {
        "startTime": 7,
        "containerStatuses": [{"restartCount": "x"}, 7, {"restartCount": -1}],
        "phase": None,
    }
    metadata = {
        "labels": ["team"],
        "annotations": {"fleetwatch.user": {"a": 1}},
        "ownerReferences": {"kind": "Job"},
        "creationTimestamp": "soon",
    }
    cluster.objects[PODS + "train-0"] = api_server.pod(status=status, metadata=metadata)
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    (job,) = books(tmp_path, api=cluster).poll(GPUS, NOW).jobs

    assert (
        job.user,
        job.kind,
        job.state,
        job.restarts,
        job.submit_ms,
        job.start_ms,
        job.labels,
    ) == ("", "batch", "", 0, None, None, {})


def test_a_refusing_server_is_left_alone_for_a_minute_and_the_node_tells(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path, caplog
):
    cluster.status = 403
    kubelet.pods = [holding("ml", "train-0", GPU[0]), holding("ml", "train-1", GPU[1])]
    log_folder(tmp_path, UID)
    scheduler = books(tmp_path, api=cluster)

    jobs = [scheduler.poll(GPUS, NOW + at).jobs for at in (0, 59_999, 60_000)]

    assert {job.key for job in jobs[0]} == {
        f"kubernetes/della/{UID}",
        "kubernetes/della/ml_train-1",
    }
    assert len(cluster.asked) == 2
    assert caplog.text.count("/api/v1/namespaces/ml/pods/train-0: 403 Forbidden") == 1


def test_the_api_server_is_known_only_inside_of_a_cluster(cluster: Cluster, tmp_path: Path):
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    assert from_environment(inside, str(cluster.account)) is not None
    assert from_environment({}, str(cluster.account)) is None
    assert (
        from_environment(
            {**inside, "KUBERNETES_SERVICE_PORT": "tcp://10.0.0.1:443"}, str(cluster.account)
        )
        is None
    )
    assert from_environment(inside, str(tmp_path / "none")) is None


def test_a_token_that_was_renewed_is_used(kubelet: Kubelet, cluster: Cluster, tmp_path: Path):
    cluster.objects[PODS + "train-0"] = api_server.pod()
    cluster.tokens = ("second",)
    (cluster.account / "token").write_text("second")
    kubelet.pods = [holding("ml", "train-0", GPU[0])]

    assert [job.restarts for job in books(tmp_path, api=cluster).poll(GPUS, NOW).jobs] == [3]


def test_a_server_that_another_authority_vouches_for_gets_no_token(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path
):
    (tmp_path / "other").mkdir()
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    with api_server.running(tmp_path / "other") as other:
        (cluster.account / "ca.crt").write_bytes((other.account / "ca.crt").read_bytes())

        holdings = books(tmp_path, api=cluster).poll(GPUS, NOW)

    assert held(holdings) == {"ml/train-0": [(GPU[0], 1.0)]}
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("spec", "drained"), [({"unschedulable": True}, "cordoned"), ({}, ""), (None, None)]
)
def test_a_cordoned_node_is_drained(
    kubelet: Kubelet, cluster: Cluster, tmp_path: Path, spec: Any, drained: str | None
):
    cluster.objects["/api/v1/nodes/gpu-07"] = {"spec": spec}
    kubelet.pods = [holding("ml", "train-0", GPU[0])]
    scheduler = books(tmp_path, api=cluster)

    answers = [scheduler.poll(GPUS, NOW + at).drained for at in (0, 59_999)]

    assert answers == [drained, drained]
    assert len([path for path in cluster.asked if "nodes" in path]) == 1
