"""The queue on disk between the windows and the hub: append, peek, ack.

One file per batch, written aside, fsynced and renamed into place, so that a file that is there is whole; `state.json`
keeps what outlives the files (the next sequence, what was dropped). A batch leaves only by ack, by set_aside (it can
never be accepted) or by the cap (the oldest goes, and is counted). Any process may be killed at any moment.

A file holds one frame per batch, more than one only after `replace` split a batch that was too large:
    magic, sequence, windows, length, CRC-32 of the payload; then the payload.
"""

import fcntl
import json
import logging
import os
import struct
import threading
import uuid
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Callable, Dict, List, Optional, Sequence, Tuple

log = logging.getLogger("agent.spool")

MAX_BYTES = 512 * 1024 * 1024  # about two months of outage of a node with 8 GPUs (3 kB per 30 s)
MAX_SET_ASIDE = 100  # poison is for people to look at; more of the same helps nobody
_FRAME = struct.Struct(">4sQIII")
_MAGIC = b"FWB1"
_WAITS, _DONE = ".batch", ".done"


class SpoolError(Exception):
    """The spool can't be used; the text says why, for the operator."""


@dataclass(frozen=True)
class Identity:
    """(node, boot_id, sequence) names a batch for ever: boot_id is one spool's life within one boot."""

    boot_id: str
    boot_start_ms: int


@dataclass(frozen=True)
class Entry:
    """A batch that waits: its sequence, how many windows it holds, and its bytes as they will be sent."""

    sequence: int
    windows: int
    payload: bytes


@dataclass
class State:
    """What a spool remembers when no file waits."""

    spool_id: str
    next_sequence: int = 0
    dropped_windows: int = 0
    boot_id: str = ""
    boot_start_ms: int = 0


class Spool:
    """The queue in one folder, for one process; its methods may be called from several threads."""

    def __init__(self, folder: Path, *, identity: Callable[[str], Identity], max_bytes: int = MAX_BYTES) -> None:
        """Opens or creates the folder; identity(spool_id) is asked for the boot's. Raises SpoolError."""
        self._folder, self._max_bytes = Path(folder), max_bytes
        self._mutex = threading.Lock()
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_file = _lock(self._folder)
            self._state = self._read_state()
            self._sizes = self._recover()
            self.identity = self._identity(identity(self._state.spool_id))
            self._save_state()
        except OSError as error:
            raise SpoolError("the spool %s can't be used: %s" % (folder, error.strerror or error)) from error

    @property
    def size_bytes(self) -> int:
        """Bytes on disk that wait."""
        with self._mutex:
            return sum(self._sizes.values())

    @property
    def dropped_windows(self) -> int:
        """Windows lost to the cap or set aside, over this spool's life."""
        return self._state.dropped_windows

    @property
    def waiting(self) -> int:
        """Files that wait."""
        with self._mutex:
            return len(self._sizes)

    def append(self, make: Callable[[int], bytes], *, windows: int) -> int:
        """Puts the batch that make(sequence) gives at the end; its sequence, once it is safe on disk.

        Where disk or cap are full the oldest batches make room. Raises SpoolError when even that does not help.
        """
        with self._mutex:
            sequence = self._state.next_sequence
            frame = _frame(Entry(sequence, windows, make(sequence)))
            self._make_room(len(frame))
            name = "%020d%s" % (sequence, _WAITS)
            while True:
                try:
                    _write_safely(self._folder / name, frame)
                    break
                except OSError as error:
                    if not self._sizes:
                        raise SpoolError("a batch can't be written to %s: %s" % (self._folder, error.strerror or error)) from error
                    self._drop_oldest()
            self._sizes[name] = len(frame)
            self._state.next_sequence = sequence + 1
            return sequence

    def peek(self) -> Optional[Entry]:
        """The oldest batch that waits; None when there is none. What the disk damaged is set aside on the way."""
        with self._mutex:
            while self._sizes:
                name = next(iter(self._sizes))
                frames = self._frames(name)
                if frames:
                    return frames[0]
                self._move_aside(name)
            return None

    def ack(self, sequence: int) -> None:
        """Forgets the batch: the hub has it. Nothing happens when it is not the oldest (the cap dropped it)."""
        with self._mutex:
            self._remove_first(sequence)

    def replace(self, sequence: int, parts: Sequence[Entry]) -> None:
        """Puts the parts in the oldest batch's place, all of them or (when killed now) none."""
        with self._mutex:
            name, frames = self._first()
            if name is not None and frames[0].sequence == sequence:
                self._rewrite(name, [*parts, *frames[1:]])

    def set_aside(self, sequence: int, *, reason: str) -> None:
        """Takes the oldest batch out for people to look at, with the reason in its name: it can never be accepted."""
        with self._mutex:
            name, frames = self._first()
            if name is None or frames[0].sequence != sequence:
                return
            self._keep_aside("%d-%s.json.gz" % (sequence, reason), frames[0].payload)
            self._count_dropped(frames[0].windows)
            self._remove_first(sequence)

    def close(self) -> None:
        """Releases the folder to another process."""
        self._lock_file.close()

    def _identity(self, current: Identity) -> Identity:
        """The current boot's, with the start it was first given: a clock that was set since must not look like a reboot."""
        if self._state.boot_id != current.boot_id:
            self._state.boot_id, self._state.boot_start_ms = current.boot_id, current.boot_start_ms
        return Identity(self._state.boot_id, self._state.boot_start_ms)

    def _first(self) -> Tuple[Optional[str], List[Entry]]:
        name = next(iter(self._sizes), None)
        frames = self._frames(name) if name is not None else []
        return (name, frames) if frames else (None, [])

    def _frames(self, name: str) -> List[Entry]:
        return _unframe((self._folder / name).read_bytes())

    def _remove_first(self, sequence: int) -> None:
        name, frames = self._first()
        if name is None or frames[0].sequence != sequence:
            return
        if frames[1:]:
            self._rewrite(name, frames[1:])
            return
        self._forget(name)

    def _rewrite(self, name: str, frames: Sequence[Entry]) -> None:
        content = b"".join(_frame(entry) for entry in frames)
        _write_safely(self._folder / name, content)
        self._sizes[name] = len(content)

    def _forget(self, name: str) -> None:
        """Deletes the file. The last one is emptied and renamed first, which a full disk allows too: until the state is
        saved, its name is what keeps its sequence from being used again."""
        path = self._folder / name
        if len(self._sizes) > 1:
            path.unlink()
        else:
            done = path.with_suffix(_DONE)
            os.replace(path, done)
            os.truncate(done, 0)
            self._save_state()
        del self._sizes[name]

    def _make_room(self, wanted: int) -> None:
        while self._sizes and sum(self._sizes.values()) + wanted > self._max_bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        name = next(iter(self._sizes))
        windows = sum(entry.windows for entry in self._frames(name))
        log.warning("spool full, oldest batch dropped file=%s windows=%d", name, windows)
        self._count_dropped(windows)
        self._forget(name)

    def _count_dropped(self, windows: int) -> None:
        self._state.dropped_windows += windows
        self._save_state()

    def _move_aside(self, name: str) -> None:
        log.error("batch file damaged on disk, set aside file=%s", name)
        self._keep_aside(name + ".damaged", (self._folder / name).read_bytes())
        self._forget(name)

    def _keep_aside(self, name: str, content: bytes) -> None:
        folder = self._folder / "set-aside"
        try:
            folder.mkdir(exist_ok=True)
            for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[: 1 - MAX_SET_ASIDE or None]:
                old.unlink()
            (folder / name).write_bytes(content)
        except OSError as error:
            log.warning("a copy of the refused batch could not be kept: %s", error)

    def _read_state(self) -> State:
        """The state; a new spool's life (and so a new boot_id) when there is none or it is damaged."""
        try:
            known = json.loads((self._folder / "state.json").read_text())
            return State(**{name: kind(known[name]) for name, kind in State.__annotations__.items()})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return State(spool_id=uuid.uuid4().hex)

    def _save_state(self) -> None:
        """On a full disk the old state stays: the files' names still carry the sequence."""
        try:
            _write_safely(self._folder / "state.json", json.dumps(asdict(self._state)).encode())
        except OSError as error:
            log.warning("spool state not saved: %s", error)
            return
        for done in self._folder.glob("*" + _DONE):
            done.unlink()

    def _recover(self) -> Dict[str, int]:
        """The files that wait, oldest first, after whatever killed the process before us."""
        for torn in self._folder.glob("*.tmp"):
            torn.unlink()
        used = [path for path in self._folder.iterdir() if path.suffix in (_WAITS, _DONE) and path.stem.isdigit()]
        for path in used:
            self._state.next_sequence = max(self._state.next_sequence, int(path.stem) + 1)
        waiting = sorted(path for path in used if path.suffix == _WAITS)
        return {path.name: path.stat().st_size for path in waiting}


def _lock(folder: Path) -> IO[str]:
    """An open file that only one process at a time can hold; the kernel lets go of it however we end."""
    handle = open(folder / "lock", "w")  # noqa: SIM115 - held as long as the spool
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise SpoolError("another agent uses the spool %s" % folder) from error
    return handle


def _frame(entry: Entry) -> bytes:
    header = _FRAME.pack(_MAGIC, entry.sequence, entry.windows, len(entry.payload), zlib.crc32(entry.payload))
    return header + entry.payload


def _unframe(content: bytes) -> List[Entry]:
    """The batches of a file; none at all when any of it is damaged."""
    entries, place = [], 0
    while place < len(content):
        if len(content) < place + _FRAME.size:
            return []
        magic, sequence, windows, length, checksum = _FRAME.unpack_from(content, place)
        payload = content[place + _FRAME.size : place + _FRAME.size + length]
        if magic != _MAGIC or len(payload) != length or zlib.crc32(payload) != checksum:
            return []
        entries.append(Entry(sequence, windows, payload))
        place += _FRAME.size + length
    return entries


def _write_safely(path: Path, content: bytes) -> None:
    """The file with this content, or (when anything stops us) as it was; on disk when this returns."""
    aside = path.with_name(path.name + ".tmp")
    with open(aside, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
