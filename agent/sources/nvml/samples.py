"""The driver's own buffer of utilisation, about six samples a second: what a reading a second would
never see.
"""

import ctypes
from typing import Any, List, Optional, Sequence, Tuple

from agent.sources.nvml.capabilities import Capabilities
from agent.sources.nvml.library import INVALID, TOO_SMALL, VALUE_MEMBERS

UTILISATION = 1  # nvmlSamplingType_t
ROOM = 256  # samples; drivers keep 100 to 120
DRY_MS = 60_000  # a buffer silent for so long while the GPU works: the driver's clock began anew

Samples = List[Tuple[int, float]]


class SampleCall:
    """nvmlDeviceGetSamples in one call instead of the binding's two (first how many, then which):
    it is asked each second.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._room = (nvml.c_nvmlSample_t * ROOM)()
        self._type = ctypes.c_int()
        self._count = ctypes.c_uint()

    def __call__(self, handle: Any, after_us: int) -> Tuple[int, Sequence[Any]]:
        """(nvmlValueType_t, the samples), good until the next call. Raises NVMLError."""
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
            answer: Tuple[int, Sequence[Any]] = self._nvml.nvmlDeviceGetSamples(
                handle, UTILISATION, after_us
            )
            return answer
        self._nvml._nvmlCheckReturn(code)
        return self._type.value, self._room[: min(ROOM, self._count.value)]


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
        answer = capabilities.tried("util_samples", self._call, handle, self._cursor_us)
        fresh = [] if answer is None else _after(self._cursor_us, *answer)
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


def _after(cursor_us: int, value_type: int, samples: Sequence[Any]) -> Samples:
    member = VALUE_MEMBERS[value_type] if 0 <= value_type < len(VALUE_MEMBERS) else "uiVal"
    stamped = [(sample.timeStamp, getattr(sample.sampleValue, member)) for sample in samples]
    return sorted(
        (stamp, value / 100) for stamp, value in stamped if stamp > cursor_us and 0 <= value <= 100
    )
