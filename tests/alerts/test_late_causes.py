"""A cause that diagnosis names after an incident's first message stands in the next one."""

from dataclasses import replace

import pytest

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.incidents.incident_history import sends
from fleetwatch.alerts.measuring.cause_words import NO_CAUSE
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.messaging.messages import Case, Setting, of_group
from fleetwatch.alerts.messaging.page_steps import with_causes
from fleetwatch.alerts.models import Incident
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.notify.models import Delivery
from tests.alerts import people
from tests.alerts.factories import NINE, a_breach, a_rule, at, longer, ms
from tests.alerts.test_messages import UTC
from tests.costs.factories import a_job
from tests.diagnosis import told

pytestmark = pytest.mark.django_db
CAUSE = "data_starved"
TITLE = BY_CODE[CAUSE].title


def diagnosed(key: str = people.KEY) -> None:
    """Diagnosis explains the hour of the job's GPU."""
    job = Job.objects.get(key=key)
    told.cause(CAUSE, of=job, on=GPU.objects.first() or told.gpu(), start=NINE)
    told.finding(job, CAUSE, first_ms=ms(0), last_ms=ms(60))


def messages() -> list[dict]:
    return [each.message for each in Delivery.objects.order_by("pk")]


def likely_of(message: dict) -> str:
    return dict(message["fields"]).get("Likely", "")


@pytest.fixture
def told_early():
    """Ana was told of her idle job before anything was diagnosed."""
    a_rule(remind_minutes=60, escalate_minutes=0)
    people.app()
    people.person()
    run = people.idle_job()
    announcing.run(at(31))
    return run


def test_the_reminder_names_the_cause_that_the_first_message_did_not_know(told_early):
    diagnosed()
    longer(told_early, 92)
    announcing.run(at(92))

    opened, *_, reminder = messages()

    assert likely_of(opened) == ""
    assert likely_of(reminder).startswith(f"{TITLE}: ")
    assert "Fix: " in reminder["text"]


@pytest.mark.parametrize("code", ["gpu_fault", "straggler"])
def test_a_cause_whose_fix_has_nothing_to_type_is_named_too(told_early, code):
    job = Job.objects.get(key=people.KEY)
    told.cause(code, of=job, on=GPU.objects.first() or told.gpu(), start=NINE)
    longer(told_early, 92)
    announcing.run(at(92))

    *_, reminder = messages()

    assert likely_of(reminder).startswith(f"{BY_CODE[code].title}: ")


def test_that_it_is_over_is_told_with_the_cause_and_what_to_do_if_it_comes_back(told_early):
    diagnosed()
    Job.objects.update(end_ms=ms(40))
    for minutes in (45, 60, 75):
        announcing.run(at(minutes))

    over = messages()[-1]

    assert over["severity"] == "resolved"
    assert likely_of(over).startswith(f"{TITLE}: ")
    assert over["text"].startswith("If it comes back: ")
    assert "scancel" not in over["text"]


@pytest.mark.parametrize("code", sorted(code for code, each in BY_CODE.items() if not each.fixes))
def test_what_nothing_is_to_be_done_about_is_no_cause_of_it(told_early, code):
    """Most of the hour went well: it is reminded of all the same, and its end is told."""
    job = Job.objects.get(key=people.KEY)
    told.cause(code, of=job, on=GPU.objects.first() or told.gpu(), start=NINE)
    longer(told_early, 92)
    announcing.run(at(92))
    Job.objects.update(end_ms=ms(95))
    for minutes in (100, 115, 130):
        announcing.run(at(minutes))

    every = messages()

    assert {likely_of(each) for each in every} == {""}
    assert {each["severity"] for each in every} == {"warning", "resolved"}


def test_that_a_job_without_a_cause_is_over_is_told_without_one(told_early):
    Job.objects.update(end_ms=ms(40))
    for minutes in (45, 60, 75):
        announcing.run(at(minutes))

    over = messages()[-1]

    assert over["severity"] == "resolved"
    assert likely_of(over) == over["text"] == ""


def test_the_incident_knows_which_of_its_messages_named_no_cause(told_early):
    diagnosed()
    longer(told_early, 92)
    announcing.run(at(92))

    by_what = {send.what: send.names_cause for send in sends(Incident.objects.get())}

    assert by_what == {"opened": False, "reminder": True}


def silent(key: str):
    """What a rule said of the job while nothing was diagnosed."""
    return replace(stored_breach(a_breach(key, ms(0))), actions=(NO_CAUSE,), command="")


def test_what_said_that_no_cause_is_known_says_what_to_do_once_one_is():
    a_job(key=people.KEY)
    diagnosed()

    [breach] = with_causes([silent(people.KEY)], at(90))

    assert NO_CAUSE not in breach.actions
    assert breach.actions[0].startswith("Fix: ")


def test_a_job_of_which_nothing_is_diagnosed_stays_as_it_was_told():
    a_job(key=people.KEY)

    assert with_causes([silent(people.KEY)], at(90)) == [silent(people.KEY)]


def test_jobs_that_are_told_together_share_a_line_of_their_cause():
    keys = [f"slurm/della/{number}" for number in (1, 2)]
    for key in keys:
        a_job(key=key)
        diagnosed(key)
    breaches = with_causes([silent(key) for key in keys], at(90))
    setting = Setting("Low utilisation", "warning", UTC, at(90), "http://fleet")

    several = of_group([Case(7, each, "", "") for each in breaches], setting)
    over = of_group([Case(7, each, "", "it works") for each in breaches], setting)

    cause, fix, buttons = several.text.splitlines()
    assert cause.startswith("slurm/della/1 and 1 more, likely: Waits for its input. The GPU works")
    assert fix.startswith("Fix: ")
    assert buttons == (
        "Buttons that act do so on both of them; those that open a page open the first one's,"
        " slurm/della/1."
    )
    assert over.text.splitlines()[0] == cause
