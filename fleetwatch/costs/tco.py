"""What a GPU-hour of owned machines costs (total cost of ownership): each part of it, and their
sum. Pure.

Per GPU-hour of capacity, whether it was used or not: capital = price of a server ÷ (years × 8,760
h) ÷ its GPUs; energy = watts of a GPU with its share of the server × PUE × price of a kWh; rack,
network and staff = dollars per server and month × 12 ÷ 8,760 h ÷ its GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

from fleetwatch.figures.pricing import EXACT, lines, usd

HOURS_PER_YEAR = 8_760
MONTHS_PER_YEAR = 12
# Uptime Institute, Global Data Center Survey 2024: average PUE of the sites asked
AVERAGE_PUE = Decimal("1.56")

MONTHLY = ("rack", "network", "staff")  # what is paid by the month
MEASURED = "measured"
ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Owned:
    """What is known of owned servers; dollars are Decimals, `gpu_w` is the mean draw of one GPU's
    board.
    """

    server_usd: Decimal
    gpus_per_server: int
    years: Decimal
    gpu_w: Decimal
    gpu_w_source: str  # MEASURED or ASSUMED
    host_w: Decimal  # of the server without its GPUs: assumed, nobody reads it
    pue: Decimal
    usd_per_kwh: Decimal
    rack_usd_per_month: Decimal
    network_usd_per_month: Decimal
    staff_usd_per_month: Decimal


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a price, in dollars per GPU-hour, and how it came about."""

    name: str
    usd_per_gpu_hour: Decimal
    how: str


def components(owned: Owned) -> list[Component]:
    """The parts in whole micro-dollars; `price()` of them is what the GPU-hour costs."""
    gpus = owned.gpus_per_server
    monthly = [getattr(owned, f"{name}_usd_per_month") for name in MONTHLY]
    with localcontext(EXACT):
        kilowatts = (owned.gpu_w + owned.host_w / gpus) / 1000
        exact = [
            owned.server_usd / (owned.years * HOURS_PER_YEAR * gpus),
            kilowatts * owned.pue * owned.usd_per_kwh,
            *(dollars * MONTHS_PER_YEAR / (HOURS_PER_YEAR * gpus) for dollars in monthly),
        ]
    names = ("capital", "energy", *MONTHLY)
    hows = _hows(owned, monthly)
    return [Component(*part) for part in zip(names, lines(exact), hows, strict=True)]


def price(parts: Sequence[Component]) -> Decimal:
    """Dollars per GPU-hour."""
    return usd(sum((part.usd_per_gpu_hour for part in parts), Decimal(0)))


def _hows(owned: Owned, monthly: Sequence[Decimal]) -> list[str]:
    of_server = (
        f"a month and server × {MONTHS_PER_YEAR} ÷ {HOURS_PER_YEAR:,} h ÷ {owned.gpus_per_server}"
        " GPUs"
    )
    host = (
        f" + {owned.host_w:,f} W of the server ÷ {owned.gpus_per_server} (assumed)"
        if owned.host_w
        else ""
    )
    return [
        (
            f"${owned.server_usd:,f} a server ÷ {owned.gpus_per_server} GPUs ÷ {owned.years:f}"
            f" years of {HOURS_PER_YEAR:,} h"
        ),
        (
            f"({owned.gpu_w:,f} W a GPU ({owned.gpu_w_source}){host}) × PUE {owned.pue:f} ×"
            f" ${owned.usd_per_kwh:f} a kWh"
        ),
        *(f"${dollars:,f} {of_server}" for dollars in monthly),
    ]
