"""What simulated jobs do to their host: the job's columns and the host's.

For floats (live) and arrays (history).
"""

from typing import Any, Dict, NamedTuple, Sequence

from agent.sources.simulated import waves
from agent.sources.simulated.hardware import GIB
from agent.sources.simulated.signal import Shares
from agent.sources.simulated.traits import DrawnLoad, Traits, mixed

CORES_PER_GPU = 16  # of the node; a job asks for 8 to 16 of them with each GPU
SYSTEM_CPU = 0.01
# the node's own, and what a job takes beside each of its GPUs
MEMORY_BYTES, MEMORY_PER_GPU_BYTES = 18 * GIB, 60 * GIB
WAITING_SHARE = 0.4  # processors that idle while a task waits for I/O, as part of the I/O pressure
CROWDED_CPU = 0.6  # part of the processors in use from which tasks begin to wait for each other


class Guest(NamedTuple):
    """A job on the node: the shares of a time that it spends at each level (in sum less than 1
    where it is not there).
    """

    traits: Traits
    shares: Shares
    gpus: int


def job_columns(guest: Guest, *, is_busy: bool) -> Dict[str, Any]:
    """The job's columns of the wire for one of its GPUs; on an idle one no thread of it works."""
    shown = DrawnLoad(*mixed(guest.shares, guest.traits.loads))
    return {
        "job_cpu_ratio": shown.cpu,
        "job_main_thread_ratio": shown.main_thread if is_busy else 0.0 * shown.main_thread,
        "job_io_read_bytes_s": shown.read_bytes_s * guest.gpus,
        "job_cores": sum(guest.shares) * (guest.traits.cores_per_gpu * guest.gpus),
        "job_workers": sum(guest.shares) * (guest.traits.workers * guest.traits.busy_count),
    }


def host_columns(guests: Sequence[Guest], *, gpus: int, nothing: Any = 0.0) -> Dict[str, Any]:
    """The host's columns with these jobs on it; `nothing` is a zero of the shape wanted."""
    cpu = io_stall = read_bytes_s = write_bytes_s = nic_bytes_s = held = nothing
    for guest in guests:
        shown = DrawnLoad(*mixed(guest.shares, guest.traits.loads))
        cpu = cpu + shown.cpu * (guest.traits.cores_per_gpu * guest.gpus)
        io_stall = io_stall + shown.io_stall
        read_bytes_s = read_bytes_s + shown.read_bytes_s * guest.gpus
        write_bytes_s = write_bytes_s + shown.write_bytes_s * guest.gpus
        nic_bytes_s = nic_bytes_s + shown.nic_bytes_s * guest.gpus
        held = held + sum(guest.shares) * guest.gpus
    cpu_ratio = waves.smaller(SYSTEM_CPU + cpu / (gpus * CORES_PER_GPU), 1.0)
    io_psi_ratio = waves.smaller(io_stall, 0.98)
    return {
        "cpu_ratio": cpu_ratio,
        "iowait_ratio": waves.smaller(WAITING_SHARE * io_psi_ratio, 1.0 - cpu_ratio),
        "memory_used_bytes": MEMORY_BYTES + held * MEMORY_PER_GPU_BYTES,
        "cpu_psi_ratio": waves.larger(cpu_ratio - CROWDED_CPU, 0.0),
        "io_psi_ratio": io_psi_ratio,
        "disk_read_bytes_s": read_bytes_s,
        "disk_write_bytes_s": write_bytes_s,
        "nic_rx_bytes_s": nic_bytes_s,
        "nic_tx_bytes_s": nic_bytes_s,
    }
