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
    "H200": ("H200 NVL", 141),
    "H20": ("H20", 96),
    "H800": ("H800 PCIe", 80),
    "H800XM": ("H800", 80),
    "H800L": ("H800 NVL", 94),
    "A800": ("A800 40GB Active", 40),
    "A800D": ("A800 80GB PCIe", 80),
    "A800DX": ("A800-SXM4-80GB", 80),
    "L2": ("L2", 24),
    "L4": ("L4", 24),
    "L20": ("L20", 48),
    "L40": ("L40", 48),
    "L40S": ("L40S", 48),
    "RTXA5000": ("RTX A5000", 24),
    "RTXA5500": ("RTX A5500", 24),
    "RTXA6000": ("RTX A6000", 48),
    "RTX5000-Ada": ("RTX 5000 Ada Generation", 32),
    "RTX5880-Ada": ("RTX 5880 Ada Generation", 48),
    "RTX6000-Ada": ("RTX 6000 Ada Generation", 48),
    "RTX6000": ("Quadro RTX 6000", 24),
    "RTX6000P": ("Quadro RTX 6000", 24),
    "RTX8000": ("Quadro RTX 8000", 48),
    "RTX8000P": ("Quadro RTX 8000", 48),
    "T4": ("T4", 16),
    "V100": ("V100-PCIE-16GB", 16),
    "V100X": ("V100-SXM2-16GB", 16),
    "V100D": ("V100-PCIE-32GB", 32),
    "V100S": ("V100S-PCIE-32GB", 32),
    "V100DX": ("V100-SXM2-32GB", 32),
}
# "A100-1-5C" is a slice by MIG: the memory says its share all the same. "A100-1-5CME" has the media
# engines too; others are NOME, MEALL and GFX.
_NAME = re.compile(
    r"^(?:(?:NVIDIA|Tesla|GRID)\s+)*(?P<board>[A-Za-z0-9]+(?:-Ada)?)(?:-\d)?"
    r"-(?P<memory>[1-9]\d{0,2})[ABCQ](?:ME|NOME|MEALL|GFX)?$"
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
