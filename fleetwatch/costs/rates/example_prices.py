"""Shipped example prices per GPU-hour, so that the first page shows dollars: list prices, badged
until the user sets his own.

Pure. An on-demand list price contains the host, and depends on the shape (a cloud asks less per GPU
for eight than for one): where several are known, the largest node's is taken. A GPU model that
is not here stays unpriced, and its time is shown as such.
"""

import re
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from fleetwatch.inventory.vgpu import Slice, slice_of


@dataclass(frozen=True, slots=True)
class ExamplePrice:
    """Dollars per GPU-hour of the GPU models whose name the pattern finds; who asked it, and when
    it was read.
    """

    pattern: str
    usd_per_gpu_hour: Decimal
    source: str
    source_date: date


_READ = {  # when whose list was read
    "AWS": date(2025, 6, 30),
    "CoreWeave": date(2025, 6, 30),
    "Lambda": date(2026, 11, 20),
}
# The first pattern that is found in the model's name decides, so the narrower ones stand first.
_LISTS = (
    (r"\bGB200\b", "10.50", "CoreWeave", "GB200 NVL72, 42.00 for 4 GPUs"),
    (r"\bB200\b", "6.89", "Lambda", "2x B200 SXM6, 13.78 for 2 GPUs"),
    (r"\bH200\b", "6.305", "CoreWeave", "HGX H200, 50.44 for 8 GPUs"),
    (r"\bH100\b.*\bPCIe\b", "3.29", "Lambda", "1x H100 PCIe"),
    (r"\bH100\b(?!.*NVL)", "3.99", "Lambda", "8x H100 SXM5, 31.92 for 8 GPUs"),
    (r"\bA100\b.*80", "2.79", "Lambda", "8x A100 80 GB SXM4, 22.32 for 8 GPUs"),
    (r"\bA100\b", "1.99", "Lambda", "1x A100 40 GB"),
    (r"\bL40S\b", "1.861", "AWS", "us-east-1, g6e.xlarge"),
    (r"\bL4\b", "0.8048", "AWS", "us-east-1, g6.xlarge"),
    (r"\bA10\b", "1.29", "Lambda", "1x A10"),
    (r"\bT4\b", "0.526", "AWS", "us-east-1, g4dn.xlarge"),
    (r"\bV100\b", "0.79", "Lambda", "8x V100, 6.32 for 8 GPUs"),
    (r"\bA6000\b", "1.09", "Lambda", "1x RTX A6000"),
    # not the RTX 6000 Ada and not the RTX PRO 6000, which are other products
    (r"\bRTX 6000$", "0.69", "Lambda", "1x RTX 6000"),
)
EXAMPLE_PRICES = tuple(
    ExamplePrice(pattern, Decimal(usd), f"{who} list price, on demand, {shape}", _READ[who])
    for pattern, usd, who, shape in _LISTS
)
_COMPILED = tuple((re.compile(price.pattern, re.IGNORECASE), price) for price in EXAMPLE_PRICES)


def example_price(model_name: str) -> ExamplePrice | None:
    """The example price of a GPU model by its name, of a virtual GPU its share of the board's; None
    where none is known.
    """
    part = slice_of(model_name)
    if part is None:
        return next((price for pattern, price in _COMPILED if pattern.search(model_name)), None)
    board = example_price(part.board) if part.board else None
    return None if board is None else _share(board, part)


def _share(board: ExamplePrice, part: Slice) -> ExamplePrice:
    usd = (board.usd_per_gpu_hour * part.share).quantize(Decimal("0.000001"))
    source = f"{board.source}; {part.memory_gb} of {part.board_memory_gb} GB of it"
    return replace(board, usd_per_gpu_hour=usd, source=source)
