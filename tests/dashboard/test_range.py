"""The range of a page: from and to as people write them, the zone that they look in, the address
that stays the same, and what the rail takes along.
"""

from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import pytest
import time_machine

from fleetwatch.accounts.services import set_organisation
from tests.costs.factories import a_gpu, a_job, an_entry
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.markup import tight

pytestmark = pytest.mark.django_db
WEEK = "from=2026-11-01&to=2026-11-08"
NEW_YORK = "tz=America/New_York"


@pytest.fixture
def spent(admin):
    """A GPU's hour on 2 November from 09:00 UTC, idle and held by a job."""
    job = a_job(key="slurm/c/1", user="ann", team="nlp")
    factories.rate("2.00")
    an_entry(a_gpu(uuid="GPU-A", node="n1"), "idle", job=job, tier="certain")
    return admin


def text(answer):
    return tight(unescape(answer.content.decode()))


def interval_of(answer):
    return answer.context["timeframe"].interval


def test_a_form_without_a_zone_means_the_zone_that_is_shown(spent):
    set_organisation(name="Fleet", time_zone=ZoneInfo("Europe/Berlin"))
    ends = "from=2026-11-10T08:00&to=2026-11-10T20:00"

    own = interval_of(spent.get(f"/overview?{ends}"))
    other = interval_of(spent.get(f"/overview?{ends}&{NEW_YORK}"))

    assert own.start == datetime(2026, 11, 10, 7, tzinfo=UTC)
    assert other.start == datetime(2026, 11, 10, 13, tzinfo=UTC)
    assert other.end == datetime(2026, 11, 11, 1, tzinfo=UTC)


def test_months_stay_the_organisations_in_every_zone(spent):
    month = interval_of(spent.get(f"/waste?range=MTD&{NEW_YORK}"))

    assert month.start == datetime(2026, 11, 1, tzinfo=UTC)


def test_the_page_says_its_zone_and_offers_the_period_in_it(spent):
    page = text(spent.get(f"/overview?from=2026-11-10T18:00Z&to=2026-11-11T00:00Z&{NEW_YORK}"))

    assert "10 Nov 2026, 13:00 – 19:00" in page
    assert "America/New_York</span></summary>" in page
    assert 'type="datetime-local" name="from" value="2026-11-10T13:00"' in page
    assert 'type="datetime-local" name="to" value="2026-11-10T19:00"' in page
    assert "Days and months begin at midnight in UTC" in page


def test_charts_are_drawn_in_the_zone_and_their_days_stay_the_organisations(spent):
    ends = "from=2026-11-02T09:00Z&to=2026-11-02T12:00Z"
    hours = spent.get(f"/charts/spend?{ends}&{NEW_YORK}").json()
    days = spent.get(f"/charts/spend?from=now-30d&to=now&{NEW_YORK}").json()
    page = text(spent.get(f"/overview?from=now-30d&to=now&{NEW_YORK}"))

    # New York is five hours behind
    assert hours["data"][0]["x"][0] == "2026-11-02T04:00:00"
    assert "2026-11-01T19:00:00" in days["data"][0]["x"]
    assert days["data"][0]["xhoverformat"] == "%a %-d %b, %H:%M"
    assert "days begin at midnight in UTC" in page
    assert "days begin" not in text(spent.get("/overview?from=now-30d&to=now"))


def test_tables_behind_charts_name_their_zone(spent):
    table = spent.get(f"/charts/spend?{WEEK}&{NEW_YORK}&as=csv").content.decode()

    assert table.startswith("Start (America/New_York),End (America/New_York),")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "America"])
def test_a_zone_that_there_is_not_is_said_and_nothing_breaks(spent, zone):
    page = spent.get(f"/overview?{WEEK}", query_params={"tz": zone, "from": "now-7d"})
    file = spent.get("/waste.csv", query_params={"tz": zone})

    assert page.status_code == 200
    assert f"There is no time zone '{zone}': names are like Europe/Berlin." in text(page)
    assert "tz=" not in page.context["timeframe"].query
    assert (file.status_code, file.content.decode().count("Europe/Berlin")) == (422, 1)


def test_a_hostile_zone_is_told_bounded_and_as_text(spent):
    page = spent.get("/overview", query_params={"tz": "<b>" * 50}).content.decode()

    said = page.partition('role="status"')[2].partition("</div>")[0]
    assert "<b>" not in said
    assert said.count("&lt;b&gt;") == 20


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ("from=2026-11-10T18:00&to=2026-11-10T08:00", "the start has to be earlier"),
        ("from=now-6h&to=now-6h", "the start has to be earlier"),
        ("from=tomorrow&to=now", "can't read 'tomorrow'"),
        ("from=%3Cscript%3E&to=now", "can't read '<script>'"),
        ("to=now", "`to` needs a `from`"),
    ],
)
def test_a_range_that_is_none_is_said_with_the_default_that_is_shown(spent, ends, sentence):
    answer = spent.get(f"/overview?{ends}&{NEW_YORK}")

    page = unescape(answer.content.decode())
    assert sentence in page
    assert page.count("Shown instead: Last 7 days.") == 1
    assert "<script>" not in answer.content.decode().partition("<main")[2]
    assert answer.context["timeframe"].preset == "7d"
    assert answer.context["timeframe"].tz == "America/New_York"


def test_a_pinned_address_names_moments_and_keeps_the_rest(spent):
    page = text(spent.get(f"/waste?from=now-7d&to=now&team=nlp&{NEW_YORK}"))

    pinned = "from=2026-11-13T12:00:00Z&to=2026-11-20T12:00:00Z"
    [link] = [each for each in page.split("<a ") if "data-copy-address" in each]
    address = link.partition('href="')[2].partition('"')[0].replace("%3A", ":")
    assert address == f"?team=nlp&tz=America%2FNew_York&{pinned}"


def test_a_pinned_address_shows_the_same_period_later(spent):
    frame = spent.get("/waste?range=24h").context["timeframe"]

    start, end = frame.pinned
    with time_machine.travel(NOW + timedelta(days=3), tick=False):
        later = spent.get("/waste", query_params={"from": start, "to": end}).context["timeframe"]

    assert later.interval == frame.interval
    assert later.pinned == (start, end)


def test_the_form_keeps_filters_and_drops_the_range_and_the_place_in_a_list(spent):
    page = text(spent.get("/jobs?range=24h&team=nlp&sort=cost&after=1~2&odd=1"))

    form = page.partition('<div class="pop"><form')[2].partition("</form>")[0]
    assert '<input type="hidden" name="team" value="nlp">' in form
    assert '<input type="hidden" name="sort" value="cost">' in form
    assert 'type="hidden" name="range"' not in form
    assert 'name="after"' not in form
    assert 'name="odd"' not in form


def rail(client, address):
    page = unescape(client.get(address).content.decode())
    return page.partition('aria-label="Main"')[2].partition("</nav>")[0]


def test_the_rail_takes_along_what_each_page_takes(spent):
    shown = rail(spent, f"/waste?{WEEK}&team=nlp&state=idle&group_by=user&{NEW_YORK}")

    there = f"{WEEK}&tz=America%2FNew_York"
    for path in ("/overview", "/fleet", "/jobs", "/waste", "/findings"):
        assert f'href="{path}?{there}&team=nlp&state=idle"' in shown
    assert f'href="/me?{there}"' in shown
    for path in ("/alerts", "/budgets"):  # an incident's state is another one
        assert f'href="{path}?team=nlp"' in shown
    for path in ("/reports", "/status"):
        assert f'href="{path}"' in shown


def test_the_rail_takes_along_no_time_that_nobody_asked_for(spent):
    """A job's page shows the job's time; a page without a period has none."""
    job = factories.job("slurm/della/4711")
    factories.hold(factories.gpu(factories.node()), job, hours_ago=30, hours=2, now=NOW)

    of_job = rail(spent, f"/jobs/{job.key}?{NEW_YORK}")
    asked = rail(spent, f"/jobs/{job.key}?{WEEK}")

    assert 'href="/waste?tz=America%2FNew_York"' in of_job
    assert f'href="/waste?{WEEK}"' in asked
    assert 'href="/waste"' in rail(spent, "/budgets")
    assert 'href="/waste"' in rail(spent, "/settings")


def test_a_jobs_charts_end_with_the_job_and_its_figures_stay_the_periods(admin):
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/4711")
    factories.hold(gpu, job, hours_ago=30, hours=2, now=NOW)

    answer = admin.get("/jobs/slurm/della/4711?from=now-7d&to=now")

    drawn = answer.context["drawn"].interval
    assert (drawn.start, drawn.end) == (NOW - timedelta(hours=30), NOW - timedelta(hours=28))
    assert answer.context["timeframe"].preset == "7d"
    assert answer.context["drawn"].step_s == 30
    page = unescape(answer.content.decode())
    assert f"/charts/spend?from={drawn.start_ms}&to={drawn.end_ms}&job=" in page
    assert "/fleet?from=now-7d&to=now" in page


def test_a_job_that_held_nothing_in_the_period_is_drawn_over_all_of_it(admin):
    job = factories.job("slurm/della/4711")
    factories.hold(factories.gpu(factories.node()), job, hours_ago=30, hours=2, now=NOW)

    answer = admin.get("/jobs/slurm/della/4711?from=now-6h&to=now")

    assert answer.context["drawn"] == answer.context["timeframe"]
