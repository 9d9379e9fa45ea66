"""The bytes of a request: expanded, never beyond a limit. Pure."""

import gzip
import zlib

from agent.wire import MAX_BYTES, WireError

GZIP_WBITS = 31  # zlib: 16 + 15, a gzip header and the largest window


class TooLargeError(Exception):
    """More bytes than the door takes, compressed or expanded."""


def expand(body: bytes, encoding: str, *, limit: int = MAX_BYTES) -> bytes:
    """The body without its Content-Encoding ("" is identity).

    Raises TooLargeError when it would expand beyond `limit` (no more than that is
    ever held), WireError when it is no gzip or of another encoding.
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise WireError(
            "Content-Encoding", f"Content-Encoding is {encoding[:40]!r}, expected gzip or identity"
        )
    unpacker = zlib.decompressobj(GZIP_WBITS)
    try:
        expanded = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise WireError("", f"not gzip: {error}") from error
    if len(expanded) > limit:
        raise TooLargeError(f"the body expands to more than {limit} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise WireError("", "the gzip is cut off, or something follows it")
    return expanded


def as_gzip(body: bytes, encoding: str) -> bytes:
    """The body as it is stored: gzip as it came, identity packed."""
    return body if encoding == "gzip" else gzip.compress(body, compresslevel=6, mtime=0)
