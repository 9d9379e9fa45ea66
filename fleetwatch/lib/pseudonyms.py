"""What stands for a name that may not be shown: the same as long as SECRET_KEY is, and told by
nobody who does not have it. Pure.
"""

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from fleetwatch.lib.keyring import derived

# what keys are for
NAMES = b"names"
NUMBERS = b"numbers"
DIGITS = 10  # of 10,000 names two are the same once in 20,000 keys
_NUMBER_BYTES = 8


def pseudonym(kind: str, name: str, *, secret: str) -> str:
    """Such as `person 7f3a91c20b`: of the same name of a kind the same."""
    digest = hashlib.blake2b(
        f"{kind}\0{name}".encode(), key=derived(secret, NAMES), digest_size=DIGITS // 2
    )
    return f"{kind} {digest.hexdigest()}"


def sealed(kind: str, number: int, *, secret: str) -> str:
    """Such as `job-VGhl…`: of another number another, and opened() makes the number of it."""
    shut = _cipher(secret).encrypt(number.to_bytes(_NUMBER_BYTES), [kind.encode()])
    return f"{kind}-{base64.urlsafe_b64encode(shut).decode()}"


def opened(kind: str, text: str, *, secret: str) -> int | None:
    """The number; None for a text that is none of a number of that kind under that secret."""
    start, _, shut = text.partition("-")
    if start != kind:
        return None
    try:
        number = _cipher(secret).decrypt(base64.urlsafe_b64decode(shut), [kind.encode()])
    except (InvalidTag, binascii.Error, ValueError):
        return None
    return int.from_bytes(number)


def _cipher(secret: str) -> AESSIV:
    return AESSIV(derived(secret, NUMBERS))
