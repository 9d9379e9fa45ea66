"""What nvidia-smi prints, as readings: CSV of --query-gpu in any column order. Pure.

Anything that is no number (`[N/A]`, `[Not Supported]`, `ERR!`, `[Unknown Error]`, a deprecation
notice, nothing) is None.
"""

import re
from functools import lru_cache
from typing import Iterable, List, Mapping, NamedTuple, Optional, Tuple

from agent.readings import GPUInfo, Reading, Values
from agent.sources.measured import LIMITS, reading_of

MIB = 1024 * 1024
_FACTORS = {
    "%": 0.01, "W": 1.0, "mW": 0.001, "B": 1.0, "KiB": 1024.0, "MiB": float(MIB),
    "GiB": 1024.0 * MIB,
    "MHz": 1e6, "GHz": 1e9, "Hz": 1.0, "C": 1.0, "": 1.0, "us": 1e-6,
}  # fmt: skip
_QUANTITY = re.compile(r"([-+]?\d+(?:\.\d+)?)\s*([%A-Za-z]*)")
_HEADER = re.compile(r"([^\[\]]+?)\s*(?:\[(.+)\])?")
_BITS = re.compile(r"0x[0-9A-Fa-f]{1,16}")
NO_TEXT = ("N/A", "ERR!", "Unknown Error")
_MASKED = re.compile(r"(GPU|MIG)-[0-]+")
_LOST = re.compile(r"\[?(GPU is lost|GPU requires reset)", re.IGNORECASE)
_FAILED = re.compile(r"\[?(Unknown Error|ERR!)")  # a broken fan says so too
PERSISTENCE = {"Enabled": True, "Disabled": False}


class Field(NamedTuple):
    """A quantity: the names nvidia-smi has given it, best first, and the unit it is printed in
    without one.
    """

    names: Tuple[str, ...]
    unit: str


# What is read of a GPU, by slot: Reading's and GPUInfo's names, and columns of the wire.
FIELDS = {
    "util": Field(("utilization.gpu",), "%"),
    "memory_util": Field(("utilization.memory",), "%"),
    "encoder_ratio": Field(("utilization.encoder",), "%"),
    "decoder_ratio": Field(("utilization.decoder",), "%"),
    "jpeg_ratio": Field(("utilization.jpeg",), "%"),
    "ofa_ratio": Field(("utilization.ofa",), "%"),
    "memory_used_bytes": Field(("memory.used",), "MiB"),
    "memory_reserved_bytes": Field(("memory.reserved",), "MiB"),
    "memory_total_bytes": Field(("memory.total",), "MiB"),
    "power_w": Field(("power.draw", "power.draw.average", "power.draw.instant"), "W"),
    "power_limit_w": Field(("enforced.power.limit", "power.limit", "power.default_limit"), "W"),
    "temperature_c": Field(("temperature.gpu",), "C"),
    "memory_temperature_c": Field(("temperature.memory",), "C"),
    "sm_clock_hz": Field(("clocks.current.sm", "clocks.sm"), "MHz"),
    "sm_clock_max_hz": Field(("clocks.max.sm",), "MHz"),
    "ecc_uncorrected": Field(("ecc.errors.uncorrected.volatile.total",), ""),
}
MEASURED = tuple(slot for slot in FIELDS if slot not in LIMITS)
SHARES = frozenset(slot for slot in MEASURED if FIELDS[slot].unit == "%")
# of a GPU that works at least one is read; each is unread where it is not even asked for
VITAL = ("util", "memory_used_bytes", "power_w", "temperature_c", "sm_clock_hz")
UNREAD = (*VITAL, "memory_temperature_c", "encoder_ratio", "decoder_ratio", "ecc_uncorrected")
EVENT_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
# NVML: nvmlClocksEventReasons; SwPowerCap and HwPowerBrake, SwThermal and HwThermal.
THROTTLE_BITS = {"throttle_power_ratio": 0x04 | 0x80, "throttle_thermal_ratio": 0x20 | 0x40}
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


Column = Tuple[str, str]  # its name, and the unit of what it holds without one


class Row(NamedTuple):
    """The cells of one line by column name, and the table that it is of."""

    cells: Mapping[str, str]
    table: "Table"

    def value(self, field: Field) -> Optional[float]:
        """The first of the field's columns that holds a number, in base units; None when
        none does.
        """
        return self._first_number(self.table.columns(field))

    def _first_number(self, columns: Iterable[Column]) -> Optional[float]:
        for name, unit in columns:
            number = quantity(self.cells[name], unit)
            if number is not None:
                return number
        return None

    def values(self) -> Values:
        """What is measured, by slot, without a share that is none."""
        values = {}
        for slot, columns in self.table.measured.items():
            value = self._first_number(columns)
            if value is not None and (slot not in SHARES or 0 <= value <= 1):
                values[slot] = value
        return values

    def text(self, *names: str) -> Optional[str]:
        """The text in the first of the columns that says anything."""
        for name in names:
            text = self.cells.get(name)
            if text:
                return None if text.startswith("[") or text in NO_TEXT else text
        return None


class Table:
    """What the header of a CSV opens: column names without units, and the unit each had."""

    def __init__(self, header: str) -> None:
        cells = [cell.strip() for cell in header.strip("\ufeff \r\n").split(",")]
        named = [match.groups("") if match else ("", "") for match in map(_HEADER.fullmatch, cells)]
        self.names = [name for name, _ in named]
        self._units = {name: unit for name, unit in named if unit in _FACTORS}
        # looked up once, not in each row
        columns = {slot: self.columns(FIELDS[slot]) for slot in MEASURED}
        self.measured = {slot: of_slot for slot, of_slot in columns.items() if of_slot}

    def columns(self, field: Field) -> List[Column]:
        """Those of the field that there are, best first."""
        names = [name for name in field.names if name in self.names]
        return [(name, self._units.get(name) or field.unit) for name in names]

    def row(self, line: str) -> Optional[Row]:
        """The row; None for a line that is no row of this table (torn, a notice, a header)."""
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(self.names) or cells[0].split(" [")[0] == self.names[0]:
            return None
        return Row(dict(zip(self.names, cells)), self)


def is_header(line: str) -> bool:
    """True for a line that names columns of --query-gpu."""
    names = set(Table(line).names)
    return any(names.intersection(FIELDS[slot].names) for slot in (*VITAL, "memory_util"))


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


def csv_reading(row: Row, *, at_ms: int) -> Reading:
    """The row as a reading."""
    return reading_of(row.values(), at_ms=at_ms, ratios=_throttled_now(row))


def _throttled_now(row: Row) -> Values:
    """Whether clocks are held down at this instant, as shares; none where the driver does
    not say.
    """
    text = next((row.cells[name] for name in EVENT_REASONS if name in row.cells), "")
    if not _BITS.fullmatch(text):
        return {}
    return {column: float(int(text, 16) & bits != 0) for column, bits in THROTTLE_BITS.items()}


def throttled_s(row: Row) -> Values:
    """Seconds that clocks were held down since the driver was loaded, by wire column; none where
    there is no such counter.
    """
    throttled = {}
    for column, fields in THROTTLED.items():
        parts = [value for value in map(row.value, fields) if value is not None]
        if parts:
            # both causes may hold at once: their sum could be more than the time
            throttled[column] = max(parts)
    return throttled


def lost_reason(row: Row) -> Optional[str]:
    """The driver's word for a GPU that does not work; None for one that does, or that just lacks
    sensors.
    """
    is_read = any(row.value(FIELDS[slot]) is not None for slot in VITAL)
    matches = [
        _LOST.match(cell) or (None if is_read else _FAILED.match(cell))
        for cell in row.cells.values()
    ]
    return next((match.group(1) for match in matches if match is not None), None)


def csv_gpu(row: Row, *, uuid: str, index: Optional[int]) -> GPUInfo:
    """The row's GPU, under the given name."""
    total = row.value(FIELDS["memory_total_bytes"])
    return GPUInfo(
        uuid=uuid,
        index=index,
        model=row.text("name", "gpu_name"),
        memory_total_bytes=None if total is None else round(total),
        power_limit_w=row.value(FIELDS["power_limit_w"]),
        sm_clock_max_hz=row.value(FIELDS["sm_clock_max_hz"]),
        persistence=PERSISTENCE.get(row.cells.get("persistence_mode", "")),
        bus_id=row.text("pci.bus_id", "gpu_bus_id"),
        unread={
            "util_mean" if slot == "util" else slot: "not_supported"
            for slot in UNREAD
            if row.value(FIELDS[slot]) is None
            and (slot in VITAL or row.cells.keys() & FIELDS[slot].names)
        },
    )


def csv_uuid(row: Row) -> Optional[str]:
    """The GPU's name for ever; None where the table has none, or one masked with zeros: that names
    every GPU alike.
    """
    text = row.text("uuid", "gpu_uuid")
    return None if text is None or _MASKED.fullmatch(text) else text


def csv_index(row: Row) -> Optional[int]:
    """The GPU's place on its node; None where the table has none."""
    text = row.cells.get("index", "")
    return int(text) if text.isdigit() else None
