"""Channels' settings, in and out of their encrypted column."""

from collections.abc import Mapping

from cryptography.fernet import MultiFernet
from django.conf import settings

from fleetwatch.notify import secrets
from fleetwatch.notify.models import Channel


def config_of(channel: Channel) -> dict[str, str]:
    """The channel's settings in the clear. Raises SecretsUnreadableError."""
    return secrets.decrypt(bytes(channel.config), _ring())


def readable_config(channel: Channel) -> dict[str, str]:
    """The channel's settings in the clear, nothing where no key opens them."""
    try:
        return config_of(channel)
    except secrets.SecretsUnreadableError:
        return {}  # the form then asks for the secret again


def encrypted(config: Mapping[str, str]) -> bytes:
    """The settings as their column has them."""
    return secrets.encrypt(config, _ring())


def rotated(stored: bytes) -> bytes:
    """The column encrypted by the first key. Raises SecretsUnreadableError."""
    return secrets.rotate(stored, _ring())


def _ring() -> MultiFernet:
    return secrets.keyring([settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS])
