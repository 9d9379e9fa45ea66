"""The head of a request that brings a batch, as agents and proxies write it, read in one go: what
is written in any other way is left to the parser of all requests. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fleetwatch.ingest import door as ingest

_LINE = f"POST {ingest.PATH} HTTP/1.1\r\n".encode()
_END = b"\r\n\r\n"
# lines of a name and printable ASCII: nothing in them can be read in two ways
_LINES = re.compile(rb"(?:[A-Za-z0-9-]{1,64}:[\x20-\x7e]*\r\n){1,32}")
# of a body; Python raises for a number of thousands of digits
_LENGTH = re.compile(rb"[0-9]{1,9}")
# that say where a body ends, or that more is expected than an answer
_UNUSUAL = frozenset(
    {b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer", b"http2-settings"}
)
MAX_BYTES = 8192


class BatchHead(NamedTuple):
    """Its headers by their names in lower case, each of which is there once."""

    headers: Mapping[bytes, bytes]
    size: int  # of the head
    body_size: int

    @property
    def is_last(self) -> bool:
        """Whether its sender wants the connection closed."""
        return self.headers.get(b"connection", b"").lower() == b"close"


def read(data: bytes) -> BatchHead | None:
    """The head that the bytes begin with; None where they begin with anything but the whole and
    plain head of a batch.
    """
    if not data.startswith(_LINE):
        return None
    end = data.find(_END, 0, MAX_BYTES) + len(b"\r\n")
    if _LINES.fullmatch(data, len(_LINE), end) is None:
        return None
    headers = _headers(data[len(_LINE) : end].split(b"\r\n")[:-1])
    if headers is None:
        return None
    return BatchHead(headers, end + len(b"\r\n"), int(headers[b"content-length"]))


def _headers(lines: Sequence[bytes]) -> Mapping[bytes, bytes] | None:
    """By their names in lower case; None where one is there twice, or says what agents do not."""
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip(b" ")
    is_plain = len(headers) == len(lines) and _UNUSUAL.isdisjoint(headers)
    return headers if is_plain and _is_usual(headers) else None


def _is_usual(headers: Mapping[bytes, bytes]) -> bool:
    """Whether they name a host, a length of a batch, and nothing of the connection but its end."""
    length = headers.get(b"content-length", b"")
    return bool(
        headers.get(b"host")
        and headers.get(b"connection", b"close").lower() in (b"close", b"keep-alive")
        and _LENGTH.fullmatch(length)
        and 0 < int(length) <= ingest.MAX_PACKED
    )
