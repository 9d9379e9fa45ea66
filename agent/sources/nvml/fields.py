"""Field values: counters and health of one GPU, all in one call per window.

Own numbers: the binding's constants moved between versions from 197 on (199 and 200 were swapped;
269 to 271 are newer than binding 12.560). Every field has its own error and its own type.
"""

import ctypes
import struct
from functools import lru_cache
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from agent.readings import Values
from agent.sources.nvml.capabilities import Capabilities, column_of
from agent.sources.nvml.library import SUCCESS, VALUE_LAYOUTS

ALL_LINKS = 0xFFFFFFFF  # as scope of the NVLink fields
KIB = 1024
# between two readings of a counter: longer is a suspend or a lost GPU, nobody's window
MAX_APART_MS = 30_000
NARROW = 2**32
RATE_SLACK = 1.05  # a counter of time can't run faster than time, but for when exactly it was read


class Field(NamedTuple):
    """One of NVML_FI_DEV_*; `key` is how its reader knows it, and where refusals are kept."""

    key: str
    id: int
    scope: int = 0


# Nanoseconds spent under a cap. 75 is what 269 tells (software), 270 is the hardware's own
# slowdown; 74 is the power cap, which a GPU at full load reaches in health, 271 the power brake of
# the board.
THERMAL = (
    Field("throttle_thermal_ratio", 75),
    Field("software_thermal", 269),
    Field("hardware_thermal", 270),
)
POWER = (Field("throttle_power_ratio", 74), Field("power_brake", 271))
# Bytes and KiB through PCIe and NVLink, asked only where GPM does not tell them: one source for a
# GPU, not a mixture.
PCIE = (Field("pcie_tx_bytes_s@field", 197), Field("pcie_rx_bytes_s@field", 198))
NVLINK = (
    Field("nvlink_tx_bytes_s@field", 138, ALL_LINKS),
    Field("nvlink_rx_bytes_s@field", 139, ALL_LINKS),
)
ALWAYS = (
    *THERMAL,
    *POWER,
    Field("ecc_uncorrected", 4),
    Field("memory_temperature_c", 82),
    Field("rows_pending", 144),
    Field("rows_failed", 145),
    Field("recovery_action", 230),
)
TRAFFIC = (*PCIE, *NVLINK)
ON_GPM = {metric.key: metric.key.replace("@field", "@gpm") for metric in TRAFFIC}
KEYS = tuple(metric.key for metric in (*ALWAYS, *TRAFFIC))


class FieldReader:
    """One GPU's fields, with its counters as they stood before."""

    def __init__(self) -> None:
        self._before: Values = {}
        self._before_ms: Optional[int] = None

    def read(self, capabilities: Capabilities, handle: Any) -> Tuple[Values, Values]:
        """(averages since the last call by column, what the fields say now by key), both without
        what was not read.

        Raises as Capabilities.ask.
        """
        now_ms = capabilities.now_ms
        before_ms = now_ms if self._before_ms is None else self._before_ms
        values = self._values(capabilities, handle)
        means: Values = {}
        if 0 < now_ms - before_ms <= MAX_APART_MS:
            means = self._means(capabilities, values, (now_ms - before_ms) / 1000)
        self._before = values
        self._before_ms = now_ms
        return means, values

    def _values(self, capabilities: Capabilities, handle: Any) -> Values:
        is_open = capabilities.is_open
        wanted = tuple(
            metric
            for metric in (*ALWAYS, *TRAFFIC)
            if is_open(metric.key) and not _gpm_tells(capabilities, metric)
        )
        if not wanted:
            return {}
        question = _question(capabilities.nvml, wanted)
        answer = capabilities.tried("fields", question.ask, handle)
        return {} if answer is None else _checked(capabilities, wanted, answer)

    def _means(self, capabilities: Capabilities, values: Values, seconds: float) -> Values:
        grown = {
            key: int(values[key]) - int(before)
            for key, before in self._before.items()
            if key in values
        }
        means: Values = {}
        for fields in (THERMAL, POWER):
            share = _share(grown, fields, seconds)
            if share is not None:
                means[fields[0].key] = share
        for metric in TRAFFIC:
            if metric.key in grown:
                means.update(self._traffic(capabilities, metric, grown[metric.key], seconds))
        return means

    def _traffic(
        self, capabilities: Capabilities, metric: Field, count: int, seconds: float
    ) -> Values:
        if count >= 0:
            column = column_of(metric.key)
            return {column: count * (KIB if metric in NVLINK else 1) / seconds}
        if metric in PCIE and self._before[metric.key] < NARROW:
            # fell before it ever passed 2^32: a 32-bit counter, which at PCIe's speed turns over
            # several times a second
            capabilities.shut(metric.key, "not_supported")
        return {}


class _Question:
    """The call nvmlDeviceGetFieldValues for these fields, its answers read as bytes: as the
    binding's objects they would cost more than the call.
    """

    _HEAD = struct.Struct("@IIqqII")  # nvmlFieldValue_t up to its value, a union of 8 bytes

    def __init__(self, nvml: Any, wanted: Tuple[Field, ...]) -> None:
        self._nvml = nvml
        self._fields = (nvml.c_nvmlFieldValue_t * len(wanted))()
        for item, metric in zip(self._fields, wanted):
            item.fieldId = metric.id
            item.scopeId = metric.scope
        self._bytes = memoryview(self._fields).cast("B")
        self._blank = bytes(self._bytes)

    def ask(self, handle: Any) -> List[Tuple[int, Optional[float]]]:
        """(nvmlReturn, value) of each field; None for a value of a type that nobody knows.

        Raises NVMLError.
        """
        self._bytes[:] = self._blank
        call = self._nvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")
        count = len(self._fields)
        self._nvml._nvmlCheckReturn(call(handle, ctypes.c_int32(count), self._fields))
        size = len(self._bytes) // count
        return [self._answer(place) for place in range(0, count * size, size)]

    def _answer(self, place: int) -> Tuple[int, Optional[float]]:
        *_, value_type, code = self._HEAD.unpack_from(self._bytes, place)
        if not 0 <= value_type < len(VALUE_LAYOUTS):
            return code, None
        return code, VALUE_LAYOUTS[value_type].unpack_from(self._bytes, place + self._HEAD.size)[0]


# all GPUs are asked one after the other, and mostly for the same
_question = lru_cache(maxsize=2)(_Question)


def _gpm_tells(capabilities: Capabilities, metric: Field) -> bool:
    key = ON_GPM.get(metric.key)
    return key is not None and capabilities.is_open("gpm") and capabilities.is_open(key)


def _checked(
    capabilities: Capabilities,
    wanted: Sequence[Field],
    answer: Sequence[Tuple[int, Optional[float]]],
) -> Values:
    """The values that were read, by key; NVML gives each field an error of its own and never raises
    for one.
    """
    values: Values = {}
    for metric, (code, value) in zip(wanted, answer):
        if code != SUCCESS:
            capabilities.failed(metric.key, code, "field %d" % metric.id)
        elif value is not None:
            capabilities.succeeded(metric.key)
            values[metric.key] = value
    return values


def _share(grown: Dict[str, int], fields: Tuple[Field, ...], seconds: float) -> Optional[float]:
    """Share of the time under any of these caps, at least: they may hold at once, so the longest
    counts, not the sum.

    None where the first, which every driver knows by this number, was not read or fell (the driver
    was loaded anew). The others mean other things to older drivers: what runs faster than time is
    none of these.
    """
    most = seconds * 1e9 * RATE_SLACK
    times = [grown.get(metric.key, -1) for metric in fields]
    if not 0 <= times[0] <= most:
        return None
    return min(1.0, max(time for time in times if time <= most) / (seconds * 1e9))
