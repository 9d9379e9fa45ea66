"""What owned GPUs cost: every part by hand, and their sum exact."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.costs.tco import ASSUMED, MEASURED, Owned, components, price
from tests.costs.factories import HOUR, a_gpu, set_rate

SERVER = Owned(
    server_usd=Decimal(280_320),
    gpus_per_server=8,
    years=Decimal(4),
    gpu_w=Decimal(600),
    gpu_w_source=MEASURED,
    host_w=Decimal(1_600),
    pue=Decimal("1.25"),
    usd_per_kwh=Decimal("0.10"),
    rack_usd_per_month=Decimal(584),
    network_usd_per_month=Decimal(292),
    staff_usd_per_month=Decimal(146),
)


def test_each_part_is_what_one_works_out_by_hand():
    # 280,320 / (4 x 8,760) / 8 = 1.00; (0.6 + 1.6/8) kW x 1.25 x 0.10 = 0.10; 584 x 12 / 8,760 / 8
    # = 0.10
    assert [(part.name, part.usd_per_gpu_hour) for part in components(SERVER)] == [
        ("capital", Decimal("1.000000")),
        ("energy", Decimal("0.100000")),
        ("rack", Decimal("0.100000")),
        ("network", Decimal("0.050000")),
        ("staff", Decimal("0.025000")),
    ]
    assert price(components(SERVER)) == Decimal("1.275000")


def test_each_part_says_how_it_came_about():
    hows = [part.how for part in components(replace(SERVER, gpu_w_source=ASSUMED))]

    assert hows[0] == "$280,320 a server ÷ 8 GPUs ÷ 4 years of 8,760 h"
    assert (
        hows[1]
        == "(600 W a GPU (assumed) + 1,600 W of the server ÷ 8 (assumed)) × PUE 1.25 × $0.10 a kWh"
    )
    assert hows[2] == "$584 a month and server × 12 ÷ 8,760 h ÷ 8 GPUs"
    assert (
        components(replace(SERVER, host_w=Decimal(0)))[1].how
        == "(600 W a GPU (measured)) × PUE 1.25 × $0.10 a kWh"
    )


def test_what_costs_nothing_is_a_part_all_the_same():
    parts = components(replace(SERVER, server_usd=Decimal(0), gpu_w=Decimal(0), host_w=Decimal(0)))

    assert [part.usd_per_gpu_hour for part in parts[:2]] == [0, 0]


amounts = st.decimals(0, 1_000_000, places=3)


@given(amounts, st.integers(1, 72), st.decimals("0.1", 30, places=1), amounts, amounts)
def test_parts_always_sum_to_the_price_and_none_is_off_by_a_micro_dollar(
    server, gpus, years, watts, monthly
):
    owned = replace(
        SERVER,
        server_usd=server,
        gpus_per_server=gpus,
        years=years,
        gpu_w=watts,
        rack_usd_per_month=monthly,
    )

    parts = components(owned)

    assert sum(part.usd_per_gpu_hour for part in parts) == price(parts)
    capital = server / (years * 8760 * gpus)
    assert abs(parts[0].usd_per_gpu_hour - capital) < Decimal("0.000001")


@pytest.mark.django_db
def test_a_booked_price_keeps_its_parts_and_no_others():
    model, parts = a_gpu().model, components(SERVER)

    set_rate(
        model, price(parts), valid_from=BEGINNING, now=HOUR, pricing_class="owned", components=parts
    )

    kept = Rate.objects.get().components
    assert kept[0] == {
        "name": "capital",
        "usd_per_gpu_hour": "1.000000",
        "how": "$280,320 a server ÷ 8 GPUs ÷ 4 years of 8,760 h",
    }
    assert sum(Decimal(part["usd_per_gpu_hour"]) for part in kept) == Decimal("1.275")
    with pytest.raises(ValueError, match=r"components sum to 1\.275000, not to 2\.000000"):
        set_rate(model, Decimal(2), valid_from=HOUR, now=HOUR, components=parts)
