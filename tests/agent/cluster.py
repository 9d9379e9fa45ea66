"""A Kubernetes API server: HTTPS with a certificate of its own, tokens, and objects by path."""

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN = "eyJhbGciOiJSUzI1NiJ9.first"


@dataclass
class Cluster:
    """`account` is the folder that a pod finds its service account in.

    `objects` are answered by path without query; what is changed of them is as the real server
    has it: preconditions, resource versions, dry runs, a `scale` below what has replicas.
    """

    port: int
    account: Path
    objects: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    tokens: tuple[str, ...] = (TOKEN,)
    asked: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)  # that were made: method, path
    forbidden: tuple[str, ...] = ()  # methods


def pod(
    namespace: str = "ml",
    name: str = "train-0",
    uid: str = "0b7c1111-2222-3333-4444-555566667777",
    **changes: Any,
) -> dict[str, Any]:
    """A running pod, as the API server shows it."""
    metadata = {
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "creationTimestamp": "2026-11-06T05:48:00Z",
    }
    answer: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {**metadata, **changes.pop("metadata", {})},
        "spec": {
            "nodeName": "gpu-07",
            "containers": [{"name": "main", "env": [{"name": "TOKEN", "value": "hunter2"}]}],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-11-06T05:48:53Z",
            "containerStatuses": [{"restartCount": 2}, {"restartCount": 1}],
        },
    }
    for part, values in changes.items():
        answer[part] = {**answer[part], **values}
    return answer


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Answers until the end of the block."""
    account = folder / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(TOKEN + "\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(folder, account / "ca.crt"))
    cluster = Cluster(0, account)

    class Handler(_Handler):
        state = cluster

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    cluster.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: Cluster

    def do_GET(self) -> None:
        self.state.asked.append(self.path)
        found = self.state.objects.get(self.path) or self._object(self._path)
        self._answer(self._status(found), found)

    def do_DELETE(self) -> None:
        found = self._object(self._path)
        status = self._status(found)
        wanted = self._body().get("preconditions", {})
        if status == 200 and any(found["metadata"][name] != wanted[name] for name in wanted):
            status = 409
        if self._is_done(status):
            del self.state.objects[self._path]
        self._answer(status, found)

    def do_PATCH(self) -> None:
        found = self._object(self._path.removesuffix("/scale"))
        status = self._status(found)
        body = self._body()
        if self.headers["Content-Type"] != "application/merge-patch+json":
            status = 415
        version = body.get("metadata", {}).get("resourceVersion")
        if status == 200 and found["metadata"]["resourceVersion"] != version:
            status = 409
        if self._is_done(status):
            found["spec"].update(body["spec"])
        self._answer(status, found)

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _object(self, path: str) -> Any:
        return self.state.objects.get(path)

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _status(self, found: Any) -> int:
        known = ["Bearer " + token for token in self.state.tokens]
        if self.headers.get("Authorization") not in known:
            return 401
        if self.command in self.state.forbidden:
            return 403
        return 404 if self.state.status == 200 and found is None else self.state.status

    def _is_done(self, status: int) -> bool:
        """Noted, where it is no dry run."""
        is_done = status == 200 and "dryRun=All" not in self.path
        if is_done:
            self.state.changes.append((self.command, self._path))
        return is_done

    def _answer(self, status: int, found: Any) -> None:
        is_raw = isinstance(found, bytes)
        body = found if is_raw else json.dumps(found or {"kind": "Status", "code": status}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _certificate(folder: Path, public: Path) -> Path:
    """Key and certificate in one file; the certificate alone in `public`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    signed = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both = folder / "server.pem"
    both.write_bytes(private + public.read_bytes())
    return both
