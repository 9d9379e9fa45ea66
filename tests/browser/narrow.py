"""What the tables hold that are widest: tokens and enrolments, a job that two nodes contradict each
other of, a GPU of two nodes, a job with a long name and with dollars of underused time.
"""

from datetime import datetime, timedelta

from fleetwatch.ingest import tokens
from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.inventory.services import node_by_name
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.diagnosis import told
from tests.ingest.factories import NOW, T0, batch, gpu, holding, job

LONG = "gpu-node-0042.rack-07.example.org"
JOB = "/jobs/slurm/della/1"
GPU_UUID = "GPU-8b3f8a9e-3a0e-4a7c-9d53-0c1f4ad4b8f1"


def fill(now: datetime) -> None:
    """All of them, with names as long as real ones."""
    _tokens(now)
    _contradicted_job()
    _disputed_gpu(now)
    _underused_job(now)


def slowed_finding(now: datetime) -> int:
    """The number of one of a GPU that heat slows now, and did when the last seven days began."""
    now_ms = to_ms(now)
    on = factories.gpu(factories.node("h100-03", now=now), uuid="GPU-hot", now=now)
    of = factories.job("slurm/della/78", name="pretrain-13b", user="amara", start_ms=0)
    factories.hold(on, of, hours_ago=200, hours=200, now=now)
    for hours in (*range(160, 177), *range(1, 15)):
        cause = {"start": now - timedelta(hours=hours), "waste": "underused_ms"}
        told.cause("throttled", of=of, on=on, clock_lost_ms=HOUR_MS // 3, **cause)
    seen = {"first_ms": now_ms - 176 * HOUR_MS, "last_ms": now_ms}
    return told.place("throttled", node=on.node, **seen).pk


def _tokens(now: datetime) -> None:
    tokens.create_agent_token("login-01", now, Rights(may_import=True, speaks_for="della"))
    enrolment = tokens.create_enrollment_token(now, uses=10, ttl=timedelta(days=1))
    tokens.enroll(enrolment, "gpu-01", now, address="192.0.2.7")
    tokens.enroll(enrolment, LONG, now, address="2001:db8:1234:5678:9abc:def0:1234:5678")


def _contradicted_job() -> None:
    labels = {"partition": "gpu-large", "qos": "normal", "requested_gpus": "8"}
    for node, start_ms, user in (
        (LONG, T0, "ann"),
        ("evil", T0 + 30_000, "mallory-with-a-long-name"),
    ):
        told = holding(job(user=user, state="RUNNING", end_ms=T0 + 60_000, labels=labels))
        parsed = batch(node=node, start_ms=start_ms, gpus=[gpu(f"GPU-{node}")], **told)
        store_batch(node_by_name(node), parsed, received_at=NOW)


def _disputed_gpu(now: datetime) -> None:
    now_ms = to_ms(now)
    here = factories.gpu(
        factories.node("gpu-node-0043.rack-07.example.org", now=now), uuid=GPU_UUID, now=now
    )
    there = GPU.objects.create(node=node_by_name(LONG), uuid=GPU_UUID, model=here.model)
    Stay.objects.create(
        gpu=here, uuid=GPU_UUID, first_ms=now_ms - HOUR_MS, last_ms=now_ms, is_believed=True
    )
    Stay.objects.create(
        gpu=there, uuid=GPU_UUID, first_ms=now_ms, last_ms=now_ms + 60_000, is_believed=False
    )


def _underused_job(now: datetime) -> None:
    """For 20 hours on one GPU at $2.00, a tenth of it idle."""
    on = factories.gpu(factories.node("gpu-07", now=now), uuid="GPU-wide", now=now)
    of = factories.job(
        "slurm/della/77",
        name="finetune-llama3-70b-lora-r16",
        user="svc-inference",
        start_ms=to_ms(now) - 20 * HOUR_MS,
    )
    factories.hold(on, of, hours_ago=20, hours=20, now=now)
    for hour in range(1, 21):
        for state, part in (("underused", 9), ("idle", 1)):
            factories.entry(
                on,
                hours_ago=hour,
                state=state,
                gpu_ms=HOUR_MS * part // 10,
                held_by=of,
                now=now,
                **({"tier": "certain"} if state == "idle" else {}),
            ).save()
