"""Periods that reach back before the first recorded day: each page of figures says so."""

from datetime import UTC, datetime

import pytest

from fleetwatch.ledger.models import Entry
from tests.dashboard import factories
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db

LAST_MONTH = "from=now-1M%2FM&to=now%2FM"
FIGURES = ("/overview", "/waste", "/waste?group_by=cause", "/fleet", "/capacity")


@pytest.fixture
def two_days(admin):
    """Two GPUs at $2 an hour that were there from half past ten two days ago: one held, one free."""
    factories.rate("2.00")
    node = factories.node()
    policy = factories.policy()
    job = factories.job()
    for index, state in enumerate(("idle", "free")):
        gpu = factories.gpu(node, index=index, hours=49.5)
        held_by = job if state == "idle" else None
        first = factories.entry(gpu, hours_ago=50, state=state, gpu_ms=1_800_000, held_by=held_by)
        Entry.objects.bulk_create(
            [
                first,
                *(
                    factories.entry(gpu, hours_ago=ago, state=state, held_by=held_by, by=policy)
                    for ago in range(1, 50)
                ),
            ]
        )
    return admin


def main_of(client, address: str) -> str:
    return in_text(tight(client.get(address).content.decode()).partition("<main")[2])


@pytest.mark.parametrize("address", FIGURES)
def test_of_a_period_that_is_recorded_in_part_it_says_how_many_days_are(two_days, address):
    more = "&" if "?" in address else "?"

    month = main_of(two_days, f"{address}{more}range=30d")
    so_far = main_of(two_days, f"{address}{more}from=now%2FM&to=now")
    whole = main_of(two_days, f"{address}{more}range=24h")

    assert "last 30 days: 2 of 30 days recorded" in month
    assert "2 of 20 days recorded" in so_far
    assert "days recorded" not in whole


@pytest.mark.parametrize("address", ["/waste", "/waste?group_by=cause", "/fleet", "/capacity"])
def test_of_a_period_before_the_first_recorded_day_nothing_is_known_and_no_dollars(
    two_days, address
):
    page = main_of(two_days, f"{address}{'&' if '?' in address else '?'}{LAST_MONTH}")

    assert "othing is recorded before 18 Nov 2026" in page
    assert "$0.00" not in page
    assert "hoose a longer" not in page


def test_the_funnel_of_a_period_before_the_first_recorded_day_asks_for_no_longer_one(two_days):
    page = main_of(two_days, f"/overview?{LAST_MONTH}")

    assert "No GPU time in this period Nothing is recorded before 18 Nov 2026." in page


@pytest.mark.parametrize("address", ["/overview?parts=1", "/recoverable"])
def test_of_a_period_before_the_first_recorded_day_nothing_is_said_to_be_recoverable_or_to_recur(
    two_days, address
):
    more = "&" if "?" in address else "?"
    part = {"HX-Request": "true"}

    before = two_days.get(f"{address}{more}{LAST_MONTH}", headers=part)
    today = two_days.get(f"{address}{more}range=24h", headers=part)

    page, today = (tight(answer.content.decode()) for answer in (before, today))
    card = in_text(page.partition('id="recoverable"')[2].partition("</section>")[0])
    assert "Recoverable nothing is recorded before 18 Nov 2026" in card
    assert "– patterns Nothing is recorded before 18 Nov 2026." in card
    assert "no open finding" in in_text(today)
    assert "0 patterns No waste recurred over several runs." in in_text(today)


@pytest.mark.parametrize("more", ["", "&group_by=finding", "&user=ann", "&status=dismissed"])
def test_the_inbox_of_a_period_before_the_first_recorded_day_counts_nothing(two_days, more):
    page = main_of(two_days, f"/findings?{LAST_MONTH}{more}")

    assert "Recoverable – nothing is recorded before 18 Nov 2026" in page
    assert "Accepted – somebody is changing it" in page
    assert "Open Accepted Snoozed Fixed" in page
    assert "Waste in jobs" in page
    assert "No GPU time in this period Nothing is recorded before 18 Nov 2026." in page
    for claim in ("$0.00", "0.00", "0 patterns", "0 findings", "none yet", "No finding"):
        assert claim not in page


@pytest.mark.parametrize("address", ["/overview", "/costs", "/fleet"])
def test_a_sum_begins_with_what_is_recorded_of_its_period(two_days, address, monkeypatch):
    until = datetime(2026, 11, 20, 11, 58, tzinfo=UTC)
    for page in ("overview", "costs", "fleet"):
        name = f"fleetwatch.dashboard.views.{page}.summed_until"
        monkeypatch.setattr(name, lambda interval, now: until)

    assert "(Wed 18 Nov, 10:30 until Fri 20 Nov, 11:58)" in main_of(
        two_days, f"{address}?range=30d"
    )


def test_capacity_counts_recorded_hours_alone(two_days):
    """From 11:00 on, the first whole one, until 11:00, for the last hour is not posted yet."""
    answer = two_days.get("/capacity?range=30d")
    chart = two_days.get("/charts/capacity?range=30d&as=csv").content.decode().splitlines()
    api = two_days.get("/api/v1/capacity?from=now-30d&to=now").json()

    page = in_text(tight(answer.content.decode()))
    assert answer.context["counted_hours"] == len(chart) - 1 == 48
    assert answer.context["whole"].capacity_ms == 2 * 48 * 3_600_000
    assert "48 of 720 hours, those that are recorded, whole and posted" in page
    assert "18 Nov, 11:00 – 20 Nov 2026, 11:00" in page
    assert "at most 100 days" not in page
    assert api["counted_from"] == "2026-11-18T11:00:00Z"
