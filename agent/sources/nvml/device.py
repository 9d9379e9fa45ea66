"""One GPU as this process knows it: what is asked of it each second, a few times and once per
window.
"""

from dataclasses import replace
from typing import Any, Dict, List, Optional, Tuple

from agent.readings import Event, GPUInfo, ProcessReading, Reading
from agent.sources.nvml import contexts, fields, gpm, identity, mig
from agent.sources.nvml.capabilities import FOREVER_MS, OFF, Capabilities
from agent.sources.nvml.gpm import GPM, Target
from agent.sources.nvml.health import Health
from agent.sources.nvml.library import MEMORY_V2
from agent.sources.nvml.samples import SampleBuffer, SampleCall

# A window is 10 s. Power, energy and the utilisation's samples are wanted each second; what changes
# slowly twice a window; averages and counters, which are exact over any time, once. The costly
# calls (milliseconds) are among the last.
SLOW_MS = 5000
COSTLY_MS = 10_000
# averages begin with the second sample: the first is not a window's length before it
SECOND_MS = 2000
DESCRIBED_MS = 60_000
# Engines beside the compute units, by wire column; all but the first two since driver 530.
ENGINES = (
    ("encoder_ratio", "nvmlDeviceGetEncoderUtilization"),
    ("decoder_ratio", "nvmlDeviceGetDecoderUtilization"),
    ("jpeg_ratio", "nvmlDeviceGetJpgUtilization"),
    ("ofa_ratio", "nvmlDeviceGetOfaUtilization"),
)
RATES = "nvmlDeviceGetUtilizationRates"
TEMPERATURE_GPU = 0
CLOCK_SM = 1

GROUPS = {"gpm": gpm.KEYS, "fields": fields.KEYS}
DOORS = {
    "pcie_tx_bytes_s": 2,
    "pcie_rx_bytes_s": 2,
    "nvlink_tx_bytes_s": 2,
    "nvlink_rx_bytes_s": 2,
    "process_count": 2,
}


class Device:
    """A GPU, with its MIG instances when it is cut into some."""

    def __init__(
        self, nvml: Any, handle: Any, info: GPUInfo, *, reader: Optional[GPM], sample: SampleCall
    ) -> None:
        self._nvml = nvml
        self._reader = reader
        self._sample = sample
        self.handle = handle
        self.info = info
        self._now_ms = 0
        self.capabilities = self._new_capabilities()
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

    def read(self, now_ms: int) -> Reading:
        """The GPU now. Raises GPULostError and DriverAwayError."""
        self._now_ms = self.capabilities.now_ms = now_ms
        self._note_time(now_ms)
        ask = self.capabilities.ask
        handle = self.handle
        samples = self._buffer.new(self.capabilities, handle)
        rates = ask("util_mean", RATES, handle) if self._is_slow or not samples else None
        if not samples:
            self._buffer.notice_silence(now_ms, is_working=rates is not None and rates.gpu > 0)
        power = self._power()
        slow = self._slow() if self._is_slow else {}
        means, health = self._costly(now_ms) if self._is_costly else ({}, {})
        return Reading(
            at_ms=now_ms,
            # the driver's snapshot is the last of its samples: one of both calls is enough
            util=samples[-1][1] if samples else _ratio(rates, "gpu"),
            util_samples=samples,
            memory_util=_ratio(rates, "memory"),
            means=means,
            **power,
            **slow,
            **health,
        )

    def _power(self) -> Dict[str, Any]:
        """Watts and joules, by Reading's names."""
        ask = self.capabilities.ask
        milliwatts = ask("power_w", "nvmlDeviceGetPowerUsage", self.handle)
        millijoules = ask("energy_j", "nvmlDeviceGetTotalEnergyConsumption", self.handle)
        return {
            "power_w": None if milliwatts is None else milliwatts / 1000,
            "energy_j": None if millijoules is None else millijoules / 1000,
        }

    def _slow(self) -> Dict[str, Any]:
        """What changes slowly, by Reading's names."""
        ask = self.capabilities.ask
        memory = ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", self.handle, MEMORY_V2)
        celsius = ask("temperature_c", "nvmlDeviceGetTemperature", self.handle, TEMPERATURE_GPU)
        megahertz = ask("sm_clock_hz", "nvmlDeviceGetClockInfo", self.handle, CLOCK_SM)
        return {
            "memory_used_bytes": None if memory is None else memory.used,
            "memory_reserved_bytes": None if memory is None else memory.reserved,
            "temperature_c": None if celsius is None else float(celsius),
            "sm_clock_hz": None if megahertz is None else megahertz * 1e6,
        }

    def read_instance(self, instance: mig.Instance, now_ms: int) -> Reading:
        """One MIG instance now, at the same beat as its GPU. Raises as read."""
        return instance.read(
            now_ms, reader=self._reader, is_slow=self._is_slow, is_costly=self._is_costly
        )

    def processes(self, now_ms: int) -> Optional[List[ProcessReading]]:
        """The GPU's processes, without those of its instances; None where they can't be read.

        Raises as read.
        """
        listed = self._lists.all(now_ms)
        if listed is None:
            return None
        return contexts.readings(
            [
                process
                for process in listed
                if not self._is_cut or contexts.is_of_no_instance(process)
            ]
        )

    def instance_processes(
        self, instance: mig.Instance, now_ms: int
    ) -> Optional[List[ProcessReading]]:
        """The instance's processes: out of the GPU's list, which needs privileges under MIG, else
        its own. Raises as read.
        """
        listed = self._lists.all(now_ms)
        if listed is None:
            listed = contexts.ProcessLists(instance.capabilities, instance.handle).all(now_ms)
            return None if listed is None else contexts.readings(listed)
        return contexts.readings([process for process in listed if instance.holds(process)])

    def describe(self, now_ms: int) -> List[GPUInfo]:
        """The GPU and its instances; looked at anew each minute, and when MIG was turned on or off.

        Raises as read.
        """
        self._now_ms = self.capabilities.now_ms = now_ms
        is_cut = mig.is_cut(self.capabilities, self.handle)
        is_old = self._described_ms is None or not 0 <= now_ms - self._described_ms < DESCRIBED_MS
        is_stale = any(instance.is_stale for instance in self.instances.values())
        if is_cut != self._is_cut:
            self._turn(is_cut=is_cut)
        if is_old or is_stale or is_cut != bool(self.instances):
            self.info = identity.refreshed(self.info, self.capabilities, self.handle)
            self._described_ms = now_ms
            self._cut_anew()
        return self.described()

    def described(self) -> List[GPUInfo]:
        """The GPU and its instances as they were last seen."""
        unread = self.capabilities.unread()
        if unread != self.info.unread:
            self.info = replace(self.info, unread=unread)
        return [self.info, *(instance.describe() for instance in self.instances.values())]

    def free(self) -> None:
        """Gives back what the driver lent: the GPM samples."""
        for target in (self._target, *(instance.gpm for instance in self.instances.values())):
            if self._reader is not None and target is not None:
                self._reader.free(target)

    def _begin(self, handle: Any) -> None:
        self.handle = handle
        self.capabilities.forget()
        self._buffer = SampleBuffer(self._sample)
        self._fields = fields.FieldReader()
        self._utilisation = contexts.ProcessUtilisation()
        self._lists = contexts.ProcessLists(self.capabilities, handle)
        self._target = None if self._reader is None else Target(self.capabilities, handle)
        self._read_ms: Optional[int] = None  # the last read; None: the next is the first
        self._costly_ms: Optional[int] = None
        self._costly_count = 0
        self._is_slow = self._is_costly = False
        self._described_ms = None

    def _note_time(self, now_ms: int) -> None:
        """Whether it is time for the slow and for the costly calls: at the clock's marks, so that
        windows end with them.
        """
        before_ms = self._read_ms
        self._read_ms = now_ms
        self._is_slow = before_ms is None or before_ms // SLOW_MS != now_ms // SLOW_MS
        before_ms = self._costly_ms
        self._is_costly = (
            before_ms is None
            or before_ms // COSTLY_MS != now_ms // COSTLY_MS
            or (self._costly_count == 1 and now_ms - before_ms >= SECOND_MS)
        )
        if self._is_costly:
            self._costly_ms = now_ms
            self._costly_count += 1

    def _costly(self, now_ms: int) -> Tuple[Dict[str, float], Dict[str, Any]]:
        """(averages by column, what the fields say besides by Reading's names)."""
        means: Dict[str, float] = {}
        # a card that is cut has no averages of its own: they are its instances'
        if not self._is_cut and self._reader is not None and self._target is not None:
            means = self._reader.means(self._target, now_ms)
        averages, values = self._fields.read(self.capabilities, self.handle)
        self.events += self._health.events(self.info.uuid, now_ms, values)
        means.update(averages)
        means.update(self._engines())
        errors = values.get("ecc_uncorrected")
        celsius = values.get("memory_temperature_c")
        return means, {
            "ecc_uncorrected": None if errors is None else int(errors),
            "memory_temperature_c": float(celsius) if celsius else None,  # 0: no sensor
        }

    def _engines(self) -> Dict[str, float]:
        means: Dict[str, float] = {}
        for column, call in ENGINES:
            percent = self.capabilities.ask(column, call, self.handle)
            if percent is not None:
                means[column] = min(1.0, percent[0] / 100)
        if not self.capabilities.is_open("util_mean"):
            ratio = self._utilisation.mean(self.capabilities, self.handle)
            if ratio is not None:
                means["process_sm_ratio"] = ratio
        return means

    def _turn(self, *, is_cut: bool) -> None:
        """MIG was turned on or off: other things can be read now."""
        self._is_cut = is_cut
        self.free()
        self._begin(self.handle)

    def _cut_anew(self) -> None:
        """The instances as they are now; those that are still there keep what is known of them."""
        instances: Dict[str, mig.Instance] = {}
        if self._is_cut:
            instances = mig.instances(
                self.info,
                self.capabilities,
                self.handle,
                fresh=self._new_capabilities,
                with_gpm=self._reader is not None,
            )
        for uuid, instance in self.instances.items():
            if uuid in instances and not instance.is_stale:
                instance.handle = instances[uuid].handle
                instances[uuid] = instance
            elif self._reader is not None and instance.gpm is not None:
                self._reader.free(instance.gpm)
        self.instances = instances
        if self._is_cut:
            if self._reader is not None:
                self.capabilities.shut("gpm", "not_supported", until_ms=FOREVER_MS)
            self._lists.forget()

    def _new_capabilities(self) -> Capabilities:
        capabilities = Capabilities(self._nvml, groups=GROUPS, doors=DOORS, now_ms=self._now_ms)
        if self._reader is None:
            capabilities.shut("gpm", OFF, until_ms=FOREVER_MS)
        return capabilities


def _ratio(rates: Any, name: str) -> Optional[float]:
    return None if rates is None else getattr(rates, name) / 100
