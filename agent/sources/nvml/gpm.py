"""GPM, on Hopper and newer: what the SMs, the tensor cores and the memory did on average between
two samples.

The driver's own averages, exact over any time: one pair of samples per window is enough. Not the
profiler's counters: nothing is locked (NVIDIA, DCGM issue 62); some report a perturbation, hence
`--gpm off`.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional

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

    @property
    def key(self) -> str:
        return self.column + "@gpm"


METRICS = (
    Metric(1, "gr_engine_active", PERCENT),
    Metric(2, "sm_active", PERCENT),
    Metric(3, "sm_occupancy", PERCENT),
    Metric(5, "tensor_active", PERCENT),
    Metric(10, "dram_active", PERCENT),
    Metric(11, "fp64_active", PERCENT),
    Metric(12, "fp32_active", PERCENT),
    Metric(13, "fp16_active", PERCENT),
    Metric(20, "pcie_tx_bytes_s", MIB_S),
    Metric(21, "pcie_rx_bytes_s", MIB_S),
    Metric(60, "nvlink_rx_bytes_s", MIB_S),
    Metric(61, "nvlink_tx_bytes_s", MIB_S),
)
KEYS = tuple(metric.key for metric in METRICS)


@dataclass
class Target:
    """A GPU, or one GPU instance of it under MIG, with the sample that is kept until the
    next time.
    """

    capabilities: Capabilities
    handle: Any  # the GPU's, for an instance too
    instance: Optional[int] = None
    samples: List[Any] = field(default_factory=list)  # two, used in turn; the first is the kept one
    taken_ms: Optional[int] = None
    is_supported: bool = False


class GPM:
    """Asks one target after the other: concurrent calls have been seen to crash."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._request: Any = None

    def means(self, target: Target, now_ms: int) -> Dict[str, float]:
        """Averages since the last call, by column; nothing the first time, and where it can't be
        told.
        """
        wanted = [metric for metric in METRICS if target.capabilities.is_open(metric.key)]
        if not wanted or not target.capabilities.is_open("gpm") or not self._is_supported(target):
            return {}
        before_ms = target.taken_ms
        if before_ms is not None and 0 <= now_ms - before_ms < MIN_APART_MS:
            return {}
        if (
            not self._sample(target, now_ms)
            or before_ms is None
            or not 0 < now_ms - before_ms <= MAX_AGE_MS
        ):
            return {}
        return self._averages(target, wanted)

    def free(self, target: Target) -> None:
        """Gives the samples' memory back to the driver."""
        samples = target.samples
        target.samples = []
        target.taken_ms = None
        for sample in samples:
            try:
                self._nvml.nvmlGpmSampleFree(sample)
            except self._nvml.NVMLError:
                continue

    def _is_supported(self, target: Target) -> bool:
        if not target.is_supported:
            answer = target.capabilities.ask("gpm", "nvmlGpmQueryDeviceSupport", target.handle)
            target.is_supported = answer is not None and bool(answer.isSupportedDevice)
            if answer is not None and not answer.isSupportedDevice:
                target.capabilities.shut("gpm", "not_supported")
        return target.is_supported

    def _sample(self, target: Target, now_ms: int) -> bool:
        """Takes a sample beside the kept one and keeps it instead; False where the driver gives
        none.
        """
        ask = target.capabilities.ask
        while len(target.samples) < 2:
            sample = ask("gpm", "nvmlGpmSampleAlloc")
            if sample is None:
                return False
            target.samples.append(sample)
        kept, spare = target.samples
        if target.instance is None:
            answer = ask("gpm", "nvmlGpmSampleGet", target.handle, spare)
        else:
            answer = ask("gpm", "nvmlGpmMigSampleGet", target.handle, target.instance, spare)
        if answer is None:
            return False
        target.samples = [spare, kept]
        target.taken_ms = now_ms
        return True

    def _averages(self, target: Target, wanted: List[Metric]) -> Dict[str, float]:
        if self._request is None:
            self._request = self._nvml.c_nvmlGpmMetricsGet_t()
        request = self._request
        request.version = 1
        request.numMetrics = len(wanted)
        request.sample2, request.sample1 = target.samples
        for place, metric in enumerate(wanted):
            request.metrics[place].metricId = metric.id
        if target.capabilities.ask("gpm", "nvmlGpmMetricsGet", request) is None:
            return {}
        means = {}
        for place, metric in enumerate(wanted):
            value = _value(target.capabilities, metric, request.metrics[place])
            if value is not None:
                means[metric.column] = value
        return means


def _value(capabilities: Capabilities, metric: Metric, answer: Any) -> Optional[float]:
    """The metric in base units; None where it has an error of its own or is no number (an engine
    that was asleep).
    """
    if answer.nvmlReturn != SUCCESS:
        capabilities.failed(metric.key, answer.nvmlReturn, "GPM metric %d" % metric.id)
        return None
    capabilities.succeeded(metric.key)
    value = float(answer.value)
    if not math.isfinite(value) or not 0 <= value <= (
        MAX_PERCENT if metric.unit == PERCENT else MAX_MIB_S
    ):
        return None
    return min(1.0, value * metric.unit) if metric.unit == PERCENT else value * metric.unit
