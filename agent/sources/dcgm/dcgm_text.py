"""What dcgm-exporter says, as GPUs: names old and new, units, blanks, MIG instances, and who holds
what. Pure.

Field names and units: dcgm_fields.h and the exporter's counter lists. A GPU's labels are the
exporter's own.
"""

import math
import re
from dataclasses import dataclass, field, replace
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from agent.readings import GPUInfo, Reading, Values
from agent.sources import measured
from agent.sources.dcgm.prometheus_text import LabelSet, Sample
from agent.wire import RATIO_COLUMNS, WINDOW_COLUMNS

MIB = 1024.0 * 1024
PERCENT = 0.01
COLDEST = -100.0
MAX_GPUS = 1024
# dcgm_fields.h: blank, not found, not supported, not permitted, one after the other from each of
# these.
_BLANKS = (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140737488355328)  # of 32 bits, of 64 bits, of a double
_BLANK_REASONS = {2: "not_supported", 3: "no_permission"}
NOT_EXPORTED = "not_exported"

Fields = Tuple[Tuple[str, float, Tuple[str, ...]], ...]

# Slot -> (factor to base units, the names the field has had). The ratios of DCGM_FI_PROF_* are 0 to
# 1, the utilisations of DCGM_FI_DEV_* percent; new names keep the old unit, but for those that say
# another.
_OF_PARTS: Fields = (
    ("util", PERCENT, ("DCGM_FI_DEV_GPU_UTIL", "dcgm_gpu_utilization")),
    ("memory_util", PERCENT, ("DCGM_FI_DEV_MEM_COPY_UTIL", "dcgm_mem_copy_utilization")),
    ("memory_util", 1, ("DCGM_FI_DEV_MEMORY_UTIL_RATIO",)),
    ("encoder_ratio", PERCENT, ("DCGM_FI_DEV_ENC_UTIL", "dcgm_enc_utilization")),
    ("encoder_ratio", 1, ("DCGM_FI_DEV_ENC_UTIL_RATIO",)),
    ("decoder_ratio", PERCENT, ("DCGM_FI_DEV_DEC_UTIL", "dcgm_dec_utilization")),
    ("decoder_ratio", 1, ("DCGM_FI_DEV_DEC_UTIL_RATIO",)),
    ("memory_used_bytes", MIB, ("DCGM_FI_DEV_FB_USED", "dcgm_fb_used")),
    ("memory_used_bytes", 1, ("DCGM_FI_DEV_FB_USED_BYTES",)),
    ("memory_free_bytes", MIB, ("DCGM_FI_DEV_FB_FREE", "dcgm_fb_free")),
    ("memory_free_bytes", 1, ("DCGM_FI_DEV_FB_FREE_BYTES",)),
    ("memory_reserved_bytes", MIB, ("DCGM_FI_DEV_FB_RESERVED",)),
    ("memory_reserved_bytes", 1, ("DCGM_FI_DEV_FB_RESERVED_BYTES",)),
    ("memory_total_bytes", MIB, ("DCGM_FI_DEV_FB_TOTAL",)),
    ("memory_total_bytes", 1, ("DCGM_FI_DEV_FB_CAPACITY_BYTES",)),
    ("gr_engine_active", 1,
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
    "dcgm_fi_prof_gr_engine_active")),
    ("sm_active", 1,
    ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO", "dcgm_fi_prof_sm_active")),
    ("sm_occupancy", 1,
    ("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "dcgm_fi_prof_sm_occupancy")),
    ("tensor_active", 1,
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
    "dcgm_fi_prof_pipe_tensor_active")),
    ("dram_active", 1,
    ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "dcgm_fi_prof_dram_active")),
    ("fp64_active", 1,
    ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "DCGM_FI_PROF_FP64_UTIL_RATIO",
    "dcgm_fi_prof_pipe_fp64_active")),
    ("fp32_active", 1,
    ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_FP32_UTIL_RATIO",
    "dcgm_fi_prof_pipe_fp32_active")),
    ("fp16_active", 1,
    ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_FP16_UTIL_RATIO",
    "dcgm_fi_prof_pipe_fp16_active")),
)  # fmt: skip
# Of the board alone: the exporter says them again for every MIG instance, and their sum would be
# nobody's.
_OF_BOARD: Fields = (
    ("power_w", 1,
    ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage")),
    ("power_limit_w", 1,
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS")),
    ("power_limit_w", 1,
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS")),
    ("energy_j", 1e-3, ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption")),
    ("energy_j", 1, ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",)),
    ("temperature_c", 1, ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp")),
    ("memory_temperature_c", 1,
    ("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "dcgm_memory_temp")),
    ("sm_clock_hz", 1e6, ("DCGM_FI_DEV_SM_CLOCK", "dcgm_sm_clock")),
    ("sm_clock_max_hz", 1e6, ("DCGM_FI_DEV_MAX_SM_CLOCK",)),
    ("xid", 1, ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors")),
    ("ecc_uncorrected", 1, ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "dcgm_ecc_dbe_volatile_total")),
    ("persistence", 1, ("DCGM_FI_DEV_PERSISTENCE_MODE", "DCGM_FI_DEV_GPU_PERSISTENCE_MODE")),
    ("throttled_power_s", 1e-9, ("DCGM_FI_DEV_POWER_VIOLATION", "dcgm_power_violation")),
    ("throttled_thermal_s", 1e-9, ("DCGM_FI_DEV_THERMAL_VIOLATION", "dcgm_thermal_violation")),
    ("pcie_tx_bytes_s", 1, ("DCGM_FI_PROF_PCIE_TX_BYTES", "dcgm_fi_prof_pcie_tx_bytes")),
    ("pcie_rx_bytes_s", 1, ("DCGM_FI_PROF_PCIE_RX_BYTES", "dcgm_fi_prof_pcie_rx_bytes")),
    ("nvlink_tx_bytes_s", 1, ("DCGM_FI_PROF_NVLINK_TX_BYTES",)),
    ("nvlink_rx_bytes_s", 1, ("DCGM_FI_PROF_NVLINK_RX_BYTES",)),
)  # fmt: skip
_FIELDS = (*_OF_PARTS, *_OF_BOARD)
_BY_NAME = {name: (slot, factor) for slot, factor, names in _FIELDS for name in names}
# The one name with two units: percent as a whole number where it renames field 203, a ratio where
# it is field 1613.
_UTIL_OF_TWO_UNITS = "DCGM_FI_DEV_GPU_UTIL_RATIO"
_BY_NAME[_UTIL_OF_TWO_UNITS] = ("util", 1)
_RATIOS = frozenset((*RATIO_COLUMNS, "util", "memory_util"))
_BOARD = frozenset(slot for slot, _, _ in _OF_BOARD)
# Wire column -> the counter of seconds that clocks were held down.
_THROTTLED = {
    "throttle_power_ratio": "throttled_power_s",
    "throttle_thermal_ratio": "throttled_thermal_s",
}
_OF_NO_WINDOW = ("memory_reserved_bytes", "sm_clock_max_hz")  # facts of the GPU
# Wire column -> slot: what `gpus[].unread` speaks of.
_UNREAD = {
    "util_mean": "util",
    **{
        slot: slot for slot, _, _ in _FIELDS if slot in WINDOW_COLUMNS and slot not in _OF_NO_WINDOW
    },
    **_THROTTLED,
}
_SCHEDULERS = {"pod": "kubernetes", "pod_name": "kubernetes", "hpc_job": "slurm"}  # by label


class Holder(NamedTuple):
    """Who holds a GPU, by the exporter's labels; `scheduler` is kubernetes or slurm."""

    scheduler: str
    id: str
    name: str = ""
    account: str = ""


@dataclass
class Card:
    """A GPU or MIG instance of one scrape; `values` are by slot, in base units."""

    info: GPUInfo
    values: Values = field(default_factory=dict)
    blanks: Dict[str, str] = field(default_factory=dict)  # slot -> why the exporter had no value
    holders: Set[Holder] = field(default_factory=set)


@dataclass
class Scrape:
    """One answer of the exporter.

    `schedulers` are those whose labels stood on any GPU, empty labels too.
    """

    cards: Dict[str, Card] = field(default_factory=dict)
    driver: Optional[str] = None
    schedulers: Set[str] = field(default_factory=set)


def cards_of(samples: Iterable[Sample]) -> Scrape:
    """The GPUs of a scrape; a MIG instance comes with its parent, of which it says what the board
    reads.
    """
    scrape = Scrape()
    for sample in samples:
        if sample.name in _BY_NAME:
            _take(scrape, sample)
    for card in scrape.cards.values():
        card.info = _described(card)
    return scrape


def _take(scrape: Scrape, sample: Sample) -> None:
    labels = sample.labels
    card = _card(scrape.cards, labels)
    if card is None:
        return
    scrape.driver = scrape.driver or labels.get("DCGM_FI_DRIVER_VERSION") or None
    scrape.schedulers.update(kind for label, kind in _SCHEDULERS.items() if label in labels)
    card.holders.update(_holders(labels))
    slot, factor = _BY_NAME[sample.name]
    board = card.info.parent_uuid if slot in _BOARD else None
    _take_value(card if board is None else scrape.cards[board], slot, sample, factor)


def reading_of(card: Card, *, at_ms: int, is_fresh: bool, ratios: Values) -> Reading:
    """The card as a reading.

    Without a new collection the energy counter stands still, which is not the GPU's doing: left
    out.
    """
    reading = measured.reading_of(card.values, at_ms=at_ms, ratios=ratios)
    return reading if is_fresh else replace(reading, energy_j=None)


def throttle_ratios(before: Values, after: Values, seconds: float) -> Values:
    """Shares of the time between two collections that clocks were held down, from the counters;
    none after a reset.
    """
    earlier, later = (
        {column: values[slot] for column, slot in _THROTTLED.items() if slot in values}
        for values in (before, after)
    )
    return measured.throttle_ratios(earlier, later, seconds, most=1.5)


def _card(cards: Dict[str, Card], labels: LabelSet) -> Optional[Card]:
    """The card that the labels name, taken up where it is new; None where they name no GPU, or too
    many.
    """
    uuid = _label(labels, "UUID", "uuid", "gpu_uuid")[:64]
    if not uuid or len(cards) >= MAX_GPUS:
        return None
    card = cards.get(uuid)
    if card is None:
        info = GPUInfo(
            uuid=uuid,
            index=_number(labels.get("gpu", "")),
            model=_label(labels, "modelName", "model_name") or None,
            bus_id=labels.get("pci_bus_id") or None,
        )
        card = cards[uuid] = Card(info)
    return _instance(cards, card.info, labels) or card


def _instance(cards: Dict[str, Card], board: GPUInfo, labels: LabelSet) -> Optional[Card]:
    """The MIG instance that the labels name; None where they name the whole board."""
    instance = labels.get("GPU_I_ID", "")
    profile = labels.get("GPU_I_PROFILE", "")
    if not instance and not profile:
        return None
    # the exporter names an instance by its parent and its number, never by its own UUID
    part = replace(
        board,
        uuid="MIG-%s-%s" % (board.uuid, (instance or profile)[:16]),
        parent_uuid=board.uuid,
        mig_profile=profile[:32] or None,
        gpu_instance=_number(instance),
    )
    return cards.setdefault(part.uuid, Card(part))


def _label(labels: LabelSet, *names: str) -> str:
    """The first of these labels that says anything; "" where none does."""
    return next(filter(None, map(labels.get, names)), "")


def _number(label: str) -> Optional[int]:
    return int(label) if label.isdecimal() and len(label) < 6 else None


def _take_value(card: Card, slot: str, sample: Sample, factor: float) -> None:
    """The sample's value into its slot; the first that says something counts (a GPU with two pods
    says everything twice).
    """
    value: float = int(sample.text) if sample.text.isdecimal() else sample.value
    why = _blank(value, lowest=COLDEST if slot.endswith("temperature_c") else 0)
    if sample.name == _UTIL_OF_TWO_UNITS and "." not in sample.text:
        factor = PERCENT
    # 57 % are 0.57, and not 0.5700000000000001
    value = value / 100 if factor == PERCENT else value * factor
    if slot == "memory_temperature_c" and value == 0:
        why = "not_supported"  # boards without this sensor say 0
    if why is None and (slot not in _RATIOS or value <= 1):
        card.values.setdefault(slot, value)
    else:
        card.blanks.setdefault(slot, why or "error")


def _blank(value: float, *, lowest: float) -> Optional[str]:
    """Why this is no value; None when it is one."""
    if not math.isfinite(value) or value < lowest:
        return "error"
    for first in _BLANKS:
        if first <= value < first + 16:
            return _BLANK_REASONS.get(int(value - first), "error")
    # a blank that went through a double on its way
    return "not_supported" if value >= 2**63 else None


def _described(card: Card) -> GPUInfo:
    values = card.values
    total = values.get("memory_total_bytes")
    if total is None and {"memory_used_bytes", "memory_free_bytes"} <= values.keys():
        reserved = values.get("memory_reserved_bytes", 0.0)
        total = values["memory_used_bytes"] + values["memory_free_bytes"] + reserved
    is_board = card.info.parent_uuid is None
    return replace(
        card.info,
        memory_total_bytes=None if total is None else round(total),
        power_limit_w=values.get("power_limit_w"),
        sm_clock_max_hz=values.get("sm_clock_max_hz"),
        persistence=values["persistence"] > 0 if "persistence" in values else None,
        unread={
            column: card.blanks.get(slot, NOT_EXPORTED)
            for column, slot in _UNREAD.items()
            if slot not in values and (is_board or slot not in _BOARD)
        },
    )


def _holders(labels: LabelSet) -> List[Holder]:
    """The pod and the batch job that the labels name; an empty label names nobody."""
    holders = []
    pod = _label(labels, "pod", "pod_name")
    if pod:
        namespace = _label(labels, "namespace", "pod_namespace")
        name = "%s/%s" % (namespace, pod) if namespace else pod
        holders.append(Holder("kubernetes", (labels.get("pod_uid") or name)[:200], name, namespace))
    job = re.match(r"\s*(\S{1,64})", labels.get("hpc_job", ""))
    if job is not None and job.group(1) != "0":
        holders.append(Holder("slurm", job.group(1)))
    return holders
