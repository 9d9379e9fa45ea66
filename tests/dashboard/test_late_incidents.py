"""Why an incident was raised long after its limit was reached."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.alerts.models import IncidentEvent, Rule
from fleetwatch.budgets.models import Budget
from fleetwatch.lib.intervals import to_ms
from fleetwatch.operations.models import JobRun
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, text
from tests.markup import in_text
from tests.telemetry.factories import make_batch, make_node, store

pytestmark = pytest.mark.django_db
FIRED_AT = NOW - timedelta(hours=10)
RAISED_AT = NOW - timedelta(minutes=5)
SINCE_MS = to_ms(FIRED_AT - timedelta(minutes=30))


def timeline(client, **fields) -> str:
    """What the page says of one that was raised ten hours late."""
    usual = {"since_ms": SINCE_MS, "fired_ms": to_ms(FIRED_AT), "opened_at": RAISED_AT}
    one = incident(**(usual | fields))
    IncidentEvent.objects.create(incident=one, at=FIRED_AT, kind="fired", text="idle")
    return in_text(text(client, f"/incidents/{one.pk}")).partition("Timeline")[2]


def test_what_was_so_when_its_rule_began_to_watch_says_that(admin):
    Rule.objects.filter(condition="job_idle").update(begun_ms=to_ms(RAISED_AT))

    shown = timeline(admin)

    assert "its limit was reached Fri 20 Nov, 02:00, before the rule began to watch" in shown
    listed = in_text(text(admin, "/alerts"))
    assert "raised Fri 20 Nov, 11:55, when its rule began to watch" in listed


def test_a_limit_fits_since_when_it_is_so_and_what_a_rule_saw_with_its_first_looks_is_not_late(
    admin,
):
    """The rule saw half an hour from 01:30 on, its page knows of it since 01:00; the rule began to
    watch at 11:50, ten minutes after the data of that time had come.
    """
    begun_ms = to_ms(RAISED_AT - timedelta(minutes=5))
    Rule.objects.filter(condition="job_idle").update(begun_ms=begun_ms)
    node = make_node("gpu-99")
    late = {"starts": [SINCE_MS, to_ms(FIRED_AT)], "boot_start_ms": SINCE_MS - 60_000}
    store(node, make_batch(node, **late), received_at=NOW - timedelta(minutes=20))
    since = {"since_ms": to_ms(FIRED_AT - timedelta(hours=1)), "labels": {"node": ("gpu-99",)}}

    shown = timeline(admin, facts=since)

    assert "its limit was reached Fri 20 Nov, 01:30, before the rule began to watch" in shown
    assert "data came" not in shown


def test_of_a_rule_that_watched_already_nobody_guesses_why(admin):
    Rule.objects.filter(condition="job_idle").update(begun_ms=to_ms(FIRED_AT))

    shown = timeline(admin)

    assert "its limit was reached Fri 20 Nov, 02:00 Since" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("looked_at", "says"),
    [
        ((RAISED_AT,), True),
        ((FIRED_AT + timedelta(minutes=1), RAISED_AT), False),
        # it did for hours before it was raised, by what came late
        ((FIRED_AT + timedelta(hours=2), RAISED_AT), False),
        ((NOW,), False),  # after it was raised: of what was before nothing is known
    ],
)
def test_a_hub_that_looked_at_no_rule_meanwhile_says_that(admin, looked_at, says):
    Rule.objects.filter(condition="job_idle").update(begun_ms=to_ms(FIRED_AT))
    for started_at in looked_at:
        JobRun.objects.create(name="alerts.evaluate", started_at=started_at)

    shown = timeline(admin)

    assert ("and until it was raised the hub looked at no rule" in shown) == says


def test_a_hub_that_looked_each_minute_is_not_blamed_for_one_raised_some_minutes_late(admin):
    """Posting took two of them: the first look saw nothing yet."""
    Rule.objects.filter(condition="job_idle").update(begun_ms=to_ms(FIRED_AT))
    for seconds in (30, 90, 140):
        started_at = FIRED_AT + timedelta(seconds=seconds)
        JobRun.objects.create(name="alerts.evaluate", started_at=started_at)

    shown = timeline(admin, opened_at=FIRED_AT + timedelta(seconds=145))

    assert "its limit was reached" in shown
    assert "the hub looked at no rule" not in shown


def test_data_that_came_late_says_by_how_much(admin):
    Rule.objects.filter(condition="job_idle").update(begun_ms=to_ms(FIRED_AT))
    node = make_node("gpu-99")
    starts = [to_ms(FIRED_AT) - 10_000, to_ms(FIRED_AT)]
    late = {"starts": starts, "boot_start_ms": starts[0] - 60_000}
    store(node, make_batch(node, **late), received_at=NOW - timedelta(minutes=10))

    shown = timeline(admin, facts={"labels": {"node": ("gpu-99",)}})

    assert "its limit was reached Fri 20 Nov, 02:00, its data came 9 h 50 m late" in shown


def test_data_that_came_after_it_was_raised_is_no_reason(admin):
    Rule.objects.filter(condition="job_idle").update(begun_ms=to_ms(FIRED_AT))
    node = make_node("gpu-99")
    starts = [to_ms(FIRED_AT) - 10_000, to_ms(FIRED_AT)]
    late = {"starts": starts, "boot_start_ms": starts[0] - 60_000}
    store(node, make_batch(node, **late), received_at=RAISED_AT + timedelta(seconds=1))

    assert "data came" not in timeline(admin, facts={"labels": {"node": ("gpu-99",)}})


@pytest.mark.parametrize(("set_at", "says"), [(RAISED_AT, True), (FIRED_AT, False)])
def test_a_budget_that_was_spent_before_it_was_set_says_that(admin, set_at, says):
    month = NOW.date().replace(day=1)
    Budget.objects.create(month=month, amount=Decimal(100), created_at=set_at, created_by="ann")
    rule = Rule.objects.get(condition="budget_spent")

    shown = timeline(admin, key="fleet", rule=rule, facts={"kind": "budget"})

    assert ("before this budget was set" in shown) == says


def test_the_next_months_budget_is_no_reason_why_this_ones_was_raised_late(admin):
    month = NOW.date().replace(day=1)
    usual = {"amount": Decimal(100), "created_by": "ann"}
    Budget.objects.create(month=month, created_at=FIRED_AT - timedelta(days=1), **usual)
    later = month.replace(month=month.month + 1)
    Budget.objects.create(month=later, created_at=RAISED_AT - timedelta(hours=1), **usual)
    rule = Rule.objects.get(condition="budget_spent")

    shown = timeline(admin, key="fleet", rule=rule, facts={"kind": "budget"})

    assert "before this budget was set" not in shown
