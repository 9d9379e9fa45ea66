"""Nodes and imports that speak of one job, and whose it is then."""

from collections import Counter

from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.services import check_import, store_batch
from fleetwatch.ingest.tokens import NO_RIGHTS
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Allocation, Job
from tests.ingest.factories import NOW, T0, batch, gpu, job

NONE = {"gpu": [], "start_ms": [], "observed_ms": []}
IMPORTER = Rights(may_import=True)
DELLA = Rights(may_import=True, speaks_for="della")
STOLEN = {
    "user": "victim",
    "account": "victim-team",
    "kind": "service",
    "name": "mine",
    "labels": {"project": "victim"},
}


def store(*, node="good", rights=NO_RIGHTS, received_at=NOW, **keys):
    parsed = batch(node=node, **{"gpus": [gpu(f"GPU-{node}")], **keys})
    check_import(parsed, rights, received_at)
    return store_batch(node_by_name(node), parsed, received_at=received_at, rights=rights)


def accounting(*, node="books", rights=IMPORTER, boot_id="history-1", **facts):
    ended = {"state": "FAILED", "start_ms": T0 - 5000, "end_ms": T0 + 30_000}
    return store(
        node=node,
        rights=rights,
        gpus=[],
        windows=NONE,
        boot_id=boot_id,
        boot_start_ms=0,
        jobs=[job(**(ended | facts))],
    )


def the_job(key="slurm/della/1"):
    return Job.objects.select_related("team").get(key=key)


def owners():
    """Whose the jobs are of the only key -> milliseconds that they hold."""
    held_ms = Counter()
    for *names, spans in Allocation.objects.values_list(
        "job__user", "job__account", "job__team__slug", "held"
    ):
        held_ms[tuple(names)] += sum(upper - lower for lower, upper in spans)
    return held_ms


def owner():
    found = the_job()
    return found.user, found.account, found.team.slug, found.kind, found.name, found.labels
