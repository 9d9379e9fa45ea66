"""The bytes of a request: expanded, never beyond a limit. Pure."""

import zlib

from agent.wire import MAX_BYTES, WireError

# of zlib, by Content-Encoding: 15 is the largest window, 16 more a gzip header
WBITS = {"gzip": 31, "deflate": 15}


class TooLargeError(Exception):
    """More bytes than the door takes, compressed or expanded."""


def expand(body: bytes, encoding: str, *, limit: int = MAX_BYTES) -> bytes:
    """The body without its Content-Encoding ("" is identity).

    Raises TooLargeError when it would expand beyond `limit` (no more than that is
    ever held), WireError when it is not what its encoding says, or of another one.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in WBITS:
        raise WireError(
            "Content-Encoding",
            f"Content-Encoding is {encoding[:40]!r}, expected gzip, deflate or identity",
        )
    unpacker = zlib.decompressobj(WBITS[encoding])
    try:
        expanded = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise WireError("", f"not {encoding}: {error}") from error
    if len(expanded) > limit:
        raise TooLargeError(f"the body expands to more than {limit} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise WireError("", f"the {encoding} is cut off, or something follows it")
    return expanded
