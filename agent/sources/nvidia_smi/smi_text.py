"""What nvidia-smi prints, as readings: CSV of --query-gpu in any column order. Pure.

Anything that is no number (`[N/A]`, `[Not Supported]`, `ERR!`, `[Unknown Error]`, a deprecation
notice, nothing) is None.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from agent.readings import GPUInfo, Reading

MIB = 1024 * 1024
_FACTORS = {
    "%": 0.01, "W": 1.0, "mW": 0.001, "B": 1.0, "KiB": 1024.0, "MiB": float(MIB),
    "GiB": 1024.0 * MIB,
    "MHz": 1e6, "GHz": 1e9, "Hz": 1.0, "C": 1.0, "": 1.0, "us": 1e-6,
}  # fmt: skip
_QUANTITY = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*([%A-Za-z]*)")
_HEADER = re.compile(r"([^\[\]]+?)\s*(?:\[(.+)\])?")
_MASKED = re.compile(r"(GPU|MIG)-[0-]+")
_LOST = re.compile(r"\[?(GPU is lost|GPU requires reset)", re.IGNORECASE)
_FAILED = re.compile(r"\[?(Unknown Error|ERR!)")  # a broken fan says so too
ENABLED, DISABLED = "Enabled", "Disabled"


class Field(NamedTuple):
    """A quantity: the names nvidia-smi has given it, best first, and the unit it is printed in
    without one.
    """

    names: Tuple[str, ...]
    unit: str


UTIL = Field(("utilization.gpu",), "%")
MEMORY_UTIL = Field(("utilization.memory",), "%")
ENCODER = Field(("utilization.encoder",), "%")
DECODER = Field(("utilization.decoder",), "%")
ENGINES = {
    "encoder_ratio": ENCODER,
    "decoder_ratio": DECODER,
    "jpeg_ratio": Field(("utilization.jpeg",), "%"),
    "ofa_ratio": Field(("utilization.ofa",), "%"),
}
MEMORY_USED = Field(("memory.used",), "MiB")
MEMORY_RESERVED = Field(("memory.reserved",), "MiB")
MEMORY_TOTAL = Field(("memory.total",), "MiB")
POWER = Field(("power.draw", "power.draw.average", "power.draw.instant"), "W")
POWER_LIMIT = Field(("enforced.power.limit", "power.limit", "power.default_limit"), "W")
TEMPERATURE = Field(("temperature.gpu",), "C")
MEMORY_TEMPERATURE = Field(("temperature.memory",), "C")
SM_CLOCK = Field(("clocks.current.sm", "clocks.sm"), "MHz")
SM_CLOCK_MAX = Field(("clocks.max.sm",), "MHz")
ECC_UNCORRECTED = Field(("ecc.errors.uncorrected.volatile.total",), "")
EVENT_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
# NVML: nvmlClocksEventReasons; SwPowerCap and HwPowerBrake, SwThermal and HwThermal.
POWER_BITS, THERMAL_BITS = 0x04 | 0x80, 0x20 | 0x40
# Wire column -> counters of the time that clocks were held down, newer drivers' own; exact, where
# the bits are a sample.
_COUNTERS = "clocks_event_reasons_counters."
THROTTLED = {
    "throttle_power_ratio": (
        Field((_COUNTERS + "sw_power_cap",), "us"),
        Field((_COUNTERS + "hw_power_brake_slowdown",), "us"),
    ),
    "throttle_thermal_ratio": (
        Field((_COUNTERS + "sw_thermal_slowdown",), "us"),
        Field((_COUNTERS + "hw_thermal_slowdown",), "us"),
    ),
}


@dataclass(frozen=True)
class Table:
    """The header of a CSV: column names without units, and the unit each had."""

    names: Sequence[str]
    units: Mapping[str, str]

    def row(self, line: str) -> Optional[Dict[str, str]]:
        """The line's cells by column name; None for a line that is no row of this table (torn, a
        notice, a header).
        """
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(self.names) or cells[0].split(" [")[0] == self.names[0]:
            return None
        return dict(zip(self.names, cells))

    def value(self, row: Mapping[str, str], field: Field) -> Optional[float]:
        """The first of the field's columns that holds a number, in base units; None when
        none does.
        """
        for name in field.names:
            if name not in row:
                continue
            number = quantity(row[name], self.units.get(name) or field.unit)
            if number is not None:
                return number
        return None

    def count(self, row: Mapping[str, str], field: Field) -> Optional[int]:
        """The same as a whole number (bytes)."""
        value = self.value(row, field)
        return None if value is None else round(value)

    def ratio(self, row: Mapping[str, str], field: Field) -> Optional[float]:
        """The same as a share; None when it is none."""
        return _share(self.value(row, field))


def table(header: str) -> Table:
    """The table that this header line opens."""
    matches = [_HEADER.fullmatch(cell.strip()) for cell in header.strip("\ufeff \r\n").split(",")]
    cells = [(match.group(1), match.group(2) or "") if match else ("", "") for match in matches]
    return Table(
        [name for name, _ in cells], {name: unit for name, unit in cells if unit in _FACTORS}
    )


def is_header(line: str) -> bool:
    """True for a line that names columns of --query-gpu."""
    names = {cell.strip().split(" [")[0] for cell in line.strip("\ufeff \r\n").split(",")}
    known = {
        name
        for field in (UTIL, MEMORY_UTIL, MEMORY_USED, POWER, TEMPERATURE, SM_CLOCK)
        for name in field.names
    }
    return bool(names & known)


@lru_cache(maxsize=10_000)  # a log says the same few thousand things over and over
def quantity(text: str, unit: str) -> Optional[float]:
    """The number in base units, by its own unit or by the given one; None when the text is no
    number.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    factor = _FACTORS.get(match.group(2) or unit)
    if factor is None:
        return None
    number = float(match.group(1))
    return number / 100 if factor == 0.01 else number * factor


def csv_reading(columns: Table, row: Mapping[str, str], *, at_ms: int) -> Reading:
    """The row as a reading."""
    means = {name: columns.ratio(row, field) for name, field in ENGINES.items()}
    means.update(_throttled_now(row))
    return Reading(
        at_ms=at_ms,
        util=columns.ratio(row, UTIL),
        memory_util=columns.ratio(row, MEMORY_UTIL),
        memory_used_bytes=columns.count(row, MEMORY_USED),
        memory_reserved_bytes=columns.count(row, MEMORY_RESERVED),
        power_w=columns.value(row, POWER),
        temperature_c=columns.value(row, TEMPERATURE),
        memory_temperature_c=columns.value(row, MEMORY_TEMPERATURE),
        sm_clock_hz=columns.value(row, SM_CLOCK),
        ecc_uncorrected=columns.count(row, ECC_UNCORRECTED),
        means={name: value for name, value in means.items() if value is not None},
    )


def _throttled_now(row: Mapping[str, str]) -> Dict[str, float]:
    """Whether clocks are held down at this instant, as shares; none where the driver does
    not say.
    """
    text = next((row[name] for name in EVENT_REASONS if name in row), "")
    if not re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text):
        return {}
    bits = int(text, 16)
    return {
        "throttle_power_ratio": float(bits & POWER_BITS != 0),
        "throttle_thermal_ratio": float(bits & THERMAL_BITS != 0),
    }


def throttled_s(columns: Table, row: Mapping[str, str]) -> Dict[str, float]:
    """Seconds that clocks were held down since the driver was loaded, by wire column; none where
    there is no such counter.
    """
    throttled = {}
    for column, fields in THROTTLED.items():
        parts = [
            value for value in (columns.value(row, field) for field in fields) if value is not None
        ]
        if parts:
            # both causes may hold at once: their sum could be more than the time
            throttled[column] = max(parts)
    return throttled


def lost_reason(columns: Table, row: Mapping[str, str]) -> Optional[str]:
    """The driver's word for a GPU that does not work; None for one that does, or that just lacks
    sensors.
    """
    is_read = any(
        columns.value(row, field) is not None
        for field in (UTIL, MEMORY_USED, POWER, TEMPERATURE, SM_CLOCK)
    )
    matches = [
        _LOST.match(cell) or (None if is_read else _FAILED.match(cell)) for cell in row.values()
    ]
    return next((match.group(1) for match in matches if match is not None), None)


def csv_gpu(columns: Table, row: Mapping[str, str], *, uuid: str, index: Optional[int]) -> GPUInfo:
    """The row's GPU, under the given name."""
    return GPUInfo(
        uuid=uuid,
        index=index,
        model=_known(row.get("name") or row.get("gpu_name")),
        memory_total_bytes=columns.count(row, MEMORY_TOTAL),
        power_limit_w=columns.value(row, POWER_LIMIT),
        sm_clock_max_hz=columns.value(row, SM_CLOCK_MAX),
        persistence={ENABLED: True, DISABLED: False}.get(row.get("persistence_mode", "")),
        bus_id=_known(row.get("pci.bus_id") or row.get("gpu_bus_id")),
        unread={
            name: "not_supported"
            for name, field in _UNREAD.items()
            if columns.value(row, field) is None
            and (name in _ALWAYS_ASKED or any(column in row for column in field.names))
        },
    )


def csv_uuid(row: Mapping[str, str]) -> Optional[str]:
    """The GPU's name for ever; None where the table has none, or one masked with zeros: that names
    every GPU alike.
    """
    text = _known(row.get("uuid") or row.get("gpu_uuid"))
    return None if text is None or _MASKED.fullmatch(text) else text


def csv_index(row: Mapping[str, str]) -> Optional[int]:
    """The GPU's place on its node; None where the table has none."""
    text = row.get("index", "")
    return int(text) if text.isdigit() else None


def _share(value: Optional[float]) -> Optional[float]:
    return value if value is not None and 0 <= value <= 1 else None


def _known(text: Optional[str]) -> Optional[str]:
    """The text, unless it says that there is none."""
    text = (text or "").strip()
    return (
        None
        if not text or text.startswith("[") or text in ("N/A", "ERR!", "Unknown Error")
        else text
    )


_UNREAD = {"util_mean": UTIL, "memory_used_bytes": MEMORY_USED, "power_w": POWER,
"temperature_c": TEMPERATURE, "sm_clock_hz": SM_CLOCK,
           "memory_temperature_c": MEMORY_TEMPERATURE, "encoder_ratio": ENCODER,
           "decoder_ratio": DECODER,
           "ecc_uncorrected": ECC_UNCORRECTED}  # fmt: skip
_ALWAYS_ASKED = frozenset(
    ("util_mean", "memory_used_bytes", "power_w", "temperature_c", "sm_clock_hz")
)
