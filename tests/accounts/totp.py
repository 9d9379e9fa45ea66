"""Codes of an authenticator app, as RFC 6238 has them."""

import base64
import hashlib
import hmac
import struct
import time


def code(secret: str, *, at: float | None = None) -> str:
    """Six digits for a secret in base32, now or at that second."""
    counter = int((time.time() if at is None else at) // 30)
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", counter), hashlib.sha1).digest()
    offset = digest[-1] & 15
    number = struct.unpack(">I", digest[offset : offset + 4])[0] & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"
