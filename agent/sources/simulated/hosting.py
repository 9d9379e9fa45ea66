"""What simulated jobs do to their host: the job's columns and the host's.

For floats (live) and arrays (history).
"""

from typing import Any, Dict, NamedTuple, Sequence, Tuple

from agent.sources.simulated import waves
from agent.sources.simulated.archetype import Load
from agent.sources.simulated.hardware import GIB, MIB
from agent.sources.simulated.signal import Shares, Signal
from agent.sources.simulated.traits import IDLE, mixed

CORES_PER_GPU = 16  # of the node; a job asks for 8 to 16 of them with each GPU
SYSTEM_CPU = 0.01
MEMORY_BYTES = 18 * GIB  # the node's own
MEMORY_PER_GPU_GIB = 64  # what a job asks for with each of its GPUs
WAITING_SHARE = 0.4  # processors that idle while a task waits for I/O, as part of the I/O pressure
CROWDED_CPU = 0.6  # part of the processors in use from which tasks begin to wait for each other

NO_LOAD = Load(*[0.0] * len(Load._fields))


class Guest(NamedTuple):
    """A job on the node: the shares of a time that it spends at each level (in sum less than 1
    where it is not there).
    """

    signal: Signal
    shares: Shares

    @property
    def gpus(self) -> int:
        """How many it holds."""
        return len(self.signal.job.gpus)

    @property
    def cores(self) -> int:
        """How many processors it asked for."""
        return self.signal.traits.cores_per_gpu * self.gpus

    @property
    def memory_bytes(self) -> float:
        """How much of the node's memory it uses."""
        asked_gib = MEMORY_PER_GPU_GIB * self.gpus
        return self.signal.traits.host_memory_share * asked_gib * GIB

    def load(self) -> Load:
        """What it does to its host, on the mean over that time."""
        return mixed(self.shares, self.signal.traits.loads)


def job_columns(guest: Guest, role: str) -> Dict[str, Any]:
    """The job's columns of the wire on a GPU of that role; on an idle one no thread of it works."""
    load = guest.load()
    here = sum(guest.shares)
    traits = guest.signal.traits
    return {
        "job_cpu_ratio": load.cpu,
        "job_main_thread_ratio": load.main_thread * float(role != IDLE),
        "job_io_read_bytes_s": load.read_mib_s * MIB * guest.gpus,
        "job_cores": here * guest.cores,
        "job_workers": here * (traits.workers * traits.busy_count),
        "job_memory_bytes": here * guest.memory_bytes,
    }


def host_columns(guests: Sequence[Guest], *, gpus: int, nothing: Any = 0.0) -> Dict[str, Any]:
    """The host's columns with these jobs on it; `nothing` is a zero of the shape wanted."""
    loads = [(guest, guest.load()) for guest in guests]
    cpu = nothing + sum(load.cpu * guest.cores for guest, load in loads)
    held_bytes = nothing + sum(sum(guest.shares) * guest.memory_bytes for guest in guests)
    cpu_ratio = waves.smaller(SYSTEM_CPU + cpu / (gpus * CORES_PER_GPU), 1.0)
    io_psi_ratio = waves.smaller(nothing + sum(load.io_stall for _, load in loads), 0.98)
    return {
        "cpu_ratio": cpu_ratio,
        "iowait_ratio": waves.smaller(WAITING_SHARE * io_psi_ratio, 1.0 - cpu_ratio),
        "memory_used_bytes": MEMORY_BYTES + held_bytes,
        "cpu_psi_ratio": waves.larger(cpu_ratio - CROWDED_CPU, 0.0),
        "io_psi_ratio": io_psi_ratio,
        **_traffic(loads, nothing),
    }


def _traffic(loads: Sequence[Tuple[Guest, Load]], nothing: Any) -> Dict[str, Any]:
    """Of disks and network, for all the GPUs of each job."""
    gpus = (guest.gpus for guest, _ in loads)
    of_gpus = mixed([1.0, *gpus], [NO_LOAD, *(load for _, load in loads)])
    nic = MIB * (nothing + of_gpus.nic_mib_s)
    return {
        "disk_read_bytes_s": MIB * (nothing + of_gpus.read_mib_s),
        "disk_write_bytes_s": MIB * (nothing + of_gpus.write_mib_s),
        "nic_rx_bytes_s": nic,
        "nic_tx_bytes_s": nic,
    }
