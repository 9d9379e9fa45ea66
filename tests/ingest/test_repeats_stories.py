"""The same random stories of shared jobs by both ways, after each of them the same rows: imports and
rights, several voices and users of one key, requeued jobs, GPUs that move, nodes that are removed.
"""

import random

import pytest
from django.db import transaction
from django.test import Client

from fleetwatch.ingest.models import AgentToken, Rights
from fleetwatch.ingest.services import RemovalError, remove_node
from fleetwatch.ingest.tokens import create_agent_token, set_rights
from fleetwatch.jobs import selectors
from fleetwatch.jobs.models import Allocation, GPUProcess, Hold, Job, RunEnd
from fleetwatch.jobs.outcomes import running_ids
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import from_ms
from tests.ingest.factories import BEGIN, NOW, gpu, job, payload, post
from tests.ingest.test_both_ways import rows
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
MINUTE = 60_000
NODES = ("n1", "n2", "n3")
KEYS = ("slurm/della/1", "slurm/della/2", "slurm/other/3")
NO_WINDOWS = {"gpu": [], "start_ms": [], "observed_ms": []}


class UndoneError(Exception):
    """Takes back what one of the ways has stored."""


def story(seed):
    """(minute, what, node, content) of about 60 things that happen to three nodes and the hub."""
    draw = random.Random(seed)
    words, at_minute, sequence = {}, dict.fromkeys(NODES, 0), dict.fromkeys((*NODES, "books"), 0)
    clock = 0
    events, late = [], []
    for _ in range(60):
        clock += draw.random() * 0.5
        chance = draw.random()
        if chance < 0.04:
            sequence["books"] += 1
            events.append((clock, "batch", "books", _accounting(draw, clock, sequence["books"])))
        elif chance < 0.05:
            rights = Rights(draw.random() < 0.5, draw.choice(("", "della")))
            events.append((clock, "rights", draw.choice((*NODES, "books")), rights))
        elif chance < 0.06:
            events.append((clock, "remove", draw.choice(NODES), None))
        elif chance < 0.07:
            events.append((clock, "post", "", None))
        else:
            node = draw.choice(NODES)
            at_minute[node] += 1 if draw.random() < 0.97 else draw.choice((2, 3, 14))
            sequence[node] += 1
            if node not in words or draw.random() < 0.12:
                words[node] = _words(draw, node, at_minute[node])
            body = _batch(draw, node, sequence[node], at_minute[node], words[node])
            clock = max(clock, at_minute[node] + 1)
            if draw.random() < 0.05:
                late.append((node, body))
                continue
            events.append((clock, "batch", node, body))
        if late and draw.random() < 0.2:
            node, body = late.pop()
            events.append((clock, "batch", node, body))
    return events


def _batch(draw, node, sequence, minute, words):
    gpus = [gpu(f"GPU-{node}-{index}", index=index) for index in range(2)]
    if draw.random() < 0.02:
        gpus[0]["uuid"] = "GPU-n1-0"
    start_ms = BEGIN + minute * MINUTE
    body = payload(node=node, sequence=sequence, start_ms=start_ms, count=6, gpus=gpus, **words)
    if body.get("jobs") and draw.random() < 0.7:
        place = draw.randrange(len(body["jobs"]))
        body["processes"] = [
            {"gpu": 0, "job": place, "pid": draw.choice((7, 8)), "memory_bytes": 5}
        ]
    return body


def _words(draw, node, minute):
    """What the node says of jobs for a while."""
    if draw.random() < 0.1:
        return {}
    now_ms = BEGIN + minute * MINUTE
    keys = draw.sample(KEYS, draw.choice((1, 1, 2, 3)))
    jobs = [_job(draw, key, now_ms) for key in keys]
    allocations = []
    for place in range(len(jobs)):
        for card in draw.sample((0, 1), draw.choice((0, 1, 1, 2))):
            allocations.append(
                {
                    "gpu": card,
                    "job": place,
                    "source": draw.choice(("slurm", "slurm", "slurm", "process", "declared")),
                    "start_ms": draw.choice((None, None, BEGIN, now_ms, now_ms + MINUTE)),
                    "end_ms": draw.choice((None,) * 7 + (now_ms + draw.choice((30_000, 150_000)),)),
                    "share": draw.choice((None, 1.0)),
                }
            )
    for each in allocations:
        if each["end_ms"] and each["start_ms"] and each["end_ms"] < each["start_ms"]:
            each["end_ms"] = None
    is_ok = draw.random() < 0.8
    source = {"kind": "slurm", "ok": is_ok, "seen_ms": now_ms}
    if not is_ok:
        source["why"] = draw.choice(("timeout", "refused"))
    return {"jobs": jobs, "allocations": allocations, "sources": [source]}


def _job(draw, key, now_ms):
    ended = draw.random() < 0.1
    start_ms = draw.choice((None, BEGIN, BEGIN, now_ms - 30_000))
    end_ms = now_ms + draw.choice((-30_000, 10_000)) if ended else None
    if start_ms is not None and end_ms is not None:
        end_ms = max(start_ms, end_ms)
    return job(
        key,
        user=draw.choice(("ann", "ann", "ann", "bob", None)),
        account=draw.choice(("nlp", "nlp", "vision")),
        state=draw.choice(("RUNNING",) * 6 + ("COMPLETED", "SUSPENDED")),
        kind=draw.choice(("batch",) * 5 + ("service",)),
        name=draw.choice(("a", "a", "b", "")),
        restarts=draw.choice((0, 0, 0, 1)),
        start_ms=start_ms,
        end_ms=end_ms,
        labels=draw.choice(({}, {"partition": "x"}, {"partition": "y"})),
    )


def _accounting(draw, clock, sequence):
    now_ms = BEGIN + int(clock * MINUTE)
    end_ms = draw.choice((None, now_ms - 5 * MINUTE, now_ms - 30_000, now_ms + 2 * MINUTE))
    start_ms = BEGIN - MINUTE if end_ms is not None else draw.choice((BEGIN, now_ms))
    return payload(
        node="books",
        gpus=[],
        windows=NO_WINDOWS,
        sequence=sequence,
        boot_id="import",
        jobs=[
            job(
                draw.choice(KEYS),
                user=draw.choice(("ann", "bob", "carol")),
                state="RUNNING" if end_ms is None else "COMPLETED",
                start_ms=start_ms,
                end_ms=end_ms,
                restarts=draw.choice((0, 0, 1)),
            )
        ],
    )


def tell(story, senders, bearers, clock):
    """The answers; what the hub knows in between of who holds what, too."""
    answers = []
    for place, (minute, what, node, content) in enumerate(story):
        now = from_ms(BEGIN + int(minute * MINUTE) + 1000)
        clock.move_to(now)
        if what == "batch":
            answer = post(senders[place % len(senders)], content, bearer=bearers[node])
            answers.append((place, answer.status_code, answer.json()))
        elif what == "rights":
            set_rights(AgentToken.objects.get(node__name=node).pk, content)
        elif what == "remove":
            try:
                remove_node(node, reason="sold", by="ann", now=now)
            except RemovalError as error:
                answers.append((place, str(error)))
        else:
            ledger.post(now, 1000)
        answers.append((place, _seen()))
    return answers


def _seen():
    """As readers see it after each step, before anything is settled."""
    held = sorted(
        map(
            str,
            Hold.objects.values_list(
                "gpu__uuid", "gpu__node__name", "job__key", "source", "share", "held"
            ),
        )
    )
    jobs = list(
        map(
            str,
            Job.objects.order_by("key").values_list(
                "key",
                "user",
                "account",
                "state",
                "name",
                "start_ms",
                "end_ms",
                "restarts",
                "kind",
                "labels",
            ),
        )
    )
    processes = sorted(
        map(
            str,
            GPUProcess.objects.values_list(
                "gpu__uuid", "gpu__node__name", "job__key", "pid", "seen_ms"
            ),
        )
    )
    running = sorted(Job.objects.filter(pk__in=running_ids()).values_list("key", flat=True))
    names = dict(AgentToken.objects.values_list("node_id", "node__name"))
    sources = sorted(
        (names[node], *map(str, each)) for node, each in selectors.job_sources(list(names)).items()
    )
    return held, jobs, processes, running, sources


def more_rows():
    # what the short way brings counts in no table
    left = {name: sorted(map(str, each)) for name, each in rows().items() if name != "intake"}
    return {
        **left,
        "ends": sorted(
            map(
                str,
                RunEnd.objects.values_list(
                    "job__key",
                    "node__name",
                    "gpu__uuid",
                    "source",
                    "start_ms",
                    "end_ms",
                    "is_cluster",
                    "as_of_ms",
                    "sequence",
                ),
            )
        ),
        "cuts": sorted(
            map(
                str,
                Allocation.objects.values_list(
                    "gpu__uuid",
                    "gpu__node__name",
                    "job__key",
                    "source",
                    "share",
                    "asserted",
                    "ended",
                    "starts",
                    "held",
                ),
            )
        ),
        "jobs_whole": _seen()[1],
        "users": sorted(map(str, Job.objects.values_list("key", "user"))),
    }


def posted():
    ledger.post(NOW, 1000)
    return sorted(
        map(
            str,
            Entry.objects.values_list(
                "gpu__uuid", "start", "job__key", "state", "reason", "gpu_ms"
            ),
        )
    )


@pytest.mark.parametrize("seed", range(3))
def test_stories_of_shared_jobs_leave_the_same_by_both_ways(seed, clock):
    rights = {
        "books": Rights(True, random.Random(seed).choice(("", "della"))),
        "n3": Rights(False, "della"),
    }
    clock.move_to(from_ms(BEGIN))
    bearers = {
        node: create_agent_token(node, from_ms(BEGIN), rights.get(node, Rights()))
        for node in (*NODES, "books")
    }
    doors = [DoorClient(), DoorClient()] if seed % 2 else [DoorClient()]
    answers, left = [], []
    for senders in ([Client()], doors):
        try:
            with transaction.atomic():
                answers.append(tell(story(seed), senders, bearers, clock))
                clock.move_to(NOW)
                left.append({**more_rows(), "posted": posted()})
                raise UndoneError
        except UndoneError:
            pass

    for long, short in zip(*answers, strict=True):
        assert long == short
    for name, rows_ in left[0].items():
        assert (name, rows_) == (name, left[1][name])
    assert sum(each.short for each in doors) >= 2
