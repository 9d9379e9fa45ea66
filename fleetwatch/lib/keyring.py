"""What encrypts at rest. Keys are derived from SECRET_KEY (encrypts) and from the older keys in
FLEETWATCH_SECRET_KEYS (still decrypt), for one purpose each: the same secret signs sessions too.
"""

import base64
import hashlib
from collections.abc import Sequence

from cryptography.fernet import Fernet, MultiFernet


def keyring(keys: Sequence[str], purpose: bytes) -> MultiFernet:
    """Encrypts by the first key, decrypts by any; the purpose has at most 16 bytes (BLAKE2)."""
    return MultiFernet([Fernet(base64.urlsafe_b64encode(derived(key, purpose))) for key in keys])


def derived(key: str, purpose: bytes) -> bytes:
    """32 bytes that are for that purpose alone."""
    return hashlib.blake2b(key.encode(), digest_size=32, person=purpose).digest()
