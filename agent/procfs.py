"""Files of /proc and /sys: small, bounded, and gone at any moment."""

import os
from itertools import islice
from typing import Dict, List, Optional

MAX_BYTES = 64 * 1024
MAX_ENTRIES = 4096  # of any folder


def read(*path: object, limit: int = MAX_BYTES) -> Optional[str]:
    """The first `limit` bytes as text; None where the file is not there or not for us.

    The path is given in parts: folders and numbers, then the file.
    """
    try:
        descriptor = os.open("/".join(map(str, path)), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    parts: List[bytes] = []
    try:
        while limit > 0:
            part = os.read(descriptor, limit)  # the kernel hands out some files a page at a time
            if not part:
                break
            parts.append(part)
            limit -= len(part)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return b"".join(parts).decode("utf-8", "replace")


def text(*path: object, limit: int = MAX_BYTES) -> str:
    """As read; "" for None."""
    return read(*path, limit=limit) or ""


def names(path: str) -> List[str]:
    """What a folder holds; nothing where it can't be read."""
    try:
        return os.listdir(path)
    except OSError:
        return []


def entries(path: str, limit: int = MAX_ENTRIES) -> "List[os.DirEntry[str]]":
    """What a folder holds, so much of it at most; nothing where it can't be read."""
    try:
        with os.scandir(path) as scanned:
            return list(islice(scanned, limit))
    except OSError:
        return []


def folders(path: str) -> "List[os.DirEntry[str]]":
    """The folders in a folder, links left out."""
    return [entry for entry in entries(path) if entry.is_dir(follow_symlinks=False)]


def written_ms(entry: "os.DirEntry[str]") -> int:
    """When the entry was written, in milliseconds since the epoch; 0 when it is gone."""
    try:
        return int(entry.stat(follow_symlinks=False).st_mtime * 1000)
    except OSError:
        return 0


def numbers(text: Optional[str]) -> Dict[str, int]:
    """`name value` lines as a mapping (cpu.stat, io); lines of another shape are left out."""
    pairs = [line.replace(":", " ").split() for line in (text or "").splitlines()]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def whole(text: Optional[str]) -> Optional[int]:
    """The number that the file holds; None where it holds none ("max")."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdigit() else None


def sys_root(proc_root: str) -> str:
    """Where /sys is, given where /proc is: beside it, also where a container has the host's both
    under /host.
    """
    return os.path.join(os.path.dirname(os.path.abspath(proc_root)), "sys")
