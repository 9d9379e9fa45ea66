"""A whole request as WSGI's environment, and a WSGI application's answer as a whole."""

import io
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

from django.db import close_old_connections

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
PIECE_BYTES = 32_768  # of an answer, sent at once
NOT_PREFIXED = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}


class FileAnswer:
    """WSGI's file wrapper: a file is sent from where it lies, and nobody's memory holds it."""

    def __init__(self, file: BinaryIO, block_size: int = 8192) -> None:
        self.file = file

    def __iter__(self) -> "FileAnswer":
        return self

    def __next__(self) -> bytes:
        if part := self.file.read(PIECE_BYTES):
            return part
        raise StopIteration

    def close(self) -> None:
        """Ends the response too: Django put its own closing there."""
        self.file.close()


OF_EVERY_REQUEST: Environ = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
    "wsgi.file_wrapper": FileAnswer,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that needs its thread no more; `body` is a file or bytes."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes | FileAnswer


def environ_of(scope: Mapping[str, Any], body: bytes) -> Environ:
    """The environment of a request whose body is there."""
    host, port = scope["server"] or ("localhost", 80)
    environ: Environ = {
        **OF_EVERY_REQUEST,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0] if scope["client"] else "",
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
    }
    environ |= _header_variables(scope["headers"])
    environ["CONTENT_LENGTH"] = str(len(body))  # it is all there, however it came
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ


def _header_variables(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Each header by its name in an environment, several of one name as one."""
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in headers:
        if key := _key_of(name):
            values[key].append(value.decode("latin-1"))
    return {key: ("; " if key == "HTTP_COOKIE" else ",").join(values[key]) for key in values}


@lru_cache(maxsize=128)
def _key_of(header: bytes) -> str | None:
    """The header's name in an environment; None where there is none: X_Forwarded_For would become
    what X-Forwarded-For becomes.
    """
    name = header.decode("latin-1")
    if "_" in name:
        return None
    return NOT_PREFIXED.get(name) or "HTTP_" + name.upper().replace("-", "_")


def encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """The headers as they are sent."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def answer(application: Application, environ: Environ) -> Answer:
    """What the application answers, in this thread, which then is free."""
    begun: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        begun["status"] = int(status.split(" ", 1)[0])
        begun["headers"] = encoded(headers)

    result = application(environ, start_response)
    if isinstance(result, FileAnswer):
        close_old_connections()  # the response is closed later, by another thread
        return Answer(begun["status"], begun["headers"], result)
    try:
        body = b"".join(result)
    finally:
        if hasattr(result, "close"):
            result.close()
    return Answer(begun["status"], begun["headers"], body)
