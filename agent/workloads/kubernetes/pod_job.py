"""From a pod, as the API server describes it, to a job.

Of labels and annotations only the listed ones leave the node.
"""

from dataclasses import dataclass, replace
from typing import Dict, Mapping, Optional, Sequence

from agent.json_parts import Object, count, part, parts, time_ms
from agent.readings import Job
from agent.wire import JOB_KINDS

MAX_VALUE = 128
LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/part-of", "team", "project", "cost-center")
# The first that is there tells; labels and annotations alike.
USERS = ("fleetwatch.user", "hub.jupyter.org/username")
ACCOUNTS = ("fleetwatch.account", "fleetwatch.team")
QUEUES = (
    "kueue.x-k8s.io/queue-name",
    "volcano.sh/queue-name",
    "kai.scheduler/queue",
    "runai/queue",
)
KIND = "fleetwatch.kind"
# of a pod from a file on the node: the uid that its control group is named by
CONFIG_HASH = "kubernetes.io/config.hash"
ENDED = ("Succeeded", "Failed")
# By the kind of the owner; anything else is batch, and so is a pod of its own.
OWNER_KINDS = {
    "ReplicaSet": "service", "Deployment": "service", "StatefulSet": "service",
    "DaemonSet": "service", "ReplicationController": "service",
    "InferenceService": "service", "RayService": "service", "LeaderWorkerSet": "service",
    "SeldonDeployment": "service",
    "Rollout": "service", "CloneSet": "service", "Notebook": "interactive",
    "Workspace": "interactive",
}  # fmt: skip
# Labels by which controllers of notebooks and services mark pods whose owner says less (a
# Notebook's is a StatefulSet).
MARKS = (
    ("notebook-name", "", "interactive"),  # Kubeflow
    ("component", "singleuser-server", "interactive"),  # JupyterHub
    ("serving.kserve.io/inferenceservice", "", "service"),
    ("serving.knative.dev/service", "", "service"),
    ("ray.io/originated-from-crd", "RayService", "service"),
)


Marks = Mapping[str, str]  # labels and annotations


@dataclass(frozen=True)
class Pod:
    """What the agent keeps of a pod.

    `uids` are all that its control group may be named by, the API's own first.
    """

    uids: Sequence[str]
    has_ended: bool
    job: Job


def pod_of(answer: Object, *, cluster: str) -> Optional[Pod]:
    """The pod; None where the answer is none."""
    metadata = part(answer, "metadata")
    uid, namespace, name = (_text(metadata, key) for key in ("uid", "namespace", "name"))
    if not (uid and namespace and name):
        return None
    marks = {**_texts(metadata, "annotations"), **_texts(metadata, "labels")}
    uids = dict.fromkeys(filter(None, (uid, marks.get(CONFIG_HASH))))
    has_ended = part(answer, "status").get("phase") in ENDED
    bare = bare_pod(uid, namespace, name, cluster=cluster).job
    return Pod(tuple(uids), has_ended, _described(bare, answer, marks))


def _described(bare: Job, answer: Object, marks: Marks) -> Job:
    """The job with all that the answer tells of it."""
    metadata = part(answer, "metadata")
    status = part(answer, "status")
    owner = _owner(metadata)
    return replace(
        bare,
        user=_first(marks, USERS),
        account=_first(marks, ACCOUNTS) or bare.account,
        kind=_kind(marks, owner),
        state=_text(status, "phase").upper(),
        submit_ms=time_ms(metadata.get("creationTimestamp")),
        start_ms=time_ms(status.get("startTime")),
        restarts=sum(count(item, "restartCount") for item in parts(status, "containerStatuses")),
        labels=_labels(marks, owner, part(answer, "spec")),
    )


def bare_pod(uid: str, namespace: str, name: str, *, cluster: str) -> Pod:
    """A pod of which only the names are known; they stand for the uid where that is ""."""
    identity = uid or "%s_%s" % (namespace, name)
    job = Job(
        key="kubernetes/%s/%s" % (cluster, identity),
        scheduler="kubernetes",
        cluster=cluster,
        id=identity,
        name="%s/%s" % (namespace, name) if name else uid,
        account=namespace,
        state="RUNNING",
    )
    return Pod((uid,) if uid else (), False, job)


def _kind(marks: Marks, owner: Object) -> str:
    if marks.get(KIND) in JOB_KINDS:
        return marks[KIND]
    for label, value, kind in MARKS:
        if label in marks and value in ("", marks[label]):
            return kind
    return OWNER_KINDS.get(_text(owner, "kind"), "batch")


def _owner(metadata: Object) -> Object:
    """The owner that controls the pod, else the first named."""
    owners = parts(metadata, "ownerReferences")
    return next(
        (item for item in owners if item.get("controller") is True), owners[0] if owners else {}
    )


def _labels(marks: Marks, owner: Object, spec: Object) -> Dict[str, str]:
    kind = _text(owner, "kind")
    name = _text(owner, "name")
    values = {label: marks.get(label, "") for label in LABELS}
    values.update(
        owner="%s/%s" % (kind, name) if kind else "",
        queue=_first(marks, QUEUES),
        priority=_text(spec, "priorityClassName"),
    )
    return {label: value for label, value in values.items() if value}


def _first(marks: Marks, names: Sequence[str]) -> str:
    return next((marks[name] for name in names if marks.get(name)), "")


def _text(answer: Object, name: str) -> str:
    value = answer.get(name)
    return value[:400] if isinstance(value, str) else ""


def _texts(answer: Object, name: str) -> Dict[str, str]:
    return {
        key: value[:MAX_VALUE]
        for key, value in part(answer, name).items()
        if isinstance(value, str)
    }
