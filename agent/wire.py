"""The batch format v1: what the agent sends and the hub accepts, frozen by golden files.

Columnar JSON. Every key but the required ones may be absent or null: not read.
Unknown keys are kept where they are and never an error. Standard library only:
the hub imports this module too.
"""

import gzip
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

VERSION = 1
MAX_SPAN_MS = 6 * 3_600_000
MAX_BYTES = 8 * 1024 * 1024
MIN_WINDOW_S, MAX_WINDOW_S = 1, 300
MAX_TEXT = 400
MAX_LIST = 4096
MAX_TIME_MS = 253_402_300_800_000  # the year 10000

# Shares of time or of capacity, 0 to 1.
RATIO_COLUMNS = (
    "util_mean", "util_min", "util_max", "util_p5", "util_p10", "util_p50", "util_p90", "util_zero_fraction",
    "util_low_fraction", "util_high_fraction", "spin_fraction", "memory_util_mean", "gr_engine_active", "sm_active",
    "sm_active_max", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active",
    "throttle_thermal_ratio", "throttle_power_ratio", "encoder_ratio", "decoder_ratio", "process_sm_ratio",
    "job_main_thread_ratio",
)  # fmt: skip
# Counts, bytes, watts, ...: any finite number, not negative.
AMOUNT_COLUMNS = (
    "util_dips", "util_longest_low_s", "util_cycle_s", "util_cycle_cv", "memory_used_bytes", "memory_reserved_bytes",
    "power_w", "power_min_w", "power_max_w", "energy_j", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s",
    "nvlink_tx_bytes_s", "sm_clock_hz", "sm_clock_max_hz", "ecc_uncorrected", "process_count", "job_cpu_ratio",
    "job_io_read_bytes_s", "job_cores", "job_workers",
)  # fmt: skip
SIGNED_COLUMNS = ("temperature_c", "memory_temperature_c")
WINDOW_COLUMNS = RATIO_COLUMNS + AMOUNT_COLUMNS + SIGNED_COLUMNS
HOST_COLUMNS = (
    "cpu_ratio", "iowait_ratio", "memory_used_bytes", "cpu_psi_ratio", "io_psi_ratio", "disk_read_bytes_s",
    "disk_write_bytes_s", "nic_rx_bytes_s", "nic_tx_bytes_s", "pending_gpus",
)  # fmt: skip
EVENT_KINDS = (
    "xid", "gpu_lost", "gpu_ok", "recovery_action", "driver_missing", "driver_mismatch", "driver_ok", "nvml_stuck",
    "drained", "resumed", "action_result",
)  # fmt: skip
JOB_KINDS = ("batch", "interactive", "service")

Columns = Dict[str, List[Any]]
Item = Dict[str, Any]


class WireError(ValueError):
    """A batch that can never be accepted; `field` says where."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Batch:
    """One node's windows and what was known with them; the fields are the JSON's keys."""

    node: str
    boot_id: str
    boot_start_ms: int
    sequence: int
    window_s: int
    gpus: List[Item]
    windows: Columns
    version: int = VERSION
    agent: Item = field(default_factory=dict)
    node_labels: Item = field(default_factory=dict)
    sources: List[Item] = field(default_factory=list)
    host: Columns = field(default_factory=dict)
    jobs: List[Item] = field(default_factory=list)
    allocations: List[Item] = field(default_factory=list)
    processes: List[Item] = field(default_factory=list)
    events: List[Item] = field(default_factory=list)

    @property
    def start_ms(self) -> Optional[int]:
        """Start of the first window; None when there is no window."""
        return min(self.windows["start_ms"], default=None)

    @property
    def end_ms(self) -> Optional[int]:
        """End of the last window; None when there is no window."""
        return max(self.windows["start_ms"]) + self.window_s * 1000 if self.windows["start_ms"] else None


def encode(batch: Batch) -> bytes:
    """The batch as JSON, the same bytes for the same batch. Raises ValueError for NaN or infinity."""
    return json.dumps(asdict(batch), separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode("utf-8")


def compress(body: bytes) -> bytes:
    """The body as gzip, the same bytes for the same body (no time stamp)."""
    return gzip.compress(body, compresslevel=6, mtime=0)


def decode(body: bytes) -> Batch:
    """The batch in JSON bytes. Raises WireError when it is no acceptable batch."""
    try:
        return parse(json.loads(body))
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError("", "not JSON: %s" % error) from error
