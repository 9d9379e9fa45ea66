"""The inbox's tabs: what wastes now by its dollars, what an empty tab says, and what a month of open
runs leaves out.
"""

import re
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.diagnosis.findings import inbox, patterns
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
WEEK = Interval(NOW - 7 * DAY, NOW)


def wasting(number: int, *, hours: int, gpus: int, name: str) -> Finding:
    """Of a job that goes on and was idle for so many hours to now, on so many GPUs."""
    of = job(f"slurm/della/{number}", name=name, user=name, end_ms=None)
    for place in range(gpus):
        for hours_ago in range(1, hours + 1):
            on = gpu(10 * number + place)
            cause(of=of, on=on, start=NOW - timedelta(hours=hours_ago))
    return finding(of, first_ms=to_ms(NOW) - hours * HOUR_MS, last_ms=to_ms(NOW))


@pytest.fixture
def _two_that_go_on(db):
    """At $2 an hour: ann's one GPU for nine hours, bob's two for an hour."""
    rate()
    wasting(1, hours=9, gpus=1, name="ann")
    wasting(2, hours=1, gpus=2, name="bob")


def rows(client, address: str) -> list[str]:
    page = tight(client.get(address).content.decode())
    return [in_text(row) for row in page.split("<li data-row>")[1:]]


@pytest.mark.usefixtures("_two_that_go_on")
def test_what_wastes_now_says_its_dollars_of_the_last_hour(admin):
    anns, bobs = rows(admin, "/findings?when=now")

    assert "wasting now, $2.00 /h" in anns
    assert "wasting now, $4.00 /h" in bobs
    compact = in_text(tight(admin.get("/findings?when=now&view=compact").content.decode()))
    assert "wasting now, $4.00 /h" in compact


@pytest.mark.usefixtures("_two_that_go_on")
def test_what_is_potential_alone_is_counted_beside_what_wastes_now_here_and_on_the_overview(admin):
    """A service that waited for an hour, beside them."""
    serving = job("slurm/della/9", kind="service", end_ms=None)
    hour = {"start": NOW - timedelta(hours=1), "waste": "stalled_potential_ms"}
    cause("bursty_service", of=serving, on=gpu(9), **hour)
    finding(serving, "bursty_service", first_ms=to_ms(NOW) - HOUR_MS, last_ms=to_ms(NOW))

    inbox = tight(admin.get("/findings?when=now").content.decode())
    part = tight(admin.get("/recoverable", headers={"HX-Request": "true"}).content.decode())

    assert "Wasting now 2, 1 potential" in in_text(inbox)
    assert in_text(inbox).count("wasting now, $") == 2
    assert inbox.count("potential waste, now") == 1
    assert inbox.count('title="dollars of the last hour, of this cause alone"') == 2
    assert "2 wasting now, 1 potential" in in_text(part)


@pytest.mark.usefixtures("_two_that_go_on")
def test_where_none_is_potential_or_some_may_be_agreed_no_potential_is_counted(admin):
    still_open = in_text(tight(admin.get("/findings").content.decode()))
    every = in_text(tight(admin.get("/findings?status=all").content.decode()))

    assert "Wasting now 2 Recurring" in still_open
    assert "Still going on 2 Recurring" in every


@pytest.mark.usefixtures("_two_that_go_on")
def test_what_wastes_now_is_sorted_by_the_dollars_of_the_last_hour_where_asked(admin):
    usual = admin.get("/findings?when=now").content.decode()
    link = re.search(r'href="(\?[^"]*sort=burning)"', usual)[1].replace("&amp;", "&")

    order = [row.partition("(")[0] for row in rows(admin, f"/findings{link}")]

    assert ["· bob" in row for row in order] == [True, False]
    assert "sort=burning" not in admin.get("/findings").content.decode()


@pytest.mark.usefixtures("_two_that_go_on")
def test_an_empty_tab_has_a_0_and_leads_to_all_that_the_same_filters_leave(admin):
    page = tight(
        admin.get("/findings?status=accepted&user=ann&from=now-7d&to=now").content.decode()
    )

    assert "Open 1 Accepted 0 Snoozed 0 Fixed 0 Agreed as not waste 0 All" in in_text(page)
    empty = page.partition("No finding with this status")[2].partition("</p>")[0]
    [href] = re.findall(r'href="([^"]*)"', empty)
    assert {"status=all", "user=ann", "from=now-7d"} <= set(re.split(r"[?&;]|amp;", href))


@pytest.mark.usefixtures("_two_that_go_on")
def test_what_is_realised_names_what_came_back(admin):
    for outcome, hours in (("improved", 3), ("regressed", 2)):
        Fix.objects.create(
            user="ann", job_name=outcome, gpus=1, cause="idle_held", at=NOW - DAY,
            was_noticed=True, outcome=outcome, runs_before=3, runs_after=3,
            saved_low_ms=hours * HOUR_MS, saved_high_ms=hours * HOUR_MS,
        )  # fmt: skip

    page = in_text(tight(admin.get("/findings").content.decode()))

    tile = page.partition("Realised")[2].partition("never added")[0]
    assert "of which" in tile
    assert "by 1 that came back" in tile


def test_a_month_of_open_runs_leaves_out_the_accepted_one(admin):
    """Of three runs of an hour at $2 two are open: of 14 days 30 days, two thirds of $12.86."""
    rate()
    several = []
    for number in range(3):
        start = NOW - timedelta(days=1 + number)
        run = job(f"slurm/della/{number}", name="train", user="ann", end_ms=to_ms(start) + HOUR_MS)
        cause(of=run, on=gpu(number), start=start)
        several.append(finding(run, first_ms=to_ms(start), last_ms=to_ms(start) + HOUR_MS))
    Finding.objects.filter(pk=several[0].pk).update(status="accepted")
    every = inbox.inbox(WEEK, now=NOW).of_jobs

    [still_open] = patterns.patterns(every.of_status("open"), WEEK, now=NOW)[:]
    [accepted] = patterns.patterns(every.of_status("accepted"), WEEK, now=NOW)[:]

    assert round(still_open.per_month.high_usd, 2) == Decimal("8.57")
    assert round(accepted.per_month.high_usd, 2) == Decimal("12.86")
    assert "1 accepted left out" in in_text(tight(admin.get("/findings").content.decode()))
