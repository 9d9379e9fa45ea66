"""What nodes repeat of jobs is the same as if each of their batches had been stored the long way:
stories in which it was not.
"""

import pytest
from django.db import transaction
from django.test import Client

from fleetwatch.alerts.messaging import sparks
from fleetwatch.ingest.models import AgentToken, Rights
from fleetwatch.ingest.tokens import set_rights
from fleetwatch.inventory.models import RecalledNode
from fleetwatch.jobs.models import GPUProcess, Hold, Job, JobRecord
from fleetwatch.jobs.records import Voice
from fleetwatch.lib.intervals import from_ms
from fleetwatch.lib.sql import execute
from tests.ingest.factories import gpu, job, post, token
from tests.ingest.test_repeats import BEGIN, MINUTE, at
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


class UndoneError(Exception):
    """Takes back what one of the ways has stored."""


def by_both_ways(batches):
    """What is told of holds and answers after the batches, the long way and the short one; and how
    many came the short one.
    """
    bearer, left, client = token(), [], DoorClient()
    for sender in (Client(), client):
        try:
            with transaction.atomic():
                for each in batches:
                    assert post(sender, each, bearer=bearer).status_code == 200
                left.append((_held(), _answered()))
                raise UndoneError
        except UndoneError:
            pass
    return *left, client.short


def _held():
    return sorted(map(str, Hold.objects.values_list("gpu__uuid", "job__key", "held")))


def _answered():
    return sorted(map(str, execute("SELECT kind, ok, why, asserted FROM jobs_answer")))


def test_a_process_is_of_its_own_job_in_whichever_order_the_batch_names_them():
    client, bearer = DoorClient(), token()
    keys = ["slurm/della/9", "slurm/della/1"]
    held = [{"gpu": 0, "job": place, "source": "slurm", "start_ms": BEGIN} for place in range(2)]

    for minute in range(3):
        process = {"gpu": 0, "job": 0, "pid": 7 + minute, "memory_bytes": 5}
        jobs = [job(key, state="RUNNING") for key in keys]
        post(client, at(minute, jobs=jobs, allocations=held, processes=[process]), bearer=bearer)

    assert client.short == 2
    assert GPUProcess.objects.values_list("pid", "job__key").get() == (9, "slurm/della/9")


@pytest.mark.parametrize("later_ms", [0, 1])
def test_a_hold_that_begins_after_the_batch_is_held_once_it_began(later_ms):
    both = [gpu(), gpu("GPU-2", index=1)]
    begins = [BEGIN, BEGIN + MINUTE + later_ms]
    held = [
        {"gpu": place, "job": 0, "source": "slurm", "start_ms": start_ms}
        for place, start_ms in enumerate(begins)
    ]
    long, short, _ = by_both_ways([at(n, gpus=both, allocations=held) for n in range(4)])

    assert long == short


def test_a_hold_of_which_an_end_to_come_was_told_goes_on_when_it_is_named_on():
    batches = [at(0, end_ms=BEGIN + 3 * MINUTE), *[at(minute) for minute in range(1, 6)]]

    long, short, _ = by_both_ways(batches)

    assert long == short


def test_a_newer_batch_of_an_earlier_time_is_no_repetition():
    times = [0, 4, 2, 5]
    batches = [
        at(minute, sequence=number, start_ms=BEGIN + minute * MINUTE)
        | {"jobs": [job(state="RUNNING")], "allocations": [{"gpu": 0, "job": 0, "source": "slurm"}]}
        for number, minute in enumerate(times)
    ]
    long, short, _ = by_both_ways(batches)

    assert long == short


def test_the_start_of_a_job_that_was_to_come_is_believed_once_it_is_past(clock):
    client, bearer = DoorClient(), token()
    begins = BEGIN + 10 * MINUTE
    held = [{"gpu": 0, "job": 0, "source": "slurm", "start_ms": BEGIN}]

    for minute in range(12):
        clock.move_to(from_ms(BEGIN + (minute + 1) * MINUTE))
        jobs = [job(state="RUNNING", start_ms=begins)]
        post(client, at(minute, jobs=jobs, allocations=held), bearer=bearer)

    assert Job.objects.get().start_ms == begins


def test_another_web_process_does_not_speak_with_rights_that_the_token_had():
    one, other, bearer = DoorClient(), DoorClient(), token()
    for minute, client in enumerate((one, other, one)):
        post(client, at(minute), bearer=bearer)
    set_rights(AgentToken.objects.get().pk, Rights(speaks_for="della"))
    post(one, at(3), bearer=bearer)

    post(other, at(4, state="SUSPENDED"), bearer=bearer)

    newest = JobRecord.objects.latest("as_of_ms")
    assert (newest.voice, newest.facts["state"]) == (Voice.CLUSTER, "SUSPENDED")


def test_the_sparkline_of_a_job_has_the_gpus_that_are_held_on():
    client, bearer = DoorClient(), token()
    for minute in range(3):
        post(client, at(minute), bearer=bearer)

    held = sparks._held(Job.objects.get(), BEGIN + 2 * MINUTE, BEGIN + 3 * MINUTE)

    assert [each.uuid for each in held] == ["GPU-1"]


def test_of_many_nodes_of_one_job_each_is_recalled_once():
    client = DoorClient()
    bearers = {name: token(name) for name in ("n1", "n2", "n3", "n4")}
    for minute, state in enumerate(("RUNNING", "RUNNING", "COMPLETING")):
        for name, bearer in bearers.items():
            if (minute, name) != (2, "n4"):
                said = at(minute, node=name, gpus=[gpu(f"GPU-{name}")], state=state)
                post(client, said, bearer=bearer)

    assert RecalledNode.objects.values_list("node__name").get() == ("n4",)


def test_what_another_node_had_written_already_is_not_written_again():
    client, bearers = DoorClient(), {name: token(name) for name in ("n1", "n2")}
    for minute in range(2):
        for name, bearer in bearers.items():
            post(client, at(minute, node=name, gpus=[gpu(f"GPU-{name}")]), bearer=bearer)
    versions = []
    for minute, why in ((2, "timeout"), (3, "refused")):
        failed = [{"kind": "slurm", "ok": False, "seen_ms": BEGIN, "why": why}]
        said = at(minute, node="n2", gpus=[gpu("GPU-n2")], sources=failed)
        post(client, said, bearer=bearers["n2"])
        versions.append(execute("SELECT ctid::text FROM jobs_allocation ORDER BY id LIMIT 1"))

    assert versions[0] == versions[1]
    assert Hold.objects.filter(gpu__uuid="GPU-n1").values_list("held", flat=True).get() == [
        (BEGIN, BEGIN + 2 * MINUTE)
    ]
