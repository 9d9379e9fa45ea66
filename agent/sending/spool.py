"""The queue between the windows and the hub: append, peek, ack.

One file per batch, written aside, fsynced and renamed into place, so that a file that is there is
whole; `state.json` keeps what outlives the files (the next sequence, what was dropped). A batch
leaves only by ack, by set_aside (it can never be accepted) or by the cap (the oldest goes, and is
counted). While the disk takes nothing, batches wait in memory.

What can be lost, and why no more is fsynced than this:
- kill -9, crash: the window that is still open, at most 15 s. Closed windows are noted in `draft`
  at once, which is not fsynced (the kernel has it), and become a batch at the next start.
- power cut: what is not yet a batch, --flush-s and the open window, 45 s. A batch is fsynced, with
  its folder, before append returns; an fsync per window would triple the writes of 10,000 nodes
  for 20 s more.
- a disk that takes nothing, then either of both: what waited in memory (store.py).
What was sent but not yet acknowledged is sent again, which changes nothing on the hub.

A file holds one frame per batch; more than one after `replace` split a batch, or for windows of a
killed agent.
"""

import fcntl
import json
import logging
import os
import random
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Callable, List, Optional, Sequence, Set, Tuple

from agent.errors import AgentError
from agent.sending.payloads import as_gzip_json
from agent.sending.store import (
    DISK_TROUBLE,
    Entry,
    Store,
    frame,
    remove_if_possible,
    unframe,
    write_safely,
)

log = logging.getLogger("agent.sending.spool")

MAX_BYTES = 512 * 1024 * 1024  # about two months of outage of a node with 8 GPUs (3 kB per 30 s)
MAX_PASSED_OVER = 100
MAX_SET_ASIDE = 100  # poison is for people to look at; more of the same helps nobody
# The state can't be saved either while batches wait in memory. A later process, which can't know of
# them, must not give their numbers again under the same boot_id: they are numbered from a random
# place far above. split.py keeps the bits from 40 on for the parts of a batch
JUMP = (2**20, 2**28)
LAST_NUMBER = 2**40 - 2**28
_WAITS = ".batch"
_DONE = ".done"
_DRAFT = "draft"
_MAX_DRAFT_BYTES = 64 * 1024 * 1024

Maker = Callable[[int], Entry]  # of a sequence


class SpoolError(AgentError):
    """The spool can't be used; the text says why, for the operator."""


@dataclass(frozen=True)
class Identity:
    """(node, boot_id, sequence) names a batch for ever: boot_id is one spool's life within one
    boot.
    """

    boot_id: str
    boot_start_ms: int


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

    _drafted = 0
    _has_jumped = False
    _lock_file: Optional[IO[str]] = None

    def __init__(
        self, folder: Path, *, identity: Callable[[str], Identity], max_bytes: int = MAX_BYTES
    ) -> None:
        """Opens or creates the folder; identity(spool_id) is asked for the boot's.

        A disk that is full, read-only or failing is said and lived with. Raises SpoolError for what
        an operator set wrong.
        """
        self._folder = Path(folder)
        self._max_bytes = max_bytes
        self._mutex = threading.Lock()
        self._store = Store(self._folder)
        self._passed_over: Set[str] = set()
        self._done: List[Path] = []  # what only keeps a number until the state is saved
        self._state = State(spool_id=os.urandom(16).hex())
        try:
            self._open()
        except OSError as error:
            if error.errno not in DISK_TROUBLE:
                raise SpoolError(
                    "the spool %s can't be used: %s" % (folder, error.strerror or error)
                ) from error
            self._store.say(error)
        self.identity = self._identity(identity(self._state.spool_id))
        self._save_state()

    @property
    def size_bytes(self) -> int:
        """Bytes that wait."""
        return self._store.size_bytes

    @property
    def dropped_windows(self) -> int:
        """Windows lost to the cap or set aside, over this spool's life."""
        return self._state.dropped_windows

    @property
    def waiting(self) -> int:
        """Files that wait."""
        return len(self._store)

    def append(self, make: Maker) -> int:
        """Puts the batch that make(sequence) gives at the end, in place of what was drafted; its
        sequence.

        It is safe on disk then, or in memory while the disk takes nothing. At the cap the oldest
        batches make room.
        """
        with self._mutex:
            is_disk_well = self._store.settle()
            self._has_jumped = self._has_jumped and self._store.is_in_memory
            sequence = self._state.next_sequence
            content = frame(make(sequence))
            self._make_room(len(content))
            if not (is_disk_well and self._store.write(_name(sequence), content)):
                sequence = self._hold(make)
            self._state.next_sequence = sequence + 1
            if self._drafted:
                remove_if_possible(self._folder / _DRAFT)
                self._drafted = 0
            return sequence

    def draft(self, make: Maker) -> None:
        """Notes windows that the next append will hold, as a batch of their own, for the case that
        it never comes.
        """
        with self._mutex:
            sequence = self._state.next_sequence + self._drafted
            try:
                content = frame(make(sequence))
                with open(self._folder / _DRAFT, "ab" if self._drafted else "wb") as handle:
                    handle.write(content)
            except (OSError, ValueError) as error:
                # append will meet the same trouble, and say it
                log.debug("windows not drafted: %s", error)
                return
            self._drafted += 1

    def peek(self) -> Optional[Entry]:
        """The oldest batch that waits; None when there is none.

        What the disk damaged is set aside on the way.
        """
        with self._mutex:
            while True:
                name = self._store.first(without=self._passed_over)
                if name is None:
                    return None
                try:
                    frames = unframe(self._store.read(name))
                except OSError as error:
                    log.error(
                        "batch file can't be read, passed over file=%s: %s",
                        name,
                        error.strerror or error,
                    )
                    self._store.forget(name)
                    continue
                if frames:
                    return frames[0]
                log.error("batch file damaged on disk, set aside file=%s", name)
                self._keep_aside(name + ".damaged", self._store.read(name))
                self._forget(name)

    def ack(self, sequence: int) -> None:
        """Forgets the batch: the hub has it.

        Nothing happens when it is not the oldest (the cap dropped it).
        """
        with self._mutex:
            self._remove_first(sequence)

    def replace(self, sequence: int, parts: Sequence[Entry]) -> None:
        """Puts the parts in the oldest batch's place, all of them or (when killed now) none."""
        with self._mutex:
            name, frames = self._oldest(sequence)
            if frames:
                self._rewrite(name, [*parts, *frames[1:]])

    def set_aside(self, sequence: int, *, reason: str) -> Optional[Path]:
        """Takes the oldest batch out for people to look at, with the reason in its name: it can
        never be accepted.

        The file that keeps it; None when it could not be kept.
        """
        with self._mutex:
            _, frames = self._oldest(sequence)
            if not frames:
                return None
            kept = self._keep_aside(
                "%d-%s.json.gz" % (sequence, reason), as_gzip_json(frames[0].payload)
            )
            self._count_dropped(frames[0].windows)
            self._remove_first(sequence)
            return kept

    def pass_over(self, sequence: int) -> bool:
        """True once the batch keeps the ones behind it waiting no longer; it stays on disk until
        go_back(), a restart or the cap.
        """
        with self._mutex:
            name, frames = self._oldest(sequence)
            if not frames or len(self._passed_over) >= MAX_PASSED_OVER:
                return False
            self._passed_over.add(name)
            return True

    def go_back(self) -> None:
        """The oldest batch is first again, whether it was passed over or not."""
        with self._mutex:
            self._passed_over.clear()

    @property
    def passed_over(self) -> int:
        """Files that were passed over."""
        return len(self._passed_over)

    def count_lost(self, windows: int) -> None:
        """Windows that could not even be put in."""
        with self._mutex:
            self._count_dropped(windows)

    def close(self) -> None:
        """Releases the folder to another process; a last try to write what waits in memory."""
        with self._mutex:
            if not self._store.settle(limit=len(self._store)):
                log.error(
                    "batches lost with this process: they waited in memory, and the disk takes"
                    " nothing"
                )
            self._save_state()
            if self._lock_file is not None:
                self._lock_file.close()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file = _lock(self._folder)
        self._state = self._read_state()
        self._recover()
        self._take_up_draft()

    def _identity(self, current: Identity) -> Identity:
        """The current boot's, with the start it was first given: a clock that was set since must
        not look like a reboot.
        """
        if self._state.boot_id != current.boot_id:
            self._state.boot_id = current.boot_id
            self._state.boot_start_ms = current.boot_start_ms
        return Identity(self._state.boot_id, self._state.boot_start_ms)

    def _hold(self, make: Maker) -> int:
        """Puts the batch in memory, whose oldest make room; its sequence."""
        if not self._has_jumped:
            self._has_jumped = True
            self._state.next_sequence = min(
                LAST_NUMBER, self._state.next_sequence
            ) + random.randrange(*JUMP)
        sequence = self._state.next_sequence
        self._store.hold(_name(sequence), frame(make(sequence)))
        while self._store.is_memory_full:
            self._drop(self._store.first_in_memory(), "memory full")
        return sequence

    def _oldest(self, sequence: int) -> Tuple[str, List[Entry]]:
        """The oldest file and its batches, if they begin with this one; else no batches."""
        name = self._store.first(without=self._passed_over)
        frames = self._frames(name) if name is not None else []
        return name or "", frames if frames and frames[0].sequence == sequence else []

    def _frames(self, name: str) -> List[Entry]:
        """The file's batches; none when they can't be read."""
        try:
            return unframe(self._store.read(name))
        except OSError:
            return []

    def _remove_first(self, sequence: int) -> None:
        name, frames = self._oldest(sequence)
        if frames[1:]:
            self._rewrite(name, frames[1:])
        elif frames:
            self._forget(name)

    def _rewrite(self, name: str, frames: Sequence[Entry]) -> bool:
        """True once the file holds these batches; False where they are held in memory only."""
        content = b"".join(frame(entry) for entry in frames)
        is_written = self._store.write(name, content)
        if not is_written:
            self._store.hold(name, content)
        return is_written

    def _forget(self, name: str) -> None:
        """Deletes the file. The last one on disk is emptied and renamed first, which a full disk
        allows too: until the state is saved, its name is what keeps its sequence from being used
        again.
        """
        if not self._store.is_last_on_disk(name):
            self._store.remove(name)
            return
        path = self._folder / name
        done = path.with_suffix(_DONE)
        self._done.append(done)
        try:
            os.replace(path, done)
            os.truncate(done, 0)
        except OSError as error:
            self._store.say(error)
        self._store.forget(name)
        self._save_state()

    def _make_room(self, wanted: int) -> None:
        name = self._store.first()
        while name is not None and self._store.size_bytes + wanted > self._max_bytes:
            self._drop(name, "spool full")
            name = self._store.first()

    def _drop(self, name: str, why: str) -> None:
        windows = sum(entry.windows for entry in self._frames(name))
        log.warning("%s, oldest batch dropped file=%s windows=%d", why, name, windows)
        self._count_dropped(windows)
        self._forget(name)

    def _count_dropped(self, windows: int) -> None:
        self._state.dropped_windows += windows
        self._save_state()

    def _keep_aside(self, name: str, content: bytes) -> Optional[Path]:
        folder = self._folder / "set-aside"
        try:
            folder.mkdir(exist_ok=True)
            for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[
                : 1 - MAX_SET_ASIDE
            ]:
                old.unlink()
            (folder / name).write_bytes(content)
            return folder / name
        except OSError as error:
            log.warning("a copy of the refused batch could not be kept: %s", error)
            return None

    def _read_state(self) -> State:
        """The state; a new spool's life (and so a new boot_id) when there is none or it is
        damaged.
        """
        try:
            kept = json.loads((self._folder / "state.json").read_text())
            return State(**{name: kind(kept[name]) for name, kind in State.__annotations__.items()})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return State(spool_id=os.urandom(16).hex())

    def _save_state(self) -> None:
        """On a disk that takes nothing the old state stays: the files' names still carry the
        sequence.
        """
        try:
            write_safely(self._folder / "state.json", json.dumps(asdict(self._state)).encode())
        except OSError as error:
            self._store.say(error)
            return
        while self._done:
            remove_if_possible(self._done.pop())

    def _recover(self) -> None:
        """Finds the files that wait, after whatever killed the process before us."""
        for path in sorted(self._folder.iterdir()):
            if path.suffix == ".tmp":
                remove_if_possible(path)
            elif path.suffix in (_WAITS, _DONE) and path.stem.isdigit():
                self._state.next_sequence = max(self._state.next_sequence, int(path.stem) + 1)
                if path.suffix == _DONE:
                    self._done.append(path)
                else:
                    self._store.count(path.name, path.stat().st_size)

    def _take_up_draft(self) -> None:
        """Makes batches of the windows that a killed agent had closed and not put in.

        Its first number was used when the append came after all: then nothing of it is taken. The
        file is named by the last number, so that none of them is given again, also when we are
        killed before the draft is gone.
        """
        path = self._folder / _DRAFT
        if not path.exists() or path.stat().st_size > _MAX_DRAFT_BYTES:
            return
        entries = unframe(path.read_bytes(), is_torn=True)
        if entries and entries[0].sequence >= self._state.next_sequence:
            self._state.next_sequence = entries[-1].sequence + 1
            log.info(
                "windows of a killed agent taken up windows=%d",
                sum(entry.windows for entry in entries),
            )
            if not self._rewrite(_name(entries[-1].sequence), entries):
                return  # the draft stays the only copy on disk
        remove_if_possible(path)


def _name(sequence: int) -> str:
    return "%020d%s" % (sequence, _WAITS)


def _lock(folder: Path) -> IO[str]:
    """An open file that only one process at a time can hold; the kernel lets go of it however we
    end.
    """
    path = folder / "lock"
    try:
        handle = open(path, "a")  # noqa: SIM115 - held as long as the spool
    except OSError as error:
        if error.errno not in DISK_TROUBLE or not path.exists():
            raise
        handle = open(path)  # noqa: SIM115 - a read-only disk still tells who holds it
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise SpoolError("another agent uses the spool %s" % folder) from error
    return handle
