"""Bare idle power of GPU models, by the driver's name for them."""

import re
from typing import Optional

# Watts a bare card draws, lower end of what was measured or published. A model that is not here is
# not guessed:
# another form of the same chip (PCIe, NVL) idles elsewhere.
_IDLE_W = (
    (r"A100-SXM4-80GB", 60.0),
    (r"H100 80GB HBM3", 70.0),  # SXM
    (r"H100 PCIe", 45.0),
    (r"H200", 80.0),
    (r"GB200", 145.0),
    (r"B200", 130.0),
    (r"L40S", 35.0),
    (r"L4", 13.0),
    (r"A10", 15.0),
    (r"T4", 10.0),
    (r"V100-SXM2-(?:16|32)GB", 40.0),
    (r"GB300", 175.0),
    (r"A10G", 25.0),
    (r"RTX 4000 SFF Ada Generation", 8.0),
    (r"GeForce RTX 3090", 27.0),
    (r"GeForce RTX 3080", 22.0),
    (r"GeForce RTX 3060", 11.0),
    (r"GeForce RTX 2080 SUPER", 37.0),
)
_PATTERNS = tuple(
    (re.compile(r"(?:NVIDIA |Tesla |NVIDIA Tesla )?" + name), watts) for name, watts in _IDLE_W
)


def idle_power_w(model: Optional[str]) -> Optional[float]:
    """Watts of the bare idle card; None for a model that is not known."""
    if model is None:
        return None
    return next((watts for pattern, watts in _PATTERNS if pattern.fullmatch(model.strip())), None)
