"""What a job asked for beside what it held."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from fleetwatch.dashboard import job_memory
from fleetwatch.dashboard.job_memory import MemoryUse, most_memory
from fleetwatch.dashboard.job_requests import (
    NOT_KEPT,
    NOT_READ,
    NOT_SAID,
    measured_cpus,
    measured_memory,
    notes,
    other_labels,
    request_lines,
)
from fleetwatch.diagnosis.cause import Facts
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, to_ms
from tests.dashboard import factories
from tests.diagnosis import told
from tests.markup import tight
from tests.telemetry.factories import make_batch, store

GB = 2**30


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        ("90", "at most 1 h 30 min"),
        ("", "no limit reported"),
        ("nan", "no limit reported"),
        ("9" * 40, "no limit reported"),
    ],
)
def test_what_was_not_said_is_a_dash_with_why_and_of_time_no_limit(limit, shown):
    job = Job(
        labels={"requested_gpus": "4", "requested_cpus": "32", "time_limit_minutes": limit},
        start_ms=0,
    )

    gpus, time, cpus, memory = request_lines(job, gpus=2, now_ms=2 * HOUR_MS)

    assert (gpus.requested, gpus.held, gpus.why) == ("4", "2", "")
    assert (time.name, time.requested, time.held) == ("Time", shown, "2 h so far")
    assert (cpus.requested, cpus.held, cpus.why) == ("32", "–", NOT_KEPT)
    assert (memory.requested, memory.why) == ("–", NOT_SAID)
    assert not memory.is_known


@pytest.mark.parametrize(
    ("ratio", "held"), [(0.97, "128, 97 % in use"), (None, "128")], ids=["read", "not read"]
)
def test_cpus_are_those_that_the_finding_rests_on(ratio, held):
    start_ms = to_ms(datetime(2026, 11, 25, 14, 5, tzinfo=UTC))
    seen = SimpleNamespace(
        facts=Facts(cores=128.0, cpu_ratio=ratio),
        gpu=SimpleNamespace(node=SimpleNamespace(name="a100-08")),
        start_ms=start_ms,
        end_ms=start_ms + HOUR_MS // 2,
    )

    cpus = request_lines(Job(labels={"requested_cpus": "128"}), gpus=8, now_ms=0, evidence=seen)[2]

    assert (cpus.requested, cpus.held, cpus.why) == ("128", held, "")
    assert measured_cpus(seen) == (
        "CPUs: as the agent of a100-08 measured them in the window that the finding rests on,"
        " 25 Nov, 14:05 to 14:35 UTC."
    )
    assert measured_cpus(None) == ""

    seen.end_ms = start_ms + 40_000
    assert measured_cpus(seen).endswith(" 25 Nov, 14:05 UTC, for 40 s from then on.")


def test_memory_is_the_most_that_was_read_beside_what_was_asked_for():
    use = MemoryUse(40.0 * GB, nodes=1, held_nodes=1, cut_ms=None)
    job = Job(labels={"requested_memory": "512G"})

    memory = request_lines(job, gpus=8, now_ms=0, memory=use)[3]

    assert (memory.requested, memory.held, memory.why) == ("512G", "40 GB in use at most", "")
    dropped = " File pages that the kernel can drop at once are not counted."
    assert measured_memory(use) == f"Memory: the largest reading of its agent.{dropped}"
    assert measured_memory(MemoryUse(40.0 * GB, nodes=3, held_nodes=4, cut_ms=DAY_MS)) == (
        "Memory: the largest reading of its agents in its last 1 d, of 3 nodes added up; of 1 more"
        f" it was not read.{dropped}"
    )


def test_memory_that_was_not_read_is_a_dash_with_why():
    memory = request_lines(Job(labels={"requested_memory": "512G"}), gpus=8, now_ms=0)[3]

    assert (memory.requested, memory.held, memory.why) == ("512G", "–", NOT_READ)
    assert measured_memory(None) == ""


def _held(job, *gpus, readings):
    """The job held the GPUs for a minute, three hours ago; their node's windows say this."""
    start_ms = to_ms(told.NOW) - 3 * HOUR_MS
    for gpu in gpus:
        factories.hold(gpu, job, hours_ago=3, hours=1 / 60, now=told.NOW)
    starts = [start_ms + 10_000 * step for step in range(-1, len(readings) - 1)]
    columns = {"util_mean": [0.5] * len(starts), "job_memory_bytes": readings}
    store(gpus[0].node, make_batch(gpus[0].node, starts=starts, columns=columns))


@pytest.mark.django_db
def test_the_largest_reading_of_each_node_is_added_up_and_other_jobs_left_out():
    job = told.job()
    _held(job, told.gpu(0), readings=[90 * GB, 10 * GB, None, 30 * GB])
    _held(job, told.gpu(0, node="n2"), readings=[90 * GB, 12 * GB, 11 * GB])
    _held(job, told.gpu(0, node="n3"), readings=[90 * GB, None])

    assert most_memory(job) == MemoryUse(42.0 * GB, nodes=2, held_nodes=3, cut_ms=None)


@pytest.mark.django_db
def test_of_a_job_that_comes_and_goes_what_lies_between_is_left_out():
    job = told.job()
    _held(job, told.gpu(0), readings=[size * GB for size in (90, 10, 12, 80, 80, 30, 20)])
    since_ms = to_ms(told.NOW) - 3 * HOUR_MS
    Allocation.objects.update(
        asserted=[(since_ms, since_ms + 20_000), (since_ms + 40_000, since_ms + 60_000)]
    )

    assert most_memory(job) == MemoryUse(30.0 * GB, nodes=1, held_nodes=1, cut_ms=None)


@pytest.mark.django_db
def test_of_a_long_job_the_end_is_looked_at(monkeypatch):
    job = told.job()
    _held(job, told.gpu(0), readings=[None, 50 * GB, 40 * GB, 30 * GB, 20 * GB, 10 * GB, 5 * GB])
    monkeypatch.setattr(job_memory, "MOST_NODE_MS", 30_000)

    assert most_memory(job) == MemoryUse(20.0 * GB, nodes=1, held_nodes=1, cut_ms=30_000)


@pytest.mark.django_db
def test_a_job_that_held_nothing_or_whose_agent_is_older_used_nobody_knows_what():
    job = told.job()
    assert most_memory(job) is None

    _held(job, told.gpu(0), readings=[None, None])
    assert most_memory(job) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("readings", "shown"),
    [([None, 40 * GB, 30 * GB], "40 GB in use at most"), ([None, None, None], "–")],
    ids=["read", "older agent"],
)
def test_a_jobs_page_shows_the_memory_used_of_that_asked_for(admin, readings, shown):
    _held(told.job(labels={"requested_memory": "512G"}), told.gpu(0), readings=readings)

    page = tight(admin.get("/jobs/slurm/della/7").content.decode())

    table = page[page.index("Requested and held") :].split("</table>")[0]
    row = re.sub(r"<[^>]+>", "|", table[table.index("Memory") :])
    assert [word for word in row.split("|") if word.strip()] == ["Memory", "512G", shown]


def test_why_there_are_dashes_is_said_once():
    lines = request_lines(Job(labels={"requested_cpus": "32"}), gpus=2, now_ms=2 * HOUR_MS)

    assert notes(lines, is_submit_known=False) == [
        "Not reported by its scheduler: GPUs, time limit, memory, when it was submitted.",
        "Use is not kept per job: CPUs.",
    ]
    assert notes(lines, is_submit_known=True)[0].endswith(": GPUs, time limit, memory.")
    assert [line.name for line in lines if line.is_known] == ["GPUs", "CPUs"]


def test_what_was_held_is_shown_though_nobody_said_what_was_asked_for():
    lines = request_lines(Job(labels={}, start_ms=0), gpus=2, now_ms=2 * HOUR_MS)

    known = [(line.name, line.requested, line.held) for line in lines if line.is_known]
    assert known == [("GPUs", "–", "2"), ("Time", "no limit reported", "2 h so far")]


def test_a_job_that_is_over_ran_so_long():
    job = Job(labels={}, start_ms=0, end_ms=20 * HOUR_MS)

    time = request_lines(job, gpus=2, now_ms=50 * HOUR_MS)[1]

    assert (time.name, time.requested, time.held) == ("Time", "no limit reported", "ran 20 h")


def test_of_time_that_nobody_knows_there_is_no_line_but_its_limit_is_missed():
    lines = request_lines(Job(labels={}), gpus=2, now_ms=0)

    assert "Time" not in [line.name for line in lines if line.is_known]
    assert "time limit" in notes(lines, is_submit_known=True)[0]


def test_labels_that_have_a_line_are_not_listed_again():
    labels = {"requested_gpus": "2", "partition": "h100", "time_limit_minutes": "60"}

    assert other_labels(Job(labels=labels)) == [("partition", "h100")]


@pytest.mark.django_db
def test_gpus_that_a_job_held_are_not_called_used(admin):
    """It asked for two and held one, which did nothing: what was used would be none."""
    factories.hold(told.gpu(1), told.job(labels={"requested_gpus": "2"}), hours_ago=3, hours=1)

    page = tight(admin.get("/jobs/slurm/della/7").content.decode())

    table = page[page.index("Requested and held") :].split("</table>")[0]
    assert re.sub(r"<[^>]+>", " ", table).split()[4:9] == ["Requested", "Held", "GPUs", "2", "1"]


@pytest.mark.django_db
def test_a_job_that_idled_says_no_useful_time_and_when_quiet_counts_as_stalled(admin):
    """A notebook, half an hour stalled and half idle, at $2: its efficiency was measured."""
    told.rate("2.00")
    of = told.job(kind="interactive")
    factories.hold(told.gpu(1), of, hours_ago=2, hours=1)
    for state in ("stalled", "idle"):
        factories.entry(
            told.gpu(1), hours_ago=2, state=state, gpu_ms=HOUR_MS // 2, held_by=of, now=told.NOW
        ).save()

    page = tight(admin.get("/jobs/slurm/della/7?range=24h").content.decode())

    assert "no useful time was measured" in page
    assert "efficiency was not measured" not in page
    assert "Quiet for less than 30 min at a stretch counts as stalled, longer as idle" in page
