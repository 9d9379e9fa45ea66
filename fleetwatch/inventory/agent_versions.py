"""Versions of agents, as their nodes tell them. Pure."""

import re
from typing import Any

_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}")


def is_older(version: Any, than: str) -> bool:
    """True for a lower version number; False for one that can't be compared (another sender's, a
    build's).
    """
    numbers = _numbers(version)
    others = _numbers(than)
    return numbers is not None and others is not None and numbers < others


def _numbers(version: Any) -> tuple[int, ...] | None:
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        return None
    return tuple(map(int, version.split(".")))
