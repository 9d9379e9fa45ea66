"""The calculator's form: text fields become an Owned, or sentences per field. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.owned import Draw
from fleetwatch.costs.tco import ASSUMED, AVERAGE_PUE, MEASURED, Owned
from fleetwatch.lib import amounts

LONGEST = 16  # letters of a number: more digits than any of these has


@dataclass(frozen=True, slots=True)
class Field:
    """One number of the form and its bounds; `start` is what the empty form shows."""

    name: str
    label: str
    start: str
    low: Decimal
    high: Decimal
    help: str = ""


FIELDS = (
    Field(
        "server_usd",
        "A server costs, $",
        "",
        Decimal(0),
        Decimal(100_000_000),
        "with its GPUs, as it was bought",
    ),
    Field("gpus_per_server", "GPUs in it", "8", Decimal(1), Decimal(1024)),
    Field("years", "Written off over years", "4", Decimal("0.1"), Decimal(30)),
    Field(
        "gpu_w",
        "Watts of a GPU",
        "",
        Decimal(0),
        Decimal(10_000),
        "empty: as measured by its joule counter",
    ),
    Field(
        "host_w",
        "Watts of the server without GPUs",
        "0",
        Decimal(0),
        Decimal(100_000),
        "NVML does not see it: your assumption",
    ),
    Field(
        "pue",
        "PUE",
        str(AVERAGE_PUE),
        Decimal(1),
        Decimal(5),
        "1.56: average of Uptime Institute's survey of 2024",
    ),
    Field("usd_per_kwh", "$ per kWh", "", Decimal(0), Decimal(100)),
    Field("rack_usd_per_month", "Rack, $ a month and server", "0", Decimal(0), Decimal(10_000_000)),
    Field(
        "network_usd_per_month",
        "Network, $ a month and server",
        "0",
        Decimal(0),
        Decimal(10_000_000),
    ),
    Field(
        "staff_usd_per_month", "Staff, $ a month and server", "0", Decimal(0), Decimal(10_000_000)
    ),
)


def read(sent: Mapping[str, str], draw: Draw | None) -> tuple[Owned | None, dict[str, str]]:
    """The owned servers, None with what is wrong per field. An empty draw is the measured one."""
    errors: dict[str, str] = {}
    values: dict[str, Decimal] = {}
    for field in FIELDS:
        text = sent.get(field.name, "").strip()
        if field.name == "gpu_w" and not text and draw is not None:
            continue
        value = _number(text, field)
        if value is None:
            errors[field.name] = (
                f"A number from {field.low:,f} to {field.high:,f}, please."
                if text
                else _missing(field)
            )
        else:
            values[field.name] = value
    gpus = values.pop("gpus_per_server", Decimal(1))
    if gpus != int(gpus):
        errors["gpus_per_server"] = "A whole number, please."
    if errors:
        return None, errors
    stated = values.pop("gpu_w", None)
    watts, source = (
        (stated, ASSUMED) if stated is not None or draw is None else (draw.mean_w, MEASURED)
    )
    return Owned(
        gpus_per_server=int(gpus), gpu_w=watts or Decimal(0), gpu_w_source=source, **values
    ), {}


def _missing(field: Field) -> str:
    return (
        "Nobody read joules of this model: how many watts, please?"
        if field.name == "gpu_w"
        else "How much, please?"
    )


def _number(text: str, field: Field) -> Decimal | None:
    """The text as a number within the field's bounds, None where it is none."""
    value = amounts.typed(text) if len(text) <= LONGEST else None
    return value if value is not None and field.low <= value <= field.high else None
