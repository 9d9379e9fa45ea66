"""A finding says what it took in all beside what it took in the period."""

import re
from datetime import timedelta

import pytest

from fleetwatch.alerts.models import Rule
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard.factories import hold
from tests.dashboard.shown_incidents import incident
from tests.dashboard.test_machine_problems import hot
from tests.diagnosis.told import NOW, capacity, cause, finding, gpu, job, place, rate
from tests.markup import tight

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
UUID = "GPU-n1-3"


@pytest.fixture
def broken(admin) -> Finding:
    """GPU 3 of n1 could not work for an hour of $2 two days ago, and for two of today."""
    rate("2.00")
    for hours in (50, 2, 1):
        capacity("gpu_fault", on=gpu(3), start=NOW - hours * HOUR)
    Node.objects.update(last_ms=to_ms(NOW))
    return place("gpu_fault", node=gpu(3).node, first_ms=to_ms(NOW) - 50 * HOUR_MS)


def in_text(client, address: str) -> str:
    page = tight(client.get(address).content.decode())
    return " ".join(re.sub(r"<[^>]+>", " ", page.partition("<main")[2]).split())


def test_a_machines_finding_has_both(admin, broken):
    address = f"/findings/{broken.pk}"

    of_day = in_text(admin, f"{address}?range=24h").partition("Affected")[2]
    every = in_text(admin, address).partition("Affected")[2]

    assert of_day.startswith(" $4.00 in the period above (in all $6.00 ): 2.00 GPU-hours")
    assert every.startswith(" $6.00 in all: 3.00 GPU-hours")


def test_in_all_is_never_less_than_in_the_period_whose_last_hour_the_finding_ends_in(admin):
    """Slowed in an hour two days ago and in the last two, to half past eleven: of each $0.12."""
    rate("4.00")
    hot(50, 2, 1)
    span = {"first_ms": to_ms(NOW) - 50 * HOUR_MS, "last_ms": to_ms(NOW) - HOUR_MS // 2}
    address = f"/findings/{place('throttled', node=gpu(1).node, **span).pk}"

    page = in_text(admin, f"{address}?range=24h").partition("Wasted and potential")[2]

    assert page.startswith(" $0.24 in the period above (in all $0.36 ): 0.06 of 2.00 affected")


@pytest.mark.parametrize("address", ["/nodes/n1", f"/gpus/{UUID}"])
def test_the_row_of_slowed_gpus_on_their_pages_has_both(admin, address):
    """The ledger counts $0.12 of an hour."""
    rate("4.00")
    hot(50, 2, 1, on=3)
    span = {"first_ms": to_ms(NOW) - 50 * HOUR_MS, "last_ms": to_ms(NOW) - HOUR_MS // 2}
    place("throttled", node=gpu(3).node, **span)

    page = in_text(admin, f"{address}?range=24h")

    assert "$0.24 in this period $0.36 since 18 Nov 2026" in page
    assert "$0.36 since" not in in_text(admin, f"{address}?range=7d")


@pytest.mark.parametrize("address", ["/nodes/n1", f"/gpus/{UUID}"])
def test_the_pages_of_its_node_and_of_its_gpu_have_the_same(admin, broken, address):
    page = in_text(admin, f"{address}?range=24h")

    assert "in this period $6.00 since 18 Nov 2026" in page
    assert "$6.00 since" not in in_text(admin, f"{address}?range=7d").partition("States")[0]


def test_a_jobs_finding_has_both(admin):
    rate("2.00")
    of = job(start_ms=to_ms(NOW) - 50 * HOUR_MS)
    for hours in (50, 2):
        cause(of=of, on=gpu(3), start=NOW - hours * HOUR)
    hold(gpu(3), of, hours_ago=50, hours=49)
    address = f"/findings/{finding(of).pk}"

    page = in_text(admin, f"{address}?range=24h")

    assert "Wasted $2.00 in the period above; in all $4.00 ;" in page
    assert "in the period above" not in in_text(admin, address)


def test_the_incident_of_the_same_fault_is_told_on_the_findings_page_with_its_dollars(
    admin, broken
):
    facts = {"kind": "gpu", "word": "faulty", "owner": "", "labels": {"node": ("n1",)}}
    fires = incident(UUID, rule=Rule.objects.get(condition="gpu_fault"), facts=facts)

    page = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    case = page.partition(f'href="/incidents/{fires.pk}"')[2][:400]
    assert "$2.00" in case
    assert "to now" in case
    table = page.partition("outages</h3>")[2].partition("</table>")[0]
    assert "as far as it is booked; the incident above counts to now" in " ".join(table.split())
