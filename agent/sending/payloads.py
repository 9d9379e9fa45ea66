"""A batch's bytes as they wait and as a hub takes them: packed, or as gzip JSON.

The spool holds batches in packed form; in an earlier version's, and on its way to an earlier hub, a
batch is gzip JSON.
"""

import gzip
import zlib
from typing import Mapping, NamedTuple

from agent import packed, wire

_GZIP_MAGIC = b"\x1f\x8b"


class Body(NamedTuple):
    """What is posted, and the headers that say what it is."""

    payload: bytes
    headers: Mapping[str, str]


PACKED = {"Content-Type": packed.CONTENT_TYPE, "Content-Encoding": "deflate"}
GZIP_JSON = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


def is_packed(payload: bytes) -> bool:
    """Whether the batch is in packed form."""
    return payload[:2] != _GZIP_MAGIC


def batch_of(payload: bytes) -> wire.Batch:
    """The batch. Raises ValueError, OSError, EOFError or zlib.error for a damaged one."""
    if is_packed(payload):
        return wire.parse(packed.unpack(zlib.decompress(payload)))
    return wire.decode(gzip.decompress(payload))


def body_for(payload: bytes, *, takes_packed: bool) -> Body:
    """The batch as the hub takes it."""
    if is_packed(payload) and takes_packed:
        return Body(payload, PACKED)
    return Body(as_gzip_json(payload), GZIP_JSON)


def as_gzip_json(payload: bytes) -> bytes:
    """The batch as gzip JSON, which people can read too; a damaged one as it is."""
    if not is_packed(payload):
        return payload
    try:
        return wire.compress(wire.encode(batch_of(payload)))
    except (ValueError, zlib.error):
        return payload
