"""The small chart in a job's message: what its GPUs did until telemetry ends, and nothing made up."""

import pytest

from agent import wire
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.messaging.group_news import read_news
from fleetwatch.alerts.messaging.sparks import NOTHING, of_breach
from fleetwatch.alerts.models import Incident, IncidentGroup
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Allocation
from tests.alerts.factories import a_breach, a_rule, an_incident, at, ms
from tests.alerts.people import KEY
from tests.costs.factories import a_gpu, a_job

pytestmark = pytest.mark.django_db


def measured(*gpus: GPU, util: dict[int, dict[int, float]]) -> None:
    """Windows of a minute each: by place of the GPU the utilisation of each minute after nine."""
    rows = [(place, minute, share) for place, by in util.items() for minute, share in by.items()]
    node = gpus[0].node
    batch = {
        "version": 1, "node": node.name, "boot_id": "boot-1", "boot_start_ms": ms(-300),
        "sequence": 1, "window_s": 60,
        "agent": {"version": "1.0.0", "driver": "580.159.04", "source": "nvml"},
        "gpus": [{"uuid": gpu.uuid, "index": place} for place, gpu in enumerate(gpus)],
        "windows": {
            "gpu": [place for place, _, _ in rows],
            "start_ms": [ms(minute) for _, minute, _ in rows],
            "observed_ms": [60_000] * len(rows),
            "util_mean": [share for _, _, share in rows],
        },
    }  # fmt: skip
    store_batch(node, wire.parse(batch), received_at=at(61))


def held(gpu: GPU, job, start: float = -10, end: float = 60) -> None:
    asserted = [(ms(start), ms(end))]
    Allocation.objects.create(gpu=gpu, job=job, source="slurm", share=1.0, asserted=asserted)


def breach(until: float = 60, **fields):
    return stored_breach(a_breach(KEY, ms(0)) | {"until_ms": ms(until)} | fields)


@pytest.fixture
def job():
    return a_job(key=KEY)


@pytest.fixture
def pair(job):
    """Two GPUs that it holds."""
    gpus = [a_gpu(node="node-014", index=index) for index in (0, 1)]
    for gpu in gpus:
        held(gpu, job)
    return gpus


def test_a_step_is_the_mean_of_the_gpus_that_were_measured_in_it(pair):
    first = {minute: 0.8 if minute < 30 else 0.0 for minute in range(60) if not 40 <= minute < 45}
    second = {minute: 0.4 if minute < 30 else 0.1 for minute in range(60) if not 30 <= minute < 45}
    measured(*pair, util={0: first, 1: second})

    spark = of_breach(breach())

    # three hours: two without telemetry; 0:00 to 0:30 both, to 0:40 the first, to 0:45 none
    assert spark.shares == (*[None] * 24, *[0.6] * 6, 0.0, 0.0, None, *[0.05] * 3)
    assert spark.label == "Utilisation of its 2 GPUs, 3 h until telemetry ends"


def test_it_ends_with_the_last_whole_step_that_telemetry_reaches(pair):
    measured(*pair, util={0: dict.fromkeys(range(60), 0.5)})

    assert of_breach(breach(until=59.9)).shares[-12:] == (None, *[0.5] * 11)


def test_a_gpu_that_another_job_held_is_not_in_it(job, pair):
    other = a_gpu(node="node-014", index=2)
    held(other, a_job(key="slurm/della/2"))
    measured(*pair, other, util={0: {50: 0.2}, 2: {50: 1.0}})

    spark = of_breach(breach())

    assert spark.shares[-2] == 0.2
    assert "2 GPUs" in spark.label


@pytest.mark.parametrize(("end", "count"), [(-120.001, 0), (-119.999, 1)])
def test_a_gpu_that_it_gave_back_before_is_not_in_it(job, end, count):
    held(a_gpu(node="node-014"), job, -200, end)

    assert (of_breach(breach()) == NOTHING) is (count == 0)


def test_of_many_gpus_eight_are_read_and_that_is_said(job):
    for index in range(9):
        held(a_gpu(node="node-014", index=index), job)

    assert of_breach(breach()).label.startswith("Utilisation of 8 of its 9 GPUs, ")


@pytest.mark.parametrize("fields", [{"kind": "node"}, {"subject": "slurm/della/none"}])
def test_what_is_no_job_or_gone_has_none(pair, fields):
    measured(*pair, util={0: {50: 0.2}})

    assert of_breach(breach(**fields)) == NOTHING


def message(*, again: bool = False):
    [news] = read_news(IncidentGroup.objects.all())
    return news.message(at(0).tzinfo, at(60), again=again)


@pytest.fixture
def told(pair):
    """A group of one incident of the job."""
    measured(*pair, util={0: {50: 0.2}})
    rule = a_rule()
    group = IncidentGroup.objects.create(rule=rule, key="k", opened_at=at(30))
    facts = {"until_ms": ms(60)}
    return an_incident(rule, KEY, opened_at=at(0), group=group, facts=facts)


def test_the_message_of_one_incident_has_it(told):
    assert message().spark[-2] == 0.2
    assert message().spark_label.startswith("Utilisation of its 2 GPUs")


def test_a_reminder_below_it_has_none(told):
    assert message(again=True).spark == ()


def test_a_message_of_several_or_of_what_is_over_has_none(told):
    other = an_incident(told.rule, "slurm/della/2", opened_at=at(0), group=told.group)
    assert message().spark == ()

    Incident.objects.filter(pk__in=(told.pk, other.pk)).update(resolved_at=at(59), ended_ms=ms(59))
    assert message().spark == ()
