"""How a pod is ended: what the agent asks of the API server, and what it leaves alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.actions.ending_pods import PodEnding
from agent.actions.orders import OrderError
from agent.readings import Allocation, Job, SchedulerError
from agent.workloads.kubernetes.api_server import API
from tests.agent import cluster as api_server
from tests.agent.actions.test_orders import GPUS, HELD, a_runner, after, an_order, replace, windows
from tests.agent.cluster import Cluster
from tests.agent.kubernetes_node import PODS, UID

POD = PODS + "train-0"
APPS, BATCH = "/apis/apps/v1/namespaces/ml/", "/apis/batch/v1/namespaces/ml/"
VERSIONS = {"Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1", "Notebook": "kubeflow.org/v1"}
JOB = Job(f"kubernetes/della/{UID}", "kubernetes", "della", UID, "ml/train-0")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with api_server.running(tmp_path) as running:
        running.objects[POD] = api_server.pod()
        yield running


def ending(cluster: Cluster, **changes: Any) -> PodEnding:
    api = API("127.0.0.1", cluster.port, str(cluster.account))
    return PodEnding(replace(JOB, **changes), api)


def owner(kind: str, name: str) -> dict[str, Any]:
    version = VERSIONS.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}


def owned_by(cluster: Cluster, kind: str, name: str) -> None:
    cluster.objects[POD] = api_server.pod(metadata={"ownerReferences": [owner(kind, name)]})


def an_owner(name: str, above: str = "", **spec: Any) -> dict[str, Any]:
    owners = [owner(above, f"{name}-above")] if above else []
    metadata = {"uid": name, "resourceVersion": "41", "ownerReferences": owners}
    return {"metadata": metadata, "spec": spec}


def test_a_pod_of_nobodys_is_deleted(cluster: Cluster):
    pod = ending(cluster)

    assert pod.look() == " by deleting the pod"
    assert cluster.changes == []
    pod.do()

    assert (cluster.changes, cluster.objects) == ([("DELETE", POD)], {})


@pytest.mark.parametrize("above", ["", "CronJob"])
def test_a_job_is_over_by_its_deadline_and_starts_no_other_pod(cluster: Cluster, above: str):
    owned_by(cluster, "Job", "sweep")
    job = cluster.objects[BATCH + "jobs/sweep"] = an_owner("sweep", above, parallelism=1)

    pod = ending(cluster)
    words = pod.look()
    pod.do()

    assert words == " by its Job's deadline"
    assert cluster.changes == [("PATCH", BATCH + "jobs/sweep")]
    assert job["spec"]["activeDeadlineSeconds"] == 1


def test_what_keeps_one_pod_running_is_scaled_to_0(cluster: Cluster):
    owned_by(cluster, "ReplicaSet", "lab-5d")
    cluster.objects[APPS + "replicasets/lab-5d"] = an_owner("lab-5d", "Deployment", replicas=1)
    above = cluster.objects[APPS + "deployments/lab-5d-above"] = an_owner("lab-5d-above")

    pod = ending(cluster)
    words = pod.look()
    pod.do()

    assert words == " by scaling its Deployment to 0"
    assert cluster.changes == [("PATCH", APPS + "deployments/lab-5d-above/scale")]
    assert above["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("kind", "made", "why"),
    [
        ("PyTorchJob", None, "PyTorchJob starts another pod in its place"),
        ("Job", an_owner("lab", "JobSet"), "JobSet starts another pod in its place"),
        ("StatefulSet", an_owner("lab", "Notebook"), "Notebook starts another pod in its place"),
        ("StatefulSet", an_owner("lab", replicas=2), "its StatefulSet has other pods"),
        ("Job", an_owner("lab", parallelism=2), "its Job has other pods"),
        ("Job", an_owner("lab", completions=5), "its Job has other pods"),
        ("Job", an_owner("another"), "another one has its name"),
        ("Job", None, "its Job is gone"),
    ],
)
def test_a_pod_with_others_beside_it_or_in_its_place_is_left(cluster: Cluster, kind, made, why):
    owned_by(cluster, kind, "lab")
    paths = {"Job": BATCH + "jobs/lab", "StatefulSet": APPS + "statefulsets/lab"}
    if made is not None:
        cluster.objects[paths[kind]] = made

    with pytest.raises(OrderError, match=why):
        ending(cluster).look()

    assert cluster.changes == []


def test_another_pod_of_the_same_name_is_left(cluster: Cluster):
    cluster.objects[POD] = api_server.pod(uid="another")
    with pytest.raises(OrderError, match="another one has its name"):
        ending(cluster).look()

    cluster.objects[POD] = api_server.pod()
    pod = ending(cluster)
    pod.look()
    cluster.objects[POD] = api_server.pod(uid="another")
    with pytest.raises(SchedulerError, match="409"):
        pod.do()

    assert cluster.changes == []


def test_an_owner_that_somebody_changed_meanwhile_is_left(cluster: Cluster):
    owned_by(cluster, "Job", "sweep")
    job = cluster.objects[BATCH + "jobs/sweep"] = an_owner("sweep")
    pod = ending(cluster)
    pod.look()
    job["metadata"]["resourceVersion"] = "42"

    with pytest.raises(SchedulerError, match="409"):
        pod.do()

    assert cluster.changes == []


def test_a_right_that_is_missing_is_found_before_and_says_what_gives_it(cluster: Cluster):
    cluster.forbidden = ("DELETE",)

    with pytest.raises(SchedulerError, match=r"403 Forbidden; kubectl apply -f agent-stop\.yaml"):
        ending(cluster).look()


@pytest.mark.parametrize("name", ["", "train-0", "ml/", "ml/../secrets", "ML/train"])
def test_a_pod_whose_name_is_not_known_is_left(cluster: Cluster, name: str):
    with pytest.raises(OrderError, match="which pod"):
        ending(cluster, name=name)


@pytest.mark.parametrize(
    ("is_dry_run", "text", "left"), [(True, "would", [POD]), (False, "done", [])]
)
def test_an_order_ends_a_pod_that_rested(cluster, tmp_path, monkeypatch, is_dry_run, text, left):
    api = API("127.0.0.1", cluster.port, str(cluster.account))
    monkeypatch.setattr("agent.actions.ending_pods.from_environment", lambda _: api)
    held = [Allocation(uuid, JOB.key, "kubernetes") for uuid in GPUS]
    workload = replace(HELD, jobs=[JOB], allocations=held)
    order = an_order(scheduler="kubernetes", job=UID, is_dry_run=is_dry_run)

    said = after(a_runner(tmp_path), windows(10, workload=workload), order)

    assert said == f"order-0001 {text}: stop_job {UID} by deleting the pod"
    assert list(cluster.objects) == left
