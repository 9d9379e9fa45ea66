"""What statements tell beside their dollars: a part of the free capacity where people chose so, and
energy.
"""

import random
from decimal import Decimal

import pytest

from fleetwatch.ledger.models import Entry
from fleetwatch.reports import drawn
from fleetwatch.reports.models import Report
from fleetwatch.reports.statement import stored
from fleetwatch.reports.statement_choices import choose_free_capacity
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate, set_region
from tests.reports.factories import (
    HOUR,
    NOW,
    OCTOBER,
    SEPTEMBER,
    a_fleet,
    computed,
    counted,
    newest,
)

pytestmark = pytest.mark.django_db


def test_free_capacity_is_a_line_of_its_own_until_somebody_chooses_and_stored_versions_keep_what_they_said():
    a_fleet()
    computed()
    assert "free" not in newest().content

    choose_free_capacity("proportional")
    computed(now=NOW + HOUR)

    # $4 stood free; nlp has $9 of the teams' $14, vision 4, nobody 1
    nlp, fleet = newest("nlp").content, newest().content
    assert nlp["free"] == {
        "way": "proportional",
        "cost_usd": "9.000000",
        "free_usd": "2.571429",
        "with_free_usd": "11.571429",
    }
    assert nlp["total"]["cost_usd"] == "9.000000"
    assert [(team["slug"], team["free_usd"]) for team in fleet["free"]["teams"]] == [
        ("(none)", "0.285714"),
        ("nlp", "2.571429"),
        ("vision", "1.142857"),
    ]
    assert fleet["free"]["left_usd"] == "0.000000"
    assert "free" not in Report.objects.get(kind="fleet", version=1).content


@pytest.mark.parametrize("way", ["proportional", "even"])
@pytest.mark.parametrize("seed", range(2))
def test_whatever_the_way_the_sum_is_that_of_before_to_the_micro_dollar(seed, way):
    chance = random.Random(seed)
    gpu = a_gpu()
    a_rate(f"{chance.randrange(1, 9_999_999) / 10**6:.6f}", gpu=gpu)
    jobs = [None, *(a_job(team=team) for team in ("a", "b", "c"))]
    for hour in range(12):
        job = chance.choice(jobs)
        counted(
            gpu,
            "useful" if job else "free",
            chance.randrange(1, HOUR_MS),
            job=job,
            start=OCTOBER + hour * HOUR,
        )
    choose_free_capacity(way)

    computed()

    content = newest().content
    rest = [line for line in content["own_lines"] if line["state"] != "free"]
    together = sum(Decimal(team["with_free_usd"]) for team in content["free"]["teams"]) + sum(
        Decimal(line["cost_usd"]) for line in rest
    )
    assert together + Decimal(content["free"]["left_usd"]) == Decimal(content["total"]["cost_usd"])


def test_a_statement_tells_the_energy_of_its_team_and_what_nobody_read():
    a_fleet()
    Entry.objects.filter(job__key="slurm/della/1", start__gte=OCTOBER).update(energy_j=1_800_000.0)
    set_region(
        "", valid_from=SEPTEMBER, pue=Decimal("1.5"), usd_per_kwh=Decimal("0.20"), g_per_kwh=None
    )

    computed()

    # two of nlp's three hours were read: 1 kWh
    found = newest("nlp").content["energy"]
    assert (found["gpu_kwh"], found["meter_kwh"], found["price_usd"], found["coverage"]) == (
        "1.000",
        "1.500",
        "0.300000",
        0.6667,
    )
    assert (found["co2e_g"], found["unknown_grid_kwh"]) == (None, "1.500")
    assert newest("vision").content["energy"]["gpu_kwh"] is None
    assert stored(drawn.kept(drawn.read(found))) == found

    set_region("", valid_from=SEPTEMBER, pue=Decimal("2"), usd_per_kwh=None, g_per_kwh=None)
    computed(now=NOW + HOUR)
    assert newest("nlp").content["energy"]["meter_kwh"] == "2.000"


def test_there_is_no_other_way():
    with pytest.raises(ValueError, match="own, proportional, even"):
        choose_free_capacity("fixed")
