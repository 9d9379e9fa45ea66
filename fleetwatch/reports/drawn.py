"""Energy as a report keeps it: plain data, to the watt-hour, and back. Pure."""

from dataclasses import asdict
from decimal import Decimal

from fleetwatch.costs.energy import Energy, Site
from fleetwatch.figures.pricing import MICRO_USD
from fleetwatch.reports.statement import Shape, amount_or_none, rounded

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
            KEPT_AS.get(name, name): rounded(getattr(energy, name), step)
            for name, step in STEPS.items()
        },
        "coverage": None if energy.coverage is None else round(energy.coverage, SHARE_PLACES),
        "sites": list(map(asdict, energy.sites)),
    }


def read(shape: Shape) -> Energy:
    """The energy that a report keeps."""
    return Energy(
        **{name: amount_or_none(shape[KEPT_AS.get(name, name)]) for name in STEPS},
        coverage=shape["coverage"],
        sites=tuple(
            Site(**site | {name: amount_or_none(site[name]) for name in OF_SITE})
            for site in shape["sites"]
        ),
    )
