"""A statement is approved by a person, and goes where its team said."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import AuditEntry, Team
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Delivery
from fleetwatch.reports import monthly, statement_sending, team_months
from fleetwatch.reports.models import MonthRun, ReportPart, StatementRecipient
from tests.notify.factories import email_channel, slack_channel
from tests.reports.factories import HOUR, NOW, OCTOBER, a_fleet, computed, counted, newest

pytestmark = pytest.mark.django_db

FIRST = datetime(2026, 11, 1, 6, tzinfo=UTC)  # when October is computed by the clock


@pytest.fixture
def nlp():
    a_fleet()
    return Team.objects.get(slug="nlp")


def to(team, *, at=OCTOBER, address="cfo@example.org"):
    return statement_sending.add_recipient(team, email_channel(25), address, now=at, by="fin")


def sent():
    return [(each.channel.name, each.address) for each in Delivery.objects.order_by("pk")]


def test_a_month_that_is_over_goes_once_to_each_on_the_list(nlp):
    to(nlp)
    computed(now=FIRST)

    assert statement_sending.send_due(FIRST) == {"queued": 1}
    assert statement_sending.send_due(FIRST + timedelta(minutes=15)) == {"queued": 0}

    [delivery] = Delivery.objects.all()
    assert (delivery.channel.name, delivery.address) == ("mail", "cfo@example.org")
    assert delivery.message["title"] == "GPU statement of NLP, October 2026: $9.00"
    assert dict(delivery.message["fields"]) == {
        "Cost": "$9.00",
        "Wasted": "$4.00",
        "Against the month before": "+$1.00",
        "Approved": "not yet",
    }
    assert delivery.message["url"].endswith("/teams/nlp/2026-10")


def test_nothing_goes_before_the_month_is_computed_or_ten_days_late(nlp):
    to(nlp)

    assert statement_sending.send_due(FIRST) == {"queued": 0}
    computed(now=FIRST)
    late = datetime(2026, 11, 11, 0, 0, 1, tzinfo=UTC)
    assert statement_sending.send_due(late) == {"queued": 0}


def test_who_is_added_afterwards_begins_with_the_next_month(nlp):
    computed(now=FIRST)
    to(nlp, at=FIRST + HOUR)

    assert statement_sending.send_due(FIRST + 2 * HOUR) == {"queued": 0}


def test_send_now_sends_again(nlp):
    computed()
    with pytest.raises(RefusedFieldError, match="Add a recipient"):
        statement_sending.send_now(newest("nlp"), nlp, now=NOW)
    to(nlp)

    statement_sending.send_now(newest("nlp"), nlp, now=NOW)
    statement_sending.send_now(newest("nlp"), nlp, now=NOW + HOUR)

    assert sent() == [("mail", "cfo@example.org")] * 2
    assert AuditEntry.objects.filter(action="report.send").count() == 2


def test_a_list_takes_what_its_channel_reaches_and_each_once(nlp):
    to(nlp)

    for channel, address, sentence in (
        (slack_channel("https://hooks.slack.com/services/T/B/x"), "ann", "its own place alone"),
        (email_channel(26, name="other"), "not an address", "An e-mail address"),
    ):
        with pytest.raises(RefusedFieldError, match=sentence):
            statement_sending.add_recipient(nlp, channel, address, now=NOW, by="fin")
    first = StatementRecipient.objects.get()
    with pytest.raises(RefusedFieldError, match="already"):
        statement_sending.add_recipient(nlp, first.channel, first.address, now=NOW, by="fin")


def test_a_version_is_approved_once_and_a_newer_one_is_a_new_question(nlp):
    computed()
    first = newest("nlp")

    statement_sending.approve(first, now=NOW, by="fin", note="agrees")

    with pytest.raises(RefusedFieldError, match="fin has approved it already"):
        statement_sending.approve(first, now=NOW, by="ann")
    counted(GPU.objects.first(), job=Job.objects.get(key="slurm/della/1"), start=OCTOBER + 6 * HOUR)
    computed(now=NOW + HOUR)
    assert newest("nlp").version == 2
    with pytest.raises(RefusedFieldError, match="newer version"):
        statement_sending.approve(first, now=NOW, by="ann")
    [entry] = AuditEntry.objects.filter(action="report.approve")
    assert (entry.subject, entry.detail["version"]) == ("nlp 2026-10", 1)


def test_months_follow_each_other_and_rates_sum_to_the_cost(nlp):
    computed("2026-09")
    computed()

    every = team_months.newest("nlp")

    assert [(each.name, each.cost_usd, each.wasted_usd) for each in every] == [
        ("2026-10", 9, 4),
        ("2026-09", 8, 0),
    ]
    assert every[0].change_ratio == Decimal("0.125")
    assert every[1].change_ratio is None
    assert [each.name for each in team_months.trend(every, "2026-09")] == ["2026-09"]


def test_a_computation_can_be_stopped_and_computes_nothing_more(nlp):
    monthly.ask("2026-10", now=NOW)
    monthly.plan_waiting(NOW)
    first, *others = monthly.hand_out(NOW)
    monthly.compute_part(first, NOW)

    assert monthly.stop("2026-10", now=NOW, by="fin")

    assert monthly.compute_part(others[0], NOW) == {"computed": 0}
    run = MonthRun.objects.get()
    assert (run.state, run.note) == ("stopped", "stopped by fin")
    assert ReportPart.objects.filter(done_at__isnull=False).count() == 1  # it stays
    assert not monthly.stop("2026-10", now=NOW, by="fin")
    assert monthly.ask("2026-10", now=NOW).pk != run.pk
