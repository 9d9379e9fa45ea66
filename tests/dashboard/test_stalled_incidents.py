"""The page of a stalled job's incident: what of its time was stalled, and what to do step by step."""

import html
from datetime import timedelta

import pytest

from fleetwatch.alerts.models import Rule
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings.advice import NEWEST, aimed
from fleetwatch.diagnosis.shell import NOWHERE, Place
from fleetwatch.lib.intervals import to_ms
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, text
from tests.markup import in_text


def test_a_stalled_job_marks_the_stalled_time_of_the_incident_on_its_chart(admin):
    gpus = {"gpus": [{"uuid": "GPU-a", "index": 2}]}
    rule = Rule.objects.get(condition="job_stalled")
    one = incident(rule=rule, facts={"word": "stalled", "facts": gpus})

    page = text(admin, f"/incidents/{one.pk}")

    within = f"within={to_ms(NOW - timedelta(hours=1))}-{to_ms(NOW)}"
    assert f"marked=stalled&amp;{within}" in page
    assert "shaded is what was mostly stalled" in page
    assert "the stalled part of its GPUs&#x27; time" in page


def test_some_idle_gpus_of_a_job_mark_their_idle_time_as_all_of_them_do(admin):
    gpus = {"gpus": [{"uuid": "GPU-a", "index": 2}]}

    for condition in ("job_idle", "gpu_idle"):
        rule = Rule.objects.get(condition=condition)
        one = incident(f"slurm/della/{condition}", rule=rule, facts={"facts": gpus})

        assert "shaded is what was mostly idle" in text(admin, f"/incidents/{one.pk}"), condition


def test_a_share_of_the_time_says_of_what_it_is(admin):
    lines = (("Stalled", "9 h 37 m of 13 h 21 m at work"),)
    rule = Rule.objects.get(condition="job_stalled")
    one = incident(rule=rule, facts={"word": "stalled", "lines": lines})

    page = in_text(text(admin, f"/incidents/{one.pk}"))

    assert "Partly stalled for 1 h since" in page
    assert "stalled 9 h 37 m of 13 h 21 m at work" in page
    assert "Stalled for" not in page


def test_steps_that_tell_causes_apart_come_one_by_one_with_what_to_type(admin):
    """As a message has them: one text, the commands within it."""
    cause = BY_CODE["data_starved"]
    tell = [aimed(step, NOWHERE) for step in cause.tell]
    told = " ".join([cause.alike, *(f"{step.text} {step.code}".strip() for step in tell)])
    typed = "DataLoader(..., num_workers=9)"
    actions = (f"Fix: Load in parallel. {typed}", told)
    rule = Rule.objects.get(condition="job_stalled")
    facts = {"word": "stalled", "actions": actions, "command": "", "codes": (typed,)}
    one = incident(rule=rule, facts=facts)

    page = text(admin, f"/incidents/{one.pk}")

    for code in (typed, *(step.code for step in tell if step.code)):
        assert f">{html.escape(code)}</code>" in page
    assert "<p>Load in parallel.</p>" in page


@pytest.mark.parametrize(("pids", "typed"), [((4711,), "4711"), ((), NEWEST)])
def test_a_process_is_named_on_the_page_as_its_message_names_it(admin, pids, typed):
    cause = BY_CODE["hung"]
    tell = [aimed(step, Place(pids=pids)) for step in cause.tell]
    told = " ".join([cause.alike, *(f"{step.text} {step.code}".strip() for step in tell)])
    facts = {"actions": ("Fix: Look.", told), "command": "", "labels": {"user": ("ann",)}}
    one = incident(rule=Rule.objects.get(condition="job_hung"), facts=facts)

    page = html.unescape(text(admin, f"/incidents/{one.pk}"))

    assert f"py-spy dump --pid {typed}" in page
    assert "--pid PID" not in page
