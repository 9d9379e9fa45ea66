"""The kernel's log as a second witness of XIDs: NVML tells only of those that happen while it
listens.

Records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg):
"priority,sequence,microseconds,flags;text", one per read; reading needs CAP_SYSLOG where
kernel.dmesg_restrict is set. Their text holds names that users chose: only records of the kernel
itself count, only from their first character on, and little of them is passed on.
"""

import logging
import os
import re
import threading
from typing import Dict, List, Optional, Tuple

from agent.lines import printable
from agent.readings import Event, GPUs

log = logging.getLogger("agent.kmsg")

PATH = "/dev/kmsg"
MAX_RECORDS = 2000  # of one poll; the kernel's buffer holds some ten thousand
MAX_RECORD_BYTES = 8192  # the kernel's own limit; a shorter buffer is refused with EINVAL
MAX_TEXT = 200
FALLEN = 79
# domain.md 1.6; the pid and the name are the process's, which may call itself anything
_XID = re.compile(
    r"NVRM: (?:Xid \(PCI:([0-9a-fA-F:.]{7,16})\): ([0-9]{1,5})(?![0-9])(?:, (.*))?"
    r"|(?:The NVIDIA )?GPU ([0-9a-fA-F:.]{7,16}):? .{0,200}fallen off the bus)"
)

Bus = Tuple[int, int, int]  # domain, bus, device


class Kmsg:
    """Follows the log from now on; `why` says why it can't be followed, None while it can."""

    def __init__(self, path: str = PATH) -> None:
        self.why: Optional[str] = None
        self._mutex = threading.Lock()
        self._file: Optional[int] = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self.why = _why(path, error)
            self.close()

    def poll(self, now_ms: int, gpus: GPUs) -> List[Event]:
        """The XIDs since the last call; on no GPU (so: on the node) when the bus names none of
        these.
        """
        with self._mutex:
            records = self._records()
        xids = list(filter(None, map(_xid, records)))
        by_bus = _by_bus(gpus) if xids else {}
        # with the address of a card that the driver does not name
        return [
            Event(now_ms, "xid", by_bus[bus], code, text)
            if bus in by_bus
            else Event(now_ms, "xid", None, code, "PCI %04x:%02x:%02x %s" % (*bus, text))
            for bus, code, text in xids
        ]

    def close(self) -> None:
        """Nothing is followed afterwards."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _records(self) -> List[str]:
        """The kernel's own records since the last call, MAX_RECORDS at most."""
        records: List[str] = []
        while self._file is not None and len(records) < MAX_RECORDS:
            try:
                piece = os.read(self._file, MAX_RECORD_BYTES)
            except BrokenPipeError:
                continue  # the buffer overran: the next read goes on with its oldest record
            except BlockingIOError:
                break
            except OSError as error:
                self.why = _why("the kernel's log", error)
                log.warning("%s", self.why)
                self.close()
                break
            if not piece:
                break
            records.extend(piece.decode("utf-8", "replace").split("\n"))
        return records


def _by_bus(gpus: GPUs) -> Dict[Bus, str]:
    """The GPU at each address: the whole one rather than its instances."""
    by_bus: Dict[Bus, str] = {}
    for gpu in gpus:
        bus = bus_of(gpu.bus_id or "")
        if bus is not None and (gpu.parent_uuid is None or bus not in by_bus):
            by_bus[bus] = gpu.uuid
    return by_bus


def bus_of(text: str) -> Optional[Bus]:
    """The PCI address as numbers: NVML writes the domain with 8 digits, the kernel with 4, in
    either case.
    """
    parts = text.partition(".")[0].split(":")
    try:
        domain, bus, device = (int(part, 16) for part in parts)
    except ValueError:
        return None
    return domain, bus, device


def _xid(record: str) -> Optional[Tuple[Bus, int, str]]:
    """The bus, code and text of a kernel's record about an XID; None for any other."""
    head, _, text = record.partition(";")
    # facility 0 is the kernel; what processes write to /dev/kmsg has another, whatever they claim
    if not re.fullmatch(r"[0-7]", head.partition(",")[0]):
        return None
    match = _XID.match(text)
    if match is None:
        return None
    address, code, cause, fallen = match.groups("")
    bus = bus_of(address or fallen)
    if fallen:
        cause = "GPU has fallen off the bus"
    return None if bus is None else (bus, int(code or FALLEN), printable(cause[:MAX_TEXT], "?"))


def _why(path: str, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "%s may not be read: CAP_SYSLOG is missing" % path
    return "%s can't be read: %s" % (path, error.strerror or error)
