"""The API server, asked by the agent's service account: single objects, from the server's cache,
each at most once in a while.

The agent asks for the pods that hold GPUs, by name: a node's list of all its pods is half a
megabyte, and ten thousand agents would ask for it. So the account needs no right to list pods.
"""

import contextlib
import http.client
import json
import logging
import os
import ssl
from typing import Any, Dict, Mapping, Optional, Tuple
from urllib.parse import quote, urlencode

from agent.json_parts import part, parts

log = logging.getLogger("agent.workloads")

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TIMEOUT_S = 4.0
MAX_BYTES = 4 * 1024 * 1024  # etcd keeps no object above 1.5 MiB
MAX_TOKEN_BYTES = 64 * 1024
PAUSE_MS = 60_000  # after a failure nothing is asked for this long
TYPES = {"PATCH": "application/merge-patch+json"}
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")  # Kubernetes 1.34, 1.33, 1.32
DRA_PAGE = 100
DRA_MAX_PAGES = 10

Answer = Mapping[str, Any]
UUIDs = Dict[Tuple[str, str], str]  # by pool and device of DRA


class APIError(Exception):
    """The API server does not answer, or refuses; `status` is HTTP's where it gave one."""

    def __init__(self, text: str, status: Optional[int] = None) -> None:
        super().__init__(text)
        self.status = status


class API:
    """One cluster's API server."""

    def __init__(self, host: str, port: int, account: str = ACCOUNT) -> None:
        self._host = host
        self._port = port
        self._account = account
        self._again_ms = 0
        self._trouble = ""

    def pod(self, namespace: str, name: str, *, now_ms: int) -> Optional[Answer]:
        """The pod; {} where there is none of the name, None where the server can't tell now."""
        return self._calm(
            "/api/v1/namespaces/%s/pods/%s?resourceVersion=0"
            % (quote(namespace, ""), quote(name, "")),
            now_ms,
        )

    def node(self, name: str, *, now_ms: int) -> Optional[Answer]:
        """The node; {} where there is none of the name, None where the server can't tell now."""
        return self._calm("/api/v1/nodes/%s?resourceVersion=0" % quote(name, ""), now_ms)

    def gpu_names(self, node: str, driver: str, *, now_ms: int) -> Optional[UUIDs]:
        """(pool, device) -> UUID of what the DRA driver published for the node; None where the
        server can't tell now.
        """
        for version in DRA_VERSIONS:
            names = self._published(
                version, "spec.nodeName=%s,spec.driver=%s" % (node, driver), now_ms
            )
            if names is None or names:
                return names
        return {}

    def _published(self, version: str, selector: str, now_ms: int) -> Optional[UUIDs]:
        """Of all pages; {} where the server does not know this version."""
        names: UUIDs = {}
        going = ""
        for _ in range(DRA_MAX_PAGES):
            query = urlencode({"fieldSelector": selector, "limit": DRA_PAGE, "continue": going})
            answer = self._calm(
                "/apis/resource.k8s.io/%s/resourceslices?%s" % (version, query), now_ms
            )
            if answer is None:
                return None
            names.update(_uuids(answer))
            going = str(part(answer, "metadata").get("continue") or "")
            if not going:
                break
        return names

    def _calm(self, path: str, now_ms: int) -> Optional[Answer]:
        """The answer of `get`; after a failure None for a minute."""
        if now_ms < self._again_ms:
            return None
        try:
            answer = self.get(path)
        except APIError as error:
            if str(error) != self._trouble:
                log.warning("the Kubernetes API server does not answer: %s", error)
            self._trouble = str(error)
            self._again_ms = now_ms + PAUSE_MS
            return None
        self._trouble = ""
        return answer

    def get(self, path: str) -> Answer:
        """The object; {} where there is none. Raises APIError."""
        return self._asked("GET", path, None)

    def change(self, method: str, path: str, body: Answer) -> None:
        """Deletes the object, or merges the body into it (PATCH). Raises APIError, also where there
        is none.
        """
        if not self._asked(method, path, body):
            raise APIError("%s: there is none" % path.partition("?")[0], 404)

    def _asked(self, method: str, path: str, body: Optional[Answer]) -> Answer:
        try:
            context = ssl.create_default_context(cafile=os.path.join(self._account, "ca.crt"))
            headers = self._headers(method)
            text = None if body is None else json.dumps(body)
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=TIMEOUT_S, context=context
            )
            with contextlib.closing(connection):
                connection.request(method, path, body=text, headers=headers)
                return _read(connection.getresponse(), path.partition("?")[0])
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise APIError(
                "%s:%d: %s" % (self._host, self._port, error or type(error).__name__)
            ) from error

    def _headers(self, method: str) -> Dict[str, str]:
        # read anew each time: the kubelet renews it every hour
        with open(os.path.join(self._account, "token"), encoding="ascii") as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
        return {
            "Authorization": "Bearer " + token,
            "Accept": "application/json",
            "Content-Type": TYPES.get(method, "application/json"),
            "User-Agent": "fleetwatch-agent",
        }


def from_environment(environment: Mapping[str, str], account: str = ACCOUNT) -> Optional[API]:
    """The API server of the cluster that this process runs in as a pod; None outside of one."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not port.isdigit() or not os.path.exists(os.path.join(account, "token")):
        return None
    return API(host, int(port), account)


def _read(response: http.client.HTTPResponse, path: str) -> Answer:
    body = response.read(MAX_BYTES + 1)
    if response.status == 404:
        return {}
    if response.status not in (200, 202):  # 202: it will be deleted
        text = "%s: %d %.80s" % (path, response.status, response.reason)
        raise APIError(text, response.status)
    if len(body) > MAX_BYTES:
        raise APIError("%s: more than %d bytes" % (path, MAX_BYTES))
    answer = json.loads(body.decode("utf-8"))
    if not isinstance(answer, dict):
        raise APIError("%s: no object" % path)
    return answer


def _uuids(answer: Answer) -> UUIDs:
    uuids: UUIDs = {}
    for item in parts(answer, "items"):
        spec = part(item, "spec")
        pool = str(part(spec, "pool").get("name"))
        for device in parts(spec, "devices"):
            inner = part(device, "basic") or device  # v1beta1 has a level more
            uuid = part(part(inner, "attributes"), "uuid").get("string")
            if isinstance(uuid, str):
                uuids[pool, str(device.get("name"))] = uuid
    return uuids
