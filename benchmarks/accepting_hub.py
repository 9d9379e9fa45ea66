"""A hub that takes every batch, over TLS, and counts what went over the wire."""

import socket
import ssl
import struct
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agent.sending.payloads import batch_of
from fleetwatch.ingest.taken_forms import FORMS

# offset of tcpi_bytes_acked in struct tcp_info (linux/tcp.h); tcpi_bytes_received follows
BYTES_ACKED = 120


def transferred_bytes(connection: socket.socket) -> int:
    """What TCP carried both ways so far, TLS and its handshake included, IP and TCP headers not."""
    return sum(
        struct.unpack_from(
            "QQ", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), BYTES_ACKED
        )
    )


def certificate(folder: Path) -> None:
    """cert.pem and key.pem of 127.0.0.1, signed by themselves."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )


class AcceptingHub:
    """Answers 200 to everything; `carried_bytes` is what its connections carried, `batches` how
    many came.
    """

    def __init__(self, folder: Path) -> None:
        self.batches = self.last_windows = self.last_bytes = 0
        self._carried: dict[tuple[str, int], int] = {}  # by the connection's other end
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hub.take(body)
                answer = b'{"stored": 1, "duplicate": 0, "next_flush_s": 30, "actions": []}'
                self.send_response(200)
                for name, text in {"Content-Length": str(len(answer)), **FORMS}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(answer)
                hub.carried(self)

            def log_message(self, *_: Any) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def carried_bytes(self) -> int:
        return sum(self._carried.values())

    def take(self, body: bytes) -> None:
        """One more batch."""
        self.batches += 1
        self.last_bytes = len(body)
        self.last_windows = len(batch_of(body).windows["gpu"])

    def carried(self, handler: BaseHTTPRequestHandler) -> None:
        """Notes how far this connection has come."""
        self._carried[handler.client_address] = transferred_bytes(handler.connection)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
