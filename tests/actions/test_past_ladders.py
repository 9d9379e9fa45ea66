"""A policy tried on history: what it would have ended, when, and what was held from there on.

The rule fires after 30 minutes, and the policy waits 60 after each warning: a job that idles from
nine on would be ended at 11:30, minute 150. A GPU costs $2 an hour.
"""

from datetime import time
from decimal import Decimal

import msgspec
import pytest
from django.db.models import F

from fleetwatch.actions.models import Action, Policy
from fleetwatch.actions.past_ladders import (
    ENDED_BEFORE,
    LIMITED,
    MUTED,
    STEPS,
    asked_of,
    outcome_of,
    try_on_history,
    try_out,
)
from fleetwatch.alerts import back_test_runs
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.actions.factories import a_policy, an_idle_job, goes_on
from tests.alerts import people
from tests.alerts.factories import a_rule, at, longer, ms, ran
from tests.costs.factories import a_gpu, a_job

pytestmark = pytest.mark.django_db
MINUTE = HOUR_MS // 60
SAME = {"user": "ana", "scheduler": "slurm", "cluster": "della", "team": "nlp", "external_id": "9"}


def tried(policy, until: float = 720):
    return try_on_history(policy, Interval(at(-60), at(until)))


def idle_until(minutes: float, run) -> None:
    """The job idles up to then, and works again for a while."""
    longer(run, minutes)
    ran(run.gpu, "active", minutes, minutes + 30, job=run.job)


def a_silence(start: float, end: float, **fields) -> Silence:
    usual = {"matchers": [{"label": "node", "values": ["node-014"], "is_not": False}]}
    return Silence.objects.create(
        starts_at=at(start), ends_at=at(end), reason="a demo", created_at=at(0), **(usual | fields)
    )


def test_gpu_hours_and_dollars_are_those_from_the_end_to_the_end_of_the_incident():
    """Two GPUs for 300 minutes: 150 are left, 5 GPU-hours at $2."""
    policy = a_policy()
    run = an_idle_job()
    second = ran(a_gpu(node="node-014", index=1), "quiet", 0, 31, job=run.job)
    idle_until(300, run)
    idle_until(300, second)

    done = tried(policy)

    [ladder] = done.ladders
    assert ladder.ended_ms == ms(150)
    assert (ladder.gpu_ms, ladder.usd) == (5 * HOUR_MS, Decimal(10))
    assert (done.gpu_ms, done.usd, done.others) == (5 * HOUR_MS, Decimal(10), ())
    assert not Action.objects.exists()
    assert not Incident.objects.exists()


def test_in_the_background_it_says_what_it_says_at_once():
    policy = a_policy()
    policy.refresh_from_db()
    idle_until(300, an_idle_job())
    run = back_test_runs.ask(asked_of(policy, days=7, address="/"), by="vera", now=at(720))

    back_test_runs.advance("policy", try_out, at(720))

    run.refresh_from_db()
    assert (run.state, run.steps_done) == ("done", STEPS)
    [kept] = outcome_of(run).ladders
    [at_once] = try_on_history(policy, Interval(run.start, run.end)).ladders
    assert (kept.ended_ms, kept.gpu_ms, kept.usd) == (
        at_once.ended_ms,
        at_once.gpu_ms,
        at_once.usd,
    )
    assert kept.subject == at_once.subject
    assert kept.trial.episode == at_once.trial.episode


def test_in_the_background_what_is_gone_or_set_otherwise_meanwhile_is_not_tried():
    policy = a_policy()
    policy.refresh_from_db()
    run = back_test_runs.ask(asked_of(policy, days=7, address="/"), by="vera", now=at(720))
    Policy.objects.update(max_per_hour=F("max_per_hour") + 1)

    assert back_test_runs.advance("policy", try_out, at(720)) == {"back_tests": 0}
    run.refresh_from_db()
    assert run.state == "stopped"

    policy.refresh_from_db()
    run = back_test_runs.ask(asked_of(policy, days=7, address="/"), by="vera", now=at(720))
    policy.delete()

    assert back_test_runs.advance("policy", try_out, at(720)) == {"back_tests": 0}
    run.refresh_from_db()
    assert run.state == "stopped"


@pytest.mark.parametrize(("until", "gpu_minutes"), [(150, None), (151, 1), (149, None)])
def test_what_was_over_by_the_second_wait_is_not_ended(until, gpu_minutes):
    policy = a_policy()
    idle_until(until, an_idle_job())

    done = tried(policy)

    assert [each.gpu_ms for each in done.ladders] == ([gpu_minutes * MINUTE] if gpu_minutes else [])
    assert done.others == (() if gpu_minutes else ((ENDED_BEFORE, 1),))


def test_it_says_what_the_ladder_did():
    """The same job, lived: the agent is asked at minute 151, where the hub looks once a minute."""
    policy = a_policy()
    run = an_idle_job()
    for minute in (31, 91, 151):
        goes_on(run, minute)
    acted = Action.objects.get()

    idle_until(300, run)
    [ladder] = tried(policy).ladders

    assert acted.state == "ordered"
    assert 0 <= (acted.acted_at - at(150)).total_seconds() <= 60
    assert ladder.ended_ms == ms(150)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"teams": []}, "its team is not on the policy's list"),
        ({"job_kinds": ["interactive"]}, "jobs of its kind are not on the list"),
        ({"max_usd_per_hour": Decimal("1.99")}, LIMITED),
    ],
)
def test_what_the_policy_is_not_about_is_left_alone_with_the_reason(fields, why):
    policy = a_policy(**fields)
    idle_until(300, an_idle_job())

    done = tried(policy)

    assert (done.ladders, done.others, done.usd) == ((), ((why, 1),), 0)


def test_a_job_of_nobody_who_could_be_warned_is_left_alone():
    policy = a_policy()
    run = an_idle_job(user="zoe")
    idle_until(300, run)

    assert tried(policy).others == (("its owner can't be warned", 1),)


def test_what_is_beyond_the_limit_waits_an_hour_and_is_ended_then():
    """One job an hour, and both are due at minute 150: of the second 90 minutes are left at 210."""
    policy = a_policy(max_per_hour=1)
    idle_until(300, an_idle_job())
    idle_until(300, people.idle_job(key="slurm/della/2", external_id="2", index=1))

    done = tried(policy)

    assert [(each.ended_ms, each.gpu_ms) for each in done.ladders] == [
        (ms(210), 90 * MINUTE),
        (ms(150), 150 * MINUTE),
    ]
    assert done.usd == Decimal(8)


def test_of_two_that_are_due_the_one_that_idles_longer_is_ended_first():
    """The second fires 20 minutes later; both wait behind a third, which was ended at minute 150."""
    policy = a_policy(max_per_hour=1)
    first = an_idle_job()
    later = ran(
        a_gpu(node="node-014", index=1), "quiet", 20, 51, job=a_job(key="slurm/della/2", **SAME)
    )
    third = ran(
        a_gpu(node="node-014", index=2), "quiet", 5, 36, job=a_job(key="slurm/della/3", **SAME)
    )
    for run in (first, later, third):
        idle_until(400, run)

    subjects = [each.trial.breach.subject[-1] for each in tried(policy).ladders]

    assert subjects == ["2", "3", "1"]  # the newest first


@pytest.mark.parametrize(("most", "moments"), [("4", [150, 150]), ("3.99", [210, 150])])
def test_dollars_an_hour_limit_it_too(most, moments):
    policy = a_policy(max_usd_per_hour=Decimal(most))
    idle_until(300, an_idle_job())
    idle_until(300, people.idle_job(key="slurm/della/2", external_id="2", index=1))

    assert [each.ended_ms for each in tried(policy).ladders] == [ms(each) for each in moments]


def test_what_ends_while_it_waits_for_the_limit_is_left_alone():
    policy = a_policy(max_per_hour=1)
    idle_until(210, an_idle_job())
    idle_until(210, people.idle_job(key="slurm/della/2", external_id="2", index=1))

    done = tried(policy)

    assert (len(done.ladders), done.others) == (1, ((LIMITED, 1),))


@pytest.mark.parametrize(
    ("start", "end", "ended"),
    [
        (-60, 30, 150),  # over when the rule fires
        (0, 60, 180),  # warned when it is over
        (100, 110, 280),  # ends the ladder at minute 100: anew an hour later, two more to go
        (145, 300, None),  # over when the incident is
        (155, 300, 150),  # set when it was ended already
    ],
)
def test_a_silence_of_then_ends_the_ladder_as_it_would_have(start, end, ended):
    policy = a_policy()
    idle_until(300, an_idle_job())
    a_silence(start, end)

    done = tried(policy)

    assert [each.ended_ms for each in done.ladders] == ([ms(ended)] if ended else [])
    assert done.others == (() if ended else ((MUTED, 1),))


def test_a_silence_of_something_else_changes_nothing():
    policy = a_policy()
    idle_until(300, an_idle_job())
    a_silence(0, 300, matchers=[{"label": "node", "values": ["node-015"], "is_not": False}])
    a_silence(0, 300, matchers=[{"label": "rule", "values": ["Job hung"], "is_not": False}])

    assert [each.ended_ms for each in tried(policy).ladders] == [ms(150)]


def test_the_owners_reason_of_then_keeps_his_job():
    policy = a_policy()
    idle_until(300, an_idle_job())
    own = [{"label": "subject", "values": [people.KEY], "is_not": False}]
    a_silence(40, 600, kind="justification", matchers=own)

    assert tried(policy).others == ((MUTED, 1),)


@pytest.mark.parametrize(("closed_at", "ended"), [(60, []), (200, [ms(150)])])
def test_a_finding_that_was_closed_then_keeps_the_job_from_then_on(closed_at, ended):
    policy = a_policy()
    run = an_idle_job()
    idle_until(300, run)
    Finding.objects.create(
        job=run.job, cause="idle_held", first_ms=0, last_ms=1, status="dismissed",
        decided_at=at(closed_at),
    )  # fmt: skip

    assert [ladder.ended_ms for ladder in tried(policy).ladders] == ended


def test_a_rule_that_tells_in_the_day_begins_the_ladder_then():
    """It fires at 9:30 and tells from ten on: ended at noon."""
    hours = Hours(time(10), time(18))
    policy = a_policy(a_rule(schedule=msgspec.to_builtins(hours)))
    idle_until(300, an_idle_job())

    assert [each.ended_ms for each in tried(policy).ladders] == [ms(180)]
