"""What `check` looks at, and what to do about each reason that something can't be read.

A table of words; pure.
"""

from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from agent.readings import GPUInfo, GPUs
from agent.window import GPUWindow


class Metric(NamedTuple):
    """A line of the report: `column` stands for the metric; `field` is what to write into
    dcgm-exporter's list of counters, after DCGM_FI_; `group` chooses the advice; a board's has no
    MIG instance of its own.
    """

    name: str
    column: str
    field: str = ""
    group: str = "basic"
    is_board: bool = False


METRICS = (
    Metric("utilisation", "util_mean", "DEV_GPU_UTIL"),
    Metric("memory", "memory_used_bytes", "DEV_FB_USED"),
    Metric("power", "power_w", "DEV_POWER_USAGE", is_board=True),
    Metric("energy", "energy_j", "DEV_TOTAL_ENERGY_CONSUMPTION", is_board=True),
    Metric("temperature", "temperature_c", "DEV_GPU_TEMP", is_board=True),
    Metric(
        "memory temp.", "memory_temperature_c", "DEV_MEMORY_TEMP", group="sensor", is_board=True
    ),
    Metric("SM clock", "sm_clock_hz", "DEV_SM_CLOCK", is_board=True),
    Metric(
        "throttling", "throttle_power_ratio", "DEV_POWER_VIOLATION", group="newer", is_board=True
    ),
    Metric("ECC errors", "ecc_uncorrected", "DEV_ECC_DBE_VOL_TOTAL", group="sensor", is_board=True),
    Metric("SM active", "sm_active", "PROF_SM_ACTIVE", group="activity"),
    Metric("SM occupancy", "sm_occupancy", "PROF_SM_OCCUPANCY", group="activity"),
    Metric("tensor active", "tensor_active", "PROF_PIPE_TENSOR_ACTIVE", group="activity"),
    Metric("DRAM active", "dram_active", "PROF_DRAM_ACTIVE", group="activity"),
    Metric("FP32 active", "fp32_active", "PROF_PIPE_FP32_ACTIVE", group="activity"),
    Metric("FP64 active", "fp64_active", "PROF_PIPE_FP64_ACTIVE", group="activity"),
    Metric("PCIe", "pcie_rx_bytes_s", "PROF_PCIE_RX_BYTES", group="newer", is_board=True),
    Metric("NVLink", "nvlink_rx_bytes_s", "PROF_NVLINK_RX_BYTES", group="sensor", is_board=True),
    Metric("encoder", "encoder_ratio", "DEV_ENC_UTIL", group="sensor", is_board=True),
    Metric("processes", "process_count", group="processes"),
)
# (reason, group) -> what to do; of a group without advice of its own that of "".
_WHAT_TO_DO: Mapping[Tuple[str, str], str] = {
    ("not_supported", "activity"): (
        "NVML counts these from Hopper on; for older GPUs run dcgm-exporter and --source dcgm=URL"
    ),
    ("not_supported", "sensor"): "this board does not have it: nothing to do",
    ("not_supported", "newer"): "this GPU or driver does not tell it; a newer driver may",
    ("not_supported", "processes"): (
        "the driver does not list them (WSL, vGPU): holders come from a scheduler, see job sources"
    ),
    ("not_supported", "basic"): (
        "this GPU does not tell it (vGPU, or MIG is on: then the instances tell what they can)"
    ),
    ("no_permission", "activity"): (
        "run the agent by its unit or as root, or load the driver with"
        " NVreg_RestrictProfilingToAdminUsers=0"
    ),
    ("no_permission", ""): "run the agent by its systemd unit, or as root",
    ("operating_system", ""): (
        "the agent may not open /dev/nvidia*: DeviceAllow=char-nvidia* rw in a unit, --gpus all"
        " in a container"
    ),
    ("off", ""): "switched off by configuration",
    ("not_exported", "processes"): (
        "an exporter tells of no processes: holders come from its pod or hpc_job labels"
    ),
    ("not_exported", ""): "add FIELDS to dcgm-exporter's list of counters (-f FILE)",
    ("error", ""): "the driver fails here: see nvidia-smi -q, and dmesg | grep -i xid",
    ("nvidia_smi", "processes"): "nvidia-smi has not listed them yet, or hangs: run check again",
    ("nvidia_smi", ""): (
        "nvidia-smi does not tell it: with NVML (libnvidia-ml.so.1) the agent reads it"
    ),
    ("silent", ""): (
        "the GPU gave no reading: lost GPUs come back by nvidia-smi -r -i N or a reboot; see"
        " dmesg | grep -i xid"
    ),
    ("not_told", "processes"): "holders come from a scheduler, see job sources",
    ("not_told", ""): "this source does not tell it: nothing to do",
}


class Row(NamedTuple):
    """One metric: on how many of the GPUs that could have it, and on how many not for each
    reason.
    """

    metric: str
    column: str
    works_on: int
    of: int
    why: Mapping[str, int]


Rows = Sequence[Row]


def rows_of(gpus: GPUs, windows: Sequence[GPUWindow], *, source: str) -> List[Row]:
    """Every metric's row.

    A GPU that is cut into MIG instances is judged by its board, its instances by the rest.
    """
    columns = {window.uuid: window.columns for window in windows}
    boards = [gpu for gpu in gpus if gpu.parent_uuid is None]
    parents = {gpu.parent_uuid for gpu in gpus}
    undivided = [gpu for gpu in gpus if gpu.uuid not in parents]
    rows = []
    for metric in METRICS:
        able = boards if metric.is_board else undivided
        why = Counter(
            _reason(metric, gpu, is_silent=not columns.get(gpu.uuid), source=source)
            for gpu in able
            if columns.get(gpu.uuid, {}).get(metric.column) is None
        )
        works_on = len(able) - sum(why.values())
        rows.append(Row(metric.name, metric.column, works_on, len(able), why))
    return rows


def advice_of(rows: Rows) -> List[Tuple[str, str, str]]:
    """(metrics, reason, what to do), one for each thing to do; of every metric's row."""
    metrics: Dict[Tuple[str, str], List[str]] = {}
    missing = []
    for metric, row in zip(METRICS, rows):
        for reason in row.why:
            of_any = _WHAT_TO_DO.get((reason, ""), "see nvidia-smi -q")
            what = _WHAT_TO_DO.get((reason, metric.group), of_any)
            metrics.setdefault((reason, what), []).append(metric.name)
        if "not_exported" in row.why and metric.field:
            missing.append("DCGM_FI_" + metric.field)
    return [
        (
            "everything" if reason == "silent" else ", ".join(names),
            words(reason),
            what.replace("FIELDS", ", ".join(missing)),
        )
        for (reason, what), names in metrics.items()
    ]


def words(reason: str) -> str:
    """The reason as people say it."""
    return reason.replace("_", " ").replace("nvidia smi", "not in nvidia-smi")


def _reason(metric: Metric, gpu: GPUInfo, *, is_silent: bool, source: str) -> str:
    if metric.column in gpu.unread:
        return gpu.unread[metric.column]
    if is_silent:
        return "silent"
    if source == "dcgm" and metric.group == "processes":
        return "not_exported"
    return "nvidia_smi" if source == "nvidia-smi" else "not_told"
