"""What breaches its rule, not for as long yet: when it opens, and how much of that is counted."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.lib.intervals import to_ms
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import breach, incident
from tests.markup import in_text

pytestmark = pytest.mark.django_db
RULE = "job_idle"  # 30 minutes


def pending(*, since: int, until: int) -> Incident:
    """Since so many minutes ago, as far as it is counted."""
    since_ms, until_ms = (to_ms(NOW - timedelta(minutes=each)) for each in (since, until))
    facts = {"since_ms": since_ms, "until_ms": until_ms}
    stands = {"since_ms": since_ms, "until_ms": until_ms, "state": "pending", "fired_ms": None}
    rule = Rule.objects.get(condition=RULE)
    return incident("slurm/della/2", rule=rule, facts=facts, **stands)


def pages(client, row: Incident) -> list[str]:
    """Where it is read: the inbox, its own page, its rule's."""
    addresses = ("/alerts?state=pending", f"/incidents/{row.pk}", f"/alerts/rules/{row.rule_id}")
    return [in_text(client.get(each).content.decode()) for each in addresses]


def test_says_when_it_opens_wherever_it_is_read(admin):
    row = pending(since=20, until=1)

    for page in pages(admin, row):
        assert "opens Fri 20 Nov, 12:10 if it lasts" in page
        assert "if it lasts; 19 min of 30 min counted" in page


def test_one_whose_count_is_behind_says_how_far_it_is_counted_and_lasts_that_long(admin):
    """For 35 minutes by the clock, of which 25 are counted."""
    row = pending(since=35, until=10)

    for page in pages(admin, row):
        assert "opens if it was still so Fri 20 Nov, 11:55; 25 min of 30 min counted" in page
        assert "35 min of" not in page
    shown = admin.get(f"/incidents/{row.pk}").context["lasted_ms"]
    assert shown == 25 * 60_000


def test_what_is_expected_over_a_budget_is_one_sum_with_what_is_expected_and_the_budget():
    """$10,699 is said as $10,700: beyond $8,880 that is $1,820, wherever it stands."""
    expected = {"expected_usd": "10699.31", "budget_usd": "8880"}

    assert breach(kind="budget", facts=expected).over_budget_usd == 1820
    spent = {"spent_usd": "9863.40", "budget_usd": "8880"}
    assert breach(kind="budget", facts=spent).over_budget_usd == Decimal("983.40")
    just = {"expected_usd": "8881", "budget_usd": "8880"}
    assert breach(kind="budget", facts=just).over_budget_usd == 1
