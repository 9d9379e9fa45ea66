"""pynvml, and NVML's numbers: those of this table outlive the binding's versions."""

import importlib
import struct
from typing import Any

from agent.readings import SourceError

# nvmlReturn_t, by what the agent does about it
SUCCESS = 0
INVALID = 2
NOT_FOUND = 6
TOO_SMALL = 7
TIMEOUT = 10
NO_DATA = 21
NOTHING_NEW = frozenset((SUCCESS, NOT_FOUND, TIMEOUT, NO_DATA))
DRIVER_GONE = frozenset((1, 9, 12))  # uninitialised, driver not loaded, library not found
MISMATCH = 18  # the driver was upgraded under a library that stays mapped: only a new process helps
LOST = frozenset((15, 16))  # fallen off the bus, reset required
WHY_UNREAD = {
    3: "not_supported",
    13: "not_supported",
    25: "not_supported",
    26: "not_supported",
    4: "no_permission",
    17: "operating_system",
}

# NVML_VALUE_NOT_AVAILABLE is -1, which is also what the registers of a dead card read as: no watts,
# no joules, no clock.
NOT_AVAILABLE = frozenset((2**32 - 1, 2**64 - 1))
MEMORY_V2 = 0x2000028  # nvmlMemory_v2_t: 40 bytes, version 2
NO_INSTANCE = 0xFFFFFFFF  # a process or an event of no MIG instance
# by nvmlValueType_t
VALUE_LAYOUTS = tuple(map(struct.Struct, ("@d", "@I", "@L", "@Q", "@q", "@i", "@H")))
VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class GraveError(Exception):
    """More than one metric is gone; `code` is NVML's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class GPULostError(GraveError):
    """The GPU does not answer any more."""


class DriverAwayError(GraveError):
    """The driver does not answer, or is another one."""


def load() -> Any:
    """The official pynvml. Raises SourceError where it is missing or a look-alike."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError as error:
        raise SourceError("the Python package nvidia-ml-py is not installed") from error
    if not hasattr(module, "_nvmlGetFunctionPointer"):
        raise SourceError("the module pynvml is not NVIDIA's: install nvidia-ml-py")
    return module


def raise_grave(code: int, text: str) -> None:
    """Raises where the error is about more than one metric: the GPU or the driver is gone."""
    if code in LOST:
        raise GPULostError(code, text)
    if code in DRIVER_GONE or code == MISMATCH:
        raise DriverAwayError(code, text)


def text_of(value: Any) -> str:
    """NVML's text, which older bindings give as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
