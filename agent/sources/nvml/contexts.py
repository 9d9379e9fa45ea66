"""Who has a context on a GPU: three lists of the driver, the dearest of its ordinary calls
(milliseconds each).
"""

from collections import Counter
from typing import Any, Dict, FrozenSet, List, Optional, Sequence

from agent.clock import is_recent
from agent.readings import ProcessReading, Values
from agent.sources.nvml.capabilities import Capabilities

COMPUTE = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
RARE = (
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)
# by which the refusals of each version of the call are kept
KEYS = tuple("process_count@%d" % place for place in range(len(COMPUTE)))
# graphics and MPS contexts are asked for so often, and each time while there are some
RARE_MS = 60_000
SAME_MS = 2000  # a GPU's instances are asked for one after the other: one answer serves them all
MAX_PROCESSES = 4096

Found = Optional[Sequence[Any]]


class ProcessLists:
    """The processes of one GPU as the driver lists them."""

    def __init__(self, capabilities: Capabilities, handle: Any) -> None:
        self._capabilities = capabilities
        self.handle = handle
        self._rare: List[Any] = []
        self._asked_ms: Optional[int] = None
        self._pids: FrozenSet[int] = frozenset()
        self._found: Found = None
        self._found_ms: Optional[int] = None

    def all(self, now_ms: int) -> Found:
        """Every process, of all kinds; None when compute processes can't be read.

        Raises as Capabilities.ask.
        """
        if not is_recent(self._found_ms, now_ms, SAME_MS):
            self._found = self._ask(now_ms)
            self._found_ms = now_ms
        return self._found

    def forget(self) -> None:
        """What was found is asked for anew."""
        self._found_ms = self._asked_ms = None

    def _ask(self, now_ms: int) -> Found:
        compute = self._by(COMPUTE, "process_count")
        if compute is None:
            return None
        pids = frozenset(process.pid for process in compute)
        # an MPS client shows as a new compute process too, the server's
        if pids != self._pids or self._rare or not is_recent(self._asked_ms, now_ms, RARE_MS):
            self._rare = [process for calls in RARE for process in self._by(calls, calls[0]) or ()]
            self._pids = pids
            self._asked_ms = now_ms
        return [*compute, *self._rare][:MAX_PROCESSES]

    def _by(self, calls: Sequence[str], column: str) -> Found:
        """The list by the newest version of the call that this driver has; None when it can't be
        read.
        """
        for place, name in enumerate(calls):
            processes: Found = self._capabilities.ask(
                "%s@%d" % (column, place), name, self.handle, empty=()
            )
            if processes is not None:
                return processes
        return None


def readings(processes: Sequence[Any]) -> List[ProcessReading]:
    """One per pid: a process may hold a compute and a graphics context, and its memory is named
    with each.
    """
    by_pid: Dict[int, Optional[int]] = {}
    for process in processes:
        if by_pid.get(process.pid) is None:
            by_pid[process.pid] = process.usedGpuMemory
    return [ProcessReading(pid, memory) for pid, memory in by_pid.items()]


class ProcessUtilisation:
    """How busy a GPU's processes kept its SMs, where its utilisation itself can't be read."""

    def __init__(self) -> None:
        self._seen_us = 0

    def mean(self, capabilities: Capabilities, handle: Any) -> Values:
        """The column, 0 to 1 over the samples since the last call; nothing where there were none.

        A sample is a process' share of time, not of SMs; those of one instant are summed. Idle
        processes have none, so that silence may be idleness or a driver that does not sample: it is
        not 0.
        """
        samples = capabilities.ask(
            "process_sm_ratio", "nvmlDeviceGetProcessUtilization", handle, self._seen_us, empty=()
        )
        is_first = self._seen_us == 0
        percents: "Counter[int]" = Counter()  # by time stamp
        for sample in samples or ():
            if sample.timeStamp > self._seen_us and sample.smUtil <= 100:
                percents[sample.timeStamp] += sample.smUtil
        self._seen_us = max(percents, default=self._seen_us)
        if is_first or not percents:
            return {}
        total = sum(min(100, percent) for percent in percents.values())
        return {"process_sm_ratio": total / len(percents) / 100}
