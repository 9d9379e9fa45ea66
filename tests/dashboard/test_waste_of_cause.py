"""The waste report narrowed to one cause: its lines, its chart, its file, and what can't be so."""

import csv
import io
import re
from datetime import timedelta

import pytest
import time_machine

from tests.costs.factories import an_entry
from tests.diagnosis.told import NOW, cause, finding, gpu, job, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db


@pytest.fixture
def two_causes(admin):
    """At $2: ann lost two hours of two GPUs to one cause and an hour to another, bob an hour."""
    rate()
    lost = [
        ("ann", 0, 3, "idle_held"), ("ann", 1, 3, "idle_held"), ("ann", 0, 2, "hung"),
        ("bob", 2, 2, "idle_held"),
    ]  # fmt: skip
    for user, number, hours, code in lost:
        of = job(f"slurm/della/{user}", user=user)
        start = NOW - timedelta(hours=hours)
        cause(code, of=of, on=gpu(number), start=start)
        an_entry(gpu(number), "idle", job=of, start=start, tier="certain")
    with time_machine.travel(NOW, tick=False):
        yield admin


def shown(client, query: str) -> str:
    return tight(client.get(f"/waste?from=now-6h&to=now&{query}").content.decode())


def rows(page: str) -> list[tuple[str, ...]]:
    """Name and wasted dollars of each line."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    cells = re.findall(r'<td class="name">(?:<a[^>]*>)?([^<]*).*?<b>(?:<span[^>]*>)?([^<]*)', body)
    return [tuple(cell.strip() for cell in row) for row in cells]


def test_the_report_is_of_what_one_cause_took_and_sums_to_it(two_causes):
    page = shown(two_causes, "group_by=user&cause=idle_held")

    assert rows(page) == [("ann", "$4.00"), ("bob", "$2.00")]
    assert ">$6.00<" in page.partition("<dt>Wasted</dt>")[2].partition("</dd>")[0]
    assert "Cause: Idle: still held ×" in page
    assert "not narrowed" not in page
    assert "/charts/wasted?from=now-6h&amp;to=now&amp;cause=idle_held" in page


def test_tiers_of_one_cause_are_said_to_be_of_it(two_causes):
    page = shown(two_causes, "group_by=user&cause=idle_held")

    for tier in ("Certain", "Probable", "Potential"):
        tile = page.partition(f"<dt>{tier}</dt>")[2].partition("</div>")[0]
        assert "of what this cause took" in tile
        assert "stalled jobs" not in tile


def test_what_could_be_saved_where_nothing_was_wasted_is_of_potential(admin):
    rate()
    of = job("slurm/della/eve", user="eve")
    start = NOW - timedelta(hours=2)
    cause("bursty_service", of=of, on=gpu(), start=start, waste="stalled_potential_ms")
    an_entry(gpu(), "stalled", job=of, start=start, tier="potential")
    finding(of, cause="bursty_service")
    with time_machine.travel(NOW, tick=False):
        page = shown(admin, "group_by=user")

    line = page.partition("eve</a>")[2].partition("</tr>")[0]
    assert "$0.00" in line
    assert "of potential" in line


def test_of_a_cause_it_says_which_time_could_be_saved(two_causes):
    finding(job("slurm/della/ann", user="ann"))
    finding(job("slurm/della/ann", user="ann"), cause="hung")

    idle, hung = (
        shown(two_causes, f"group_by=user&cause={code}") for code in ("idle_held", "hung")
    )

    for page in (idle, hung):
        assert "what is agreed as not waste, accepted or fixed is not in it" in " ".join(
            page.split()
        )
    assert "15 to 60 idle minutes" in idle
    assert "idle minutes" not in hung


def test_by_cause_it_has_that_cause_alone(two_causes):
    assert rows(shown(two_causes, "group_by=cause&cause=hung")) == [("Stuck", "$2.00")]


def test_other_filters_narrow_it_too_but_no_state(two_causes):
    page = shown(two_causes, "group_by=user&cause=idle_held&user=bob&state=stalled")

    assert rows(page) == [("bob", "$2.00")]
    assert "`state` narrows no report by cause. What you see is not narrowed by it." in page


def test_the_tab_of_causes_leads_to_those_of_all_states(two_causes):
    page = shown(two_causes, "group_by=team&state=idle")

    [address] = re.findall(r'href="([^"]*group_by=cause[^"]*)"', page)
    assert "state" not in address
    assert "narrows no report by cause" not in shown(
        two_causes, address.removeprefix("?").replace("&amp;", "&")
    )


def test_its_chart_has_each_hour_and_its_file_each_line(two_causes):
    chart = two_causes.get("/charts/wasted?from=now-6h&to=now&cause=idle_held&as=csv")
    report = two_causes.get("/waste.csv?from=now-6h&to=now&cause=idle_held&group_by=user")

    hours = list(csv.DictReader(io.StringIO(chart.content.decode())))
    assert [float(hour["Certain $"]) for hour in hours] == [0, 0, 0, 4, 2, 0]
    lines = list(csv.DictReader(io.StringIO(report.content.decode())))
    assert [(line["user"], float(line["wasted_usd"])) for line in lines] == [("ann", 4), ("bob", 2)]


def test_a_cause_that_wastes_nothing_narrows_nothing_and_that_is_said(two_causes):
    page = shown(two_causes, "group_by=user&cause=gpu_fault")
    report = two_causes.get("/waste.csv?cause=gpu_fault")

    assert rows(page) == [("ann", "$6.00"), ("bob", "$2.00")]
    assert "“GPU can&#x27;t work” is no cause that time is wasted by" in page
    assert report.status_code == 422


def test_of_a_state_it_says_why_nothing_is_told_of_what_could_be_saved(two_causes):
    page = shown(two_causes, "state=idle")

    assert "Could be saved" not in page
    certain = page.partition("<dt>Certain</dt>")[2].partition("<dt>")[0]
    assert "of idle time" in certain
    assert "orphaned" not in certain
    assert "not of their idle time alone" in " ".join(page.split())


def test_of_a_state_no_share_of_its_cost_and_no_free_capacity_is_told(two_causes):
    """All that idle time costs is wasted, and none of it is free."""
    of_state, whole = (shown(two_causes, f"group_by=team{query}") for query in ("&state=idle", ""))

    for words in ("% of cost", "100 %</span>", "Free apart"):
        assert words in whole
        assert words not in of_state


def test_of_a_state_the_leading_figures_say_that_they_are_of_it_alone(two_causes):
    """All idle time was observed: how much of all time was, that says nothing of."""
    of_state, whole = (in_text(shown(two_causes, f"group_by=team{q}")) for q in ("&state=idle", ""))

    leading = of_state.partition("Certain")[0]
    assert "of idle time alone; certain and probable" in leading
    assert "Wasted over time, of idle time" in of_state
    assert "of GPU time observed" in whole
    assert "of GPU time observed" not in of_state
    assert "time alone" not in whole


def test_of_jobs_that_are_not_shown_nothing_is_read(two_causes, monkeypatch):
    monkeypatch.setattr("fleetwatch.dashboard.views.waste.MAX_LINES", 1)

    context = two_causes.get("/waste?from=now-6h&to=now&group_by=job&cause=idle_held").context

    assert list(context["owners"]) == ["slurm/della/ann"]
    assert (context["rest"].groups, context["rest"].totals.wasted_usd) == (1, 2)
