"""An agreement that covers more than what is shown says so beside the button that ends it."""

import re
from datetime import timedelta

import pytest

from fleetwatch.alerts.exempt_jobs import exempt_findings
from fleetwatch.alerts.models import Silence
from fleetwatch.diagnosis.models import Finding
from tests.dashboard.shown_findings import a_week_of_runs
from tests.dashboard.shown_incidents import incident
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
TAB = "/findings?status=dismissed&from=now-7d&to=now"
NAME = "Idle: still held, train"


@pytest.fixture
def week(db) -> list[Finding]:
    return a_week_of_runs()


def approved(label: str, *values: str, **fields) -> Silence:
    """An operator's word until tomorrow."""
    usual = {"kind": "exemption", "ends_at": NOW + DAY}
    return Silence.objects.create(
        matchers=[{"label": label, "values": list(values), "is_not": False}],
        starts_at=NOW - DAY,
        reason="a warm replica",
        created_at=NOW - DAY,
        **(usual | fields),
    )


def beside(client, address: str) -> list[str]:
    """What stands before each button, by the row's or the page's order; "" = nothing."""
    page = tight(client.get(address).content.decode())
    parts = page.split(">End agreement</button>")[:-1]
    covered = (re.search(r'<p class="sub">(also covers.*?)</p>', part) for part in parts)
    return [in_text(each[1]) if each else "" for each in covered]


def test_a_pattern_says_which_other_pattern_ends_with_its_agreement(admin, week):
    approved("name", "train")

    of_ann, of_bob = beside(admin, TAB)

    assert f"also covers 1 other pattern, which ends with it: {NAME} (bob)" in of_ann
    assert f"also covers 1 other pattern, which ends with it: {NAME} (ann)" in of_bob


@pytest.mark.parametrize("grouped", ["", "&group_by=finding"])
def test_what_ends_too_is_told_beside_the_agreement_and_not_in_the_narrow_column(
    admin, week, grouped
):
    approved("name", "train")

    page = tight(admin.get(f"{TAB}{grouped}").content.decode())

    narrow = re.findall(r'<div class="worth">.*?</div>', page)
    assert len(narrow) == page.count(">End agreement</button>") > 0
    assert page.count("also covers") == len(narrow)
    assert "also covers" not in "".join(narrow)


def test_runs_of_the_same_pattern_are_no_other_pattern(admin, week):
    approved("user", "ann")

    assert beside(admin, TAB) == [""]


def test_one_by_one_a_finding_says_how_many_others_end_with_its_agreement(admin, week):
    """Of four one stands by itself; of the others two are named before each button."""
    approved("user", "ann")
    approved("user", "bob")

    several = beside(admin, f"{TAB}&group_by=finding")

    assert len(several) == 4
    assert [("also covers 2 other findings, which end with it" in each) for each in several].count(
        True
    ) == 3
    assert "" in several


def test_of_many_the_first_three_are_named_and_the_others_counted(admin, week):
    run = job("slurm/della/9", name="notebook", user="eve", end_ms=None)
    cause(of=run, on=gpu(9), start=NOW - timedelta(hours=1))
    own = finding(run)
    approved("user", "ann", "bob", "eve")

    [said] = beside(admin, f"/findings/{own.pk}")

    assert "also covers 4 other findings, which end with it:" in said
    assert said.count(NAME) == 3
    assert said.rstrip().endswith("and 1 more")


def test_the_pages_of_a_finding_its_job_and_its_incident_say_so_too(admin, week):
    other = week[3]
    of_job = incident(week[2].job.key)
    approved("name", "train")

    for address in (f"/findings/{week[2].pk}", f"/jobs/{week[2].job.key}"):
        [said] = beside(admin, address)
        assert "also covers 3 other findings, which end with it:" in said, address
        assert f'href="/findings/{other.pk}"' in admin.get(address).content.decode()
    [said] = beside(admin, f"/incidents/{of_job.pk}")
    assert "also covers 3 other findings" in said


def test_an_agreement_of_one_finding_says_nothing_more(admin, week):
    approved("user", "bob")

    assert beside(admin, TAB) == [""]
    assert beside(admin, f"/findings/{week[3].pk}") == [""]


def test_what_was_decided_otherwise_or_is_under_a_longer_agreement_does_not_end_with_it(week):
    both = approved("name", "train")
    of_bob = approved("user", "bob", ends_at=NOW + 2 * DAY)
    Finding.objects.filter(pk=week[0].pk).update(status="accepted")

    covered = exempt_findings({both.pk, of_bob.pk}, NOW)

    assert {pk: {each.pk for each in several} for pk, several in covered.items()} == {
        both.pk: {week[1].pk, week[2].pk},
        of_bob.pk: {week[3].pk},
    }


def test_what_is_over_covers_nothing(week):
    silence = approved("name", "train", ends_at=NOW)

    assert exempt_findings({silence.pk}, NOW) == {}


def test_whoever_may_not_end_it_is_told_nothing_of_others(viewer, week):
    approved("name", "train")

    page = viewer.get(TAB).content.decode()

    assert "agreed as not waste" in page
    assert "also covers" not in page


def test_names_of_jobs_are_no_markup(admin, week):
    run = job("slurm/della/9", name="<b>x", user="<i>eve", end_ms=None)
    finding(run)
    approved("subject", run.key, week[3].job.key)

    page = admin.get(f"/findings/{week[3].pk}").content.decode()

    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    assert "<i>eve" not in page
