"""A node whose batches repeat what it said of jobs speaks for its holds: they go on, and nothing of
them is written until something else is said.
"""

from datetime import timedelta

import pytest

from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.models import Node, RecalledNode
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs import selectors
from fleetwatch.jobs.models import Allocation, GPUProcess, Hold, Job, JobRecord, SourceReport
from fleetwatch.jobs.outcomes import running_ids
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry.models import TouchedHour
from tests.ingest.factories import NOW, NOW_MS, batch, gpu, job, payload, post, token
from tests.ingest.wsgi import DoorClient
from tests.ledger.balance import unbalanced

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
BEGIN = NOW_MS - 3 * 3_600_000
MINUTE = 60_000
SLURM = [{"kind": "slurm", "ok": True, "seen_ms": BEGIN}]
NO_WINDOWS = {"gpu": [], "start_ms": [], "observed_ms": []}


@pytest.fixture
def client():
    return DoorClient()


@pytest.fixture
def bearer():
    return token()


def at(minute, *, state="RUNNING", start_ms=BEGIN, end_ms=None, **keys):
    """The node's batch of that minute, in which the job holds its GPU."""
    held = {"gpu": 0, "job": 0, "source": "slurm", "start_ms": start_ms, "end_ms": end_ms}
    return payload(
        **{
            "sequence": minute,
            "start_ms": BEGIN + minute * MINUTE,
            "count": 6,
            "sources": SLURM,
            "jobs": [job(state=state, start_ms=start_ms)],
            "allocations": [held],
            **keys,
        }
    )


def held():
    """By node, when its GPUs were held, in minutes."""
    return {
        node: [((low - BEGIN) / MINUTE, (high - BEGIN) / MINUTE) for low, high in spans]
        for node, spans in Hold.objects.values_list("gpu__node__name", "held")
    }


def accounting(**facts):
    """An import of the job's accounting, by a token that may."""
    ended = {"state": "COMPLETED", "start_ms": BEGIN, **facts}
    said = batch(node="books", gpus=[], windows=NO_WINDOWS, boot_id="import", jobs=[job(**ended)])
    store_batch(node_by_name("books"), said, received_at=NOW, rights=Rights(may_import=True))


def test_a_hold_goes_on_with_each_batch_that_repeats_it(client, bearer):
    for minute in range(4):
        post(client, at(minute), bearer=bearer)

    [written] = Allocation.objects.all()
    assert (client.long, client.short) == (1, 3)
    assert written.held == [(BEGIN, BEGIN + MINUTE)]
    assert held() == {"n1": [(0, 4)]}


def test_the_ledger_counts_it_as_held(client, bearer):
    for minute in range(4):
        post(client, at(minute), bearer=bearer)

    ledger.post(NOW, 1000)

    assert sum(Entry.objects.exclude(job=None).values_list("gpu_ms", flat=True)) == 4 * MINUTE
    assert unbalanced(NOW - timedelta(hours=4), NOW + timedelta(hours=1), now=NOW) == []


def test_what_was_repeated_is_written_before_something_else_is_said(client, bearer):
    for minute in range(3):
        post(client, at(minute), bearer=bearer)

    post(client, at(3, jobs=[], allocations=[]), bearer=bearer)

    assert Allocation.objects.get().held == [(BEGIN, BEGIN + 3 * MINUTE)]
    assert SourceReport.objects.get().asserted == [(BEGIN, BEGIN + 4 * MINUTE)]
    record = JobRecord.objects.get()
    assert (record.as_of_ms, record.sequence) == (BEGIN + 3 * MINUTE, 2)
    assert record.held_until_ms == BEGIN + 3 * MINUTE
    assert held() == {"n1": [(0, 3)]}


def test_who_begins_another_job_repeats_both_from_then_on(client, bearer):
    both = [gpu(), gpu("GPU-2", index=1)]
    other = {"gpu": 1, "job": 1, "source": "slurm", "start_ms": BEGIN + 2 * MINUTE}
    for minute in range(2):
        post(client, at(minute, gpus=both), bearer=bearer)
    for minute in range(2, 5):
        more = at(minute, gpus=both)
        more["jobs"].append(job("slurm/della/2", state="RUNNING"))
        more["allocations"].append(other)
        post(client, more, bearer=bearer)

    assert client.short == 4
    assert sorted(
        (key, (spans[0][0] - BEGIN) / MINUTE, (spans[0][1] - BEGIN) / MINUTE)
        for key, spans in Hold.objects.values_list("job__key", "held")
    ) == [("slurm/della/1", 0, 5), ("slurm/della/2", 2, 5)]


def test_a_hold_without_a_start_has_the_hole_between_batches(client, bearer):
    for minute in (0, 1, 3):
        post(client, at(minute, start_ms=None), bearer=bearer)

    assert client.short == 1
    assert held() == {"n1": [(0, 2), (3, 4)]}


def test_a_batch_that_follows_without_a_hole_by_a_window_less_repeats(client, bearer):
    post(client, at(0), bearer=bearer)
    late = at(1)
    late["windows"]["start_ms"][0] = BEGIN + MINUTE - 1
    post(client, late, bearer=bearer)
    hole = at(2)
    hole["windows"]["start_ms"][0] += 1
    post(client, hole, bearer=bearer)

    assert (client.long, client.short) == (2, 1)


@pytest.mark.parametrize(
    "keys",
    [
        {"end_ms": BEGIN + 30_000},
        {"jobs": [job(state="RUNNING", end_ms=BEGIN + 30_000)]},
        {"allocations": []},  # the job is named, and the node does not hold it
    ],
)
def test_what_does_not_simply_go_on_is_not_repeated(client, bearer, keys):
    for minute in range(3):
        post(client, at(minute, **keys), bearer=bearer)

    assert Node.objects.get().repeated_from_ms is None
    assert set(JobRecord.objects.values_list("as_of_ms", flat=True)) == {BEGIN + 3 * MINUTE}


def test_an_end_told_by_accounting_cuts_what_is_repeated_on(client, bearer):
    for minute in range(5):
        post(client, at(minute), bearer=bearer)
    ledger.post(NOW, 1000)

    accounting(end_ms=BEGIN + 2 * MINUTE)

    assert held()["n1"] == [(0, 2)]
    assert Job.objects.get().end_ms == BEGIN + 2 * MINUTE
    assert TouchedHour.objects.filter(node_id=Node.objects.get(name="n1").pk).exists()
    ledger.post(NOW, 1000)
    assert sum(Entry.objects.exclude(job=None).values_list("gpu_ms", flat=True)) == 2 * MINUTE


def test_who_is_not_believed_any_more_is_recalled_and_heard_again(client, bearer):
    for minute in range(3):
        post(client, at(minute), bearer=bearer)
    other = token("n2")
    done = at(3, node="n2", gpus=[gpu("GPU-n2")], state="COMPLETED")
    post(client, done, bearer=other)
    believed = Job.objects.get().state
    recalled = list(RecalledNode.objects.values_list("node__name", flat=True))

    post(client, at(4), bearer=bearer)

    assert (believed, recalled) == ("COMPLETED", ["n1"])
    assert Job.objects.get().state == "RUNNING"
    assert list(RecalledNode.objects.values_list("node__name", flat=True)) == ["n2"]
    assert (client.long, client.short) == (3, 2)
    post(client, at(5), bearer=bearer)
    assert client.short == 3


def test_who_is_not_believed_repeats_nothing(client, bearer):
    other = token("n2")
    post(client, at(9, node="n2", gpus=[gpu("GPU-n2")], state="COMPLETED"), bearer=other)

    for minute in range(3):
        post(client, at(minute), bearer=bearer)

    node = Node.objects.get(name="n1")
    assert node.repeated_from_ms is None
    assert JobRecord.objects.get(node=node).as_of_ms == BEGIN + 3 * MINUTE


def test_a_mark_of_who_repeats_nothing_is_gone_with_the_next_batch(client, bearer):
    post(client, at(0), bearer=bearer)
    RecalledNode.objects.create(node=Node.objects.get())

    for minute in range(1, 3):
        post(client, at(minute), bearer=bearer)

    assert (client.long, client.short) == (2, 1)
    assert not RecalledNode.objects.exists()


def test_nodes_of_one_job_that_say_the_same_do_not_recall_each_other(client, bearer):
    other = token("n2")
    for minute in range(4):
        post(client, at(minute), bearer=bearer)
        post(client, at(minute, node="n2", gpus=[gpu("GPU-n2")]), bearer=other)

    assert (client.long, client.short) == (2, 6)
    assert held() == {"n1": [(0, 4)], "n2": [(0, 4)]}


def test_what_a_job_held_by_node_has_what_is_repeated(client, bearer):
    for minute in range(4):
        post(client, at(minute), bearer=bearer)

    held_by_node = selectors.held_by_node(Job.objects.values_list("pk", flat=True))

    assert held_by_node == {Node.objects.get().pk: [(BEGIN, BEGIN + 4 * MINUTE)]}


def test_a_job_that_is_repeated_runs(client, bearer):
    for minute in range(20):
        post(client, at(minute), bearer=bearer)

    assert running_ids() == [Job.objects.get().pk]
    assert client.short == 19


def test_a_source_that_is_repeated_answers_until_now(client, bearer):
    for minute in range(20):
        post(client, at(minute), bearer=bearer)

    node = Node.objects.get()
    [source] = selectors.job_sources([node.pk])[node.pk]
    [answered] = selectors.source_status_of([node.pk], BEGIN, NOW_MS)[node.pk]
    assert (source.is_ok, source.reported_ms) == (True, BEGIN + 20 * MINUTE)
    assert answered.spans == [(BEGIN, BEGIN + 20 * MINUTE)]


def test_a_source_that_stops_to_answer_is_no_repetition(client, bearer):
    for minute in range(3):
        post(client, at(minute), bearer=bearer)
    why = [{"kind": "slurm", "ok": False, "seen_ms": BEGIN, "why": "timeout"}]

    post(client, at(3, sources=why), bearer=bearer)

    node = Node.objects.get()
    [source] = selectors.job_sources([node.pk])[node.pk]
    assert (source.silent_ms, source.why) == (BEGIN + 3 * MINUTE, "timeout")
    assert client.short == 3


def test_processes_keep_their_job_by_the_short_way(client, bearer):
    for minute in range(3):
        process = {"gpu": 0, "job": 0, "pid": 7 + minute, "memory_bytes": 5}
        post(client, at(minute, processes=[process]), bearer=bearer)

    assert client.short == 2
    assert GPUProcess.objects.values_list("pid", "job__key").get() == (9, "slurm/della/1")


def test_what_a_node_repeats_stays_when_it_falls_silent(client, bearer):
    for minute in range(3):
        post(client, at(minute), bearer=bearer)

    assert selectors.holdings(Node.objects.get().pk, BEGIN, NOW_MS)[0].spans == [
        (BEGIN, BEGIN + 3 * MINUTE)
    ]
    assert from_ms(BEGIN + 3 * MINUTE) < NOW
