"""One GPU as this process knows it: what is asked of it each second, a few times and once per
window.
"""

from collections import Counter
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence

from agent.clock import is_recent
from agent.readings import Event, GPUInfo, ProcessReading, Reading
from agent.sources.nvml import contexts, fields, gpm, identity, mig
from agent.sources.nvml.capabilities import (
    FOREVER_MS,
    OFF,
    Capabilities,
    Quantity,
    column_of,
    hertz,
    thousandth,
)
from agent.sources.nvml.gpm import GPM
from agent.sources.nvml.health import Health
from agent.sources.nvml.library import NO_INSTANCE
from agent.sources.nvml.samples import SampleBuffer, SampleCall


def _engine_ratio(answer: Sequence[int]) -> float:
    """Of percent, and of how many microseconds."""
    return min(1.0, answer[0] / 100)


# A window is 10 s. Power, energy and the utilisation's samples are wanted each second; what changes
# slowly twice a window; averages and counters, which are exact over any time, once. The costly
# calls (milliseconds) are among the last.
SLOW_MS = 5000
COSTLY_MS = 10_000
# averages begin with the second sample: the first is not a window's length before it
SECOND_MS = 2000
DESCRIBED_MS = 60_000
# Engines beside the compute units; all but the first two since driver 530.
ENGINES = (
    Quantity("encoder_ratio", "nvmlDeviceGetEncoderUtilization", _engine_ratio),
    Quantity("decoder_ratio", "nvmlDeviceGetDecoderUtilization", _engine_ratio),
    Quantity("jpeg_ratio", "nvmlDeviceGetJpgUtilization", _engine_ratio),
    Quantity("ofa_ratio", "nvmlDeviceGetOfaUtilization", _engine_ratio),
)
POWER = (
    Quantity("power_w", "nvmlDeviceGetPowerUsage", thousandth),
    Quantity("energy_j", "nvmlDeviceGetTotalEnergyConsumption", thousandth),
)
TEMPERATURE_GPU = 0
SLOW = (
    Quantity("temperature_c", "nvmlDeviceGetTemperature", float, (TEMPERATURE_GPU,)),
    Quantity("sm_clock_hz", "nvmlDeviceGetClockInfo", hertz, (identity.CLOCK_SM,)),
)
RATES = "nvmlDeviceGetUtilizationRates"

GROUPS = {"gpm": gpm.KEYS, "fields": fields.KEYS}
# how many calls lead to each column
DOORS = Counter(map(column_of, (*gpm.KEYS, *fields.KEYS, *contexts.KEYS)))


class Device:
    """A GPU, with its MIG instances when it is cut into some."""

    def __init__(
        self, nvml: Any, handle: Any, info: GPUInfo, *, with_gpm: bool, sample: SampleCall
    ) -> None:
        self._sample = sample
        self.handle = handle
        self.info = info
        self.capabilities = Capabilities(nvml, groups=GROUPS, doors=DOORS)
        if not with_gpm:
            self.capabilities.shut("gpm", OFF, until_ms=FOREVER_MS)
        self.instances: Dict[str, mig.Instance] = {}
        self.lost_until_ms: Optional[int] = None
        self.is_gone = False  # no longer among the driver's GPUs: no use in asking
        self.events: List[Event] = []
        self._health = Health()
        self._is_cut = False
        self._described_ms: Optional[int] = None
        self._begin(handle)

    @property
    def is_lost(self) -> bool:
        """Whether it was lost when it was last asked, or is no longer there."""
        return self.is_gone or self.lost_until_ms is not None

    def take_up(self, handle: Any, index: int) -> None:
        """The GPU under a new handle: the old one may be dead after a reset, and indices may have
        moved.
        """
        self.free()
        self.info = replace(self.info, index=index)
        self.is_gone = False
        if self.lost_until_ms is not None:
            self.lost_until_ms = 0  # tried at once
        self._begin(handle)

    def read(self, now_ms: int, instance: Optional[mig.Instance]) -> Reading:
        """The GPU now, or one of its instances, at the same beat. Raises GPULostError and
        DriverAwayError.
        """
        if instance is not None:
            return instance.read(now_ms, is_slow=self._is_slow, is_costly=self._is_costly)
        self.capabilities.now_ms = now_ms
        self._note_time(now_ms)
        values = self._utilisation(now_ms)
        values.update(self.capabilities.read(POWER, self.handle))
        if self._is_slow:
            values.update(self.capabilities.read(SLOW, self.handle))
            values.update(identity.memory_bytes(self.capabilities, self.handle))
        if self._is_costly:
            values.update(self._costly(now_ms))
        return Reading(now_ms, **values)

    def _utilisation(self, now_ms: int) -> Dict[str, Any]:
        """By Reading's names. The driver's snapshot is the last of its samples: one of both calls
        is enough.
        """
        samples = self._buffer.new(self.capabilities, self.handle)
        rates = None
        if self._is_slow or not samples:
            rates = self.capabilities.ask("util_mean", RATES, self.handle)
        values: Dict[str, Any] = {"util_samples": samples}
        if rates is not None:
            values.update(util=rates.gpu / 100, memory_util=rates.memory / 100)
        if samples:
            values["util"] = samples[-1][1]
        else:
            self._buffer.notice_silence(now_ms, is_working=values.get("util", 0) > 0)
        return values

    def processes(
        self, now_ms: int, instance: Optional[mig.Instance]
    ) -> Optional[List[ProcessReading]]:
        """The processes of the GPU, without those of its instances, or of one of these; None where
        they can't be read. Raises as read.
        """
        listed = self._lists.all(now_ms)
        if listed is None and instance is not None:
            # the GPU's list needs privileges under MIG
            listed = contexts.ProcessLists(instance.capabilities, instance.handle).all(now_ms)
        elif listed is not None and instance is not None:
            listed = [process for process in listed if instance.holds(process)]
        elif listed is not None and self._is_cut:
            listed = [process for process in listed if process.gpuInstanceId == NO_INSTANCE]
        return None if listed is None else contexts.readings(listed)

    def describe(self, now_ms: int) -> List[GPUInfo]:
        """The GPU and its instances; looked at anew each minute, and when MIG was turned on or off.

        Raises as read.
        """
        self.capabilities.now_ms = now_ms
        is_cut = mig.is_cut(self.capabilities, self.handle)
        is_old = not is_recent(self._described_ms, now_ms, DESCRIBED_MS)
        is_stale = any(instance.is_stale for instance in self.instances.values())
        if is_cut != self._is_cut:  # MIG was turned on or off: other things can be read now
            self._is_cut = is_cut
            self.free()
            self._begin(self.handle)
        if is_old or is_stale or is_cut != bool(self.instances):
            self.info = identity.refreshed(self.info, self.capabilities, self.handle)
            self._described_ms = now_ms
            self._cut_anew()
        return self.described()

    def described(self) -> List[GPUInfo]:
        """The GPU and its instances as they were last seen."""
        self.info = identity.with_unread(self.info, self.capabilities)
        return [self.info, *(instance.describe() for instance in self.instances.values())]

    def free(self) -> None:
        """Gives back what the driver lent: the GPM samples."""
        for averages in (self._gpm, *(instance.gpm for instance in self.instances.values())):
            averages.free()

    def _begin(self, handle: Any) -> None:
        self.handle = handle
        self.capabilities.forget()
        self._buffer = SampleBuffer(self._sample)
        self._fields = fields.FieldReader()
        self._processes = contexts.ProcessUtilisation()
        self._lists = contexts.ProcessLists(self.capabilities, handle)
        self._gpm = GPM(self.capabilities, handle)
        self._read_ms: Optional[int] = None  # the last read; None: the next is the first
        self._costly_ms: Optional[int] = None
        self._costly_count = 0
        self._is_slow = self._is_costly = False
        self._described_ms = None

    def _note_time(self, now_ms: int) -> None:
        """Whether it is time for the slow and for the costly calls: at the clock's marks, so that
        windows end with them.
        """
        costly_ms = self._costly_ms
        self._is_slow = _is_time(self._read_ms, now_ms, SLOW_MS)
        self._is_costly = _is_time(costly_ms, now_ms, COSTLY_MS) or (
            self._costly_count == 1 and costly_ms is not None and now_ms - costly_ms >= SECOND_MS
        )
        self._read_ms = now_ms
        if self._is_costly:
            self._costly_ms = now_ms
            self._costly_count += 1

    def _costly(self, now_ms: int) -> Dict[str, Any]:
        """Averages, and what the fields say besides, by Reading's names."""
        # a card that is cut has no averages of its own: they are its instances'
        means = {} if self._is_cut else self._gpm.means(now_ms)
        averages, values = self._fields.read(self.capabilities, self.handle)
        self.events += self._health.events(self.info.uuid, now_ms, values)
        means.update(averages)
        means.update(self.capabilities.read(ENGINES, self.handle))
        if not self.capabilities.is_open("util_mean"):
            means.update(self._processes.mean(self.capabilities, self.handle))
        health: Dict[str, Any] = {"means": means}
        if "ecc_uncorrected" in values:
            health["ecc_uncorrected"] = int(values["ecc_uncorrected"])
        if values.get("memory_temperature_c"):  # 0: no sensor
            health["memory_temperature_c"] = float(values["memory_temperature_c"])
        return health

    def _cut_anew(self) -> None:
        """The instances as they are now; those that are still there keep what is known of them."""
        instances: Dict[str, mig.Instance] = {}
        if self._is_cut:
            instances = mig.instances(self.info, self.capabilities, self.handle)
        for uuid, instance in self.instances.items():
            if uuid in instances and not instance.is_stale:
                instance.handle = instances[uuid].handle
                instances[uuid] = instance
            else:
                instance.gpm.free()
        self.instances = instances
        if self._is_cut:
            mig.shut_gpm(self.capabilities)
            self._lists.forget()


def _is_time(before_ms: Optional[int], now_ms: int, every_ms: int) -> bool:
    """Whether a mark of the clock lies between the two."""
    return before_ms is None or before_ms // every_ms != now_ms // every_ms
