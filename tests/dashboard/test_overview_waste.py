"""What the overview says of waste: how much of it is agreed to be none, and how much is recorded."""

import pytest

from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.shown_incidents import incident
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
NOW = factories.NOW


def text(client, address: str, **asked) -> str:
    return in_text(tight(client.get(address, **asked).content.decode()))


@pytest.fixture
def small(admin):
    """One GPU that was useful for four hours."""
    gpu = factories.gpu(factories.node(), hours=4)
    for ago in range(1, 5):
        factories.entry(gpu, hours_ago=ago, state="useful").save()
    return admin


def test_a_period_that_is_recorded_in_part_says_so_with_its_waste_and_has_none_before(small):
    """Four hours are: of a day that is said in hours, of a week in days."""
    week = text(small, "/?range=7d")
    day = text(small, "/?range=24h")
    whole = text(small, "/?from=now-2h&to=now")
    alone = text(small, "/?range=24h&cmp=none")

    assert week.count("0 of 7 days recorded") == 2  # at the period, and in the tile
    assert day.count("4 of 24 hours recorded") == 2
    assert "recorded · no period before to compare ·" in day
    assert "recorded" not in whole.split("Useful share")[0]
    assert "no period before" not in whole + alone


def test_what_was_wasted_before_anything_was_recorded_is_not_known(small):
    shown = text(small, "/?from=2026-11-01&to=2026-11-03")

    tile = shown.split("Wasted,")[1].split("Useful share")[0]
    assert "– nothing is recorded before 20 Nov 2026" in tile
    assert "$0.00" not in shown.split("Wasted,")[1].split("Month to date")[0]
    for left_out in ("No job held", "nothing that has a rate", "useful work", "Dollars per"):
        assert left_out not in shown


def test_a_period_before_that_is_recorded_in_part_is_compared_with_nothing(small):
    """The first of four hours began at 08:00; of the three before 09:00 one is recorded, which is
    a third; of the two before 10:00 all is.
    """
    told.rate("2.00")
    in_part = text(small, "/?from=now-3h&to=now")
    pinned = text(small, "/?from=2026-11-20T09:30:00Z&to=2026-11-20T12:00:00Z")
    whole = text(small, "/?from=now-2h&to=now")

    for shown in (in_part, pinned):
        assert "the period before is recorded only from Fri 20 Nov, 08:00 on ·" in shown
        assert "no period before to compare" not in shown
        assert "on the period before" not in shown
    assert "Useful share of cost 100 % +0.0 points on the period before" in whole
    assert "the period before is recorded only" not in whole


def test_what_is_agreed_to_be_no_waste_is_said_of_the_waste_of_all_and_of_its_lines(admin):
    """Of two jobs that were idle for an hour at $2 somebody closed one's finding."""
    told.rate("2.00")
    for number, status in ((1, "open"), (2, "dismissed")):
        job = told.job(f"slurm/della/{number}", name=f"job-{number}", user=f"user-{number}")
        gpu = told.gpu(number)
        factories.hold(gpu, job, hours_ago=2, hours=1)
        factories.entry(gpu, hours_ago=2, state="idle", held_by=job).save()
        told.cause(of=job, on=gpu)
        told.finding(job, status=status)

    tile = text(admin, "/?range=24h")
    lines = text(admin, "/wasters?range=24h", headers={"HX-Request": "true"})

    assert "of it agreed as not waste: $2.00 ; not agreed, or too new to be judged: $2.00" in tile
    assert lines.count("$2.00 of it agreed as not waste") == 3  # no team's, the user's, the job's
    assert "job-2 user-2" in lines.split("Jobs by waste")[1].split("of it agreed as not waste")[0]


def two_that_idle() -> list[Job]:
    """job-1 wasted an hour of two GPUs, job-2 of one."""
    told.rate("2.00")
    jobs = []
    for number, gpus in ((1, (1, 2)), (2, (3,))):
        job = told.job(f"slurm/della/{number}", name=f"job-{number}", state="RUNNING")
        for index in gpus:
            factories.hold(told.gpu(index), job, hours_ago=1, hours=1)
            factories.entry(told.gpu(index), hours_ago=1, state="idle", held_by=job).save()
        jobs.append(job)
    return jobs


def test_what_is_no_waste_stands_last_of_what_wastes_now(admin):
    dearer, _ = two_that_idle()
    told.finding(dearer, status="dismissed")

    wasting = admin.get("/?range=24h&parts=1").context["wasting"]

    assert [line.job.name for line in wasting] == ["job-2", "job-1"]


def test_what_an_incident_was_accepted_for_stands_last_too_and_says_so(admin):
    """Of the dearer job somebody said by its incident why it idles; its finding is open."""
    for job in two_that_idle():
        told.finding(job)
    accepted = incident("slurm/della/1")
    admin.post(f"/incidents/{accepted.pk}/not_waste", {"reason": "a workshop", "days": "7"})

    context = admin.get("/?range=24h&parts=1").context

    assert [line.job.name for line in context["wasting"]] == ["job-2", "job-1"]
    assert context["decided"] == {"slurm/della/1": "agreed as not waste"}


def of_budget(*, passed_ms: int | None) -> dict:
    """80 % of it was spent an hour before NOW, and $100 more than all of it by NOW."""
    over = {"spent_usd": "1100.00", "budget_usd": "1000.00", "passed_ms": passed_ms}
    usual = {"kind": "budget", "has_cost": False, "usd_per_hour": None, "cost_usd": None}
    counted = {"spent_until_ms": to_ms(NOW)}
    return usual | {"word": "over 80 %", "facts": over | counted}


def test_a_budget_among_what_fires_says_by_how_much_it_is_passed(small):
    incident("nlp", facts=of_budget(passed_ms=None))

    assert "$100 over" in text(small, "/?range=24h").split("1 firing incident ")[1]


def test_a_budget_that_is_over_says_since_when_apart_from_when_its_share_was_reached(small):
    """NOW is Friday, 12:00; its 80 % were reached at 11:00, all of it at 11:30."""
    passed = incident("nlp", facts=of_budget(passed_ms=to_ms(NOW) - 30 * 60_000))
    since = "over since Fri 20 Nov, 11:30; over 80 % since Fri 20 Nov, 11:00"

    for address in ("/?range=24h", "/alerts"):
        assert since in text(small, address)
    assert "as of Fri 20 Nov, 12:00" in text(small, f"/incidents/{passed.pk}")


def test_a_rule_for_all_of_a_budget_says_since_when_it_is_over_once(small):
    incident("nlp", facts=of_budget(passed_ms=to_ms(NOW) - 60 * 60_000))

    shown = text(small, "/?range=24h")

    assert "over 80 % since Fri 20 Nov, 11:00" in shown
    assert "over since" not in shown


def test_the_bar_says_until_when_its_dollars_are_counted(small):
    states = {"useful": 3_420_000}
    on = GPU.objects.get()
    stored_runs.store(factories.run(on, hours_ago=1, hours=0.95, states=states, condition="free"))

    running = text(small, "/?range=24h")
    over = text(small, "/?from=now-3h&to=now-2h")

    assert "GPU-hours (Fri 20 Nov, 08:00 until Fri 20 Nov, 11:57) of which 100 % were" in running
    assert "1.00 GPU-hours of which 100 % were observed" in over


def test_shares_of_states_are_of_all_dollars_and_the_headline_says_what_it_leaves_out(admin):
    """Of $8 one hour is busy, unverified: $4 are useful, of all of it 50 % and of the rest 67 %."""
    told.rate("2.00")
    on = told.gpu(1)
    for ago, state in ((4, "useful"), (3, "useful"), (2, "idle")):
        factories.entry(on, hours_ago=ago, state=state).save()
    factories.entry(on, hours_ago=1, efficiency_source="none").save()

    overview = text(admin, "/?range=24h")
    fleet = text(admin, "/fleet?range=24h")
    costs = text(admin, "/costs?range=24h&group_by=state")

    assert "67 % of what you paid for was useful work shares of $8.00 for" in overview
    assert "useful is 67 % of the $6.00 that are not busy, unverified" in overview
    assert "Useful 50 % $4.00 Busy, unverified 25 % $2.00" in overview
    assert "Idle 25 % $2.00" in overview
    assert "Useful 50 % $4.00 , 50 %" in fleet
    assert "Busy, unverified 25 % $2.00 , 25 %" in fleet
    assert "Idle $2.00 1.00 25 %" in costs
