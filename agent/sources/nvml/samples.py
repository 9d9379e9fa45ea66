"""The driver's own buffer of utilisation, about six samples a second: what a reading a second would
never see.
"""

import ctypes
import struct
from typing import Any, List, Optional, Sequence, Tuple

from agent.sources.nvml.capabilities import Capabilities
from agent.sources.nvml.library import INVALID, TOO_SMALL, VALUE_MEMBERS

UTILISATION = 1  # nvmlSamplingType_t
ROOM = 256  # samples; drivers keep 100 to 120
DRY_MS = 60_000  # a buffer silent for so long while the GPU works: the driver's clock began anew

# nvmlSample_t, its value as each of VALUE_MEMBERS: as objects of ctypes, six a GPU and second, they
# would cost more than the call
LAYOUTS = tuple(map(struct.Struct, ("@Qd", "@QI4x", "@QL", "@QQ", "@Qq", "@Qi4x", "@QH6x")))
UNSIGNED = 1  # place of uiVal: what a type that nobody knows is read as

Samples = List[Tuple[int, float]]


class SampleCall:
    """nvmlDeviceGetSamples in one call instead of the binding's two (first how many, then which):
    it is asked each second.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._room = (nvml.c_nvmlSample_t * ROOM)()
        self._bytes = memoryview(self._room).cast("B")
        self._type = ctypes.c_int()
        self._count = ctypes.c_uint()

    def __call__(self, handle: Any, after_us: int) -> List[Tuple[int, float]]:
        """The samples: (microseconds of the driver's clock, percent). Raises NVMLError."""
        call = self._nvml._nvmlGetFunctionPointer("nvmlDeviceGetSamples")
        self._count.value = ROOM
        code = call(
            handle,
            UTILISATION,
            ctypes.c_ulonglong(after_us),
            ctypes.byref(self._type),
            ctypes.byref(self._count),
            self._room,
        )
        if code in (INVALID, TOO_SMALL):  # a driver that wants to be asked how many first
            return _pairs(*self._nvml.nvmlDeviceGetSamples(handle, UTILISATION, after_us))
        self._nvml._nvmlCheckReturn(code)
        layout = LAYOUTS[_place(self._type.value)]
        count = min(ROOM, self._count.value)
        return list(layout.iter_unpack(self._bytes[: count * layout.size]))


class SampleBuffer:
    """The place in one GPU's buffer up to which it was read.

    The cursor is the newest time stamp that was returned, on the driver's clock, which may count
    from anywhere; it is never compared with ours.
    """

    def __init__(self, call: SampleCall) -> None:
        self._call = call
        self._cursor_us = 0
        self._fresh_ms: Optional[int] = None  # when there last was something new

    def new(self, capabilities: Capabilities, handle: Any) -> Samples:
        """Samples since the last call, oldest first: (microseconds of the driver's clock, ratio).

        The first call only finds the place: what is older belongs to nobody's window.
        """
        samples = capabilities.tried("util_samples", self._call, handle, self._cursor_us) or ()
        fresh = sorted(
            (stamp_us, percent / 100)
            for stamp_us, percent in samples
            if stamp_us > self._cursor_us and 0 <= percent <= 100
        )
        is_first = self._cursor_us == 0
        self._cursor_us = fresh[-1][0] if fresh else self._cursor_us
        if fresh or self._fresh_ms is None:
            self._fresh_ms = capabilities.now_ms
        return [] if is_first else fresh

    def notice_silence(self, now_ms: int, *, is_working: bool) -> None:
        """An idle GPU's buffer may dry up; one that works and says nothing for a minute counts time
        from anew.
        """
        if not is_working or self._fresh_ms is None:
            self._fresh_ms = now_ms
        elif now_ms - self._fresh_ms > DRY_MS:
            self._cursor_us = 0
            self._fresh_ms = now_ms


def _place(value_type: int) -> int:
    return value_type if 0 <= value_type < len(VALUE_MEMBERS) else UNSIGNED


def _pairs(value_type: int, samples: Sequence[Any]) -> List[Tuple[int, float]]:
    member = VALUE_MEMBERS[_place(value_type)]
    return [(sample.timeStamp, getattr(sample.sampleValue, member)) for sample in samples]
