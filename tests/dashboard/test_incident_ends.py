"""How an incident that is over, quiet or left says so on its page and in the list."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.alerts.messaging.group_news import read_news
from fleetwatch.alerts.models import IncidentEvent, IncidentGroup, Notification, Rule
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, text
from tests.diagnosis import told
from tests.markup import in_text
from tests.notify.factories import slack_channel


def test_an_end_that_waits_for_others_of_its_message_says_for_which(admin):
    rule = Rule.objects.get(condition="job_idle")
    group = IncidentGroup.objects.create(rule=rule, key="k", opened_at=NOW)
    over = incident("slurm/della/1", group=group, resolved_at=NOW)
    other = incident("slurm/della/2", group=group)
    IncidentEvent.objects.create(incident=over, at=NOW, kind="resolved", text="it worked")
    hook = slack_channel("https://slack.example")
    told = {"channel": hook, "step": 0, "kind": "opened", "due_at": NOW, "created_at": NOW}
    Notification.objects.create(group=group, shown=[over.pk, other.pk], **told)

    waits = f"told when the others of its message are over: #{other.pk}"
    assert waits in in_text(text(admin, f"/incidents/{over.pk}"))
    assert "told when the others" not in text(admin, f"/incidents/{other.pk}")


PROMISE = "it worked at 11:10 UTC for 20 s, and was quiet again from 11:12 UTC"
OPENS = "; a new incident opens after 30 minutes of that"


def test_an_end_promises_a_new_incident_no_longer_than_until_that_would_have_opened(admin):
    """The rule waits 30 minutes: of one that was over 20 minutes ago it may open yet."""
    lately = NOW - timedelta(minutes=20)
    before = NOW - timedelta(minutes=40)
    first = incident("slurm/della/1", resolved_at=before, resolution=PROMISE + OPENS)
    IncidentEvent.objects.create(incident=first, at=before, kind="resolved", text=PROMISE + OPENS)
    second = incident("slurm/della/1", resolved_at=lately, resolution=PROMISE + OPENS)

    pages = [in_text(text(admin, f"/incidents/{each.pk}")) for each in (first, second)]

    assert pages[0].count(f"quiet again from 11:12 UTC; incident #{second.pk} came after it") == 2
    assert [page.count("opens after 30 minutes") for page in pages] == [0, 1]
    assert in_text(text(admin, "/alerts?state=resolved")).count("opens after 30 minutes") == 1


@pytest.mark.parametrize(
    ("resolution", "word"),
    [
        (PROMISE, "holds"),
        ("the allocation ended", "held"),
        ("it worked at 11:10 UTC for 20 s; the allocation ended at 11:53 UTC", "held"),
    ],
)
def test_whose_job_goes_on_holds_the_gpus_though_the_incident_is_over(admin, resolution, word):
    job = factories.job("slurm/della/7")
    gpu = factories.gpu(factories.node())
    stored_runs.store(
        Run(
            node=gpu.node,
            gpu=gpu,
            job=job,
            condition="quiet",
            start_ms=to_ms(NOW) - HOUR_MS,
            end_ms=to_ms(NOW),
            state_ms={"idle": HOUR_MS},
            figures={},
        )
    )
    over = incident(job.key, resolved_at=NOW, resolution=resolution)

    assert f"{word} the GPUs; unassigned" in in_text(text(admin, f"/incidents/{over.pk}"))


GAP = "No data from 11:39 UTC to 11:40 UTC, quiet since: idle again if still quiet at 12:10 UTC."


def test_what_is_quiet_behind_a_gap_in_its_data_is_called_so_and_waited_for_on_page_and_list(admin):
    """It is judged until 11:39; the list of idle GPUs calls it nearly idle."""
    until_ms = to_ms(NOW - timedelta(minutes=21))
    facts = {"until_ms": until_ms, "does": "The only GPU of job slurm/della/7 does nothing"}
    quiet = incident(note=GAP, until_ms=until_ms, facts=facts)

    for address in (f"/incidents/{quiet.pk}", "/alerts"):
        shown = in_text(text(admin, address))
        assert "quiet, not judged since Fri 20 Nov, 11:39" in shown
        assert "did nothing" in shown
        assert "does nothing" not in shown
        assert "judged until" not in shown
        assert "nothing; wait until that moment." in shown
        assert "ask ann (nlp) whether the job is still needed" in shown


def test_of_what_is_agreed_nobody_is_asked_whether_it_is_needed(admin):
    until_ms = to_ms(NOW - timedelta(minutes=21))
    muted = "accepted until 27 Nov 2026, 12:00 UTC: the demo"
    agreed = incident(note=GAP, muted=muted, until_ms=until_ms, facts={"until_ms": until_ms})

    for address in (f"/incidents/{agreed.pk}", "/alerts?state=accepted"):
        shown = in_text(text(admin, address))
        assert "is still needed" not in shown
        assert "No data from 11:39 UTC" in shown


@pytest.mark.parametrize(("step", "is_last"), [(2, False), (3, True)])
def test_what_nobody_acknowledged_up_to_the_last_step_says_that_nobody_is_left(
    admin, step, is_last
):
    rule = Rule.objects.get(condition="job_idle")
    Rule.objects.filter(pk=rule.pk).update(remind_minutes=0)
    group = IncidentGroup.objects.create(
        rule=rule, key="k", opened_at=NOW, step=step, stepped_at=NOW
    )
    fires = incident(group=group)

    shown = in_text(text(admin, f"/incidents/{fires.pk}"))

    assert ("nobody is left to escalate to" in shown) == is_last
    assert ("Reminders are off for this rule: set one" in shown) == is_last


def test_what_to_do_if_it_comes_back_is_one_advice_on_its_page_and_in_the_message_of_its_end(admin):
    """Of a session that works again the job's finding says it; nobody is asked besides."""
    job = factories.job("slurm/della/7", kind="interactive")
    gpu = factories.gpu(factories.node())
    began_at = NOW - timedelta(hours=1)
    told.cause("idle_held", of=job, on=gpu, start=began_at)
    told.finding(job, "idle_held", first_ms=to_ms(began_at), last_ms=to_ms(NOW))
    group = IncidentGroup.objects.create(
        rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
    )
    over = incident(job.key, group=group, resolved_at=NOW, resolution=PROMISE)

    page = in_text(text(admin, f"/incidents/{over.pk}"))
    message = read_news([group])[0].message(ZoneInfo("UTC"), NOW)

    advice = message.text.partition("If it comes back: ")[2]
    assert advice
    assert f"If it comes back {advice}" in page
    assert "is still needed" not in page
