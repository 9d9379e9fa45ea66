"""What an import of accounting says of jobs: a batch without windows, for no GPU."""

import itertools
from datetime import timedelta

import pytest

from agent import config
from agent.history import import_file
from agent.sending.payloads import batch_of
from agent.sending.sender import Outcome, Verdict
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Job, JobRecord
from fleetwatch.jobs.records import OUTCOME_LAG_MS
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry.models import ReceivedSequence, TouchedHour
from fleetwatch.telemetry.services import ClockBounds
from tests.ingest.factories import NOW, T0, batch, holding, job

pytestmark = pytest.mark.django_db
END = T0 + 30_000
FACTS = ("state", "kind", "name", "user", "account", "team__slug", "end_ms", "labels", "restarts")
NONE = {"gpu": [], "start_ms": [], "observed_ms": []}
ENDED = {
    "state": "FAILED",
    "submit_ms": T0 - 9000,
    "start_ms": T0 - 5000,
    "end_ms": END,
    "labels": {"requested_gpus": "2"},
}


def store(*, received_at=NOW, **keys):
    parsed = batch(**keys)
    return store_batch(node_by_name("n1"), parsed, received_at=received_at)


def agent(*, start_ms=T0, sequence=1, received_at=NOW, **facts):
    """Three windows of an agent that calls the job running."""
    running = {
        "state": "RUNNING",
        "start_ms": T0 - 5000,
        "kind": "interactive",
        "name": "train",
        "labels": {"partition": "gpu"},
    }
    return store(
        start_ms=start_ms,
        sequence=sequence,
        received_at=received_at,
        **holding(job(**(running | facts))),
    )


def history(**facts):
    return store(
        gpus=[],
        windows=NONE,
        boot_id="history-1",
        boot_start_ms=0,
        sequence=0,
        jobs=[job(**(ENDED | facts))],
    )


def the_job():
    return Job.objects.select_related("team").get()


def test_an_imported_job_has_its_outcome_and_what_it_asked_for():
    history()

    found = the_job()
    assert (found.key, found.state, found.user, found.team.slug, found.kind) == (
        "slurm/della/1",
        "FAILED",
        "ann",
        "nlp",
        "batch",
    )
    assert (found.submit_ms, found.start_ms, found.end_ms, found.labels) == (
        T0 - 9000,
        T0 - 5000,
        END,
        {"requested_gpus": "2"},
    )


def test_an_import_completes_what_the_agent_said_and_keeps_the_kind():
    agent()
    history(name="", labels={"requested_gpus": "2", "partition": "big"})

    found = the_job()
    assert (found.state, found.end_ms, found.kind, found.name) == (
        "FAILED",
        END,
        "interactive",
        "train",
    )
    assert found.labels == {"partition": "big", "requested_gpus": "2"}


def test_the_order_of_import_and_agents_does_not_matter():
    seen = []
    told = [
        agent,
        lambda: agent(start_ms=T0 + 30_000, sequence=2),
        lambda: history(name="", labels={"requested_gpus": "2"}),
    ]
    for order in itertools.permutations(told):
        Job.objects.all().delete()
        JobRecord.objects.all().delete()
        for tell in order:
            tell()
        seen.append(Job.objects.values(*FACTS).get())
        forget()

    assert all(one == seen[0] for one in seen)
    assert (seen[0]["state"], seen[0]["kind"], seen[0]["name"]) == (
        "FAILED",
        "interactive",
        "train",
    )


def forget():
    """So that the next round is no duplicate."""
    ReceivedSequence.objects.all().delete()


@pytest.mark.parametrize(
    ("after_ms", "state"),
    [(OUTCOME_LAG_MS - 1, "FAILED"), (OUTCOME_LAG_MS, "RUNNING"), (OUTCOME_LAG_MS + 1, "RUNNING")],
)
def test_a_later_run_of_the_same_job_is_told_by_the_agent(after_ms, state):
    history()
    agent(
        start_ms=END + after_ms - 30_000,
        sequence=2,
        restarts=1,
        received_at=NOW + timedelta(minutes=1),
    )

    assert the_job().state == state


def test_importing_twice_changes_nothing():
    first, second = history(), history()

    assert (first.duplicate, second.duplicate, Job.objects.count()) == (0, 1, 1)


def test_an_import_marks_no_hours_and_moves_no_node():
    agent()
    TouchedHour.objects.all().delete()
    node = node_by_name("n1")
    before = (node.last_ms, node.labels, node.agent, node.facts_order)
    history()

    node = node_by_name("n1")
    assert (node.last_ms, node.labels, node.agent, node.facts_order) == before
    assert not TouchedHour.objects.exists()


def test_a_job_without_an_end_is_told_by_whoever_sees_it_later():
    history(state="RUNNING", end_ms=None)
    agent(name="later")

    assert (the_job().state, the_job().name) == ("RUNNING", "later")


def test_a_clock_that_is_wrong_on_the_importing_node_moves_no_job():
    parsed = batch(gpus=[], windows=NONE, boot_id="history-1", boot_start_ms=0, jobs=[job(**ENDED)])
    wrong = ClockBounds(to_ms(NOW), to_ms(NOW))
    store_batch(node_by_name("n1"), parsed, clock=wrong, received_at=NOW)

    assert the_job().end_ms == END


def test_a_host_that_reads_no_gpu_holds_none_and_speaks_for_no_job():
    host = {"start_ms": [T0], "cpu_ratio": [0.5]}
    store(gpus=[], windows=NONE, host=host, sequence=1, jobs=[job(state="PENDING")])

    assert not Job.objects.exists()


def test_from_a_file_of_sacct_to_the_api(tmp_path, client, django_user_model):
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobID|JobIDRaw|User|Account|State|Start|End|ReqTRES|AllocTRES|ExitCode\n"
        "500_7|503|ann|nlp|OUT_OF_MEMORY|2026-11-20T09:00:00|2026-11-20T10:00:00|cpu=8,gres/gpu=2|cpu=8,gres/gpu=2|0:125\n"
        "500_7.batch|503.batch||nlp|OUT_OF_MEMORY|2026-11-20T09:00:00|2026-11-20T10:00:00||cpu=8|0:125\n"
    )
    arguments = [
        "history",
        str(path),
        "--server",
        "http://hub",
        "--token",
        "t",
        "--node",
        "n1",
        "--cluster",
        "della",
    ]

    def deliver(payload):
        stored = store_batch(node_by_name("n1"), batch_of(payload), received_at=NOW)
        return Outcome(Verdict.ACCEPTED, text=str(stored), status=200)

    chosen = config.parse(arguments, {"HOME": str(tmp_path)})
    for _ in range(2):
        assert import_file(path, chosen, deliver) == 1
    client.force_login(django_user_model.objects.create(username="vera", role="engineer"))
    answer = client.get("/api/v1/jobs/slurm/della/503").json()

    assert (answer["state"], answer["start_at"], answer["end_at"]) == (
        "OUT_OF_MEMORY",
        "2026-11-20T09:00:00Z",
        "2026-11-20T10:00:00Z",
    )
    assert (answer["user"], answer["team"], answer["restarts"]) == ("ann", "nlp", 0)
    assert answer["labels"] == {
        "requested_gpus": "2",
        "requested_cpus": "8",
        "allocated_gpus": "2",
        "exit_code": "0:125",
        "array_job": "500",
        "array_task": "7",
    }
