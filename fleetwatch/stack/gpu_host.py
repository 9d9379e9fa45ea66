"""Whether this machine has an NVIDIA driver to watch."""

import ctypes
from pathlib import Path


def has_nvidia_driver() -> bool:
    """True when the driver is loaded, or its library can be."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
