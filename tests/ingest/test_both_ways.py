"""The same stories of batches by the door and by Django's view alone leave the same."""

import random

import pytest
from django.db import transaction
from django.test import Client

from fleetwatch.inventory.models import GPU, Intake, Node
from fleetwatch.inventory.steady import settle
from fleetwatch.jobs import repeats
from fleetwatch.jobs.models import (
    Allocation,
    GPUProcess,
    Hold,
    Job,
    JobChange,
    JobRecord,
    SourceReport,
)
from fleetwatch.lib.sql import execute
from fleetwatch.telemetry.models import Batch, HealthEvent, ReceivedSequence, SealMark, TouchedHour
from tests.ingest.factories import BEGIN, NOW_MS, gpu, job, pack, post, step, token
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


def story(seed):
    """Batches of two nodes as agents may send them, as (node, body, headers); most of them
    continue.
    """
    draw = random.Random(seed)
    sent, told = [], {"n1": 0, "n2": 0}
    limits, labels, words = {"n1": 700.0, "n2": 700.0}, {"n1": {}, "n2": {}}, {}
    for _ in range(70):
        node = draw.choice(("n1", "n2"))
        told[node] += 1
        if draw.random() < 0.06:
            limits[node] = draw.choice((500.0, 600.0, 700.0))
        if draw.random() < 0.05:
            labels[node] = {"rack": draw.choice("12")}
        number = draw.choice((told[node],) * 12 + (max(0, told[node] - 2), told[node] + 4))
        gpus = [
            gpu(f"GPU-{node}-{index}", index=index, power_limit_w=limits[node])
            for index in range(2)
        ]
        if draw.random() < 0.03:
            gpus[0]["uuid"] = "GPU-n1-0"
        keys = {
            "node": node,
            "gpus": gpus,
            "node_labels": labels[node],
            "agent": {"version": "1", "cpu_s": draw.random()},
        }
        keys["host"] = {"start_ms": [BEGIN + number * 60_000], "cpu_ratio": [0.5]}
        if node not in words or draw.random() < 0.1:
            words[node] = _words(node, draw)
        keys |= words[node]
        if words[node]:
            if "sources" in words[node]:
                keys["sources"] = [words[node]["sources"][0] | {"seen_ms": BEGIN + number * 60_000}]
            keys["processes"] = [
                {
                    "gpu": 0,
                    "job": 0,
                    "pid": draw.choice((7, 7, 8)),
                    "memory_bytes": draw.randrange(9),
                }
            ]
        if draw.random() < 0.05:
            keys["events"] = [
                {"gpu": 0, "at_ms": BEGIN + number * 60_000, "kind": "xid", "code": 79}
            ]
        if draw.random() < 0.05:
            keys["start_ms"] = draw.choice(
                (NOW_MS + 3_600_000, BEGIN - 50 * 86_400_000, BEGIN - 3_600_000)
            )
        headers = (
            {"x_fleetwatch_sent_ms": str(NOW_MS - draw.choice((0,) * 8 + (1500, 5000)))}
            if draw.random() < 0.5
            else {}
        )
        sent.append((node, pack(step(number, **keys)), headers))
        if draw.random() < 0.15:
            sent.append(draw.choice(sent))
    return sent


def _words(node, draw):
    """What the node says of jobs for a while: often nothing, or an end."""
    if draw.random() < 0.2:
        return {}
    kind, state = (
        draw.choice(("batch",) * 4 + ("service",)),
        draw.choice(("RUNNING",) * 4 + ("COMPLETED",)),
    )
    starts = draw.choice((BEGIN, BEGIN - 86_400_000, None))
    ends = draw.choice((None, None, None, BEGIN + 600_000))
    both = [job(kind=kind, state=state), job(f"slurm/della/{node}", account=draw.choice("ab"))]
    held = draw.choice((1, 2, 2, 2))
    return {
        "sources": [{"kind": "slurm", "ok": draw.random() < 0.8}],
        "jobs": both,
        "allocations": [
            {
                "gpu": place,
                "job": place,
                "start_ms": starts,
                "end_ms": ends,
                "source": "slurm",
                "share": 1.0,
            }
            for place in range(held)
        ],
    }


def rows():
    """Everything that batches leave, by names and not by ids; GPUs and holds as they are once nodes
    no longer speak for them. As views tell holds and answers, they are before that.
    """
    held = [sorted(map(str, rows)) for rows in _by_views()]
    settle(Node.objects.values_list("pk", flat=True))
    speakers = [repeats.Speaker(*row) for row in Node.objects.values_list("pk", "facts_order")]
    repeats.settle(speakers, [], now_ms=NOW_MS)
    assert held == [sorted(map(str, rows)) for rows in _by_views()]
    sequences = dict(Batch.objects.values_list("id", "sequence"))
    names = dict(Node.objects.values_list("pk", "name"))
    return {
        "nodes": list(Node.objects.order_by("name").values("name", "labels", "window_s", "last_ms",
        "last_received_at", "agent",
                                                           "clock_offset_ms", "facts_order")),
        "gpus": list(GPU.objects.order_by("uuid", "node__name").values("uuid", "node__name",
        "power_limit_w", "model__name", "unread",
                                                                      "first_ms", "last_ms",
                                                                      "retired_ms", "facts_order")),
        "received": list(ReceivedSequence.objects.order_by("node__name",
        "boot_id").values("node__name", "boot_id", "boot_start_ms",
                                                                                           "clock_offset_ms", "received")),
        "batches": [{**row, "node_id": names[row["node_id"]], "payload": bytes(row["payload"])}
                    for row in Batch.objects.order_by("id").values(
            "node_id", "sequence", "received_at", "start_ms", "end_ms", "offset_ms", "quarantined",
            "payload", "boot_start_ms")],
        "marks": sorted((names[node], hour, sequences[batch]) for node, hour, batch in
                        SealMark.objects.values_list("node_id", "hour", "batch_id")),
        "touched": {(names[node], hour) for node,
        hour in TouchedHour.objects.values_list("node_id", "hour")},
        "jobs": list(Job.objects.order_by("key").values("key", "kind", "state", "account",
        "team__slug", "start_ms")),
        "records": list(JobRecord.objects.order_by("key", "node__name", "voice").values("key",
        "node__name", "voice", "as_of_ms",
                                                                                        "sequence",
                                                                                        "facts", "held_at", "held_until_ms")),
        "changes": sorted(map(str,
        JobChange.objects.values_list("job__key", "node__name", "at", "voice", "facts",
        "refused"))),
        "intake": list(Intake.objects.order_by("node__name").values("node__name", "hour_ms", "jobs",
        "labels", "teams", "gpu_models",
                                                                    "gpus")),
        "allocations": list(Allocation.objects.order_by("gpu__uuid", "gpu__node__name",
        "job__key").values(
            "gpu__uuid", "gpu__node__name", "job__key", "source", "share", "asserted")),
        "sources": list(SourceReport.objects.order_by("node__name", "kind",
        "ok").values("node__name", "kind", "ok", "asserted")),
        "processes": list(GPUProcess.objects.order_by("gpu__uuid", "gpu__node__name", "pid").values(
            "gpu__uuid", "job__key", "pid", "memory_bytes", "seen_ms")),
        "events": list(HealthEvent.objects.order_by("node__name", "at_ms").values("node__name",
        "gpu__uuid", "at_ms", "kind")),
    }  # fmt: skip


def _by_views():
    return (
        Hold.objects.values_list("id", "held"),
        execute("SELECT id, asserted FROM jobs_answer"),
    )


class UndoneError(Exception):
    """Takes back what one of the ways has stored."""


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_leave_the_same_rows_and_give_the_same_answers(seed):
    bearers = {node: token(node) for node in ("n1", "n2")}
    doors = [DoorClient(), DoorClient()]  # two web processes
    told, left = [], []
    for senders in ([Client()], doors):
        try:
            with transaction.atomic():
                sent = enumerate(story(seed))
                answers = [
                    post(senders[at % len(senders)], body, bearer=bearers[node], **headers)
                    for at, (node, body, headers) in sent
                ]
                told.append([(answer.status_code, answer.json()) for answer in answers])
                left.append(rows())
                raise UndoneError
        except UndoneError:
            pass

    assert told[0] == told[1]
    assert left[0] == left[1]
    assert sum(each.short for each in doors) >= 2
