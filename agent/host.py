"""What the host itself did meanwhile: CPU, waiting for disks, memory, from /proc."""

import os
from pathlib import Path
from typing import Dict, List, Optional


class HostReader:
    """Each call tells of the time since the one before."""

    def __init__(self, proc_root: str = "/proc") -> None:
        self._root = Path(proc_root)
        self._before = self._cpu_times()

    def read(self) -> Dict[str, float]:
        """The wire's host columns that could be read: cpu_ratio and iowait_ratio since the last call, memory now."""
        columns: Dict[str, float] = {}
        times = self._cpu_times()
        if times is not None and self._before is not None:
            columns.update(_cpu_columns(self._before, times))
        self._before = times
        used = self._memory_used_bytes()
        return columns if used is None else {**columns, "memory_used_bytes": used}

    def _cpu_times(self) -> Optional[List[int]]:
        """Ticks of all CPUs: user nice system idle iowait irq softirq steal (proc(5); guest time is within user)."""
        try:
            first = (self._root / "stat").read_text().split("\n", 1)[0].split()
        except OSError:
            return None
        return [int(ticks) for ticks in first[1:9]] if first[:1] == ["cpu"] and len(first) >= 9 else None

    def _memory_used_bytes(self) -> Optional[int]:
        try:
            lines = (self._root / "meminfo").read_text().splitlines()
        except OSError:
            return None
        kibibytes = {line.split(":")[0]: line.split()[1] for line in lines if len(line.split()) > 1}
        if "MemTotal" not in kibibytes or "MemAvailable" not in kibibytes:
            return None
        return (int(kibibytes["MemTotal"]) - int(kibibytes["MemAvailable"])) * 1024


def _cpu_columns(before: List[int], after: List[int]) -> Dict[str, float]:
    # iowait may step back a little (proc(5)): never a negative share
    spent = [max(0, later - earlier) for earlier, later in zip(before, after)]
    total = sum(spent)
    if total == 0:
        return {}
    return {"cpu_ratio": 1 - (spent[3] + spent[4]) / total, "iowait_ratio": spent[4] / total}


def own_rss_bytes(proc_root: str = "/proc") -> Optional[int]:
    """The agent's resident memory; None where /proc does not say."""
    try:
        pages = int((Path(proc_root) / "self" / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def boot_start_ms(proc_root: str = "/proc") -> Optional[int]:
    """When the kernel started, by the clock as it is now; None where /proc does not say."""
    try:
        lines = (Path(proc_root) / "stat").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("btime ")]
    return int(found[0]) * 1000 if found else None


def kernel_boot_id(proc_root: str = "/proc") -> Optional[str]:
    """The kernel's own name for this boot; None where /proc does not say."""
    try:
        return (Path(proc_root) / "sys" / "kernel" / "random" / "boot_id").read_text().strip() or None
    except OSError:
        return None
