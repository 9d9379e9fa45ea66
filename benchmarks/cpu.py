"""CPU seconds of processes, from /proc, and of a loop to compare machines by."""

import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes and of their children that ended; of one that is gone
    nothing.
    """
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def family(root: int) -> set[int]:
    """A process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return found
