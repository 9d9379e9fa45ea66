"""Virtual GPUs as a guest's driver names them: "GRID A100-10C" is ten of the forty gigabytes of an
A100. Pure.

Board codes and their memory: NVIDIA Virtual GPU Software user guide, "Virtual GPU Types for
Supported GPUs".
"""

import re
from dataclasses import dataclass
from decimal import Decimal

# code -> (the board, as its own driver would name it; its memory in GB)
BOARDS: dict[str, tuple[str, int]] = {
    "A2": ("A2", 16),
    "A10": ("A10", 24),
    "A16": ("A16", 16),
    "A30": ("A30", 24),
    "A40": ("A40", 48),
    "A100": ("A100-PCIE-40GB", 40),
    "A100X": ("A100-SXM4-40GB", 40),
    "A100D": ("A100 80GB PCIe", 80),
    "A100DX": ("A100-SXM4-80GB", 80),
    "H100": ("H100 PCIe", 80),
    "H100XM": ("H100 80GB HBM3", 80),
    "H100L": ("H100 NVL", 94),
    "H200X": ("H200", 141),
    "L4": ("L4", 24),
    "L40": ("L40", 48),
    "L40S": ("L40S", 48),
    "RTXA6000": ("RTX A6000", 48),
    "T4": ("T4", 16),
    "V100": ("V100-PCIE-16GB", 16),
    "V100X": ("V100-SXM2-16GB", 16),
    "V100D": ("V100-PCIE-32GB", 32),
    "V100DX": ("V100-SXM2-32GB", 32),
}
# "A100-1-5C" is a slice by MIG: the memory says its share all the same
_NAME = re.compile(
    r"^(?:(?:NVIDIA|Tesla|GRID)\s+)*(?P<board>[A-Za-z0-9]+)(?:-\d)?-(?P<memory>[1-9]\d{0,2})[ABCQ]$"
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Which board a virtual GPU is a part of ("" = not known), and the memory of both in GB."""

    board: str
    memory_gb: int
    board_memory_gb: int

    @property
    def share(self) -> Decimal:
        """Of its board's memory, at most 1; of a board that is not known there is none."""
        return Decimal(min(self.memory_gb, self.board_memory_gb)) / self.board_memory_gb


def slice_of(name: str) -> Slice | None:
    """The part of a board that the driver's name says; None for a name of a whole GPU."""
    match = _NAME.match(name.strip())
    if match is None:
        return None
    board, board_memory_gb = BOARDS.get(match["board"], ("", 0))
    return Slice(board, int(match["memory"]), board_memory_gb)
