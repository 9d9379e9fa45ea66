"""The list of all causes: what each wasted, summing to the whole, and what capacity it took."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse

from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.models import Policy, Posted
from fleetwatch.ledger.policy import Policy as Thresholds
from fleetwatch.lib.intervals import to_ms
from tests.costs.factories import an_entry
from tests.dashboard import factories
from tests.diagnosis.told import NOW, capacity, cause, finding, gpu, job, place, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db


def amounts(page: str) -> dict[str, list[str]]:
    """Of each cause its dollars wasted, those of potential waste, what of both could be saved, and
    its capacity, as the page writes them.
    """
    rows = re.findall(r"<tr ?>.*?</tr>", page)
    cells = {
        code: re.findall(
            r'data-label="(?:Wasted|Potential|Could be saved|Capacity)">(.*?)</td>', row
        )
        for row in rows
        for code in re.findall(r"<code>(\w+)</code>", row)
    }
    return {
        code: [re.sub(r"<[^>]*>", "", cell).strip() for cell in both]
        for code, both in cells.items()
    }


def test_causes_sum_to_what_was_wasted_and_work_that_is_well_wastes_nothing(admin):
    """An hour idle at $2, an hour idle beside healthy work, an hour that nobody explained."""
    rate()
    start = NOW - timedelta(hours=2)
    for number, code in enumerate(("idle_held", "healthy", None)):
        of = job(f"slurm/della/{number}")
        if code:
            cause(code, of=of, on=gpu(number), start=start)
        an_entry(gpu(number), "idle", job=of, start=start, tier="certain")

    page = tight(admin.get("/causes").content.decode())

    shown = amounts(page)
    assert shown["idle_held"] == ["$2.00", "–", "–", "–"]
    assert shown["healthy"] == []
    assert shown["undetermined"] == ["$4.00", "–", "–", "–"]
    assert "Of it:No known cause: in jobs that run well$2.00</div>" in re.sub(
        r"</?(i|span)[^>]*>", "", page
    )
    assert re.search(r"In all.*<b>(<span[^>]*>)?\$6\.00<", page)


@pytest.mark.parametrize("code", ["no_telemetry", "undetermined", "data_starved"])
def test_a_cause_has_the_same_name_among_all_causes_and_beside_its_waste(admin, code):
    rate()
    start = NOW - timedelta(hours=2)
    cause(code, on=gpu(), start=start)
    an_entry(gpu(), "idle", job=job(), start=start, tier="certain")

    listed, waste = (
        tight(admin.get(path).content.decode()) for path in ("/causes", "/waste?group_by=cause")
    )

    name = BY_CODE[code].title
    assert f"<b>{name}</b>" in listed
    assert f">{name}</a>" in waste


def test_beside_what_was_wasted_stands_what_is_potential_and_what_could_be_saved_of_both(admin):
    """An hour idle at $2 of which half to all comes back, an hour of a service that waits; $7 are
    $30 in 30 days.
    """
    rate()
    start = NOW - timedelta(hours=2)
    of = job()
    cause("idle_held", of=of, on=gpu(), start=start)
    cause("idle_held", of=of, on=gpu(1), start=start, waste="stalled_potential_ms")
    an_entry(gpu(), "idle", job=of, start=start, tier="certain")
    an_entry(gpu(1), "stalled", job=of, start=start, tier="potential")
    finding(of)

    page = tight(admin.get("/causes").content.decode())

    wasted, potential, saved, _ = amounts(page)["idle_held"]
    assert (wasted, potential) == ("$2.00", "$2.00")
    assert saved == "$2.00–4.00$8.57–17a month"
    assert re.search(r"In all.*\$2\.00–4\.00", page)


@pytest.fixture
def _idle_an_hour_and_hung_for_two():
    rate()
    start = NOW - timedelta(hours=3)
    for number, (code, hours) in enumerate((("idle_held", 1), ("hung", 2))):
        of = job(f"slurm/della/{number}")
        for hour in range(hours):
            at = start + timedelta(hours=hour)
            cause(code, of=of, on=gpu(number), start=at)
            an_entry(gpu(number), "idle", job=of, start=at, tier="certain")


@pytest.mark.usefixtures("_idle_an_hour_and_hung_for_two")
@pytest.mark.parametrize("query", ["", "?sort=wasted", "?sort=cause"])
def test_causes_begin_with_the_most_wasted_unless_the_order_of_evaluation_is_asked_for(
    admin, query
):
    codes = list(amounts(tight(admin.get(f"/causes{query}").content.decode())))

    taking = ["hung", "idle_held"]
    in_order = [code for code in BY_CODE if code in taking]
    assert codes[:2] == (in_order if query == "?sort=cause" else taking)
    assert codes[2:] == [code for code in BY_CODE if code not in taking]


@pytest.mark.usefixtures("_idle_an_hour_and_hung_for_two")
def test_causes_that_took_nothing_are_folded(admin):
    page = tight(admin.get("/causes").content.decode())
    head, _, folded = page.partition('<details class="under"')

    assert list(amounts(head)) == ["hung", "idle_held"]
    assert {"healthy", "busy", "data_starved"} <= set(amounts(folded))
    assert f"{len(BY_CODE) - 2} causes that took nothing" in folded


def test_a_cause_whose_time_has_no_rate_took_time(admin):
    start = NOW - timedelta(hours=1)
    cause("idle_held", on=gpu(), start=start)
    an_entry(gpu(), "idle", job=job(), start=start, tier="certain")

    head = tight(admin.get("/causes").content.decode()).partition('<details class="under"')[0]

    assert list(amounts(head)) == ["idle_held"]


def test_causes_are_one_of_the_pages_of_definitions(admin):
    page = tight(admin.get("/causes").content.decode())

    assert f'<a href="{reverse("glossary")}">Glossary</a>' in page
    assert f'<a href="{reverse("causes")}" aria-current="page">Causes of waste</a>' in page


def test_a_broken_gpu_takes_capacity_and_wastes_nothing(admin):
    rate()
    capacity("gpu_fault", on=gpu(3))
    place("gpu_fault", node=gpu(3).node)

    page = tight(admin.get("/causes").content.decode())

    assert amounts(page)["gpu_fault"] == ["–", "–", "–", "$2.00"]


def test_the_page_of_a_fault_says_what_capacity_it_took_and_which_gpus_are_broken_now(admin):
    rate()
    broken = gpu(3)
    capacity("gpu_fault", on=broken)
    place("gpu_fault", node=broken.node)
    since_ms = to_ms(NOW)
    Node.objects.filter(pk=broken.node_id).update(last_ms=since_ms + 1)
    row = [since_ms, None, "xid79", False]
    Posted.objects.create(gpu=broken, spans=[], outages=[row])

    page = admin.get("/causes/gpu_fault").content.decode()

    assert "Capacity lost, last 7 days $2.00" in in_text(page), in_text(page)[200:900]
    assert "1 GPU broken now: n1 GPU 3" in in_text(page)
    assert f'href="/gpus/{broken.uuid}"' in page
    assert "Capacity lost" not in admin.get("/causes/hung").content.decode()


@pytest.mark.parametrize("code", [each.code for each in BY_CODE.values() if each.idle])
def test_a_cause_of_idle_jobs_names_the_setting_that_decides_idle_and_where_it_is_changed(
    client, code
):
    """Batch jobs are idle after 20 minutes by the policy in force, not after its first 15."""
    client.force_login(factories.user(role="engineer"))
    Policy.objects.create(
        version=2, thresholds=Thresholds(idle_batch_s=1200).to_json(), created_at=NOW
    )

    page = in_text(tight(client.get(f"/causes/{code}").content.decode()))

    assert "batch job is idle after 20 min , interactive job is idle after 30 min" in page
    assert "settings of the ledger policy" in page
    assert client.get(reverse("settings_policy")).status_code == 200


def test_what_no_setting_of_idle_decides_names_none(admin):
    assert "What decides idle" not in admin.get("/causes/data_starved").content.decode()
