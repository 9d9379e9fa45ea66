"""Energy, its price and its carbon: joules that were read become kilowatt-hours at the meter,
dollars and grams. Pure.

Operation only: nothing of how the machines were made. What the GPUs draw is read by NVML; the rest
of the server is not in it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.tco import AVERAGE_PUE
from fleetwatch.figures.pricing import EXACT, exact_sum
from fleetwatch.figures.totals import Totals

JOULES_PER_KWH = Decimal(3_600_000)

# Grams of CO2 equivalents per kWh generated in a year, over the life cycle, by ISO 3166 code: of
# each country the newest year up to 2023 that the source has. Ember, Yearly Electricity Data
# (CC BY 4.0), through Our World in Data, "Carbon intensity of electricity generation" (read 21
# November 2026).
EXAMPLE_G_PER_KWH = {
    2023: {
        "AR": 354, "AT": 111, "AU": 549, "BD": 691, "BE": 138, "BG": 335, "BR": 98, "CA": 170,
        "CH": 35, "CL": 291, "CN": 582, "CO": 260, "CR": 53, "CY": 534, "CZ": 450, "DE": 381,
        "DK": 152, "EE": 417, "EG": 570, "ES": 174, "FI": 79, "FR": 56, "GB": 238, "GR": 337,
        "HR": 205, "HU": 204, "IE": 291, "IN": 713, "IT": 331, "JP": 485, "KE": 70, "KR": 431,
        "KW": 649, "KZ": 821, "LT": 160, "LU": 105, "LV": 123, "MA": 630, "MT": 459, "MX": 507,
        "NG": 523, "NL": 268, "NO": 30, "NZ": 113, "OM": 565, "PE": 266, "PH": 611, "PK": 441,
        "PL": 662, "PT": 166, "QA": 602, "RO": 241, "RS": 636, "SE": 41, "SG": 471, "SI": 231,
        "SK": 117, "TH": 550, "TR": 465, "TW": 642, "US": 369, "UY": 129, "VN": 475, "ZA": 708,
    },
    2022: {
        "AE": 561, "BH": 905, "HK": 699, "ID": 676, "IL": 583, "IS": 28, "JO": 541, "MY": 606,
        "SA": 707, "UA": 260,
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """What holds in a region; None = not known.

    `is_example` = a country's average, not set by anybody here.
    """

    region: str
    pue: Decimal = AVERAGE_PUE
    usd_per_kwh: Decimal | None = None
    g_per_kwh: Decimal | None = None
    source: str = ""
    is_example: bool = False


@dataclass(frozen=True, slots=True)
class Energy:
    """What GPUs drew. `gpu_kwh` is None where nobody read joules; `coverage` is the share of GPU
    time in which somebody did.

    Dollars and grams are those of the regions where the price or the grid is known; what is
    missing of them is told in kWh, at the meter. None = known of nothing.
    """

    gpu_kwh: Decimal | None
    coverage: float | None
    meter_kwh: Decimal | None
    usd: Decimal | None
    unpriced_kwh: Decimal
    co2e_g: Decimal | None
    unknown_grid_kwh: Decimal
    sites: tuple[Site, ...]


def energy_of(parts: Iterable[tuple[Site, Totals]]) -> Energy:
    """What was drawn at each site, together."""
    every = list(parts)
    read = _read(every)
    at_meter = [(site, EXACT.multiply(kwh, site.pue)) for site, kwh in read]
    usd, unpriced_kwh = _at_rates([(site.usd_per_kwh, kwh) for site, kwh in at_meter])
    co2e_g, unknown_grid_kwh = _at_rates([(site.g_per_kwh, kwh) for site, kwh in at_meter])
    return Energy(
        gpu_kwh=_sum([kwh for _, kwh in read]),
        coverage=_coverage([totals for _, totals in every]),
        meter_kwh=_sum([kwh for _, kwh in at_meter]),
        usd=usd,
        unpriced_kwh=unpriced_kwh,
        co2e_g=co2e_g,
        unknown_grid_kwh=unknown_grid_kwh,
        sites=tuple(sorted({site for site, _ in read}, key=lambda site: site.region)),
    )


def _read(parts: Iterable[tuple[Site, Totals]]) -> list[tuple[Site, Decimal]]:
    """Kilowatt-hours of GPUs."""
    return [
        (site, EXACT.divide(Decimal(repr(totals.energy_j)), JOULES_PER_KWH))
        for site, totals in parts
        if totals.energy_j is not None
    ]


def _coverage(parts: Sequence[Totals]) -> float | None:
    capacity_ms = sum(totals.capacity_ms for totals in parts)
    return sum(totals.energy_ms for totals in parts) / capacity_ms if capacity_ms else None


def _sum(amounts: Sequence[Decimal]) -> Decimal | None:
    """None of none."""
    return exact_sum(amounts) if amounts else None


def _at_rates(parts: Sequence[tuple[Decimal | None, Decimal]]) -> tuple[Decimal | None, Decimal]:
    """What kilowatt-hours make at what one of them makes, None where that is known of none; and
    those of which it is not known.
    """
    made = [EXACT.multiply(rate, kwh) for rate, kwh in parts if rate is not None]
    return _sum(made), exact_sum(kwh for rate, kwh in parts if rate is None)


def example_site(region: str) -> Site:
    """A region that nobody described: the average PUE, and the grid where the region is the code of
    a known country.
    """
    for year, countries in EXAMPLE_G_PER_KWH.items():
        grams = countries.get(region.upper())
        if grams is not None:
            source = f"Ember {year}, average of the country"
            return Site(region, g_per_kwh=Decimal(grams), source=source, is_example=True)
    return Site(region, is_example=True)
