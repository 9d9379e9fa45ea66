"""The condition low_utilisation: who is told that a job hardly uses its GPUs, and who is not."""

from decimal import Decimal

import pytest

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.jobs.models import GPUProcess
from tests.alerts.factories import a_rule, at, ms, ran
from tests.alerts.worked import worked
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db

KEY = "slurm/della/1"
LOW = {"useful": 0.1, "stalled": 0.9}
FAIR = {"useful": 0.5, "stalled": 0.5}


def rule(**fields):
    usual = {"condition": "low_utilisation", "threshold": 15, "clear": 20, "minutes": 60}
    return a_rule(**(usual | {"min_coverage": 0.8, "evaluated_ms": None} | fields))


def states(minute: float) -> list[str]:
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


@pytest.mark.parametrize(
    ("useful", "opened"), [(0.0, 1), (0.149, 1), (0.15, 0), (0.151, 0), (0.9, 0)]
)
def test_a_job_that_works_less_than_the_threshold_is_told(useful, opened):
    rule()
    worked(a_gpu(), 0, 65, job=a_job(), useful=useful, stalled=1 - useful)

    assert len(states(70)) == opened


@pytest.mark.parametrize(("minutes", "state"), [(55, "pending"), (60, "firing"), (65, "firing")])
def test_for_as_long_as_the_rule_says(minutes, state):
    rule()
    worked(a_gpu(), 0, minutes, job=a_job(), **LOW)

    assert states(minutes + 3) == [state]


def test_the_newest_minutes_count_once_they_are_there_whole():
    rule()
    worked(a_gpu(), 0, 60, job=a_job(), **LOW)

    assert states(62) == ["pending"]


def test_it_says_whose_it_is_where_what_it_costs_and_how_much_it_worked():
    rule()
    gpu = a_gpu(node="node-014", index=3)
    a_rate("4", gpu=gpu)
    worked(gpu, 0, 60, job=a_job(key=KEY, user="ana", name="sweep"), **LOW)

    announcing.run(at(64))

    breach = stored_breach(Incident.objects.get().facts)
    assert breach.title == "low utilisation · node-014 GPU 3 (H100 SXM)"
    assert breach.what == f"The only GPU of job {KEY} “sweep” worked 10 % of the time"
    assert breach.limit == "used < 15 % of the time for 60 min"
    assert (breach.cost_usd, breach.usd_per_hour) == (Decimal("3.6"), Decimal("3.6"))
    assert (breach.owner, breach.label("node"), breach.path) == (
        "ana (nlp)",
        "node-014",
        "/jobs/slurm/della/1",
    )
    assert breach.actions == (
        "Diagnosis names no cause yet: the job's page shows what its GPUs do.",
    )


def test_a_job_whose_other_gpu_works_is_left_alone():
    rule()
    job = a_job()
    worked(a_gpu(), 0, 65, job=job, useful=0.0, stalled=1.0)
    worked(a_gpu(node="gpu-02"), 0, 65, job=job, useful=0.9, stalled=0.1)

    assert states(70) == []


def test_gpus_that_idle_have_rules_of_their_own_and_those_beside_them_are_judged():
    rule()
    lone, half, low = (a_job(key=f"slurm/della/{number}") for number in (1, 2, 3))
    worked(a_gpu(), 0, 65, job=lone, idle=1.0)
    for job, shares in ((half, FAIR), (low, LOW)):
        worked(a_gpu(), 0, 65, job=job, idle=1.0)
        worked(a_gpu(), 0, 65, job=job, **shares)

    states(70)

    assert [incident.subject for incident in Incident.objects.all()] == [low.key]


def test_one_of_three_gpus_that_idles_does_not_hide_the_two_that_hardly_work():
    rule()
    job = a_job()
    worked(a_gpu(), 0, 65, job=job, idle=1.0)
    worked(a_gpu(), 0, 65, job=job, **LOW)
    worked(a_gpu(), 0, 65, job=job, **LOW)

    assert states(70) == ["firing"]


@pytest.mark.parametrize("kind", ["service", "interactive"])
def test_who_waits_for_requests_or_thinks_is_not_accused(kind):
    rule()
    worked(a_gpu(), 0, 65, job=a_job(kind=kind), **LOW)

    assert states(70) == []


def test_a_model_server_that_calls_itself_a_batch_job_is_none():
    rule()
    gpu = a_gpu()
    job = a_job(name="nightly")
    worked(gpu, 0, 65, job=job, **LOW)
    GPUProcess.objects.create(gpu=gpu, job=job, pid=7, name="vllm serve llama", seen_ms=ms(65))

    assert states(70) == []


def test_the_start_of_a_job_is_not_judged():
    rule(grace_minutes=30)
    job = a_job(start_ms=ms(0))
    worked(a_gpu(), 0, 65, job=job, **LOW)

    assert states(70) == ["pending"]


def test_a_job_with_a_gpu_that_spins_is_told_by_other_rules():
    rule()
    job = a_job()
    worked(a_gpu(), 0, 65, job=job, condition="spinning", stalled=1.0)

    assert states(70) == []


@pytest.mark.parametrize(("unobserved", "state"), [(0.04, ["firing"]), (0.3, [])])
def test_what_nobody_saw_may_have_been_work(unobserved, state):
    rule()
    worked(a_gpu(), 0, 65, job=a_job(), useful=0.1, stalled=0.9 - unobserved, unobserved=unobserved)

    assert states(70) == state


def test_missing_time_neither_fires_nor_resolves():
    rule()
    gpu = a_gpu()
    job = a_job()
    worked(gpu, 0, 40, job=job, **LOW)
    worked(gpu, 40, 120, job=job, condition="unobserved", unobserved=1.0)
    assert states(123) == ["pending"]
    worked(gpu, 120, 140, job=job, **LOW)

    assert states(143) == ["pending"]
    worked(gpu, 140, 190, job=job, **LOW)
    assert states(193) == ["firing"]
    worked(gpu, 190, 240, job=job, condition="unobserved", unobserved=1.0)
    assert states(243) == ["firing"]


def test_between_both_thresholds_it_goes_on_and_above_the_second_it_is_over():
    rule()
    gpu = a_gpu()
    job = a_job()
    worked(gpu, 0, 60, job=job, **LOW)
    worked(gpu, 60, 90, job=job, useful=0.18, stalled=0.82)
    assert states(93) == ["firing"]
    worked(gpu, 90, 95, job=job, useful=0.2, stalled=0.8)

    assert states(98) == ["resolved"]
    incident = Incident.objects.get()
    assert (incident.resolution, incident.ended_ms) == ("its GPUs are used again", ms(90))


def test_it_is_over_with_its_job():
    rule()
    gpu = a_gpu()
    job = a_job()
    worked(gpu, 0, 60, job=job, **LOW)
    assert states(63) == ["firing"]
    ran(gpu, "free", 60, 70)

    announcing.run(at(72))

    assert Incident.objects.get().resolution == "the allocation ended"


def test_it_is_looked_at_each_five_minutes():
    rule(evaluated_ms=ms(60))
    worked(a_gpu(), 0, 60, job=a_job(), **LOW)

    assert states(64) == []
    assert states(65) == ["firing"]


def test_of_a_job_that_ended_the_last_minutes_are_judged_before_it_is_over():
    """It ends at 10:03:30; until 10:08 the five minutes from 10:00 on are not judged."""
    rule()
    gpu = a_gpu()
    job = a_job()
    worked(gpu, 0, 60, job=job, **LOW)
    assert states(63) == ["firing"]
    worked(gpu, 60, 63.5, job=job, **LOW)
    ran(gpu, "free", 63.5, 70)
    job.end_ms = ms(63.5)
    job.save(update_fields=["end_ms"])

    assert states(67.9) == ["firing"]

    assert states(73) == ["resolved"]
    incident = Incident.objects.get()
    assert incident.resolution == "the allocation ended"
    assert (incident.until_ms, incident.ended_ms) == (ms(63.5), ms(63.5))
