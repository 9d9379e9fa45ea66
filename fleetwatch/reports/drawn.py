"""Energy as a report keeps it: plain data, to the watt-hour, and back. Pure."""

from decimal import Decimal
from typing import Any

from fleetwatch.costs.energy import Energy, Site
from fleetwatch.figures.pricing import MICRO_USD, usd

Shape = dict[str, Any]
# of a kWh; joules are floats, whose last digits depend on the order in which they were summed
WATT_HOUR = Decimal("0.001")
GRAM = Decimal(1)
SHARE_PLACES = 4


def kept(energy: Energy) -> Shape:
    """What read() makes the same Energy of, but for digits that nobody can tell; None where nothing
    is known.
    """
    return {
        "gpu_kwh": _text(energy.gpu_kwh, WATT_HOUR),
        "coverage": None if energy.coverage is None else round(energy.coverage, SHARE_PLACES),
        "meter_kwh": _text(energy.meter_kwh, WATT_HOUR),
        "price_usd": _text(energy.usd, MICRO_USD),
        "unpriced_kwh": _text(energy.unpriced_kwh, WATT_HOUR),
        "co2e_g": _text(energy.co2e_g, GRAM),
        "unknown_grid_kwh": _text(energy.unknown_grid_kwh, WATT_HOUR),
        "sites": [_site(site) for site in energy.sites],
    }


def read(shape: Shape) -> Energy:
    """The energy that a report keeps."""
    return Energy(
        gpu_kwh=_number(shape["gpu_kwh"]),
        coverage=shape["coverage"],
        meter_kwh=_number(shape["meter_kwh"]),
        usd=_number(shape["price_usd"]),
        unpriced_kwh=Decimal(shape["unpriced_kwh"]),
        co2e_g=_number(shape["co2e_g"]),
        unknown_grid_kwh=Decimal(shape["unknown_grid_kwh"]),
        sites=tuple(_read_site(site) for site in shape["sites"]),
    )


def _site(site: Site) -> Shape:
    numbers = {"pue": site.pue, "usd_per_kwh": site.usd_per_kwh, "g_per_kwh": site.g_per_kwh}
    texts = {name: None if value is None else f"{value:f}" for name, value in numbers.items()}
    return {"region": site.region, **texts, "source": site.source, "is_example": site.is_example}


def _read_site(shape: Shape) -> Site:
    pue, price, grams = (_number(shape[name]) for name in ("pue", "usd_per_kwh", "g_per_kwh"))
    return Site(
        shape["region"],
        Decimal(1) if pue is None else pue,
        price,
        grams,
        shape["source"],
        shape["is_example"],
    )


def _text(amount: Decimal | None, step: Decimal) -> str | None:
    return None if amount is None else f"{usd(amount, step):f}"


def _number(text: str | Decimal | None) -> Decimal | None:
    return None if text is None else Decimal(text)
