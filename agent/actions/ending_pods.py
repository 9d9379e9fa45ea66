"""How a pod is ended: what starts another one in its place is ended with it, or the pod is left.

A pod of nobody's is deleted. A Job's is ended by the Job's deadline, by which it has failed and
starts no other; a Deployment, ReplicaSet or StatefulSet is scaled to 0. Only where the pod is the
only one of its owner: what is asked for is the end of this job alone.
"""

import os
import re
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple
from urllib.parse import quote

from agent.actions.orders import OrderError
from agent.json_parts import Object, part, parts
from agent.readings import Job, SchedulerError
from agent.workloads.kubernetes.api_server import API, APIError, from_environment

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
ENDED_BY_S = 1  # of a Job's run: it is over
STARTS_ANOTHER = "%s starts another pod in its place: a webhook can end it"
RIGHTS = "kubectl apply -f agent-stop.yaml gives the agent this right"


class Owner(NamedTuple):
    """What is read and changed of a kind of owner: `scale` by its subresource, else the Job's own
    deadline.
    """

    path: str
    is_scaled: bool


OWNERS = {
    ("batch/v1", "Job"): Owner("/apis/batch/v1/namespaces/%s/jobs/%s", False),
    ("apps/v1", "Deployment"): Owner("/apis/apps/v1/namespaces/%s/deployments/%s", True),
    ("apps/v1", "ReplicaSet"): Owner("/apis/apps/v1/namespaces/%s/replicasets/%s", True),
    ("apps/v1", "StatefulSet"): Owner("/apis/apps/v1/namespaces/%s/statefulsets/%s", True),
}
# by what owns it, and goes on with others of it
MAY_OWN = {"Job": ("CronJob",), "ReplicaSet": ("Deployment",)}


class Change(NamedTuple):
    """One request that ends it, as the server takes it, and in words."""

    method: str
    path: str
    body: Object
    words: str


class PodEnding:
    """A pod of this node, by the API server of its cluster."""

    def __init__(self, job: Job, api: Optional[API] = None) -> None:
        """Raises OrderError."""
        server = api or from_environment(os.environ)
        if server is None:
            raise OrderError("this agent is no pod: it can't ask the API server")
        self._api = server
        self._uid = job.id
        self._names = _names(job.name)
        self._change: Optional[Change] = None

    def look(self) -> str:
        """How it will be ended; the server was asked whether it may be. Raises OrderError and
        SchedulerError.
        """
        self._change = self._asked(self._planned)
        self._asked(lambda: self._send("?dryRun=All"))
        return " by %s" % self._change.words

    def do(self) -> None:
        """Ends it. Raises OrderError and SchedulerError."""
        self._asked(lambda: self._send(""))

    def _send(self, query: str) -> None:
        if self._change is not None:
            method, path, body, _ = self._change
            self._api.change(method, path + query, body)

    def _asked(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except APIError as error:
            hint = "; %s" % RIGHTS if error.status == 403 else ""
            raise SchedulerError("%s%s" % (error, hint)) from error

    def _planned(self) -> Change:
        path = "/api/v1/namespaces/%s/pods/%s" % self._names
        pod = self._api.get(path)
        metadata = part(pod, "metadata")
        if metadata.get("uid") != self._uid:
            raise OrderError("the pod is gone, or another one has its name")
        owner = _controller(metadata)
        if owner is None:
            body = {"preconditions": {"uid": self._uid}}
            return Change("DELETE", path, body, "deleting the pod")
        return self._of_owner(owner)

    def _of_owner(self, reference: Object) -> Change:
        """What ends the pod's owner, or what owns that in turn."""
        kind = str(reference.get("kind"))[:60]
        where = OWNERS.get((str(reference.get("apiVersion")), kind))
        if where is None:
            raise OrderError(STARTS_ANOTHER % kind)
        path = where.path % (self._names[0], _plain(reference.get("name")))
        owner = self._api.get(path)
        if part(owner, "metadata").get("uid") != reference.get("uid"):
            raise OrderError("its %s is gone, or another one has its name" % kind)
        above = _above(owner, kind)
        if above is not None and kind == "ReplicaSet":
            return self._of_owner(above)
        return _scaled(path, owner, kind) if where.is_scaled else _overdue(path, owner)


def _above(owner: Object, kind: str) -> Optional[Object]:
    """What owns the owner. Raises OrderError where that starts another pod."""
    above = _controller(part(owner, "metadata"))
    if above is not None and above.get("kind") not in MAY_OWN.get(kind, ()):
        raise OrderError(STARTS_ANOTHER % str(above.get("kind"))[:60])
    return above


def _scaled(path: str, owner: Object, kind: str) -> Change:
    if part(owner, "spec").get("replicas", 1) != 1:
        raise OrderError("its %s has other pods" % kind)
    body = {"metadata": _as_read(owner), "spec": {"replicas": 0}}
    return Change("PATCH", path + "/scale", body, "scaling its %s to 0" % kind)


def _overdue(path: str, owner: Object) -> Change:
    spec = part(owner, "spec")
    if {spec.get("parallelism", 1), spec.get("completions", 1)} - {1, None}:
        raise OrderError("its Job has other pods")
    body = {"metadata": _as_read(owner), "spec": {"activeDeadlineSeconds": ENDED_BY_S}}
    return Change("PATCH", path, body, "its Job's deadline")


def _as_read(owner: Object) -> Dict[str, Any]:
    """What lets the server refuse it where somebody changed the owner meanwhile."""
    return {"resourceVersion": part(owner, "metadata").get("resourceVersion")}


def _controller(metadata: Object) -> Optional[Object]:
    owners = parts(metadata, "ownerReferences")
    return next((item for item in owners if item.get("controller") is True), None)


def _names(name: str) -> Tuple[str, str]:
    """Namespace and name. Raises OrderError."""
    namespace, _, own = name.partition("/")
    return _plain(namespace), _plain(own)


def _plain(name: Any) -> str:
    """The name, for an address. Raises OrderError."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise OrderError("it is not known which pod it is")
    return quote(name, "")
