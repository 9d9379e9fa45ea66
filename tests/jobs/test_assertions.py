import pytest
from django.db import connection

from fleetwatch.accounts.models import Team
from fleetwatch.figures.totals import WHY
from fleetwatch.inventory.services import node_by_name, register_batch
from fleetwatch.jobs import selectors
from fleetwatch.jobs.batch_report import Report
from fleetwatch.jobs.job_writes import store_jobs
from fleetwatch.jobs.models import Allocation, GPUProcess, Job
from fleetwatch.jobs.selectors import HOLDINGS, Holding, SourceSpans, holdings, source_status_of
from fleetwatch.jobs.services import assert_allocations, assert_sources, store_processes
from fleetwatch.lib.sql import execute
from tests.ingest.factories import NOW, T0, batch, gpu, holding, job

pytestmark = pytest.mark.django_db


def assert_batch(*, node="n1", offset_ms=0, **keys):
    """(changed spans, jobs) after everything of jobs in the batch was stored."""
    parsed = batch(node=node, **keys)
    row = node_by_name(node)
    gpus = register_batch(row, parsed, offset_ms=offset_ms, received_at=NOW).gpus
    reports = [Report(row.pk, parsed, [gpus[place].pk for place in range(len(gpus))], offset_ms)]
    jobs = store_jobs(reports, received_at=NOW).jobs
    changed = assert_allocations(reports, jobs)
    assert_sources(reports)
    store_processes(reports, jobs)
    return changed, [
        jobs[row.pk, job["key"]] for job in parsed.jobs if (row.pk, job["key"]) in jobs
    ]


def held(**facts):
    return {"jobs": [job()], "allocations": [{"gpu": 0, "job": 0, "source": "slurm", **facts}]}


def spans():
    return [row.held for row in Allocation.objects.order_by("pk")]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, (T0, T0 + 30_000)),
        ({"start_ms": T0 - 5000}, (T0 - 5000, T0 + 30_000)),
        ({"start_ms": T0 + 5000, "end_ms": T0 + 25_000}, (T0 + 5000, T0 + 25_000)),
        ({"end_ms": T0 + 90_000}, (T0, T0 + 30_000)),
    ],
)
def test_an_allocation_is_asserted_from_its_start_to_its_end_or_the_last_window(facts, expected):
    changed, _ = assert_batch(**held(**facts))

    assert spans() == [[expected]]
    assert {span for _, span in changed} == {expected}


@pytest.mark.parametrize(
    "facts", [{"end_ms": T0}, {"start_ms": T0 + 30_000}, {"start_ms": T0 + 5, "end_ms": T0 + 5}]
)
def test_an_allocation_outside_of_its_batch_asserts_nothing(facts):
    changed, _ = assert_batch(**held(**facts))

    assert (spans(), changed) == ([], set())


def test_assertions_are_united_and_only_the_new_time_is_reported():
    assert_batch(sequence=1, **held())
    changed, _ = assert_batch(sequence=2, start_ms=T0 + 60_000, **held(start_ms=T0))
    again, _ = assert_batch(sequence=3, start_ms=T0 + 60_000, **held(start_ms=T0))

    assert spans() == [[(T0, T0 + 90_000)]]
    assert {span for _, span in changed} == {(T0 + 30_000, T0 + 90_000)}
    assert again == set()


def test_an_assertion_that_says_nothing_new_writes_nothing():
    assert_batch(**held())
    row = (
        "SELECT xmin::text FROM jobs_allocation UNION ALL SELECT xmin::text FROM jobs_sourcereport"
    )
    with connection.cursor() as cursor:
        before = cursor.execute(row).fetchall()

        assert_batch(sequence=2, **held())

        after = cursor.execute(row).fetchall()
    assert before == after


def test_a_gap_stays_a_gap():
    assert_batch(sequence=1, **held())
    assert_batch(sequence=2, start_ms=T0 + 60_000, **held())

    assert spans() == [[(T0, T0 + 30_000), (T0 + 60_000, T0 + 90_000)]]


def test_times_are_corrected():
    assert_batch(offset_ms=-3000, **held(start_ms=T0 + 1000, end_ms=T0 + 2000))

    assert spans() == [[(T0 - 2000, T0 - 1000)]]


@pytest.mark.parametrize("share", [None, 1, 0.1, 1 / 3, 5e-324, 0.30000000000000004])
def test_a_share_comes_back_with_the_bits_it_had(share):
    assert_batch(**held(share=share))

    assert [row.share for row in Allocation.objects.all()] == [share]


def test_time_on_both_sides_of_what_was_asserted_is_reported_as_two_spans():
    assert_batch(**held(start_ms=T0 + 10_000, end_ms=T0 + 20_000))

    changed, _ = assert_batch(sequence=2, count=4, **held(start_ms=T0 - 5000))

    assert {span for _, span in changed} == {(T0 - 5000, T0 + 10_000), (T0 + 20_000, T0 + 40_000)}
    assert spans() == [[(T0 - 5000, T0 + 40_000)]]


def test_shares_are_apart_and_unknown_is_not_one():
    jobs = [job(), job("slurm/della/2")]
    allocations = [
        {"gpu": 0, "job": 0, "source": "slurm", "share": 0.25},
        {"gpu": 0, "job": 1, "source": "slurm"},
        {"gpu": 0, "job": 1, "source": "slurm"},
    ]
    assert_batch(jobs=jobs, allocations=allocations)

    assert list(Allocation.objects.order_by("job__key").values_list("job__key", "share")) == [
        ("slurm/della/1", 0.25),
        ("slurm/della/2", None),
    ]


def test_holdings_show_where_an_allocation_truly_began():
    _, jobs = assert_batch(sequence=1, **held(start_ms=T0 - 10_000))
    assert_batch(sequence=2, start_ms=T0 + 60_000, **held())
    node, gpu_id = node_by_name("n1"), Allocation.objects.get().gpu_id

    assert holdings(node.pk, T0, T0 + 10_000) == [
        Holding(gpu_id, jobs[0].pk, "batch", "slurm", None, [(T0 - 10_000, T0 + 30_000)])
    ]
    assert holdings(node.pk, T0 + 30_000, T0 + 60_000) == []
    assert holdings(node.pk + 1, T0, T0 + 10_000) == []


def test_who_asks_of_a_day_reads_no_older_holds():
    jobs = [job(f"slurm/della/{number}") for number in range(40)]
    for sequence in range(20):
        allocations = [{"gpu": 0, "job": number, "source": "slurm"} for number in range(40)]
        start_ms = T0 + sequence * 3_600_000
        own = [each | {"key": f"{each['key']}{sequence:03d}"} for each in jobs]
        assert_batch(sequence=sequence, start_ms=start_ms, jobs=own, allocations=allocations)
    asked = {"node_ids": [node_by_name("n1").pk], "start_ms": T0 + 19 * 3_600_000, "end_ms": T0 * 2}
    execute("ANALYZE jobs_allocation")

    plan = "\n".join(line for (line,) in execute(f"EXPLAIN {HOLDINGS}", asked))

    assert "held_until" in plan


def test_holdings_of_several_nodes_are_those_of_each_with_the_spans_that_overlap():
    assert_batch(**held(start_ms=T0 - 10_000, end_ms=T0 + 10_000))
    assert_batch(sequence=2, **held(start_ms=T0 + 20_000, end_ms=T0 + 25_000, share=0.5))
    assert_batch(sequence=3, **held(start_ms=T0 + 12_000, end_ms=T0 + 15_000))
    assert_batch(node="n2", gpus=[gpu(uuid="GPU-of-n2")], **held(share=0.25))
    one, two = node_by_name("n1").pk, node_by_name("n2").pk

    found = selectors.holdings_of([two, one, 0], T0 + 5_000, T0 + 22_000)

    assert {
        node_id: [(hold.share, hold.spans) for hold in holds] for node_id, holds in found.items()
    } == {
        one: [
            (0.5, [(T0 + 20_000, T0 + 25_000)]),
            (None, [(T0 - 10_000, T0 + 10_000), (T0 + 12_000, T0 + 15_000)]),
        ],
        two: [(0.25, [(T0, T0 + 30_000)])],
        0: [],
    }
    assert found[one] == holdings(one, T0 + 5_000, T0 + 22_000)


def test_where_a_source_both_answered_and_did_not_it_answered():
    assert_batch(sequence=1, count=6, sources=[{"kind": "slurm", "ok": False}])
    assert_batch(
        sequence=2,
        start_ms=T0 + 20_000,
        count=2,
        sources=[{"kind": "slurm", "ok": True}, {"kind": "docker", "ok": False}],
    )
    node = node_by_name("n1")

    assert source_status_of([node.pk], T0 + 5000, T0 + 50_000)[node.pk] == [
        SourceSpans("docker", False, [(T0 + 20_000, T0 + 40_000)]),
        SourceSpans("slurm", False, [(T0 + 5000, T0 + 20_000), (T0 + 40_000, T0 + 50_000)]),
        SourceSpans("slurm", True, [(T0 + 20_000, T0 + 40_000)]),
    ]
    assert source_status_of([node.pk], T0 + 20_000, T0 + 40_000)[node.pk] == [
        SourceSpans("docker", False, [(T0 + 20_000, T0 + 40_000)]),
        SourceSpans("slurm", True, [(T0 + 20_000, T0 + 40_000)]),
    ]


def test_a_declared_job_is_a_source_that_answered():
    assert_batch(**held(source="declared"))

    assert source_status_of([node_by_name("n1").pk], T0, T0 + 30_000)[node_by_name("n1").pk] == [
        SourceSpans("declared", True, [(T0, T0 + 30_000)])
    ]


def test_a_jobs_account_is_its_team():
    assert_batch(
        **holding(
            job(account="nlp"),
            job("slurm/della/2", account=None),
            job("slurm/della/3", account="x" * 128),
        )
    )

    assert [row.team and row.team.slug for row in Job.objects.order_by("key")] == [
        "nlp",
        None,
        "x" * 100,
    ]
    assert Team.objects.count() == 2


@pytest.mark.parametrize("name", sorted(WHY))
def test_a_name_that_is_a_line_of_jobs_without_one_is_no_name(name):
    assert_batch(**holding(job(account=f" {name}", user=name)))

    assert not Team.objects.exists()
    assert Job.objects.values_list("account", "user").get() == ("", "")


def test_a_job_on_two_nodes_has_the_facts_of_the_later_report():
    assert_batch(
        node="n1",
        gpus=[gpu("GPU-1")],
        start_ms=T0 + 30_000,
        boot_start_ms=1_500_000_000_000,
        **holding(job(state="COMPLETED")),
    )

    assert_batch(
        node="n2",
        gpus=[gpu("GPU-2")],
        start_ms=T0,
        boot_start_ms=T0 - 5,
        **holding(job(state="RUNNING")),
    )

    assert Job.objects.get().state == "COMPLETED"


def test_a_change_of_kind_is_reported_once():
    _, first = assert_batch(sequence=1, **holding(job()))
    _, second = assert_batch(sequence=2, start_ms=T0 + 30_000, **holding(job(kind="service")))
    _, third = assert_batch(sequence=3, start_ms=T0 + 60_000, **holding(job(kind="service")))

    assert [jobs[0].has_new_kind for jobs in (first, second, third)] == [False, True, False]


def test_hostile_names_are_kept_as_text():
    name = "'); DROP TABLE jobs_job; -- <script>{{7*7}}\u202e %s %(jobs)s"
    assert_batch(**holding(job(name=name, user='"\\', labels={"k": name})))

    row = Job.objects.get()
    assert (row.name, row.user, row.labels) == (name, '"\\', {"k": name})


def processes():
    return list(GPUProcess.objects.order_by("pid").values_list("pid", "memory_bytes", "seen_ms"))


def test_the_processes_are_those_of_the_newest_batch():
    assert_batch(sequence=2, start_ms=T0 + 30_000, processes=[{"gpu": 0, "pid": 2}])

    assert_batch(sequence=1, start_ms=T0, processes=[{"gpu": 0, "pid": 1}])

    assert processes() == [(2, None, T0 + 60_000)]


def test_the_same_processes_are_written_once_a_minute():
    for step, memory in enumerate((1, 2, 3)):
        assert_batch(
            sequence=step,
            start_ms=T0 + step * 30_000,
            processes=[{"gpu": 0, "pid": 1, "memory_bytes": memory}],
        )

    assert processes() == [(1, 3, T0 + 90_000)]


def test_processes_that_were_not_read_are_left_and_none_is_none():
    assert_batch(sequence=1, processes=[{"gpu": 0, "pid": 1}])
    assert_batch(sequence=2, start_ms=T0 + 30_000)
    kept = processes()
    none_read = batch().windows | {
        "process_count": [0, 0, 0],
        "start_ms": [T0 + 60_000 + step for step in (0, 10_000, 20_000)],
    }
    assert_batch(sequence=3, windows=none_read)

    assert kept == [(1, None, T0 + 30_000)]
    assert processes() == []


def test_lists_for_pages():
    assert_batch(**held(), processes=[{"gpu": 0, "job": 0, "pid": 1}])
    row = Allocation.objects.select_related("gpu__node").get()

    assert selectors.job("slurm/della/1") == row.job
    assert selectors.job("slurm/della/2") is None
    assert [hold.pk for hold in selectors.holds(row.job)] == [row.pk]
    assert [process.pid for process in selectors.processes(row.gpu.node_id)] == [1]
