"""Charged is what was allocated: holds end where the scheduler says, however late it says so, and
in whatever order.
"""

import itertools

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.services import store_batch
from fleetwatch.ingest.tokens import NO_RIGHTS
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Allocation, Job, JobRecord, RunEnd
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.models import TouchedHour
from tests.ingest.factories import NOW, batch, gpu, job

pytestmark = pytest.mark.django_db

T0 = to_ms(NOW) - 3 * HOUR_MS  # 09:00
MINUTE = 60_000
IMPORT = {"gpus": [], "windows": {"gpu": [], "start_ms": [], "observed_ms": []}, "boot_start_ms": 0}


def store(*, node="n1", rights=NO_RIGHTS, **keys):
    parsed = batch(node=node, **keys)
    return store_batch(node_by_name(node), parsed, received_at=NOW, rights=rights)


def names(
    until_ms,
    *,
    start_ms=T0,
    end_ms=None,
    since_ms=None,
    node="n1",
    source="slurm",
    key="slurm/della/1",
    **facts,
):
    """A batch of windows up to `until_ms` that names the job as the holder of the node's GPU from
    `start_ms` on.
    """
    since_ms = until_ms - 30_000 if since_ms is None else since_ms
    return {
        "node": node,
        "sequence": until_ms // 10_000,
        "start_ms": since_ms,
        "count": (until_ms - since_ms) // 10_000,
        "gpus": [gpu(f"GPU-{node}")],
        "jobs": [job(key, start_ms=start_ms, **facts)],
        "allocations": [
            {"gpu": 0, "job": 0, "source": source, "start_ms": start_ms, "end_ms": end_ms}
        ],
        "sources": [{"kind": source, "ok": True}],
    }


def history(end_ms, *, start_ms=T0, state="COMPLETED", **keys):
    """An import of accounting that tells how the job's last run ended."""
    return {
        "boot_id": f"history-{start_ms}-{end_ms}",
        "jobs": [job(start_ms=start_ms, end_ms=end_ms, state=state)],
        **IMPORT,
        **keys,
    }


def holds(node="n1"):
    """The spans in which the node's GPU is held, in minutes from T0 on."""
    found = Allocation.objects.filter(gpu__uuid=f"GPU-{node}").values_list("held", flat=True)
    return [
        ((first - T0) / MINUTE, (last - T0) / MINUTE) for spans in found for first, last in spans
    ]


def touched(node="n1"):
    hours = (
        TouchedHour.objects.filter(node_id=node_by_name(node).pk)
        .values_list("hour", flat=True)
        .distinct()
    )
    return sorted(at.hour for at in hours)


def test_an_end_that_is_told_an_hour_late_ends_the_hold_and_marks_what_was_charged():
    store(**names(T0 + 60 * MINUTE, since_ms=T0))
    TouchedHour.objects.all().delete()

    store(**names(T0 + 80 * MINUTE, end_ms=T0 + 20 * MINUTE))

    assert holds() == [(0, 20)]
    assert touched() == [9, 10]  # 10: the batch itself


@pytest.mark.parametrize(("end_ms", "expected"), [(-1, 59), (0, 60), (1, 60)])
def test_an_end_just_before_at_and_just_after_what_was_asserted(end_ms, expected):
    store(**names(T0 + 60 * MINUTE, since_ms=T0))

    store(**history(T0 + 60 * MINUTE + end_ms * MINUTE))

    assert holds() == [(0, expected)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_jobs_end_ends_its_holds_on_the_nodes_that_tell_it_whichever_batch_comes_first(order):
    ended = {"allocations": [], "jobs": [job(start_ms=T0, end_ms=T0 + 20 * MINUTE)]}
    said = [names(T0 + 60 * MINUTE, since_ms=T0, node=node) for node in ("n1", "n2")]
    said += [names(T0 + 70 * MINUTE, node=node) | ended for node in ("n1", "n2")]

    for place in order:
        store(**said[place])

    assert (holds("n1"), holds("n2")) == ([(0, 20)], [(0, 20)])


def test_a_node_ends_no_job_on_another_node():
    store(**names(T0 + 60 * MINUTE, since_ms=T0, node="n1"))

    store(**names(T0 + 60 * MINUTE, since_ms=T0, node="evil"))
    store(
        **names(T0 + 70 * MINUTE, node="evil")
        | {"jobs": [job(start_ms=T0, end_ms=T0 + 20 * MINUTE)]}
    )

    assert (holds("n1"), holds("evil")) == ([(0, 60)], [(0, 20)])
    assert Job.objects.get().end_ms is None


def test_the_books_of_the_cluster_end_a_job_on_all_nodes():
    store(**names(T0 + 60 * MINUTE, since_ms=T0, node="n1"))

    ended = names(T0 + 70 * MINUTE, node="head") | {
        "allocations": [],
        "jobs": [job(start_ms=T0, end_ms=T0 + 20 * MINUTE)],
    }
    store(**ended, rights=Rights(speaks_for="della"))

    assert holds("n1") == [(0, 20)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize(
    ("known", "held"),
    [
        ({"state": "RUNNING"}, 60),
        ({"end_ms": T0 + 50 * MINUTE}, 50),
        ({"end_ms": T0 + 20 * MINUTE}, 20),
    ],
)
def test_no_import_without_the_clusters_right_ends_what_its_books_know_to_have_run_on(
    order, known, held
):
    books = names(T0 + 70 * MINUTE, node="head") | {
        "allocations": [],
        "jobs": [job(start_ms=T0, **known)],
        "rights": Rights(speaks_for="della"),
    }
    said = [names(T0 + 60 * MINUTE, since_ms=T0), history(T0 + 20 * MINUTE), books]

    for place in order:
        store(**said[place])

    assert holds() == [(0, held)]


def test_the_end_of_a_hold_on_one_node_is_no_end_of_the_job_on_another():
    store(**names(T0 + 60 * MINUTE, since_ms=T0, node="n1"))
    store(**names(T0 + 60 * MINUTE, since_ms=T0, node="n2"))

    store(**names(T0 + 61 * MINUTE, node="n1", end_ms=T0 + 20 * MINUTE))

    assert (holds("n1"), holds("n2")) == ([(0, 20)], [(0, 60)])


def test_history_repairs_the_past_of_every_node_and_marks_its_hours_once():
    store(**names(T0 + 90 * MINUTE, since_ms=T0, node="n1"))
    store(**names(T0 + 90 * MINUTE, since_ms=T0, node="n2"))
    TouchedHour.objects.all().delete()

    store(**history(T0 + 70 * MINUTE), node="n3")
    marks = touched("n1"), touched("n2"), touched("n3")
    TouchedHour.objects.all().delete()
    store(**history(T0 + 70 * MINUTE), node="n3", sequence=2)

    assert marks == ([10], [10], [])
    assert (holds("n1"), holds("n2")) == ([(0, 70)], [(0, 70)])
    assert not TouchedHour.objects.exists()


def test_what_accounting_knows_of_the_end_holds_also_for_what_an_agent_says_hours_later():
    store(**history(T0 + 20 * MINUTE))
    store(**names(T0 + 90 * MINUTE, since_ms=T0))
    TouchedHour.objects.all().delete()

    store(**names(T0 + 120 * MINUTE))

    assert holds() == [(0, 20)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_hold_that_is_told_to_have_ended_as_it_began_is_none_whichever_batch_comes_first(order):
    said = [names(T0 + 60 * MINUTE, since_ms=T0), names(T0 + 61 * MINUTE, end_ms=T0)]

    for number in order:
        store(**said[number])

    assert holds() == []


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_a_job_that_was_requeued_holds_again_from_its_next_start(order):
    said = [
        names(T0 + 60 * MINUTE, since_ms=T0),
        history(T0 + 20 * MINUTE),
        names(T0 + 90 * MINUTE, since_ms=T0 + 75 * MINUTE, start_ms=T0 + 75 * MINUTE, restarts=1),
    ]

    for place in order:
        store(**said[place])

    assert holds() == [(0, 20), (75, 90)]


def test_a_run_that_begins_where_the_one_before_ended_is_held():
    store(**names(T0 + 30 * MINUTE, since_ms=T0))
    store(**names(T0 + 40 * MINUTE, start_ms=T0 + 20 * MINUTE, restarts=1))

    store(**history(T0 + 20 * MINUTE))

    assert holds() == [(0, 40)]


def test_a_run_that_ended_in_the_moment_in_which_it_began_held_nothing():
    store(**names(T0 + 5 * MINUTE, since_ms=T0))

    store(**history(T0, state="FAILED"))

    assert holds() == []


def test_an_allocation_that_a_source_lost_sight_of_is_held_when_it_names_it_again():
    """Where a source does not answer for a while, our agent's batch ends the hold with the last
    window that saw it.
    """
    store(**names(T0 + 10 * MINUTE, since_ms=T0, end_ms=T0 + 8 * MINUTE))
    lost = holds()

    store(**names(T0 + 10 * MINUTE + 10_000, since_ms=T0 + 10 * MINUTE))

    assert (lost, holds()) == ([(0, 8)], [(0, 10 + 1 / 6)])


def test_the_last_word_on_an_end_counts():
    store(**names(T0 + 60 * MINUTE, since_ms=T0))
    store(**names(T0 + 62 * MINUTE, end_ms=T0 + 30 * MINUTE))
    store(**names(T0 + 61 * MINUTE, end_ms=T0 + 20 * MINUTE))

    assert holds() == [(0, 30)]
    assert RunEnd.objects.get().end_ms == T0 + 30 * MINUTE


def test_a_source_that_tells_no_start_begins_no_new_run():
    for minute in (0, 30, 60):
        said = names(T0 + minute * MINUTE + 30_000, since_ms=T0 + minute * MINUTE)
        store(**said | {"jobs": [job()], "allocations": [{"gpu": 0, "job": 0, "source": "slurm"}]})

    store(**history(T0 + 20 * MINUTE))

    assert holds() == [(0, 0.5)]


@pytest.mark.parametrize(
    ("source", "held_until"),
    [("slurm", 20), ("kubernetes", 20), ("process", 60), ("docker", 60), ("declared", 60)],
)
def test_a_jobs_end_ends_what_its_scheduler_gave_out_and_nothing_else(source, held_until):
    store(**names(T0 + 60 * MINUTE, since_ms=T0, source=source))

    store(**history(T0 + 20 * MINUTE))

    assert holds() == [(0, held_until)]


def test_an_end_before_its_start_says_nothing():
    store(**names(T0 + 60 * MINUTE, since_ms=T0))

    store(**history(T0 - 1))

    assert holds() == [(0, 60)]
    assert not RunEnd.objects.exists()


def test_an_end_in_the_future_ends_nothing_yet():
    store(**names(T0 + 60 * MINUTE, since_ms=T0, end_ms=T0 + 90 * MINUTE))
    store(**names(T0 + 61 * MINUTE, end_ms=T0 + 90 * MINUTE))

    assert holds() == [(0, 61)]


def test_saying_it_again_writes_nothing():
    store(**names(T0 + 60 * MINUTE, since_ms=T0))
    store(**names(T0 + 61 * MINUTE, end_ms=T0 + 20 * MINUTE))
    row = "SELECT xmin::text FROM jobs_allocation"
    with connection.cursor() as cursor:
        before = cursor.execute(row).fetchall()

        store(**names(T0 + 61 * MINUTE, end_ms=T0 + 20 * MINUTE) | {"sequence": 1})

        assert cursor.execute(row).fetchall() == before


# What a real Slurm charged before ends were regarded (../shared/audit/clients.md, F2): GPUs, and
# the seconds of each run by sacct.
TABLE = {
    "2, cancelled, two GPUs": (2, [30]),
    "3, two GPUs": (2, [300]),
    "4, no process": (1, [250]),
    "5, of an array": (1, [45]),
    "9, 10, of an array": (1, [45]),
    "13, requeued": (1, [31, 70]),
    "16, with prolog": (1, [41]),
    "17, with prolog": (1, [76]),
    "a task of ten seconds": (1, [10]),
    "a task of nine seconds": (1, [9]),
}
POLL_MS = 30_000
SPOOLS = itertools.count()


def _heard(since_ms, end_ms):
    """The batches of a job's polls: of the first one, of those between, which say the same once
    more, of the last one that calls it running, and of the one after its end, which says so or
    leaves it to accounting.
    """
    polls = range(since_ms, end_ms + POLL_MS + 1, POLL_MS)
    after = polls[-1]
    edges = sorted({since_ms, since_ms + POLL_MS, after - POLL_MS, after, after + POLL_MS})
    return list(itertools.pairwise(edge for edge in edges if edge >= since_ms))


@pytest.mark.parametrize("teller", ["agent", "history"])
@pytest.mark.parametrize("name", sorted(TABLE))
@pytest.mark.parametrize("after_poll_s", [0, 7, 29])
def test_charged_gpu_seconds_are_those_of_accounting(name, after_poll_s, teller):
    """The agent asks its scheduler each half minute and calls the job running until it is told
    otherwise.
    """
    gpus, runs = TABLE[name]
    begin_ms = T0 + after_poll_s * 1000
    cards = [gpu(f"GPU-{place}") for place in range(gpus)]
    for restarts, seconds in enumerate(runs):
        end_ms = begin_ms + seconds * 1000
        polled_ms = T0 + (begin_ms - T0) // POLL_MS * POLL_MS
        facts = {"start_ms": begin_ms, "restarts": restarts}
        for since_ms, until_ms in _heard(polled_ms, end_ms):
            is_over = since_ms > end_ms
            ended = {"end_ms": end_ms} if is_over and teller == "agent" else {}
            store(
                gpus=cards,
                sequence=until_ms,
                start_ms=since_ms,
                count=(until_ms - since_ms) // 10_000,
                jobs=[job(**facts, state="COMPLETED" if ended else "RUNNING", **ended)],
                allocations=[] if is_over and teller == "history" else [
                    {"gpu": place, "job": 0, "source": "slurm", "start_ms": begin_ms,
                    **ended} for place in range(gpus)
                ],
            )  # fmt: skip
            polled_ms = until_ms
        if teller == "history":
            store(**history(end_ms, start_ms=begin_ms), node="accounting")
        begin_ms = polled_ms + 15_000

    charged_ms = sum(
        last - first
        for spans in Allocation.objects.values_list("held", flat=True)
        for first, last in spans
    )
    assert charged_ms == 1000 * gpus * sum(runs)


@st.composite
def stories(draw):
    """Runs of one job on two nodes, as batches and imports: what was told, in the order of time."""
    minutes = st.integers(min_value=0, max_value=12)
    told, start = [], T0
    for restarts in range(draw(st.integers(min_value=1, max_value=3))):
        end = start + draw(minutes) * MINUTE
        for node in draw(st.sampled_from([("n1",), ("n2",), ("n1", "n2")])):
            # an agent that goes on calling it running
            last = max(end, start + MINUTE) + draw(minutes) * MINUTE
            told.append(names(last, since_ms=start, start_ms=start, node=node, restarts=restarts))
            if draw(st.booleans()):
                until = last + draw(minutes) * MINUTE + 10_000
                told.append(
                    names(
                        until,
                        since_ms=until - 10_000,
                        start_ms=start,
                        end_ms=end,
                        node=node,
                        restarts=restarts,
                    )
                )
        if draw(st.booleans()):
            told.append(history(end, start_ms=start))
        start = end + draw(minutes) * MINUTE
    return told


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=stories(), data=st.data())
def test_holds_do_not_depend_on_the_order_of_batches_and_imports_nor_on_repeats(story, data):
    outcomes = []
    again = data.draw(st.lists(st.sampled_from(story), max_size=3))
    for order in (story, data.draw(st.permutations(story + again))):
        Job.objects.all().delete()
        JobRecord.objects.all().delete()
        for said in order:
            # a spool of its own each time, so that a repeat is no duplicate
            store(**said | {"boot_id": f"boot-{next(SPOOLS)}"})
        outcomes.append({node: holds(node) for node in ("n1", "n2")})

    assert outcomes[0] == outcomes[1]
