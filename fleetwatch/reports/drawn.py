"""Energy as a report keeps it: plain data, to the watt-hour, and back. Pure."""

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from fleetwatch.costs.energy import Energy, Site
from fleetwatch.figures.pricing import MICRO_USD, usd
from fleetwatch.reports.statement import Shape, text

# of a kWh; joules are floats, whose last digits depend on the order in which they were summed
WATT_HOUR = Decimal("0.001")
GRAM = Decimal(1)
SHARE_PLACES = 4
# to what each amount is kept; dollars are kept under another name, which says what they are
STEPS = {
    "gpu_kwh": WATT_HOUR,
    "meter_kwh": WATT_HOUR,
    "usd": MICRO_USD,
    "unpriced_kwh": WATT_HOUR,
    "co2e_g": GRAM,
    "unknown_grid_kwh": WATT_HOUR,
}
KEPT_AS = {"usd": "price_usd"}
OF_SITE = ("pue", "usd_per_kwh", "g_per_kwh")


def kept(energy: Energy) -> Shape:
    """What read() makes the same Energy of, but for digits that nobody can tell; None where nothing
    is known.
    """
    return {
        **{
            KEPT_AS.get(name, name): _text(getattr(energy, name), step)
            for name, step in STEPS.items()
        },
        "coverage": None if energy.coverage is None else round(energy.coverage, SHARE_PLACES),
        "sites": [_site(site) for site in energy.sites],
    }


def read(shape: Shape) -> Energy:
    """The energy that a report keeps."""
    return Energy(
        **{name: _number(shape[KEPT_AS.get(name, name)]) for name in STEPS},
        coverage=shape["coverage"],
        sites=tuple(_read_site(site) for site in shape["sites"]),
    )


def _site(site: Site) -> Shape:
    return asdict(site) | {name: _text(getattr(site, name)) for name in OF_SITE}


def _read_site(shape: Shape) -> Site:
    return Site(**shape | {name: _number(shape[name]) for name in OF_SITE})


def _text(amount: Decimal | None, step: Decimal | None = None) -> str | None:
    if amount is None:
        return None
    return text(amount if step is None else usd(amount, step))


def _number(amount: str | None) -> Any:
    return None if amount is None else Decimal(amount)
