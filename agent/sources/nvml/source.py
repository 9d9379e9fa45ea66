"""NVML as a source: which GPUs there are, which are lost, and whether the driver is there
at all.
"""

from pathlib import Path
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple, TypeVar

from agent import procfs
from agent.clock import is_recent
from agent.readings import (
    DriverChangedError,
    Event,
    GPUInfo,
    ProcessList,
    Reading,
    SourceError,
)
from agent.sources.nvml.device import Device
from agent.sources.nvml.library import (
    MISMATCH,
    DriverAwayError,
    GPULostError,
    load,
    raise_grave,
    text_of,
)
from agent.sources.nvml.mig import Instance
from agent.sources.nvml.samples import SampleCall
from agent.sources.nvml.xid import XIDWatch

RETRY_LOST_MS = 60_000
LOOKED_MS = 60_000  # between two looks at the list of GPUs, while their number stays
# a folder per card that the kernel's driver holds, whoever may open it
CARDS = Path("/proc/driver/nvidia/gpus")
Answer = TypeVar("Answer")


class NVMLSource:
    """The GPUs of this host through NVML.

    Raises SourceError when there is no usable driver, DriverChangedError when the driver was
    changed under this process: its library stays mapped, so that only a new process (the daemon
    re-executes itself) can read again. After close() another NVMLSource may be opened, in the same
    process.
    """

    name = "nvml"

    def __init__(self, *, gpm: bool = True, cards: Path = CARDS) -> None:
        self._nvml = load()
        self._cards = cards
        self._with_gpm = gpm
        self._sample = SampleCall(self._nvml)
        self._devices: Dict[str, Device] = {}
        self._events: List[Event] = []
        self._now_ms = 0
        # places of GPUs that were lost before anybody knew their UUIDs, and what the driver says
        self._unnamed: Dict[int, str] = {}
        self._told: Set[int] = set()  # of them
        # the event kind that was told last; None: the driver is well
        self._trouble: Optional[str] = None
        self._is_open = False
        self._count = 0
        self._looked_ms: Optional[int] = None
        self._held_cards: FrozenSet[str] = frozenset()
        self._watch = XIDWatch(self._nvml)
        try:
            self._start()
            self._find()
        except SourceError:
            self.close()
            raise

    def driver(self) -> Optional[str]:
        """The driver's version; None while it does not answer."""
        try:
            return text_of(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            return None

    def versions(self) -> Dict[str, str]:
        """Of NVML, and of the newest CUDA that this driver runs; without what it does not tell."""
        try:
            cuda = int(self._nvml.nvmlSystemGetCudaDriverVersion_v2())
            return {
                "NVML": text_of(self._nvml.nvmlSystemGetNVMLVersion()),
                "CUDA": "%d.%d" % (cuda // 1000, cuda % 1000 // 10),
            }
        except self._nvml.NVMLError:
            return {}

    def gpus(self) -> List[GPUInfo]:
        """Every GPU ever seen by this process, lost ones too, each followed by its MIG instances.

        Raises SourceError while the driver is away.
        """
        # other cards than at the start: plugged in, or taken out
        if self._trouble is not None or self._held_cards != self._card_names():
            self._restart()
        self._find()
        return [info for device in list(self._devices.values()) for info in self._described(device)]

    def read(self, uuid: str, now_ms: int) -> Optional[Reading]:
        """The GPU or the instance now.

        Raises SourceError while it is lost or the driver is away.
        """
        self._now_ms = now_ms
        device, instance = self._reachable(uuid)
        reading = self._guarded(device, lambda: device.read(now_ms, instance))
        if instance is None and device.lost_until_ms is not None:
            device.lost_until_ms = None
            self._tell("gpu_ok", uuid, text="GPU answers again")
        return reading

    def processes(self, uuid: str) -> ProcessList:
        """Processes with a context; None when compute processes can't be read."""
        device, instance = self._reachable(uuid)
        return self._guarded(device, lambda: device.processes(self._now_ms, instance))

    def events(self, now_ms: int) -> List[Event]:
        """XIDs, and GPUs and drivers that went away or came back, since the last call."""
        events = self._events + self._watch.take(now_ms)
        self._events = []
        for device in self._devices.values():
            events += device.events
            device.events = []
        return events + self._unnamed_lost(now_ms)

    def _unnamed_lost(self, now_ms: int) -> List[Event]:
        """Of each GPU that was lost before the agent began, once, that it is."""
        text = "GPU %d was lost before the agent began: %s"
        new = sorted(set(self._unnamed) - self._told)
        self._told.update(new)
        return [
            Event(now_ms, "gpu_lost", text=text % (index, self._unnamed[index])) for index in new
        ]

    def close(self) -> None:
        """Lets go of everything of the driver, so that it can be unloaded; the library itself stays
        mapped.
        """
        if not self._is_open:
            return  # a second shutdown would close the library under a source that was opened since
        for device in self._devices.values():
            device.free()
        if not self._watch.close():
            # a call hangs in the driver: shutting down under it would take this process with it
            return
        self._is_open = False
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return

    def _start(self) -> None:
        try:
            self._nvml.nvmlInit()
            self._is_open = True
            # NVML may answer nvmlInit from memory: only a call to the driver shows that it is there
            self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise self._driver_error(error.value, str(error)) from error
        self._held_cards = self._card_names()
        if self._trouble is not None:
            self._trouble = None
            self._tell("driver_ok", text="driver answers again")

    def _restart(self) -> None:
        """NVML from its beginning: it finds drivers that came back, and cards that were plugged in,
        only there.
        """
        self.close()
        self._events += self._watch.take(self._now_ms)
        self._watch = XIDWatch(self._nvml)
        self._start()
        self._looked_ms = None

    def _find(self) -> None:
        """Takes up GPUs that were not seen before and those that came back; who is no longer there
        is lost.
        """
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise self._driver_error(error.value, str(error)) from error
        if count == self._count and is_recent(self._looked_ms, self._now_ms, LOOKED_MS):
            return
        is_anew = self._looked_ms is None
        self._count = count
        self._looked_ms = self._now_ms
        devices = {
            uuid: index for index in range(count) for uuid in self._look_at(index, is_anew=is_anew)
        }
        if len(devices) < count:
            return  # one does not answer: nobody knows which
        for uuid, device in self._devices.items():
            if uuid not in devices and not device.is_gone:
                device.is_gone = True
                self._lost(device, GPULostError(0, "no longer among the driver's GPUs"))

    def _look_at(self, index: int, *, is_anew: bool) -> List[str]:
        """The UUID at this place, taken up where it is new; nothing where it does not answer, which
        is tried again.
        """
        answer = self._handle_at(index)
        if answer is None:
            return []
        handle, uuid = answer
        if self._unnamed.pop(index, None) is not None and index in self._told:
            self._told.discard(index)
            self._tell("gpu_ok", uuid, text="GPU answers now")
        device = self._devices.get(uuid)
        if device is None:
            self._devices[uuid] = Device(
                self._nvml,
                handle,
                GPUInfo(uuid, index),
                with_gpm=self._with_gpm,
                sample=self._sample,
            )
        elif is_anew or device.is_lost or device.info.index != index:
            device.take_up(handle, index)
        else:
            return [uuid]
        self._watch.add(uuid, handle)
        return [uuid]

    def _handle_at(self, index: int) -> Optional[Tuple[Any, str]]:
        """(handle, UUID) at this place; None where it does not answer."""
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            return handle, text_of(self._nvml.nvmlDeviceGetUUID(handle))
        except self._nvml.NVMLError as error:
            try:
                raise_grave(error.value, str(error))
            except GPULostError as lost:
                if all(device.info.index != index for device in self._devices.values()):
                    self._unnamed[index] = str(lost)
            except DriverAwayError as away:
                raise self._driver_error(away.code, str(away)) from error
            return None

    def _described(self, device: Device) -> List[GPUInfo]:
        if device.lost_until_ms is not None:
            return device.described()
        try:
            return self._guarded(device, lambda: device.describe(self._now_ms))
        except DriverChangedError:
            raise
        except SourceError:
            return device.described()

    def _reachable(self, uuid: str) -> Tuple[Device, Optional[Instance]]:
        """The GPU, and which instance of it, unless it is lost and it is too early to try again."""
        cut = (device for device in self._devices.values() if uuid in device.instances)
        device = self._devices.get(uuid) or next(cut, None)
        if device is None:
            raise SourceError("GPU %s is not here" % uuid)
        if device.is_gone or (
            device.lost_until_ms is not None and self._now_ms < device.lost_until_ms
        ):
            raise SourceError("GPU %s is lost" % uuid)
        return device, device.instances.get(uuid)

    def _guarded(self, device: Device, call: Callable[[], Answer]) -> Answer:
        """What the call answers; where the GPU or the driver is gone, that is told and raised as
        SourceError.
        """
        try:
            return call()
        except GPULostError as error:
            raise self._lost(device, error) from error
        except DriverAwayError as error:
            raise self._driver_error(error.code, str(error)) from error

    def _lost(self, device: Device, error: GPULostError) -> SourceError:
        """The error to raise; the loss is told once."""
        if device.lost_until_ms is None:
            self._tell("gpu_lost", device.info.uuid, error.code or None, str(error))
        device.lost_until_ms = self._now_ms + RETRY_LOST_MS
        return SourceError("GPU %s is lost" % device.info.uuid)

    def _driver_error(self, code: int, text: str) -> SourceError:
        """The error to raise; the driver's absence is told once, its change too."""
        kind = "driver_mismatch" if code == MISMATCH else "driver_missing"
        if self._trouble != kind:
            self._trouble = kind
            self._tell(kind, None, code, text)
        if kind == "driver_mismatch":
            return DriverChangedError(
                "the NVIDIA driver was changed while its library was loaded: start the agent anew"
            )
        return SourceError("the NVIDIA driver does not answer: %s" % text)

    def _tell(
        self, kind: str, uuid: Optional[str] = None, code: Optional[int] = None, text: str = ""
    ) -> None:
        self._events.append(Event(self._now_ms, kind, uuid, code, text))

    def _card_names(self) -> FrozenSet[str]:
        return frozenset(procfs.names(str(self._cards)))
