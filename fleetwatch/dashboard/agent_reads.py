"""What an agent reads of a GPU and of its host, sensor by sensor, in the last minutes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.dashboard.agents import REASONS
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry import frames
from fleetwatch.telemetry import selectors as telemetry

NEWEST_MS = 10 * 60_000
SENSORS = {
    "utilisation": ("util_mean",),
    "engine and SM activity": ("gr_engine_active", "sm_active"),
    "Tensor Cores": ("tensor_active",),
    "DRAM activity": ("dram_active",),
    "floating-point units": ("fp64_active", "fp32_active", "fp16_active"),
    "memory in use": ("memory_used_bytes",),
    "power and energy": ("power_w", "energy_j"),
    "temperatures": ("temperature_c", "memory_temperature_c"),
    "clocks": ("sm_clock_hz", "sm_clock_max_hz"),
    "slowed by heat or power": ("throttle_thermal_ratio", "throttle_power_ratio"),
    "PCIe": ("pcie_rx_bytes_s", "pcie_tx_bytes_s"),
    "NVLink": ("nvlink_rx_bytes_s", "nvlink_tx_bytes_s"),
    "memory errors": ("ecc_uncorrected",),
    "video engines": ("encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio"),
    "processes": ("process_count",),
    "CPU and disk of its jobs": ("job_cpu_ratio", "job_io_read_bytes_s"),
    "host memory of its jobs": ("job_memory_bytes",),
}
OF_HOST = {
    "CPU": ("cpu_ratio", "iowait_ratio"),
    "host memory": ("memory_used_bytes",),
    "disks": ("disk_read_bytes_s", "disk_write_bytes_s"),
    "network": ("nic_rx_bytes_s", "nic_tx_bytes_s"),
}


@dataclass(frozen=True, slots=True)
class Sensor:
    """One that is not read, or in part; `why` is "" where the agent gives no reason."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Reads:
    """Sensors that gave a value, and those that did not; of which GPU (None: it has none)."""

    gpu: GPU | None
    read: list[str]
    not_read: list[Sensor]

    @property
    def by_reason(self) -> list[tuple[str, list[str]]]:
        """The names of those that are not read, by why: each reason is said once."""
        names: dict[str, list[str]] = {}
        for sensor in self.not_read:
            names.setdefault(sensor.why, []).append(sensor.name)
        return list(names.items())


def agent_reads(node: Node, gpu: GPU | None, now: datetime) -> Reads:
    """In the ten minutes before the node's newest data."""
    end_ms = min(to_ms(now), node.last_ms or 0)
    start_ms = end_ms - NEWEST_MS
    host = frames.host(node.pk, start_ms, end_ms, _columns(OF_HOST))
    on_host = sensors(OF_HOST, host.columns, {})
    if gpu is None:
        return Reads(None, *on_host)
    on_gpu = sensors(SENSORS, _with_values(gpu, start_ms, end_ms), gpu.unread)
    return Reads(gpu, on_gpu[0] + on_host[0], on_gpu[1] + on_host[1])


def _with_values(gpu: GPU, start_ms: int, end_ms: int) -> set[str]:
    """The GPU's columns that have any."""
    read = telemetry.series(
        gpu, start_ms, end_ms, columns=_columns(SENSORS), step_s=NEWEST_MS // 1000
    )
    return {name for name, values in read.columns.items() if set(values) - {None}}


def _columns(groups: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [column for columns in groups.values() for column in columns]


def sensors(
    groups: Mapping[str, tuple[str, ...]], read: Collection[str], refused: Mapping[str, str]
) -> tuple[list[str], list[Sensor]]:
    """Those with a value of all or some of their columns, and those of which none or not all have
    one. Pure.
    """
    whole = []
    missing = []
    for name, columns in groups.items():
        left = [column for column in columns if column not in read]
        if len(left) < len(columns):
            whole.append(name)
        if left and (len(left) == len(columns) or any(column in refused for column in left)):
            missing.append(Sensor(name, _why(left, refused)))
    return whole, missing


def sensor_names(metrics: Iterable[str]) -> list[str]:
    """The sensors that these metrics are of, each once; a metric of none of them by its name."""
    of_metric = {metric: name for name, metrics in SENSORS.items() for metric in metrics}
    return list(dict.fromkeys(of_metric.get(metric, metric) for metric in metrics))


def _why(columns: Collection[str], refused: Mapping[str, str]) -> str:
    reasons = dict.fromkeys(refused[column] for column in columns if column in refused)
    return ", ".join(REASONS.get(reason, reason.replace("_", " ")) for reason in reasons)
