"""A server on loopback that keeps what is posted to it and answers as it is told."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], str]


@dataclass(frozen=True)
class Request:
    """What was posted; header names are lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class PostServer:
    """Answers what is in `answers` first, then what `judge` makes of a request."""

    judge: Callable[[Request], Answer]
    answers: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    lost_answers: int = 0  # judged, and the connection is gone before the answer

    def __post_init__(self) -> None:
        post_server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, extra, text = post_server.answer(Request(self.path, headers, body))
                if post_server.lost_answers:
                    post_server.lost_answers -= 1
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | extra).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.answers.pop(0) if self.answers else self.judge(request)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
