"""The calculator's form: text fields become an Owned, or sentences per field."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.owned import Draw
from fleetwatch.costs.tco import ASSUMED, AVERAGE_PUE, MEASURED, Owned
from fleetwatch.lib.csv_files import amounts

LONGEST = 16  # letters of a number: more digits than any of these has


@dataclass(frozen=True, slots=True)
class Field:
    """One number of the form and its bounds; `start` is what the empty form shows."""

    name: str
    label: str
    start: str
    low: Decimal | int
    high: Decimal | int
    help: str = ""


FIELDS = (
    Field(
        "server_usd",
        "Price of a server, $",
        "",
        0,
        100_000_000,
        "with its GPUs, as bought",
    ),
    Field("gpus_per_server", "GPUs per server", "8", 1, 1024),
    Field("years", "Depreciation, years", "4", Decimal("0.1"), 30),
    Field(
        "gpu_w",
        "Power per GPU, W",
        "",
        0,
        10_000,
        "empty: as measured",
    ),
    Field(
        "host_w",
        "Power of the server without GPUs, W",
        "0",
        0,
        100_000,
        "not measured by NVML: your assumption",
    ),
    Field(
        "pue",
        "PUE",
        str(AVERAGE_PUE),
        1,
        5,
        "1.56: average of Uptime Institute's survey of 2024",
    ),
    Field("usd_per_kwh", "$ per kWh", "", 0, 100),
    Field("rack_usd_per_month", "Rack, $ per server and month", "0", 0, 10_000_000),
    Field(
        "network_usd_per_month",
        "Network, $ per server and month",
        "0",
        0,
        10_000_000,
    ),
    Field("staff_usd_per_month", "Staff, $ per server and month", "0", 0, 10_000_000),
)


NAMES = tuple(field.name for field in FIELDS)


def read(sent: Mapping[str, str], draw: Draw | None) -> tuple[Owned | None, dict[str, str]]:
    """The owned servers, or what is wrong per field; an empty draw is the measured one."""
    texts = {field.name: sent.get(field.name, "").strip() for field in FIELDS}
    values = {
        field.name: value
        for field in FIELDS
        if (value := _value(field, texts[field.name], draw)) is not None
    }
    errors = {
        field.name: _what_is_wrong(field, texts[field.name])
        for field in FIELDS
        if field.name not in values
    }
    gpus = values.pop("gpus_per_server", Decimal())
    if gpus % 1:
        errors["gpus_per_server"] = "A whole number, please."
    if errors:
        return None, errors
    source = ASSUMED if draw is None or texts["gpu_w"] else MEASURED
    return Owned(gpus_per_server=int(gpus), gpu_w_source=source, **values), {}


def _value(field: Field, text: str, draw: Draw | None) -> Decimal | None:
    """None where it is no number within the bounds."""
    if field.name == "gpu_w" and not text and draw is not None:
        return draw.mean_w
    value = amounts.typed(text) if len(text) <= LONGEST else None
    return value if value is not None and field.low <= value <= field.high else None


def _what_is_wrong(field: Field, text: str) -> str:
    if text:
        return f"A number from {field.low:,} to {field.high:,}, please."
    if field.name == "gpu_w":
        return "The energy of this model was not measured: how many watts, please?"
    return "Enter a number."
