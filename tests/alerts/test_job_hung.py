"""The condition job_hung: diagnosis says that a job runs and gets nowhere."""

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import settings_of
from fleetwatch.diagnosis.cause import WELL
from fleetwatch.diagnosis.causes import BLIND, CATALOGUE, STUCK, UNDETERMINED
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.lib.intervals import Interval
from tests.alerts.factories import a_rule, at, ran
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db

(HUNG,) = STUCK
OTHER = next(cause.code for cause in CATALOGUE if cause.verdict == WELL)
KEY = "slurm/della/1"


def rule(**fields):
    return a_rule(**({"condition": "job_hung", "minutes": 20, "evaluated_ms": None} | fields))


def a_cause(gpu, job, cells, *, cause=HUNG, confidence=3, hour=0):
    """In these five minutes of the hour after nine, and its whole time stalled."""
    held_ms = 300_000 * len(cells)
    none = dict.fromkeys(
        ("idle_certain_ms", "idle_probable_ms", "stalled_potential_ms", "underused_ms"), 0
    )
    return CauseEntry.objects.create(
        node=gpu.node,
        gpu=gpu,
        job=job,
        start=at(60 * hour),
        cause=cause,
        confidence=confidence,
        cells=sum(1 << cell for cell in cells),
        held_ms=held_ms,
        stalled_probable_ms=held_ms,
        low_ms=0,
        high_ms=held_ms,
        **none,
    )


def states(minute: float) -> list[str]:
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


@pytest.mark.parametrize(
    ("cells", "told"),
    [(range(1), []), (range(3), ["pending"]), (range(4), ["firing"]), (range(6), ["firing"])],
)
def test_a_job_is_told_when_it_hung_for_as_long_as_the_rule_says(cells, told):
    rule()
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "spinning", 0, 35, job=job)
    a_cause(gpu, job, cells)

    assert states(35) == told


def test_five_minutes_that_are_not_over_are_not_judged():
    rule()
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "spinning", 0, 22, job=job)
    a_cause(gpu, job, range(4))

    assert states(22) == ["pending"]


@pytest.mark.parametrize(("confidence", "told"), [(1, []), (2, ["firing"]), (3, ["firing"])])
def test_what_diagnosis_is_hardly_sure_of_is_not_told(confidence, told):
    rule()
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "spinning", 0, 35, job=job)
    a_cause(gpu, job, range(6), confidence=confidence)

    assert states(35) == told


@pytest.mark.parametrize("fields", [{"kind": "service"}, {"name": "vllm-llama"}])
def test_a_service_polls(fields):
    rule()
    gpu = a_gpu()
    job = a_job(**fields)
    ran(gpu, "spinning", 0, 35, job=job)
    a_cause(gpu, job, range(6))

    assert states(35) == []


def test_it_says_what_it_costs_and_how_to_end_it_while_all_its_gpus_hang():
    rule()
    gpus = [a_gpu(node="n1", index=index) for index in range(2)]
    a_rate("4", gpu=gpus[0])
    job = a_job(key=KEY, scheduler="slurm", external_id="1", user="ana")
    for gpu in gpus:
        ran(gpu, "spinning", 0, 30, job=job)
        a_cause(gpu, job, range(6))

    states(34)

    breach = stored_breach(Incident.objects.get().facts)
    assert breach.what == f"The 2 GPUs of job {KEY} got nowhere"
    assert (breach.cost_usd, breach.usd_per_hour, breach.where) == (4, 8, "n1 GPU 0, 1")
    assert breach.label("cause") == HUNG
    assert breach.actions[0].startswith("Fix: End it and let it start again")
    assert breach.actions[0].endswith("scancel 1")


def test_a_job_one_of_whose_gpus_may_work_is_not_to_be_ended():
    rule()
    gpus = [a_gpu(node="n1", index=index) for index in range(3)]
    job = a_job(key=KEY, scheduler="slurm", external_id="1")
    for gpu in gpus:
        ran(gpu, "spinning", 0, 30, job=job)
    for gpu in gpus[:2]:
        a_cause(gpu, job, range(6))
    a_cause(gpus[2], job, range(6), cause=UNDETERMINED)

    states(34)

    [incident] = Incident.objects.all()
    assert not any("scancel" in action for action in stored_breach(incident.facts).actions)


def test_work_resolves_it_and_neither_silence_nor_doubt_does():
    rule()
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "spinning", 0, 60, job=job)
    a_cause(gpu, job, range(4))
    assert states(24) == ["firing"]
    a_cause(gpu, job, [4, 5], cause=UNDETERMINED)
    a_cause(gpu, job, [6, 7], cause=BLIND[0])
    assert states(44) == ["firing"]
    a_cause(gpu, job, [8], cause=OTHER)

    assert states(49) == ["resolved"]
    assert Incident.objects.get().resolution == "it moves again"


def test_the_back_test_says_what_was_told():
    watched = rule(evaluated_ms=None)
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "spinning", 0, 120, job=job)
    for hour, cause, cells in (
        (0, OTHER, [0, 1]), (0, HUNG, [2, 3, 4, 5, 6, 7]), (0, OTHER, [8, 9]),
        (0, HUNG, [10, 11]), (1, HUNG, [0, 1, 2]), (1, OTHER, [3]),
    ):  # fmt: skip
        a_cause(gpu, job, cells, cause=cause, hour=hour)
        announcing.run(at(60 * hour + 5 * (max(cells) + 1) + 3))

    done = back_test(condition("job_hung"), settings_of(watched), (), Interval(at(-60), at(90)))

    assert sorted(
        Incident.objects.values_list("subject", "since_ms", "fired_ms", "until_ms", "ended_ms")
    ) == sorted(
        (each.subject, each.since_ms, each.fired_ms, each.until_ms, each.ended_ms)
        for each in (trial.episode for trial in done.trials)
    )
    assert len(done.trials) == 2
