"""/waste over time, beside the period before, and where each line leads."""

import re
from datetime import timedelta
from urllib.parse import quote

import pytest

from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms
from tests.dashboard import factories
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db


@pytest.fixture
def wasted(admin):
    """Ann's job of nlp idled for two hours of today and for one of the day before, at $2 an hour;
    a GPU was there three days.
    """
    factories.rate("2.00")
    gpu = factories.gpu(factories.node("a"), hours=72)
    job = factories.job("slurm/della/1", user="ann")
    factories.entry(gpu, hours_ago=71, state="free").save()
    for ago in (3, 2, 30):
        factories.entry(gpu, hours_ago=ago, state="idle", held_by=job).save()
    return admin


def test_dollars_wasted_stand_over_time_with_the_mean_of_the_period_before(wasted):
    data = wasted.get("/charts/wasted?range=24h").json()["data"]

    bars = [trace for trace in data if trace["type"] == "bar"]
    assert sum(sum(trace["y"]) for trace in bars) == 4.0
    [level] = [trace for trace in data if trace["type"] == "scatter"]
    assert level["y"] == pytest.approx([2 / 24, 2 / 24])


def test_a_period_that_begins_within_an_hour_has_the_same_mean(wasted):
    """23 hours, before which 23 more have the one of the day before."""
    period = "from=2026-11-19T12:40:00Z&to=2026-11-20T11:40:00Z"

    data = wasted.get(f"/charts/wasted?{period}").json()["data"]

    [level] = [trace for trace in data if trace["type"] == "scatter"]
    assert level["y"] == pytest.approx([2 / 23, 2 / 23])


def test_a_period_before_that_is_not_recorded_is_compared_with_nothing(wasted):
    data = wasted.get("/charts/wasted?range=7d").json()["data"]

    assert [trace["name"] for trace in data] == ["Certain"]
    assert "period before" not in wasted.get("/waste?range=7d").content.decode()


def test_waste_stands_beside_no_other_period_where_that_is_asked_for(wasted):
    page = tight(wasted.get("/waste?range=24h&cmp=none").content.decode())
    [chart] = {*re.findall(r'data-figure-url="([^"]*)"', page)}
    data = wasted.get(chart.replace("&amp;", "&")).json()["data"]

    assert "in the period before" not in page
    assert "&amp;cmp=none" in chart
    assert [trace["name"] for trace in data] == ["Certain"]
    assert ">Period before</a>" in page


def test_the_jobs_headline_says_what_was_wasted_in_the_period_before(wasted):
    said = "$2.00</span>was wasted in the period before"

    assert said in tight(wasted.get("/jobs?range=24h").content.decode())
    for query in ("cmp=none", "running=yes", "q=1"):
        assert said not in tight(wasted.get(f"/jobs?range=24h&{query}").content.decode())


def test_the_page_says_it_and_leads_to_the_savings_inbox(wasted):
    page = tight(wasted.get("/waste?range=24h&group_by=user").content.decode())

    assert "$2.00</span>in the period before: +100 %" in page
    assert ">savings inbox</a>" in page
    line = page.partition("<tbody>")[2]
    assert "/findings?" not in line  # nothing that could be saved is found
    assert "/capacity?" in line or "unallocated" not in line


@pytest.mark.parametrize(
    ("group_by", "key"), [("user", "ann"), ("team", "nlp"), ("job", "slurm/della/1")]
)
def test_each_line_leads_to_its_findings_by_what_they_could_save(wasted, group_by, key):
    """Of the first of today's two hours half to all."""
    idle = Job.objects.get()
    told.cause(of=idle, on=GPU.objects.get(), start=factories.NOW - timedelta(hours=3))
    told.finding(idle, last_ms=to_ms(factories.NOW))

    page = tight(wasted.get(f"/waste?range=24h&group_by={group_by}").content.decode())

    own = re.search(rf'href="/findings[?][^"]*{group_by}={quote(key, safe="")}">(.*?)</a>', page)
    assert "$1.00–2.00" in own[1]


@pytest.mark.parametrize(
    ("status", "word"),
    [("accepted", "accepted"), ("dismissed", "agreed as not waste"), ("fixed", "fixed")],
)
def test_a_job_of_which_all_is_decided_says_what_was_decided_in_place_of_a_saving(
    wasted, status, word
):
    idle = Job.objects.get()
    told.cause(of=idle, on=GPU.objects.get(), start=factories.NOW - timedelta(hours=3))
    told.finding(idle, last_ms=to_ms(factories.NOW), status=status)

    page = tight(wasted.get("/waste?range=24h&group_by=job").content.decode())

    own = re.search(r'href="/findings[?][^"]*job=[^"]*status=all">(.*?)</a>', page)
    assert own[1].strip() == word
    jobs = wasted.get("/jobs?range=24h").content.decode()
    assert f'aria-label="{word}">✓</span>' in jobs


def test_what_the_jobs_off_the_page_could_save_is_summed_in_their_line(wasted, monkeypatch):
    monkeypatch.setattr("fleetwatch.dashboard.views.waste.ON_PAGE", 1)
    idle = Job.objects.get()
    told.cause(of=idle, on=GPU.objects.get(), start=factories.NOW - timedelta(hours=3))
    told.finding(idle, last_ms=to_ms(factories.NOW))
    dearer = factories.job("slurm/della/2", user="bob")
    for ago in (6, 5, 4):
        factories.entry(GPU.objects.get(), hours_ago=ago, state="idle", held_by=dearer).save()

    page = tight(wasted.get("/waste?range=24h&group_by=job").content.decode())

    assert "$1.00–2.00" in page[page.index("other job") :].partition("</tr>")[0]


def test_what_could_be_saved_beyond_what_was_wasted_is_said_to_be_with_potential(wasted):
    """Two hours of $2 were wasted; the finding has a third, of time that is potential."""
    idle = Job.objects.get()
    for hours_ago in (3, 4, 5):
        start = factories.NOW - timedelta(hours=hours_ago)
        told.cause(of=idle, on=GPU.objects.get(), start=start, low=1.0, high=1.0)
    told.finding(idle, last_ms=to_ms(factories.NOW))

    page = in_text(wasted.get("/waste?range=24h&group_by=job").content.decode())

    assert "with potential" in page
