"""Named pieces of bytes in one folder, oldest first; in memory for as long as the disk takes none.

A full, read-only or failing disk must not cost a batch and must not end the agent: what can't be
written is held in memory up to MEMORY_BYTES and written once the disk takes it. What can't be read
is passed over, what can't be removed stays and is sent again after a restart, which changes nothing
on the hub.
"""

import errno
import logging
import os
import struct
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Container, List, Optional

log = logging.getLogger("agent.sending.store")

# half a day of a node with 8 GPUs (3 kB per 30 s), a seventh of the agent's memory
MEMORY_BYTES = 4 * 1024 * 1024
DISK_TROUBLE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO))
_FRAME = struct.Struct(">4sQIII")
_MAGIC = b"FWB1"


@dataclass(frozen=True)
class Entry:
    """A batch that waits: its sequence, how many windows it holds, and its bytes as they will be
    sent.
    """

    sequence: int
    windows: int
    payload: bytes


class Store:
    """The pieces of one folder, for one process; not for several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # a dict is slow at its front once many have left there
        self._sizes: "OrderedDict[str, int]" = OrderedDict()
        self._memory: "OrderedDict[str, bytes]" = OrderedDict()
        self._trouble: Optional[int] = None  # the errno last said
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def is_in_memory(self) -> bool:
        """True while something waits that is not on disk."""
        return bool(self._memory)

    @property
    def is_memory_full(self) -> bool:
        return sum(map(len, self._memory.values())) > MEMORY_BYTES

    def is_last_on_disk(self, name: str) -> bool:
        """True for the only piece that is not in memory."""
        return name not in self._memory and len(self._sizes) - len(self._memory) == 1

    def first(self, *, without: Container[str] = ()) -> Optional[str]:
        """The name of the oldest piece that is not one of those."""
        return next((name for name in self._sizes if name not in without), None)

    def first_in_memory(self) -> str:
        return next(iter(self._memory))

    def write(self, name: str, content: bytes) -> bool:
        """True once the piece is safe on disk; False when the disk does not take it, which is said
        once.
        """
        try:
            write_safely(self._folder / name, content)
        except OSError as error:
            self.say(error)
            # somebody cleaned up: the next write finds a folder again
            if error.errno == errno.ENOENT:
                try:
                    self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                except OSError as trouble:
                    self.say(trouble)
            return False
        self._memory.pop(name, None)
        self.count(name, len(content))
        if self._trouble is not None:
            log.info("the disk takes batches again folder=%s", self._folder)
            self._trouble = None
        return True

    def hold(self, name: str, content: bytes) -> None:
        """Keeps the piece in memory."""
        self._memory[name] = content
        self.count(name, len(content))

    def settle(self, limit: int = 100) -> bool:
        """Writes what is held in memory, oldest first; False when the disk still takes nothing."""
        for name in list(self._memory)[:limit]:
            if not self.write(name, self._memory[name]):
                return False
        return not self._memory

    def read(self, name: str) -> bytes:
        """The piece. Raises OSError."""
        return self._memory[name] if name in self._memory else (self._folder / name).read_bytes()

    def remove(self, name: str) -> None:
        """Forgets the piece, also where the disk does not let go of it."""
        is_on_disk = name not in self._memory
        self.forget(name)
        if is_on_disk:
            remove_if_possible(self._folder / name)

    def forget(self, name: str) -> None:
        """The piece counts no longer; its file is not touched."""
        self._memory.pop(name, None)
        self.size_bytes -= self._sizes.pop(name)

    def say(self, error: OSError) -> None:
        """One line for each kind of trouble with the disk."""
        if error.errno != self._trouble:
            log.error(
                "the disk can't be written, batches wait in memory folder=%s: %s",
                self._folder,
                error.strerror or error,
            )
            self._trouble = error.errno

    def count(self, name: str, size: int) -> None:
        """A piece of this size is there, on disk or in memory."""
        self.size_bytes += size - self._sizes.get(name, 0)
        self._sizes[name] = size


def frame(entry: Entry) -> bytes:
    """Magic, sequence, windows, length and CRC-32 of the payload; then the payload."""
    header = _FRAME.pack(
        _MAGIC, entry.sequence, entry.windows, len(entry.payload), zlib.crc32(entry.payload)
    )
    return header + entry.payload


def unframe(content: bytes, *, is_torn: bool = False) -> List[Entry]:
    """The batches of a file; none at all when any of it is damaged, or those before the damage
    where it may be torn.
    """
    entries = []
    place = 0
    while place + _FRAME.size <= len(content):
        magic, sequence, windows, length, checksum = _FRAME.unpack_from(content, place)
        end = place + _FRAME.size + length
        payload = content[place + _FRAME.size : end]
        if magic != _MAGIC or len(payload) != length or zlib.crc32(payload) != checksum:
            break
        entries.append(Entry(sequence, windows, payload))
        place = end
    return entries if is_torn or place == len(content) else []


def write_safely(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """The file with this content, or (when anything stops us) as it was; on disk when this returns.

    Raises OSError.
    """
    aside = path.with_name(path.name + ".tmp")
    try:
        aside.unlink(missing_ok=True)  # whoever made it could read what is written now
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(aside, path)
    except OSError:
        remove_if_possible(aside)  # half a file must not keep a full disk full
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_if_possible(path: Path) -> None:
    """Removes the file; one that the disk keeps stays."""
    try:
        path.unlink()
    except OSError as error:
        log.debug("left where it is: %s", error)
