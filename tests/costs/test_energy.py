"""Energy, its price and its carbon: None where not read, coverage beside it, each hour at its
node's region of then.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.costs.energy import EXAMPLE_G_PER_KWH, Site, energy_of, example_site
from fleetwatch.costs.models import Region
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.costs.sites import energy, energy_of_node, withdraw_region
from fleetwatch.figures.selectors import totals
from fleetwatch.figures.totals import Scope, nothing
from fleetwatch.ledger.models import ClosedMonth, Policy
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import (
    HOUR,
    HOUR_MS,
    LONG_AGO,
    a_gpu,
    a_job,
    a_place,
    an_entry,
    set_region,
)

DAY = Interval(HOUR, HOUR + timedelta(hours=8))
KWH = 3_600_000.0
HOME = Site("eu", pue=Decimal("1.25"), usd_per_kwh=Decimal("0.20"), g_per_kwh=Decimal(400))


def drawn(energy_j, read_ms, capacity_ms):
    return replace(nothing(), energy_j=energy_j, energy_ms=read_ms, capacity_ms=capacity_ms)


def test_kilowatt_hours_become_dollars_and_grams_at_the_meter():
    found = energy_of([(HOME, drawn(2 * KWH, 3 * HOUR_MS, 4 * HOUR_MS))])

    assert (found.gpu_kwh, found.meter_kwh, found.usd, found.co2e_g) == (
        2,
        Decimal("2.5"),
        Decimal("0.5"),
        1000,
    )
    assert (found.coverage, found.unpriced_kwh, found.unknown_grid_kwh, found.sites) == (
        0.75,
        0,
        0,
        (HOME,),
    )


def test_what_nobody_read_is_none_and_not_zero():
    found = energy_of([(HOME, drawn(None, 0, HOUR_MS))])

    assert (found.gpu_kwh, found.meter_kwh, found.usd, found.co2e_g, found.coverage) == (
        None,
        None,
        None,
        None,
        0.0,
    )
    assert energy_of([]).coverage is None


def test_where_a_price_or_a_grid_is_not_known_the_rest_is_told_in_kilowatt_hours():
    away = Site("x", pue=Decimal(2))

    found = energy_of([(HOME, drawn(KWH, 1, 1)), (away, drawn(KWH, 1, 1))])

    assert (found.usd, found.unpriced_kwh, found.co2e_g, found.unknown_grid_kwh) == (
        Decimal("0.25"),
        2,
        500,
        2,
    )


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "grams"), [("DE", 381), ("de", 381), ("eu-central-1", None)])
def test_a_region_whose_grid_was_left_open_has_its_countrys_average(name, grams):
    gpu = a_gpu(node="n1")
    a_place("n1", region=name)
    an_entry(gpu, "useful", energy_j=3_600_000.0)
    set_region(
        name,
        valid_from=LONG_AGO,
        pue=Decimal(1),
        usd_per_kwh=Decimal("0.3"),
        g_per_kwh=None,
        source="bill",
    )

    found = energy(Interval(HOUR, HOUR + timedelta(hours=1)))

    assert (found.co2e_g, found.usd) == (grams, Decimal("0.3"))
    assert found.sites[0].source == ("Ember 2023, average of the country" if grams else "bill")


@pytest.mark.parametrize(
    ("code", "grams", "year"),
    [("de", 381, 2023), ("US", 369, 2023), ("gb", 238, 2023), ("AE", 561, 2022), ("IS", 28, 2022)],
)
def test_a_region_that_is_a_countrys_code_has_its_average_grid_as_an_example(code, grams, year):
    site = example_site(code)

    assert (site.g_per_kwh, site.is_example) == (grams, True)
    assert site.source == f"Ember {year}, average of the country"


def test_a_region_that_is_no_countrys_code_has_no_grid():
    assert (example_site("moon").g_per_kwh, example_site("moon").pue) == (None, Decimal("1.56"))
    assert example_site("").g_per_kwh is None


# where most of the world's data centres with GPUs stand
CODES = (
    "US CA MX BR CL AR CO GB IE FR DE NL BE LU CH AT ES PT IT SE NO FI DK IS PL CZ GR RO HU BG "
    "TR IL AE SA QA ZA IN SG MY ID TH VN PH JP KR TW HK CN AU NZ"
)


def test_each_country_with_data_centres_has_one_average_between_water_and_coal():
    told = [code for countries in EXAMPLE_G_PER_KWH.values() for code in countries]

    assert set(CODES.split()) <= set(told)
    assert len(told) == len(set(told))
    for countries in EXAMPLE_G_PER_KWH.values():
        # in full, water and wind are some 10 to 30 g, and no coal is above 1,100
        assert all(10 < grams < 1_100 for grams in countries.values())


@pytest.mark.django_db
def test_each_hour_counts_where_its_node_was_then():
    gpu = a_gpu(node="gpu-01")
    job = a_job()
    a_place("gpu-01", region="eu", valid_to=HOUR + timedelta(hours=2))
    a_place("gpu-01", region="fr", valid_from=HOUR + timedelta(hours=2))
    set_region(
        "eu",
        valid_from=LONG_AGO,
        pue=Decimal("1.25"),
        usd_per_kwh=Decimal("0.2"),
        g_per_kwh=Decimal(400),
    )
    for hour in range(3):
        an_entry(gpu, start=HOUR + timedelta(hours=hour), energy_j=KWH, job=job if hour else None)
    an_entry(gpu, start=HOUR + timedelta(hours=3))

    found = energy(DAY)

    # two hours in eu, one in fr: 1.56 x 56 g
    assert (found.gpu_kwh, found.meter_kwh, found.coverage) == (3, Decimal("4.06"), 0.75)
    assert (found.usd, found.co2e_g) == (Decimal("0.5"), 1000 + Decimal("87.36"))
    assert energy_of_node(gpu.node, DAY, totals(DAY)) == found
    first = Interval(HOUR, HOUR + timedelta(hours=2))
    assert energy_of_node(gpu.node, first, totals(first)) == energy(first)
    assert energy(DAY, scope=Scope(job=job.key)).gpu_kwh == 2
    assert energy(DAY, scope=Scope(node="moon")).gpu_kwh is None


@pytest.mark.django_db
def test_what_begins_at_the_same_moment_is_replaced_and_bounds_are_kept():
    set_region("eu", valid_from=LONG_AGO, pue=Decimal("1.25"), usd_per_kwh=None, g_per_kwh=None)
    set_region(
        "eu",
        valid_from=LONG_AGO,
        pue=Decimal("1.3"),
        usd_per_kwh=Decimal(0),
        g_per_kwh=Decimal("0.5"),
    )

    assert list(Region.objects.values_list("pue", "usd_per_kwh", "g_per_kwh")) == [
        (Decimal("1.3"), 0, Decimal("0.5"))
    ]
    for wrong in (
        {"pue": Decimal("0.99")},
        {"pue": Decimal("NaN")},
        {"usd_per_kwh": Decimal(-1)},
        {"g_per_kwh": Decimal(3001)},
    ):
        with pytest.raises(RateError) as refused:
            set_region(
                "eu",
                valid_from=LONG_AGO,
                **{"pue": Decimal(1), "usd_per_kwh": None, "g_per_kwh": None} | wrong,
            )
        assert refused.value.field in wrong
    with pytest.raises(RateError, match="at most 63"):
        set_region("x\n", valid_from=LONG_AGO, pue=Decimal(1), usd_per_kwh=None, g_per_kwh=None)


@pytest.mark.django_db
def test_a_region_has_other_prices_and_another_grid_from_a_moment_on():
    gpu = a_gpu(node="gpu-01")
    a_place("gpu-01", region="eu")
    for hour in range(4):
        an_entry(gpu, start=HOUR + timedelta(hours=hour), energy_j=KWH)
    set_region(
        "eu",
        valid_from=LONG_AGO,
        pue=Decimal("1.5"),
        usd_per_kwh=Decimal("0.2"),
        g_per_kwh=Decimal(400),
    )
    later = set_region(
        "eu",
        valid_from=HOUR + timedelta(hours=3),
        pue=Decimal("1.25"),
        usd_per_kwh=Decimal("0.4"),
        g_per_kwh=Decimal(100),
    )

    found = energy(DAY)

    # three hours at 1.5, one at 1.25
    assert (found.meter_kwh, found.usd, found.co2e_g) == (Decimal("5.75"), Decimal("1.4"), 1925)
    assert energy_of_node(gpu.node, DAY, totals(DAY)) == found

    withdraw_region(later)
    assert energy(DAY).usd == Decimal("1.2")


@pytest.mark.django_db
def test_a_closed_month_keeps_what_held_in_its_regions():
    november, december = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    policy, _ = Policy.objects.get_or_create(
        version=1, defaults={"thresholds": {}, "created_at": HOUR}
    )
    ClosedMonth.objects.create(
        month=november,
        start=november,
        end=december,
        policy=policy,
        closed_at=december,
        closed_by="ann",
    )
    facts = {"pue": Decimal(1), "usd_per_kwh": None, "g_per_kwh": None}

    with pytest.raises(RateError, match="is closed"):
        set_region("eu", valid_from=december - timedelta(hours=1), **facts)
    with pytest.raises(RateError, match="full UTC hour"):
        set_region("eu", valid_from=december + timedelta(minutes=1), **facts)
    set_region("eu", valid_from=december, **facts)
