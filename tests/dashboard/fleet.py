"""A small fleet with every state, for page tests and screenshots; figures repeat, nothing is
random.
"""

import math
from datetime import datetime, timedelta

import msgspec

from agent import wire
from fleetwatch.alerts.conditions import job_idle
from fleetwatch.alerts.conditions.job_idle import Facts, IdleGPU
from fleetwatch.alerts.models import Rule
from fleetwatch.alerts.shipped_rules import add_missing
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import GPUProcess
from fleetwatch.ledger.models import Entry, Run
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.models import DayMatrix, HealthEvent
from tests import stored_runs
from tests.alerts.factories import an_incident
from tests.dashboard import factories

HOSTILE = "<script>alert(1)</script>"
PEOPLE = (
    ("ann", "nlp-research"),
    ("bo", "vision"),
    ("chen", "recsys-serving"),
    ("dora", "robotics"),
    ("eve", ""),
)
MIXES = (
    {"useful": 60, "underused": 30, "stalled": 10},
    {"useful": 45, "underused": 25, "stalled": 30},
    {"idle": 100},
    {"useful": 80, "underused": 20},
    {"free": 100},
    {"starting": 20, "useful": 70, "underused": 10},
    {"orphaned": 100},
    {"unobserved": 100},
    {"unavailable": 100},
)


def make(*, nodes: int = 8, gpus: int = 8, hours: int = 72, now: datetime = factories.NOW) -> None:
    """Nodes with GPUs, jobs, entries and runs over the last `hours`; the last node has one hostile
    job name.
    """
    model = factories.gpu_model()
    factories.rate("2.49", model=model)
    entries: list[Entry] = []
    runs: list[Run] = []
    for number in range(nodes):
        node = factories.node(
            f"node-{number + 1:03d}",
            now=now,
            labels={"pool": "a", "rack": str(number // 4)},
            clock_offset_ms=0,
        )
        for index in range(gpus):
            gpu = factories.gpu(node, index=index, hours=hours, now=now)
            _history(gpu, number * gpus + index, hours=hours, now=now, entries=entries, runs=runs)
        HealthEvent.objects.create(
            node=node,
            gpu=gpu,
            at_ms=to_ms(now) - 5 * HOUR_MS,
            kind="xid",
            code=79,
            text="GPU has fallen off the bus",
        )
        _matrices(node, now)
    _telemetry(Node.objects.get(name="node-001"), now)
    _incident(now)
    GPUProcess.objects.create(
        gpu=GPU.objects.get(uuid="GPU-node-001-0"),
        pid=22817,
        user="ann",
        name="python " + "x" * 120,
        memory_bytes=60 * 1024**3,
        seen_ms=to_ms(now),
    )
    Entry.objects.bulk_create(entries, batch_size=2000)
    stored_runs.store(*runs)


def _history(gpu, seed, *, hours, now, entries, runs) -> None:
    """Blocks of 4 to 11 hours, each of one mix of states and one holder."""
    ago, block, policy = hours, 0, factories.policy()
    while ago > 0:
        length = min(ago, 4 + (seed * 7 + block * 3) % 8)
        mix = (
            MIXES[(seed * 5 + block * 2) % 9]
            if (seed + block) % 4 == 0
            else MIXES[(seed + block) % 4]
        )
        user, team = PEOPLE[(seed // 4 + block) % 5]
        name = HOSTILE if seed == 0 and block == 0 else f"train-{seed // 4}-{block}"
        held = not {"free", "orphaned", "unavailable", "unobserved"} & mix.keys()
        job = (
            factories.job(
                f"slurm/della/{1000 * (seed + 1) + block}", name=name, user=user, team=team
            )
            if held
            else None
        )
        for hour in range(length):
            for state, share in mix.items():
                gpu_ms = HOUR_MS * share // 100
                entries.append(
                    factories.entry(
                        gpu,
                        hours_ago=ago - hour,
                        state=state,
                        gpu_ms=gpu_ms,
                        held_by=job,
                        now=now,
                        by=policy,
                    )
                )
        states = {state: HOUR_MS * length * share // 100 for state, share in mix.items()}
        runs.append(
            factories.run(gpu, hours_ago=ago, hours=length, states=states, held_by=job, now=now)
        )
        if job is not None:
            factories.hold(gpu, job, hours_ago=ago, hours=length, now=now)
        ago -= length
        block += 1


def _telemetry(node: Node, now: datetime) -> None:
    """Six hours of one-minute windows of the node's first GPU, with half an hour that nobody
    observed.
    """
    gpu = node.gpus.order_by("index")[0]
    at = [minute for minute in range(360) if not 200 <= minute < 230]
    first_ms = to_ms(now) - 6 * HOUR_MS
    wave = [0.5 + 0.45 * math.sin(minute / 25) for minute in at]
    windows = {
        "gpu": [0] * len(at),
        "start_ms": [first_ms + minute * 60_000 for minute in at],
        "observed_ms": [60_000] * len(at),
        "util_mean": wave,
        "sm_active": [value * 0.7 for value in wave],
        "power_w": [120 + 500 * value for value in wave],
        "memory_used_bytes": [int(6e10 + 1e9 * (minute % 7)) for minute in at],
        "temperature_c": [40 + 30 * value for value in wave],
    }
    batch = {
        "version": 1, "node": node.name, "boot_id": "boot-1", "boot_start_ms": first_ms,
        "sequence": 1, "window_s": 60,
        "agent": {"version": "1.0.0", "driver": "580.159.04", "source": "nvml"},
        "gpus": [{"uuid": gpu.uuid, "index": 0}],
        "windows": windows,
    }  # fmt: skip
    store_batch(node, wire.parse(batch), received_at=now)


def _incident(now: datetime) -> None:
    """One open incident of the job with the hostile name."""
    idle = IdleGPU(
        1,
        "GPU-node-001-0",
        "node-001",
        0,
        "H100 SXM",
        "",
        to_ms(now) - 3 * HOUR_MS,
        to_ms(now),
        6.1e10,
        "7.47",
        "2.49",
        False,
    )
    facts = Facts(
        job_key="slurm/della/1000",
        job_name=HOSTILE,
        user="ann",
        team="nlp-research",
        cluster="della",
        scheduler="slurm",
        external_id="1000",
        job_gpus=1,
        minutes=60.0,
        gpus=(idle,),
        labels={"user": ("ann",), "cluster": ("della",), "node": ("node-001",)},
    )
    stored = msgspec.to_builtins(job_idle.breach(facts))
    add_missing(now)
    rule = Rule.objects.get(condition="job_idle")
    an_incident(rule, facts.job_key, opened_at=now, facts=stored)


def _matrices(node, now) -> None:
    gpu_ids = list(node.gpus.order_by("index").values_list("pk", flat=True))
    for metric in ("util", "power", "memory"):
        cells = b"".join(
            bytes(255 if 100 <= cell < 110 else (cell * 3 + row * 31) % 250 for cell in range(288))
            for row in range(len(gpu_ids))
        )
        for day in (now.date(), now.date() - timedelta(days=1)):
            DayMatrix.objects.create(
                node_id=node.pk, day=day, metric=metric, gpu_ids=gpu_ids, cells=cells
            )
