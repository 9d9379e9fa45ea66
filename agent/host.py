"""What the host itself did meanwhile: CPU, waiting, memory, disks and network, from /proc
and /sys.
"""

import glob
import os
import re
from typing import Dict, List, Optional, Tuple

from agent import procfs
from agent.clock import Timer, elapsed_s
from agent.readings import Values

# of /proc/diskstats, whatever the disk's own sectors are (kernel:
# Documentation/admin-guide/iostats.rst)
SECTOR_BYTES = 512
INFINIBAND_WORD_BYTES = 4  # port_rcv_data and port_xmit_data count words of four bytes
INFINIBAND_TYPE = "32"  # of a network interface: its bytes are in the port's counters too
MICROSECONDS = 1_000_000
MIN_ELAPSED_S = 0.5  # a rate over less says nothing
STAT_BYTES = 1024 * 1024  # hosts with hundreds of CPUs and thousands of interrupts

# of /proc/diskstats: name, sectors read, sectors written
_DISK = re.compile(r"^ *\d+ +\d+ +(\S+)(?: +\d+){2} +(\d+)(?: +\d+){3} +(\d+)", re.MULTILINE)
# of /proc/net/dev: name, bytes received, bytes sent
_NIC = re.compile(r"^ *([^:\s]+): *(\d+)(?: +\d+){7} +(\d+)", re.MULTILINE)
_WAITED = re.compile(r"^some .*total=(\d+)", re.MULTILINE)
_MEMORY = re.compile(r"^(MemTotal|MemAvailable):\s*(\d+)", re.MULTILINE)

Pairs = Dict[str, Tuple[int, int]]  # of a device, bytes read and written, or received and sent
# Column of the wire -> what of the host counts for it -> its counter; what could not be read is
# absent.
Counters = Dict[str, Dict[str, int]]


class HostReader:
    """Each call tells of the time since the one before."""

    def __init__(self, proc_root: str = "/proc", *, clock_s: Timer = elapsed_s) -> None:
        self._proc = proc_root
        self._sys = procfs.sys_root(proc_root)
        self._clock_s = clock_s
        self._physical: Dict[str, bool] = {}  # folder in /sys -> is a device of its own
        self._at_s = clock_s()
        self._ticks = self._cpu_ticks()
        self._counters = self._count()

    def read(self) -> Values:
        """The wire's host columns that could be read: ratios and bytes per second since the last
        call, memory now.
        """
        at_s = self._clock_s()
        ticks = self._cpu_ticks()
        counters = self._count()
        columns = {
            **_cpu_columns(self._ticks, ticks),
            **_rates(self._counters, counters, at_s - self._at_s),
            **self._memory_columns(),
        }
        self._at_s = at_s
        self._ticks = ticks
        self._counters = counters
        return columns

    def _count(self) -> Counters:
        on_disks = procfs.text(self._proc, "diskstats", limit=STAT_BYTES)
        on_nics = procfs.read(self._proc, "1/net/dev") or procfs.text(self._proc, "net/dev")
        disks = self._pairs(on_disks, _DISK, "block", SECTOR_BYTES)
        nics = {**self._pairs(on_nics, _NIC, "class/net", 1), **self._infiniband_ports()}
        return {
            "cpu_psi_ratio": self._waited_us("cpu"),
            "io_psi_ratio": self._waited_us("io"),
            **_by_column("disk_read_bytes_s", "disk_write_bytes_s", disks),
            **_by_column("nic_rx_bytes_s", "nic_tx_bytes_s", nics),
        }

    def _cpu_ticks(self) -> Optional[List[int]]:
        """Ticks of all CPUs: user nice system idle iowait irq softirq steal (proc(5); guest time is
        within user).
        """
        first = procfs.text(self._proc, "stat", limit=512).split("\n", 1)[0].split()
        return (
            [int(ticks) for ticks in first[1:9]]
            if first[:1] == ["cpu"] and len(first) >= 9
            else None
        )

    def _waited_us(self, name: str) -> Dict[str, int]:
        """The `some` total of pressure stall information; nothing on kernels without it (psi=0,
        before 4.20).
        """
        match = _WAITED.search(procfs.text(self._proc, "pressure", name))
        return {} if match is None else {name: int(match.group(1))}

    def _pairs(self, text: str, pattern: "re.Pattern[str]", folder: str, unit: int) -> Pairs:
        """Bytes of what is a device of its own: partitions, LVM, RAID and loops, bridges, bonds,
        VLANs and containers' ends count the same bytes again.
        """
        return {
            name: (int(first) * unit, int(second) * unit)
            for name, first, second in pattern.findall(text)
            if self._is_physical(folder, name)
        }

    def _infiniband_ports(self) -> Pairs:
        """Bytes of InfiniBand and RoCE ports, which no network interface counts."""
        ports: Pairs = {}
        root = os.path.join(glob.escape(self._sys), "class/infiniband")
        for counters in glob.glob(os.path.join(root, "*/ports/*/counters")):
            received = procfs.whole(procfs.read(counters, "port_rcv_data"))
            sent = procfs.whole(procfs.read(counters, "port_xmit_data"))
            if received is not None and sent is not None:
                ports[counters] = (received * INFINIBAND_WORD_BYTES, sent * INFINIBAND_WORD_BYTES)
        return ports

    def _is_physical(self, folder: str, name: str) -> bool:
        path = os.path.join(self._sys, folder, name.replace("/", "!"))
        if path not in self._physical:
            kind = procfs.text(path, "type")
            self._physical[path] = (
                os.path.exists(os.path.join(path, "device")) and kind.strip() != INFINIBAND_TYPE
            )
        return self._physical[path]

    def _memory_columns(self) -> Values:
        text = procfs.text(self._proc, "meminfo")
        kibibytes = {name: int(count) for name, count in _MEMORY.findall(text)}
        if len(kibibytes) < 2:
            return {}
        used = (kibibytes["MemTotal"] - kibibytes["MemAvailable"]) * 1024
        return {"memory_used_bytes": used}


def _by_column(first: str, second: str, pairs: Pairs) -> Counters:
    return {
        first: {name: pair[0] for name, pair in pairs.items()},
        second: {name: pair[1] for name, pair in pairs.items()},
    }


def _cpu_columns(before: Optional[List[int]], after: Optional[List[int]]) -> Values:
    if before is None or after is None:
        return {}
    # iowait may step back a little (proc(5)): never a negative share
    spent = [max(0, later - earlier) for earlier, later in zip(before, after)]
    total = sum(spent)
    if total == 0:
        return {}
    return {"cpu_ratio": 1 - (spent[3] + spent[4]) / total, "iowait_ratio": spent[4] / total}


def _rates(before: Counters, after: Counters, elapsed_s: float) -> Values:
    """Per second what is in both readings gained, of waiting the ratio; nothing where a counter
    fell: it was reset, or has wrapped.
    """
    columns: Values = {}
    for column, counts in after.items():
        earlier = before[column]
        gained = [counts[name] - earlier[name] for name in counts if name in earlier]
        if not gained or min(gained) < 0 or elapsed_s < MIN_ELAPSED_S:
            continue
        is_ratio = column.endswith("_ratio")
        total = sum(gained) / MICROSECONDS if is_ratio else sum(gained)
        columns[column] = min(1.0, total / elapsed_s) if is_ratio else total / elapsed_s
    return columns


def own_rss_bytes(proc_root: str = "/proc") -> Optional[int]:
    """The agent's resident memory; None where /proc does not say."""
    words = procfs.text(proc_root, "self/statm").split()
    pages = procfs.whole(words[1]) if len(words) > 1 else None
    return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")


def boot_start_ms(proc_root: str = "/proc") -> Optional[int]:
    """When the kernel started, by the clock as it is now; None where /proc does not say."""
    text = procfs.text(proc_root, "stat", limit=STAT_BYTES)
    match = re.search(r"^btime (\d+)$", text, re.MULTILINE)
    return None if match is None else int(match.group(1)) * 1000


def kernel_boot_id(proc_root: str = "/proc") -> Optional[str]:
    """The kernel's own name for this boot; None where /proc does not say."""
    return procfs.text(proc_root, "sys/kernel/random/boot_id").strip() or None
