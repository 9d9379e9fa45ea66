"""Job sources, drains and importers in the API and /metrics."""

import pytest

from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.lib.intervals import to_ms
from tests.api.conftest import NOW
from tests.api.test_health import _key, samples
from tests.ingest.factories import batch, gpu, job

pytestmark = pytest.mark.django_db

MINUTE = 60_000
T0 = to_ms(NOW) - 10 * MINUTE
IMPORT = {
    "gpus": [],
    "windows": {"gpu": [], "start_ms": [], "observed_ms": []},
    "boot_start_ms": 0,
    "sources": [],
}


def report(minute, *, node="n1", kind="slurm", ok=True, why=None, received_at=NOW, **keys):
    sources = [{"kind": kind, "ok": ok, "why": why}]
    said = {
        "start_ms": T0 + minute * MINUTE,
        "count": 6,
        "sequence": minute,
        "gpus": [gpu(f"GPU-{node}")],
        "sources": sources,
    }
    parsed = batch(node=node, **{"boot_start_ms": T0 - 1} | said | keys)
    store_batch(node_by_name(node), parsed, received_at=received_at)


def of_node(api, name="n1"):
    return next(row for row in api.get("/api/v1/nodes").json()["rows"] if row["name"] == name)


def test_a_node_says_whether_its_job_sources_answer(api):
    report(0)
    report(1, ok=False, why="timed out")

    assert of_node(api)["sources"] == [
        {
            "kind": "slurm",
            "ok": False,
            "reported_at": "2026-11-02T23:52:00Z",
            "silent_since": "2026-11-02T23:51:00Z",
            "why": "timed out",
        }
    ]


def test_a_source_that_answers_is_silent_since_never(api):
    report(0)

    assert (
        of_node(api)["sources"][0] | {"kind": "slurm", "ok": True, "silent_since": None, "why": ""}
        == of_node(api)["sources"][0]
    )


def test_a_node_says_since_when_and_why_it_is_drained(api):
    report(0, events=[{"at_ms": T0 + MINUTE, "kind": "drained", "text": "drain: RMA"}])
    report(0, node="n2")

    assert of_node(api)["drained"] == {"since": "2026-11-02T23:51:00Z", "reason": "drain: RMA"}
    assert of_node(api, "n2")["drained"] is None


def test_metrics_count_nodes_by_job_source_and_answer(api):
    report(8, node="n1")
    report(8, node="n2")
    report(8, node="n3", ok=False)
    report(8, node="n4", kind="made-up", ok=False)

    found = samples(api)

    assert found[_key("fleetwatch_job_sources", "slurm", "true")] == 2
    assert found[_key("fleetwatch_job_sources", "slurm", "false")] == 1
    assert found[_key("fleetwatch_job_sources", "other", "false")] == 1


def test_metrics_name_drained_nodes_with_their_reason(api):
    report(
        8,
        events=[
            {"at_ms": T0 + 8 * MINUTE, "kind": "drained", "text": 'drain: "RMA"\n' + "x" * 200}
        ],
    )

    assert (
        samples(api)[_key("fleetwatch_node_drained", "n1", ('drain: "RMA"\n' + "x" * 200)[:100])]
        == 1
    )


def test_an_importer_of_accounting_is_no_node(api):
    report(8, node="gpu-01")
    report(8, node="slurmdbd-host", jobs=[job(start_ms=T0, end_ms=T0 + MINUTE)], **IMPORT)

    assert [row["name"] for row in api.get("/api/v1/nodes").json()["rows"]] == ["gpu-01"]
    assert samples(api)[_key("fleetwatch_nodes", "within_2m")] == 1


def test_a_host_that_imports_and_has_gpus_is_a_node_whichever_comes_first(api):
    for node, order in (("a", (0, 1)), ("b", (1, 0))):
        said = [{"boot_id": "history-1", **IMPORT}, {}]
        for place in order:
            report(8, node=node, **said[place])

    assert [row["name"] for row in api.get("/api/v1/nodes").json()["rows"]] == ["a", "b"]
