"""The driver's own library: the only import of pynvml, and the only place that sees a milliwatt.

What can't be read is None, with a reason that is kept for an hour per GPU and metric;
a GPU that is lost stops nobody else. Facts about the calls: nvml.h and the notes beside them.
"""

import importlib
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from agent.reading import Event, GPUInfo, ProcessReading, Reading, SourceError

RETRY_UNREAD_MS = 3_600_000  # a capability that is missing is asked for again after an hour
RETRY_LOST_MS = 60_000
STRIKES = 3  # unknown errors in a row before a metric counts as unreadable
DRY_MS = 60_000  # a sample buffer silent for so long while the GPU works: the driver's clock began anew

# nvmlReturn_t, by what the agent does about it
SUCCESS, NOT_FOUND, TIMEOUT, UNKNOWN = 0, 6, 10, 999
DRIVER_GONE = {1, 9, 12}  # uninitialised, driver not loaded, library not found
MISMATCH = 18  # the driver was upgraded under a library that stays mapped: only a new process helps
LOST = {15, 16}  # fallen off the bus, reset required
WHY_UNREAD = {3: "not_supported", 13: "not_supported", 25: "not_supported", 4: "no_permission", 17: "operating_system"}

UTIL_SAMPLES = 1  # nvmlSamplingType_t: GPU utilisation
CLOCK_SM = 1
TEMPERATURE_GPU = 0
VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t
# CUDA cores of one SM; NVML tells the cores, not the SMs (CUDA programming guide, compute capabilities)
CORES_PER_SM = {(6, 0): 64, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}
NEWER_CORES_PER_SM = 128

PROCESS_CALLS = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)


@dataclass
class Device:
    """A GPU as this process knows it."""

    handle: Any
    info: GPUInfo
    cursor_us: int = 0  # newest sample seen, on the driver's clock, which may count from anywhere
    fresh_ms: Optional[int] = None  # when the sample buffer last had something new
    lost_until_ms: Optional[int] = None
    unread: Dict[str, Tuple[str, int]] = field(default_factory=dict)  # column -> (why, asked again at)
    strikes: Dict[str, int] = field(default_factory=dict)


class NVMLSource:
    """The GPUs of this host through NVML. Raises SourceError when there is no usable driver."""

    name = "nvml"

    def __init__(self) -> None:
        self._nvml = _load()
        self._devices: Dict[str, Device] = {}
        self._events: List[Event] = []
        self._now_ms = 0
        self._trouble: Optional[str] = None  # the event kind that was told last; None: the driver is well
        self._start()
        self._find()

    @property
    def must_restart(self) -> bool:
        """True when only a new process can read again: the driver was changed under us."""
        return self._trouble == "driver_mismatch"

    def driver(self) -> Optional[str]:
        """The driver's version; None while it does not answer."""
        try:
            return _text(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            return None

    def gpus(self) -> List[GPUInfo]:
        """Every GPU ever seen by this process, lost ones too. Raises SourceError while the driver is away."""
        if self._trouble is not None:
            self._start()
        self._find()
        return [self._describe(device) for device in self._devices.values()]

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The GPU now. Raises SourceError while it is lost or the driver is away."""
        self._now_ms = now_ms
        device = self._reachable(uuid)
        nvml, handle = self._nvml, device.handle
        rates = self._optional(device, "util_mean", nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._optional(device, "memory_used_bytes", self._memory, handle)
        milliwatts = self._optional(device, "power_w", nvml.nvmlDeviceGetPowerUsage, handle)
        millijoules = self._optional(device, "energy_j", nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        celsius = self._optional(device, "temperature_c", nvml.nvmlDeviceGetTemperature, handle, TEMPERATURE_GPU)
        megahertz = self._optional(device, "sm_clock_hz", nvml.nvmlDeviceGetClockInfo, handle, CLOCK_SM)
        self._found_again(device)
        return Reading(
            at_ms=now_ms,
            util=None if rates is None else rates.gpu / 100,
            util_samples=self._samples(device, is_working=rates is not None and rates.gpu > 0),
            memory_util=None if rates is None else rates.memory / 100,
            memory_used_bytes=None if memory is None else memory.used,
            memory_reserved_bytes=None if memory is None else memory.reserved,
            power_w=None if milliwatts is None else milliwatts / 1000,
            energy_j=None if millijoules is None else millijoules / 1000,
            temperature_c=None if celsius is None else float(celsius),
            sm_clock_hz=None if megahertz is None else megahertz * 1e6,
        )

    def processes(self, uuid: str) -> Optional[Sequence[ProcessReading]]:
        """Processes with a context; None when compute processes can't be read."""
        device = self._reachable(uuid)
        lists = [self._processes_by(device, calls) for calls in PROCESS_CALLS]
        if lists[0] is None:
            return None
        by_pid: Dict[int, Optional[int]] = {}
        for found in lists:
            for process in found or ():
                # the same process may hold a compute and a graphics context: its memory is named twice
                by_pid[process.pid] = process.usedGpuMemory if by_pid.get(process.pid) is None else by_pid[process.pid]
        return [ProcessReading(pid, memory) for pid, memory in by_pid.items()]

    def events(self, now_ms: int) -> List[Event]:
        """GPUs and drivers that went away or came back since the last call."""
        told, self._events = self._events, []
        return told

    def close(self) -> None:
        """Lets the driver go, as far as NVML can: the library itself stays mapped."""
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return

    def _start(self) -> None:
        try:
            self._nvml.nvmlInit()
            # NVML answers nvmlInit again from memory: only a call to the driver shows that it is there
            self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise self._driver_error(error) from error
        if self._trouble is not None:
            self._trouble = None
            self._events.append(Event(self._now_ms, "driver_ok", text="driver answers again"))

    def _find(self) -> None:
        """Takes up GPUs that were not seen before; one that does not answer is left for later."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise self._driver_error(error) from error
        if count == sum(device.lost_until_ms is None for device in self._devices.values()):
            return
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
            except self._nvml.NVMLError as error:
                if error.value in DRIVER_GONE or error.value == MISMATCH:
                    raise self._driver_error(error) from error
                continue
            known = self._devices.setdefault(uuid, Device(handle, GPUInfo(uuid, index)))
            # after a reset the old handle may be dead, and indices may have moved
            known.handle, known.info = handle, GPUInfo(uuid, index)

    def _describe(self, device: Device) -> GPUInfo:
        """The GPU with its limits; a lost one with what is known of it."""
        if device.lost_until_ms is not None:
            return device.info
        nvml, handle, info = self._nvml, device.handle, device.info

        def fact(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
            return self._optional(device, name, call, handle, *arguments)

        try:
            memory = self._optional(device, "memory_used_bytes", self._memory, handle)
            limit = fact("power_limit_w", nvml.nvmlDeviceGetEnforcedPowerLimit)
            clock = fact("sm_clock_max_hz", nvml.nvmlDeviceGetMaxClockInfo, CLOCK_SM)
            name, bus = fact("model", nvml.nvmlDeviceGetName), fact("bus_id", nvml.nvmlDeviceGetPciInfo_v3)
            persistence, minor = fact("persistence", nvml.nvmlDeviceGetPersistenceMode), fact("minor", nvml.nvmlDeviceGetMinorNumber)
            sm_count = self._sm_count(device)
        except SourceError:
            return info
        device.info = GPUInfo(
            uuid=info.uuid,
            index=info.index,
            model=None if name is None else _text(name),
            memory_total_bytes=None if memory is None else memory.total,
            power_limit_w=None if limit is None else limit / 1000,
            sm_count=sm_count,
            sm_clock_max_hz=None if clock is None else clock * 1e6,
            persistence=None if persistence is None else bool(persistence),
            bus_id=None if bus is None else _text(bus.busId),
            minor=minor,
            unread={column: why for column, (why, _) in device.unread.items() if not column.startswith("nvml")},
        )
        return device.info

    def _sm_count(self, device: Device) -> Optional[int]:
        cores = self._optional(device, "sm_count", self._nvml.nvmlDeviceGetNumGpuCores, device.handle)
        capability = self._optional(device, "sm_count", self._nvml.nvmlDeviceGetCudaComputeCapability, device.handle)
        if cores is None or capability is None:
            return None
        return int(cores) // CORES_PER_SM.get(tuple(capability), NEWER_CORES_PER_SM)

    def _memory(self, handle: Any) -> Any:
        """Version 2 alone: version 1 counts what the driver reserves as used, which would make every GPU look held."""
        return self._nvml.nvmlDeviceGetMemoryInfo(handle, version=self._nvml.nvmlMemory_v2)

    def _samples(self, device: Device, *, is_working: bool) -> List[Tuple[int, float]]:
        """New samples of the driver's buffer, oldest first: (microseconds of the driver's clock, ratio).

        The cursor is the newest time stamp that was returned; it is never compared with our clock.
        The first call only finds the place: what is older belongs to nobody's window.
        """
        call = self._nvml.nvmlDeviceGetSamples
        answer = self._optional(device, "util_samples", call, device.handle, UTIL_SAMPLES, device.cursor_us)
        value_type, samples = answer if answer is not None else (1, ())
        member = VALUE_MEMBERS[value_type] if 0 <= value_type < len(VALUE_MEMBERS) else "uiVal"
        stamped = ((sample.timeStamp, getattr(sample.sampleValue, member)) for sample in samples)
        new = sorted((stamp, value / 100) for stamp, value in stamped if stamp > device.cursor_us and 0 <= value <= 100)
        is_first, device.cursor_us = device.cursor_us == 0, new[-1][0] if new else device.cursor_us
        if new or not is_working or device.fresh_ms is None:
            device.fresh_ms = self._now_ms
        elif self._now_ms - device.fresh_ms > DRY_MS:
            device.cursor_us, device.fresh_ms = 0, self._now_ms
        return [] if is_first else new

    def _processes_by(self, device: Device, calls: Sequence[str]) -> Optional[Sequence[Any]]:
        """The list by the newest version of the call that this driver has; None when it can't be read."""
        for name in calls:
            call = getattr(self._nvml, name, None)  # an older binding may not have it
            found = None if call is None else self._optional(device, name, call, device.handle, empty=())
            if found is not None:
                if calls is PROCESS_CALLS[0]:
                    device.unread.pop("process_count", None)
                return list(found)
        if calls is PROCESS_CALLS[0]:
            device.unread["process_count"] = device.unread.get(calls[0], ("error", 0))
        return None

    def _optional(self, device: Device, column: str, call: Callable[..., Any], *arguments: Any, empty: Any = None) -> Any:
        """What the call answers; None where this GPU can't tell it, `empty` where there is just nothing new.

        Raises SourceError when the GPU is lost or the driver is away.
        """
        if column in device.unread and device.unread[column][1] > self._now_ms:
            return None
        try:
            answer = call(*arguments)
        except self._nvml.NVMLLibraryMismatchError:  # not an NVMLError: an old driver without the versioned call
            self._set_unread(device, column, "not_supported")
            return None
        except self._nvml.NVMLError as error:
            return self._failed(device, column, error, empty=empty)
        device.unread.pop(column, None)
        device.strikes.pop(column, None)
        return answer

    def _failed(self, device: Device, column: str, error: Any, *, empty: Any) -> Any:
        """Sorts an error: nothing new, unreadable, lost, or the driver is away."""
        # pynvml raises a bare NVMLError with value 0 for an empty success
        if error.value in (SUCCESS, NOT_FOUND, TIMEOUT):
            return empty
        if error.value in LOST:
            raise self._lost(device, error)
        if error.value in DRIVER_GONE or error.value == MISMATCH:
            raise self._driver_error(error)
        if error.value in WHY_UNREAD:
            self._set_unread(device, column, WHY_UNREAD[error.value])
            return None
        device.strikes[column] = device.strikes.get(column, 0) + 1
        if device.strikes[column] >= STRIKES:
            self._set_unread(device, column, "error")
        return None

    def _set_unread(self, device: Device, column: str, why: str) -> None:
        device.unread[column] = (why, self._now_ms + RETRY_UNREAD_MS)

    def _reachable(self, uuid: str) -> Device:
        """The device, unless it is lost and it is too early to try again."""
        device = self._devices.get(uuid)
        if device is None:
            raise SourceError("GPU %s is not here" % uuid)
        if device.lost_until_ms is not None and self._now_ms < device.lost_until_ms:
            raise SourceError("GPU %s is lost" % uuid)
        return device

    def _lost(self, device: Device, error: Any) -> SourceError:
        """The error to raise; the loss is told once."""
        if device.lost_until_ms is None:
            self._events.append(Event(self._now_ms, "gpu_lost", device.info.uuid, error.value, str(error)))
        device.lost_until_ms = self._now_ms + RETRY_LOST_MS
        return SourceError("GPU %s is lost" % device.info.uuid)

    def _found_again(self, device: Device) -> None:
        if device.lost_until_ms is not None:
            device.lost_until_ms = None
            device.cursor_us = 0
            self._events.append(Event(self._now_ms, "gpu_ok", device.info.uuid, text="GPU answers again"))

    def _driver_error(self, error: Any) -> SourceError:
        """The error to raise; the driver's absence is told once, its change too."""
        kind = "driver_mismatch" if error.value == MISMATCH else "driver_missing"
        if self._trouble != kind:
            self._trouble = kind
            self._events.append(Event(self._now_ms, kind, code=error.value, text=str(error)))
        if kind == "driver_mismatch":
            return SourceError("the NVIDIA driver was changed while its library was loaded: start the agent anew")
        return SourceError("the NVIDIA driver does not answer: %s" % error)


def _load() -> Any:
    """The official pynvml. Raises SourceError where it is missing or a look-alike."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError as error:
        raise SourceError("the Python package nvidia-ml-py is not installed") from error
    if not hasattr(module, "_nvmlGetFunctionPointer"):
        raise SourceError("the module pynvml is not NVIDIA's: install nvidia-ml-py")
    return module


def _text(value: Any) -> str:
    """NVML's text, which older bindings give as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
