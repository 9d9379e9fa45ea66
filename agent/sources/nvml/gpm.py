"""GPM, on Hopper and newer: what the SMs, the tensor cores and the memory did on average between
two samples.

The driver's own averages, exact over any time: one pair of samples per window is enough. Not the
profiler's counters: nothing is locked (NVIDIA, DCGM issue 62); some report a perturbation, hence
`--gpm off`.
"""

import ctypes
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, List, NamedTuple, Optional, Tuple

from agent.clock import is_recent
from agent.readings import Values
from agent.sources.nvml.capabilities import Capabilities
from agent.sources.nvml.library import SUCCESS

PERCENT = 0.01
MIB_S = 1024.0 * 1024.0
MIN_APART_MS = 100  # the driver refreshes its samples no faster
# of the sample before: an average over a suspend or a lost GPU is nobody's window
MAX_AGE_MS = 30_000
# What is beyond these is a counter that was reset between the samples, not a reading.
MAX_PERCENT = 110.0
MAX_MIB_S = 1e7


class Metric(NamedTuple):
    """One of nvmlGpmMetricId_t, the wire's column that it fills, and what one of it is in base
    units.
    """

    id: int
    column: str
    unit: float
    key: str  # column@gpm


def _metric(id: int, column: str, unit: float) -> Metric:
    return Metric(id, column, unit, column + "@gpm")


METRICS = (
    _metric(1, "gr_engine_active", PERCENT),
    _metric(2, "sm_active", PERCENT),
    _metric(3, "sm_occupancy", PERCENT),
    _metric(5, "tensor_active", PERCENT),
    _metric(10, "dram_active", PERCENT),
    _metric(11, "fp64_active", PERCENT),
    _metric(12, "fp32_active", PERCENT),
    _metric(13, "fp16_active", PERCENT),
    _metric(20, "pcie_tx_bytes_s", MIB_S),
    _metric(21, "pcie_rx_bytes_s", MIB_S),
    _metric(60, "nvlink_rx_bytes_s", MIB_S),
    _metric(61, "nvlink_tx_bytes_s", MIB_S),
)
KEYS = tuple(metric.key for metric in METRICS)


@dataclass
class GPM:
    """The averages of a GPU, or of one GPU instance of it under MIG, with the sample that is kept
    until the next time. All are asked one after the other: concurrent calls have been seen to
    crash.
    """

    capabilities: Capabilities
    handle: Any  # the GPU's, for an instance too
    instance: Optional[int] = None
    samples: List[Any] = field(default_factory=list)  # two, used in turn; the first is the kept one
    taken_ms: Optional[int] = None
    is_supported: bool = False

    def means(self, now_ms: int) -> Values:
        """Averages since the last call, by column; nothing the first time, and where it can't be
        told.
        """
        is_open = self.capabilities.is_open
        wanted = tuple(metric for metric in METRICS if is_open(metric.key))
        if not wanted or not is_open("gpm") or not self._can_ask():
            return {}
        before_ms = self.taken_ms
        if is_recent(before_ms, now_ms, MIN_APART_MS) or not self._sample(now_ms):
            return {}
        return self._averages(wanted) if is_recent(before_ms, now_ms, MAX_AGE_MS + 1) else {}

    def free(self) -> None:
        """Gives the samples' memory back to the driver."""
        nvml = self.capabilities.nvml
        self.taken_ms = None
        while self.samples:
            with suppress(nvml.NVMLError):
                nvml.nvmlGpmSampleFree(self.samples.pop())

    def _can_ask(self) -> bool:
        if not self.is_supported:
            answer = self.capabilities.ask("gpm", "nvmlGpmQueryDeviceSupport", self.handle)
            self.is_supported = answer is not None and bool(answer.isSupportedDevice)
            if answer is not None and not self.is_supported:
                self.capabilities.shut("gpm", "not_supported")
        return self.is_supported

    def _sample(self, now_ms: int) -> bool:
        """Takes a sample beside the kept one and keeps it instead; False where the driver gives
        none.
        """
        ask = self.capabilities.ask
        while len(self.samples) < 2:
            sample = ask("gpm", "nvmlGpmSampleAlloc")
            if sample is None:
                return False
            self.samples.append(sample)
        spare = self.samples[1]
        if self.instance is None:
            answer = ask("gpm", "nvmlGpmSampleGet", self.handle, spare)
        else:
            answer = ask("gpm", "nvmlGpmMigSampleGet", self.handle, self.instance, spare)
        if answer is None:
            return False
        self.samples.reverse()
        self.taken_ms = now_ms
        return True

    def _averages(self, wanted: Tuple[Metric, ...]) -> Values:
        question = _question(self.capabilities.nvml, wanted)
        question.clear()
        question.request.sample2, question.request.sample1 = self.samples
        if self.capabilities.ask("gpm", "nvmlGpmMetricsGet", question.request) is None:
            return {}
        values = {}
        for metric, (_, code, number) in zip(wanted, question.answers()):
            value = _value(self.capabilities, metric, code, number)
            if value is not None:
                values[metric.column] = value
        return values


class _Question:
    """An nvmlGpmMetricsGet_t for these metrics, its answers read as bytes: as the binding's objects
    they would cost more than the call.
    """

    def __init__(self, nvml: Any, wanted: Tuple[Metric, ...]) -> None:
        self.request = nvml.c_nvmlGpmMetricsGet_t()
        self.request.version = 1
        self.request.numMetrics = len(wanted)
        for place, metric in enumerate(wanted):
            self.request.metrics[place].metricId = metric.id
        size = ctypes.sizeof(self.request.metrics[0])
        # metricId, nvmlReturn, value; what follows are names
        self._layout = struct.Struct("@IId%dx" % (size - 16))
        first = type(self.request).metrics.offset
        self._bytes = memoryview(self.request).cast("B")[: first + len(wanted) * size]
        self._answers = self._bytes[first:]
        self._blank = bytes(self._bytes)

    def clear(self) -> None:
        """As it was before the last answer."""
        self._bytes[:] = self._blank

    def answers(self) -> Any:
        """(id, nvmlReturn, value) of each metric."""
        return self._layout.iter_unpack(self._answers)


# all GPUs are asked one after the other, and for the same
_question = lru_cache(maxsize=1)(_Question)


def _value(capabilities: Capabilities, metric: Metric, code: int, value: float) -> Optional[float]:
    """The metric in base units; None where it has an error of its own or is no number (an engine
    that was asleep).
    """
    if code != SUCCESS:
        capabilities.failed(metric.key, code, "GPM metric %d" % metric.id)
        return None
    capabilities.succeeded(metric.key)
    is_percent = metric.unit == PERCENT
    if not 0 <= value <= (MAX_PERCENT if is_percent else MAX_MIB_S):  # NaN neither
        return None
    return min(1.0, value * metric.unit) if is_percent else value * metric.unit
