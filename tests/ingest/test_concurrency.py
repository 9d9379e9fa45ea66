"""Batches that arrive at once: nothing is lost, nothing is doubled, nothing deadlocks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import time_machine
from django.db import connection

from fleetwatch.ingest.services import store_batch
from fleetwatch.ingest.tokens import (
    NodeEnrolledError,
    UnknownTokenError,
    create_agent_token,
    create_enrollment_token,
    enroll,
)
from fleetwatch.inventory.models import GPU
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Allocation, Hold, Job
from fleetwatch.telemetry.models import Batch, ReceivedSequence
from tests.ingest.factories import NOW, T0, batch, gpu, job, payload, post
from tests.ingest.wsgi import DoorClient

pytestmark = pytest.mark.django_db(transaction=True)


def together(*calls):
    """The results of the calls, begun at once, each on a connection of its own; an exception is a
    result too.
    """
    start = threading.Barrier(len(calls))

    def run(call):
        start.wait(10)
        try:
            return call()
        except (NodeEnrolledError, UnknownTokenError) as error:
            return type(error)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def storing(node="n1", **keys):
    row = node_by_name(node)
    parsed = batch(node=node, **keys)
    return lambda: store_batch(row, parsed, received_at=NOW)


def test_of_the_same_batch_at_once_one_is_stored():
    answers = together(*[storing() for _ in range(4)])

    assert sorted((answer.stored, answer.duplicate) for answer in answers) == [
        (0, 1),
        (0, 1),
        (0, 1),
        (3, 0),
    ]
    assert Batch.objects.count() == 1


def test_different_batches_of_one_node_at_once_are_all_stored():
    gpus = [gpu("GPU-1"), gpu("GPU-2")]
    calls = [
        storing(
            sequence=number, start_ms=T0 + number * 30_000, gpus=gpus[:: 1 if number % 2 else -1]
        )
        for number in range(6)
    ]

    answers = together(*calls)

    assert [answer.duplicate for answer in answers] == [0] * 6
    assert ReceivedSequence.objects.get().received == [(0, 6)]
    assert [(row.first_ms, row.last_ms) for row in GPU.objects.all()] == [(T0, T0 + 180_000)] * 2


def test_nodes_that_share_jobs_and_teams_do_not_deadlock():
    jobs = [job(f"slurm/della/{number}", account=f"team-{number}") for number in range(6)]
    held = [{"gpu": 0, "job": number, "source": "slurm"} for number in range(6)]
    calls = [
        storing(
            f"n{number}",
            gpus=[gpu(f"GPU-{number}")],
            jobs=jobs[:: 1 if number % 2 else -1],
            allocations=held,
            sequence=step,
        )
        for number in range(4)
        for step in range(2)
    ]

    answers = together(*calls)

    assert [answer.duplicate for answer in answers] == [0] * 8
    assert (Job.objects.count(), Allocation.objects.count()) == (6, 24)


def test_gpus_that_change_places_at_once_do_not_deadlock():
    pairs = [(f"a{number}", f"b{number}") for number in range(4)]
    for node in (name for pair in pairs for name in pair):
        storing(node, gpus=[gpu(f"GPU-{node}")], start_ms=T0 - 60_000)()
    later = T0 + 60_000

    answers = [
        together(
            *[
                storing(now, sequence=2, start_ms=later, gpus=[gpu(f"GPU-{was}")])
                for was, now in (pair, pair[::-1])
            ]
        )
        for pair in pairs
    ]

    assert [answer.stored for both in answers for answer in both] == [3] * 8
    for one, other in pairs:
        assert {
            row.node.name: row.uuid
            for row in GPU.objects.filter(first_ms=later, node__name__in=(one, other))
        } == {
            one: f"GPU-{other}",
            other: f"GPU-{one}",
        }


def test_of_two_nodes_that_enrol_with_the_last_use_one_gets_in():
    token = create_enrollment_token(NOW, uses=1, ttl=timedelta(hours=1))

    answers = together(lambda: enroll(token, "n1", NOW), lambda: enroll(token, "n2", NOW))

    assert answers.count(UnknownTokenError) == 1
    assert sum(isinstance(answer, str) for answer in answers) == 1


def test_of_one_node_that_enrols_twice_at_once_one_gets_in():
    token = create_enrollment_token(NOW, uses=5, ttl=timedelta(hours=1))

    answers = together(lambda: enroll(token, "n1", NOW), lambda: enroll(token, "n1", NOW))

    assert answers.count(NodeEnrolledError) == 1


def test_of_many_nodes_at_the_door_at_once_each_batch_is_stored_once():
    door, names = DoorClient(), [f"n{number}" for number in range(8)]
    bearers = {name: create_agent_token(name, NOW) for name in names}

    def sending(name, number):
        keys = {
            "node": name,
            "gpus": [gpu(f"GPU-{name}")],
            "sequence": number,
            "start_ms": T0 + number * 30_000,
            "jobs": [job()],
        }
        held = {"allocations": [{"gpu": 0, "job": 0, "source": "slurm"}]}
        return lambda: post(door, payload(**keys, **held), bearer=bearers[name]).json()

    with time_machine.travel(NOW, tick=False):
        for name in names:
            sending(name, 0)()
        answers = [together(*[sending(name, number) for name in names]) for number in (1, 2, 3)]
        again = together(*[sending(name, 2) for name in names])

    assert [(answer["stored"], answer["duplicate"]) for each in answers for answer in each] == [
        (3, 0)
    ] * 24
    assert [answer["duplicate"] for answer in again] == [1] * 8
    assert Batch.objects.count() == 32
    assert [row.received for row in ReceivedSequence.objects.all()] == [[(0, 4)]] * 8
    assert {held.gpu.newest_ms for held in Allocation.objects.select_related("gpu__node")} == {
        T0 + 120_000
    }
    assert [row.held for row in Hold.objects.all()] == [[(T0, T0 + 120_000)]] * 8
    assert door.short == 24
