"""The conditions job_stalled, job_underused and job_spinning: who is told, and who is not."""

import random

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from tests.alerts.factories import a_rule, at, ms, ran
from tests.alerts.worked import worked
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db


def rule(name: str, **fields):
    usual = {"condition": name, "threshold": 50, "clear": 40, "minutes": 60, "min_coverage": 0.8}
    return a_rule(**(usual | {"evaluated_ms": None} | fields))


def states(minute: float) -> list[str]:
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


@pytest.mark.parametrize(("stalled", "opened"), [(0.499, 0), (0.5, 1), (0.8, 1), (0.86, 0)])
def test_a_job_that_is_stalled_from_the_threshold_on_is_told_unless_it_hardly_works(
    stalled, opened
):
    rule("job_stalled")
    worked(a_gpu(), 0, 95, job=a_job(), useful=1 - stalled, stalled=stalled)

    assert len(states(100)) == opened


@pytest.mark.parametrize(
    ("gpus", "whose"), [(1, "The only GPU of job {} was "), (2, "The 2 GPUs of job {} were ")]
)
def test_it_says_in_singular_and_plural_what_the_gpus_did(gpus, whose):
    rule("job_stalled")
    job = a_job()
    for index in range(gpus):
        worked(a_gpu(index=index), 0, 95, job=job, useful=0.5, stalled=0.5)

    states(100)

    breach = stored_breach(Incident.objects.get().facts)
    assert breach.what.startswith(whose.format(job.key))
    assert breach.what.endswith("stalled 50 % of the time")
    assert breach.during == "within"
    # half of the 85 minutes from when the first half hour was in breach
    own = {1: "42 m of 1 h 25 m at work", 2: "1.4 of 2.8 GPU-hours at work"}
    assert breach.spells == own[gpus]


def test_what_comes_and_goes_within_half_an_hour_counts_by_its_mean():
    rule("job_stalled", minutes=30)
    job = a_job()
    gpu = a_gpu()
    for start in range(0, 100, 10):
        worked(gpu, start, start + 5, job=job, stalled=0.9, useful=0.1)
        worked(gpu, start + 5, start + 10, job=job, stalled=0.3, useful=0.7)

    assert states(103) == ["firing"]


def test_after_a_gap_half_of_the_half_hour_must_be_there():
    rule("job_stalled", minutes=10)
    job = a_job()
    worked(a_gpu(), 0, 10, job=job, stalled=0.6, useful=0.4)

    assert states(13) == []


def test_a_job_one_of_whose_gpus_works_is_judged_by_both():
    rule("job_stalled")
    job = a_job()
    worked(a_gpu(), 0, 95, job=job, stalled=0.8, useful=0.2)
    worked(a_gpu(node="gpu-02"), 0, 95, job=job, useful=1.0)

    assert states(100) == []


@pytest.mark.parametrize("name", ["job_stalled", "job_underused"])
@pytest.mark.parametrize("kind", ["service", "interactive"])
def test_services_and_sessions_are_not_judged(name, kind):
    rule(name)
    worked(a_gpu(), 0, 95, job=a_job(kind=kind), stalled=0.5, underused=0.5)

    assert states(100) == []


@pytest.mark.parametrize("name", ["job_stalled", "job_underused"])
def test_what_nobody_saw_accuses_nobody(name):
    rule(name)
    worked(a_gpu(), 0, 95, job=a_job(), stalled=0.3, underused=0.3, unobserved=0.4)

    assert states(100) == []


@pytest.mark.parametrize(("underused", "opened"), [(0.69, 0), (0.7, 1), (1.0, 1)])
def test_a_job_that_is_underused_from_the_threshold_on_is_told(underused, opened):
    rule("job_underused", threshold=70, clear=60)
    gpu = a_gpu()
    a_rate("2", gpu=gpu)
    worked(gpu, 0, 95, job=a_job(), underused=underused, useful=1 - underused)

    assert len(states(100)) == opened
    if opened:
        breach = stored_breach(Incident.objects.get().facts)
        assert float(breach.usd_per_hour or 0) == pytest.approx(2 * underused)
        assert breach.word == "underused"


def test_between_both_thresholds_it_goes_on():
    rule("job_stalled", minutes=30)
    gpu = a_gpu()
    job = a_job()
    worked(gpu, 0, 60, job=job, stalled=0.6, useful=0.4)
    worked(gpu, 60, 120, job=job, stalled=0.45, useful=0.55)
    assert states(123) == ["firing"]
    worked(gpu, 120, 150, job=job, useful=1.0)

    assert states(153) == ["resolved"]


@pytest.mark.parametrize(("minutes", "state"), [(14.9, ["pending"]), (30, ["firing"])])
def test_a_job_that_spins_on_all_its_gpus_is_told(minutes, state):
    rule("job_spinning", threshold=0, clear=None, minutes=30)
    job = a_job()
    for _ in range(2):
        ran(a_gpu(), "spinning", 0, max(minutes, 15), job=job)

    assert states(max(minutes, 15)) == state


@pytest.mark.parametrize("beside", ["active", "unobserved"])
def test_a_job_that_spins_on_one_gpu_is_left_alone(beside):
    rule("job_spinning", threshold=0, clear=None, minutes=30)
    job = a_job()
    ran(a_gpu(), "spinning", 0, 40, job=job)
    ran(a_gpu(), beside, 0, 40, job=job)

    assert states(40) == []


def test_a_model_server_polls():
    rule("job_spinning", threshold=0, clear=None, minutes=30)
    ran(a_gpu(), "spinning", 0, 40, job=a_job(name="vllm-llama"))

    assert states(40) == []


USUAL = {"low_utilisation": (15, 20), "job_stalled": (50, 40), "job_underused": (25, 20)}


@pytest.mark.parametrize("seed", range(2))
def test_what_was_evaluated_each_five_minutes_is_what_the_back_test_says(seed):
    """Four random hours of three jobs on one or two GPUs that work more or less, and unseen in turns."""
    Rule.objects.all().delete()
    for name, (threshold, clear) in USUAL.items():
        Rule.objects.create(
            name=name, condition=name, threshold=threshold, clear=clear, minutes=30,
            min_coverage=0.8, evaluated_ms=ms(0), created_at=at(0),
        )  # fmt: skip

    until = _random_hours(random.Random(seed))

    for name in USUAL:
        assert _evaluated(name) == _tried(name, until)
        assert _evaluated(name)


def _random_hours(dice: random.Random) -> float:
    """The minute at which it was evaluated last."""
    jobs = {
        a_job(key=f"slurm/della/{number}"): [
            a_gpu(node=f"n{number}") for _ in range(1 + number % 2)
        ]
        for number in range(3)
    }
    for start in range(0, 240, 5):
        for job, gpus in jobs.items():
            if start % 30 == 0 or dice.random() < 0.1:
                job.mood = dice.choice((0.05, 0.1, 0.3, 0.6, 0.9, None))
            for gpu in gpus:
                _worked_in_mood(gpu, start, job)
        evaluate(at(start + 8))
    return start + 8


def _worked_in_mood(gpu: GPU, start: float, job: Job) -> None:
    if job.mood is None:
        worked(gpu, start, start + 5, job=job, condition="unobserved", unobserved=1.0)
        return
    used = job.mood
    worked(
        gpu, start, start + 5, job=job, useful=used / 2, underused=used / 2, stalled=1 - used
    )  # fmt: skip


def _evaluated(name: str) -> list[tuple]:
    incidents = Incident.objects.filter(rule__condition=name).exclude(state="pending")
    return sorted(incidents.values_list("subject", "since_ms", "fired_ms", "until_ms", "ended_ms"))


def _tried(name: str, until: float) -> list[tuple]:
    watched = Rule.objects.get(condition=name)
    done = back_test(condition(name), settings_of(watched), (), Interval(at(-60), at(until)))
    return sorted(
        (each.subject, each.since_ms, each.fired_ms, each.until_ms, each.ended_ms)
        for each in (trial.episode for trial in done.trials)
    )
