"""What was said to be no waste: at the head of its page, in the list, and what follows from it."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.lib.intervals import to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, text
from tests.markup import in_text

pytestmark = pytest.mark.django_db
REASON = {"reason": "a workshop", "days": "7"}
SAID = "agreed as not waste (until 27 Nov) · a workshop by ann, Fri 20 Nov, 12:00"


@pytest.fixture
def over(db):
    """One whose job ended an hour ago, and was last seen to idle half an hour before."""
    seen_ms = to_ms(NOW - timedelta(minutes=90))
    return incident(
        facts={"since_ms": seen_ms - 3_600_000, "until_ms": seen_ms},
        opened_at=NOW - timedelta(hours=2),
        until_ms=seen_ms,
        resolved_at=NOW - timedelta(hours=1),
        resolution="the allocation ended",
    )


def accept(client, one) -> None:
    client.post(f"/incidents/{one.pk}/not_waste", REASON)


def test_the_head_says_at_once_who_said_so_when_why_and_until_when(admin):
    one = incident()

    accept(admin, one)

    page = in_text(text(admin, f"/incidents/{one.pk}"))
    assert SAID in page
    assert "agreed as not waste agreed as" in page  # the tag, in the place of its severity
    assert "Agreed as not waste 1" in in_text(text(admin, "/alerts"))


def test_what_is_no_waste_is_neither_acknowledged_nor_snoozed_and_can_be_resolved(admin):
    one = incident()
    before = text(admin, f"/incidents/{one.pk}")

    accept(admin, one)

    after = text(admin, f"/incidents/{one.pk}")
    for offered in ('data-key="a"', 'data-key="s"', "Snooze for</label>"):
        assert (offered in before, offered in after) == (True, False), offered
    assert 'data-key="e"' in after


def test_what_is_over_says_so_too_and_stands_under_the_same_tab(admin, over):
    accept(admin, over)

    page = in_text(text(admin, f"/incidents/{over.pk}"))
    listed = in_text(text(admin, "/alerts?state=accepted"))

    assert SAID in page
    assert "resolved agreed as not waste" in page
    assert "Agreed as not waste 1 Pending 0 Resolved 1 (1 of them agreed as not waste)" in listed
    assert "Those that are resolved among them: 1." in listed
    assert "by ann: a workshop" in listed
    assert "whether job slurm/della/7 is still needed" not in page


def test_what_was_snoozed_and_agreed_once_it_was_over_is_listed_with_its_agreement(admin, over):
    """Snoozed at 10:00 until 22:00, over at 11:00, agreed at noon."""
    over.events.create(at=NOW - timedelta(hours=2), kind="snooze", text="snoozed until 22:00")
    Incident.objects.filter(pk=over.pk).update(muted="snoozed until 20 Nov 2026, 22:00 UTC")

    before = in_text(text(admin, "/alerts?state=resolved"))
    accept(admin, over)

    listed = in_text(text(admin, "/alerts?state=resolved"))
    assert "Agreed as not waste, until 27 Nov 2026, 12:00 UTC by ann: a workshop" in listed
    assert ("nooze" in before.partition("Incidents")[2], "until 22:00" in listed) == (False, False)


def test_what_is_snoozed_and_no_waste_is_no_waste(admin):
    one = incident(snoozed_until=NOW + timedelta(hours=1))

    accept(admin, one)

    assert "Snoozed 0 Agreed as not waste 1" in in_text(text(admin, "/alerts"))


def test_once_the_time_is_over_it_fires_again_and_its_page_says_nothing_of_it(admin):
    one = incident(verdict="rejected")
    Silence.objects.create(
        kind="justification",
        matchers=[{"label": "subject", "is_not": False, "values": [one.subject]}],
        starts_at=NOW - timedelta(days=2),
        ends_at=NOW - timedelta(minutes=1),
        reason="a workshop",
        created_at=NOW - timedelta(days=2),
    )

    assert "agreed" not in in_text(text(admin, f"/incidents/{one.pk}"))
    assert "Firing 1" in in_text(text(admin, "/alerts"))


def test_what_is_over_has_one_end_which_is_until_when_its_dollars_are_counted(admin, over):
    page = in_text(text(admin, f"/incidents/{over.pk}"))
    listed = in_text(text(admin, "/alerts?state=resolved"))

    assert "the time of its idle GPUs, Fri 20 Nov, 09:30 to 10:30" in page
    assert "Idle for 1 h Fri 20 Nov, 09:30 to 10:30" in page
    assert "idle for 1 h, Fri 20 Nov, 09:30 to 10:30" in listed
    assert "11:00" not in page.partition("Timeline")[0]


def test_of_a_job_that_has_ended_nobody_is_asked_whether_it_is_needed(admin, over):
    assert "is still needed" in text(admin, f"/incidents/{over.pk}")

    factories.job("slurm/della/7", start_ms=over.since_ms, end_ms=to_ms(NOW))

    assert "is still needed" not in text(admin, f"/incidents/{over.pk}")


def test_a_jobs_curve_ends_with_the_job(admin):
    seen_ms = to_ms(NOW - timedelta(hours=3))
    gpus = {"gpus": [{"uuid": "GPU-a", "index": 2}]}
    facts = {"since_ms": seen_ms - 3_600_000, "until_ms": seen_ms, "facts": gpus}
    one = incident(facts=facts, opened_at=NOW - timedelta(hours=3), resolved_at=NOW)
    start_ms, end_ms = seen_ms - 3_600_000, seen_ms + 600_000
    factories.job("slurm/della/7", start_ms=start_ms, end_ms=end_ms)

    page = text(admin, f"/incidents/{one.pk}")

    assert f"/charts/gpu-util?gpu=GPU-a&amp;from={start_ms}&amp;to={end_ms}&amp;marked=idle" in page


def test_who_snoozed_it_and_why_stands_under_its_title_while_that_holds(admin):
    one = incident()
    admin.post(f"/incidents/{one.pk}/snooze", {"length": "4", "reason": "moved this evening"})

    page = text(admin, f"/incidents/{one.pk}")

    said = "Snoozed until 20 Nov 2026, 16:00 UTC by ann: moved this evening"
    assert said in in_text(page.partition("</h1>")[2].partition("<dl")[0])
    one.refresh_from_db()
    one.snoozed_until = NOW - timedelta(minutes=1)
    one.save()
    assert said not in in_text(text(admin, f"/incidents/{one.pk}").partition("<dl")[0])
