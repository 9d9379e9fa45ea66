"""Channel settings at rest: encrypted JSON. Pure, but for cryptography's own randomness.

To change the key: put the new one in SECRET_KEY, the old one in
FLEETWATCH_SECRET_KEYS, restart, run `manage.py rotate_secrets`, then drop the old one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cryptography.fernet import InvalidToken, MultiFernet

from fleetwatch.lib.keyring import keyring as keyring_for

PURPOSE = b"fw.notify.config"


class SecretsUnreadableError(Exception):
    """Stored settings were encrypted by a key that is neither SECRET_KEY nor in
    FLEETWATCH_SECRET_KEYS.
    """


def keyring(keys: Sequence[str]) -> MultiFernet:
    """Encrypts by the first key, decrypts by any."""
    return keyring_for(keys, PURPOSE)


def encrypt(config: Mapping[str, str], ring: MultiFernet) -> bytes:
    """The settings, unreadable without the key."""
    return ring.encrypt(json.dumps(dict(config), sort_keys=True).encode())


def decrypt(stored: bytes, ring: MultiFernet) -> dict[str, str]:
    """The settings in the clear. Raises SecretsUnreadableError."""
    with _readable():
        return dict(json.loads(ring.decrypt(stored)))


def rotate(stored: bytes, ring: MultiFernet) -> bytes:
    """The same settings, encrypted by the first key. Raises SecretsUnreadableError."""
    with _readable():
        return ring.rotate(stored)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except InvalidToken as error:
        raise SecretsUnreadableError(
            "no key in SECRET_KEY or FLEETWATCH_SECRET_KEYS opens these settings; enter them again"
        ) from error
