"""What people agreed as not waste, in the inbox: one tab, in no sum, and how it stands there."""

import pytest

from fleetwatch.accounts.models import Identity, OthersShown
from fleetwatch.accounts.visibility import set_others_shown
from fleetwatch.alerts.models import Silence
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import Interval
from tests.dashboard import factories
from tests.dashboard.shown_findings import a_week_of_runs
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
WEEK = Interval(NOW - 7 * DAY, NOW)


@pytest.fixture
def week(db) -> list[Finding]:
    return a_week_of_runs()


def approved_of(user: str) -> None:
    """An operator's word until tomorrow."""
    Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "user", "values": [user], "is_not": False}],
        starts_at=NOW - DAY,
        ends_at=NOW + DAY,
        reason="a warm replica <b>",
        created_at=NOW - DAY,
    )


def test_what_an_operator_approved_is_in_the_inbox_as_agreed_alone(admin, week):
    before = inbox.inbox(WEEK, now=NOW).saving("open")
    approved_of("bob")

    every = inbox.inbox(WEEK, now=NOW)

    assert every.counts() == {"open": 3, "exempt": 1}
    # of bob's one hour at $2 half to all
    saving = every.saving(*inbox.RECOVERABLE)
    assert (before.high_usd - saving.high_usd, before.low_usd - saving.low_usd) == (2, 1)
    bobs = f'href="/findings/{week[3].pk}?'
    assert bobs not in admin.get("/findings").content.decode()
    assert bobs in admin.get("/findings?status=exempt").content.decode()
    page = tight(admin.get(f"/findings/{week[3].pk}").content.decode())
    assert "An operator approved of it (until 21 Nov)" in in_text(page)
    assert "a warm replica &lt;b&gt;" in page
    assert "Reopen" not in page


def test_what_was_decided_stays_so_though_it_is_exempt(week):
    Finding.objects.filter(pk=week[3].pk).update(status="accepted")
    approved_of("bob")

    assert inbox.inbox(WEEK, now=NOW).counts() == {"open": 3, "accepted": 1}


@pytest.mark.parametrize("status", ["dismissed", "exempt"])
def test_one_tab_has_all_that_is_agreed_until_a_day_or_until_it_is_reopened(admin, week, status):
    Finding.objects.filter(pk=week[0].pk).update(status="dismissed")
    approved_of("bob")

    response = admin.get(f"/findings?status={status}&group_by=finding")

    page = in_text(tight(response.content.decode()))
    assert "Open 2 Accepted 0 Snoozed 0 Fixed 0 Agreed as not waste 2 All" in page
    assert {row.line.finding.pk for row in response.context["lines"]} == {week[0].pk, week[3].pk}
    assert page.count("agreed as not waste") == 3  # the heading, and the tags of both
    assert "xempt" not in page


def test_a_finding_has_its_place_among_all_that_is_agreed(admin, week):
    Finding.objects.filter(pk=week[0].pk).update(status="dismissed")
    approved_of("bob")

    address = f"/findings/{week[3].pk}/around?status=exempt&from=now-7d&to=now"
    part = admin.get(address, headers={"HX-Request": "true"})
    page = in_text(tight(part.content.decode()))

    assert "2 of 2 findings agreed as not waste" in page


def test_of_what_is_agreed_until_a_day_and_open_runs_a_pattern_says_how_many(admin, week):
    Finding.objects.filter(pk=week[0].pk).update(status="dismissed")
    approved_of("ann")

    all_of_ann = in_text(tight(admin.get("/findings?status=exempt").content.decode()))
    Finding.objects.filter(pk=week[1].pk).update(status="accepted")
    mixed = in_text(tight(admin.get("/findings?status=all").content.decode()))

    assert "of 3 agreed" not in all_of_ann
    assert "1 of 3 accepted 2 of 3 agreed as not waste" in mixed


def test_what_is_agreed_until_a_day_is_not_called_open_again(admin, week):
    Finding.objects.filter(pk=week[0].pk).update(status="dismissed")
    approved_of("bob")

    sent = {"action": "reopen", "id": [week[0].pk, week[3].pk]}
    page = in_text(tight(admin.post("/findings/act", sent, follow=True).content.decode()))

    assert "1 finding open again." in page
    assert "1 not done: agreed as not waste until a day" in page
    assert not week[3].said.exists()


AGREED = "/findings?status=dismissed&from=now-7d&to=now"


def shown(client, address: str) -> str:
    return in_text(tight(client.get(address).content.decode()))


def agreed_sum(client, address: str) -> str:
    """The tile that says how much was agreed."""
    page = tight(client.get(address).content.decode())
    return in_text(page.partition('id="agreed"')[2].partition("Recoverable")[0])


def test_the_tab_says_on_top_how_much_was_agreed_as_the_overview_does(admin, week):
    """An hour of each of two runs at $2, and of four in all."""
    Finding.objects.filter(pk=week[0].pk).update(status="dismissed")
    approved_of("bob")

    tile = agreed_sum(admin, AGREED)
    page = admin.get(AGREED).content.decode()
    overview = shown(admin, "/overview?from=now-7d&to=now").partition("agreed as not waste:")[2]

    assert "Agreed as not waste $4.00" in tile
    assert "2.00 GPU-hours of jobs, last 7 days, that the ledger counts as wasted" in tile
    assert "; as its line on the overview" in tile
    assert "potential" not in tile
    assert 'href="/overview?from=now-7d&amp;to=now#wasted"' in page
    assert overview.startswith(" $4.00")


def test_who_sees_no_overview_is_led_to_the_waste_report_instead(client, week):
    bob = factories.user(role="engineer", username="bob")
    Identity.objects.create(
        user=bob, system="unix", name="bob", source="admin", created_at=NOW, confirmed_at=NOW
    )
    approved_of("bob")
    set_others_shown(OthersShown.OWN_TEAMS)
    client.force_login(bob)

    page = client.get("/findings?status=dismissed&from=now-7d&to=now").content.decode()

    assert 'href="/waste?from=now-7d&amp;to=now#wasted"' in page
    assert "its line of the waste report</a>" in page
    assert 'href="/overview' not in page


def test_of_what_is_agreed_of_a_cause_alone_the_tab_says_that_the_overview_has_more(admin, week):
    approved_of("bob")

    tile = agreed_sum(admin, f"{AGREED}&cause=idle_held")

    assert "Agreed as not waste $2.00" in tile
    assert "; a part of its line on the overview" in tile


def test_potential_that_is_agreed_stands_beside_what_the_ledger_counts_as_wasted(admin, week):
    serving = job("slurm/della/9", user="bob", end_ms=None)
    start = NOW - DAY
    cause("bursty_service", of=serving, on=gpu(9), start=start, waste="stalled_potential_ms")
    finding(serving, "bursty_service")
    approved_of("bob")

    tile = agreed_sum(admin, AGREED)

    assert "Agreed as not waste $2.00" in tile
    assert "beside it $2.00 potential" in tile


def test_other_tabs_have_no_sum_of_what_is_agreed(admin, week):
    assert agreed_sum(admin, "/findings") == ""


def test_headings_of_the_tab_say_that_its_rows_are_no_waste(admin, week):
    approved_of("ann")

    by_pattern = shown(admin, AGREED)
    one_by_one = shown(admin, f"{AGREED}&group_by=finding")

    assert "1 pattern agreed as not waste" in by_pattern
    assert "Still going on 1 Recurring 0" in by_pattern
    assert "still going on" in by_pattern.partition("One-off")[2]
    assert "3 findings of jobs agreed as not waste" in one_by_one
    for page in (by_pattern, one_by_one):
        assert "of waste in jobs" not in page
        assert "Wasting now" not in page
        assert "most recoverable" not in page


def test_headings_of_other_tabs_stay_of_waste(admin, week):
    page = shown(admin, "/findings?from=now-7d&to=now")

    assert "2 patterns of waste in jobs" in page
    assert "Wasting now 1" in page
    assert "going on" not in page
