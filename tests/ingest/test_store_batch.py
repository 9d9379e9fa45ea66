"""What a batch changes, and which hours it marks."""

import itertools
from datetime import timedelta

import pytest

from fleetwatch.ingest.services import retire_silent_gpus, store_batch
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Allocation, GPUProcess, Job, SourceReport
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.telemetry.models import TouchedHour
from tests.ingest.factories import NOW, batch, gpu, job

pytestmark = pytest.mark.django_db
DAY0 = to_ms(NOW.replace(hour=0))


def store(*, node="n1", received_at=NOW, **keys):
    parsed = batch(node=node, **keys)
    return store_batch(node_by_name(node), parsed, received_at=received_at)


def touched(node="n1"):
    """The marked hours of 2026-11-20, as numbers, once each."""
    hours = (
        TouchedHour.objects.filter(node_id=node_by_name(node).pk)
        .values_list("hour", flat=True)
        .distinct()
    )
    return sorted((to_ms(hour) - DAY0) // HOUR_MS for hour in hours)


def forget():
    TouchedHour.objects.all().delete()


def at(hour, minute=0):
    return DAY0 + hour * HOUR_MS + minute * 60_000


def test_windows_mark_their_hours():
    store(start_ms=at(9, 59) + 40_000, count=3)

    assert touched() == [9, 10]


def test_windows_that_end_with_the_hour_do_not_mark_the_next():
    store(start_ms=at(9, 59) + 30_000, count=3)

    assert touched() == [9]


def test_a_silence_marks_the_hours_that_nobody_observed():
    store(start_ms=at(5))
    forget()

    store(sequence=2, start_ms=at(8))

    assert touched() == [5, 6, 7, 8]


def test_a_gpu_that_the_batch_does_not_name_lives_as_long_as_its_node():
    store(start_ms=at(5), gpus=[gpu("GPU-1"), gpu("GPU-2")])
    forget()

    store(sequence=2, start_ms=at(6), gpus=[gpu("GPU-1")])

    assert touched() == [5, 6]
    assert GPU.objects.get(uuid="GPU-2").last_ms == at(5) + 30_000


def test_a_late_batch_marks_what_it_observed_and_no_more():
    store(start_ms=at(2))
    store(sequence=3, start_ms=at(8))
    forget()

    store(sequence=2, start_ms=at(4))

    assert touched() == [4]


def test_windows_before_the_first_ones_mark_the_time_that_became_capacity():
    store(start_ms=at(8))
    forget()

    store(sequence=0, start_ms=at(5))

    assert touched() == [5, 6, 7]
    assert GPU.objects.get().first_ms == at(5)


def test_an_allocation_from_the_past_marks_the_hours_in_which_its_gpu_was_capacity():
    store(start_ms=at(3))
    store(sequence=2, start_ms=at(8))
    forget()

    store(
        sequence=3,
        start_ms=at(8, 1),
        jobs=[job()],
        allocations=[{"gpu": 0, "job": 0, "start_ms": at(3) - 365 * 86_400_000, "source": "slurm"}],
    )

    assert touched() == [3, 4, 5, 6, 7, 8]


def test_an_allocation_that_goes_on_marks_only_the_new_time():
    held = {
        "jobs": [job()],
        "allocations": [{"gpu": 0, "job": 0, "start_ms": at(3), "source": "slurm"}],
    }
    store(start_ms=at(3), **held)
    store(sequence=2, start_ms=at(8), **held)
    forget()

    store(sequence=3, start_ms=at(8, 1), **held)

    assert touched() == [8]


def test_a_job_of_another_kind_marks_all_that_it_held_on_every_node():
    held = {"allocations": [{"gpu": 0, "job": 0, "source": "slurm"}]}
    store(node="n1", start_ms=at(3), gpus=[gpu("GPU-1")], jobs=[job()], **held)
    store(node="n2", start_ms=at(4), gpus=[gpu("GPU-2")], jobs=[job()], **held)
    forget()

    store(
        node="n1",
        sequence=2,
        start_ms=at(3, 1),
        gpus=[gpu("GPU-1")],
        jobs=[job(kind="interactive")],
        **held,
    )

    assert (touched("n1"), touched("n2")) == ([3], [4])


def test_an_event_marks_from_its_time_on():
    store(start_ms=at(3))
    store(sequence=2, start_ms=at(6))
    forget()

    store(
        sequence=3, start_ms=at(6, 1), events=[{"gpu": 0, "at_ms": at(4, 30), "kind": "gpu_lost"}]
    )

    assert touched() == [4, 5, 6]


def test_a_duplicate_marks_nothing():
    store(start_ms=at(3))
    forget()

    answer = store(start_ms=at(3))

    assert (answer.stored, answer.duplicate, touched()) == (0, 1, [])


def facts():
    """All that batches assert, without ids."""
    return (
        list(
            GPU.objects.order_by("uuid").values(
                "uuid",
                "node__name",
                "power_limit_w",
                "model__name",
                "parent__uuid",
                "first_ms",
                "last_ms",
                "unread",
            )
        ),
        list(
            Node.objects.order_by("name").values(
                "name", "last_ms", "labels", "agent", "facts_order"
            )
        ),
        list(Job.objects.order_by("key").values("key", "state", "kind", "team__slug", "end_ms")),
        list(
            Allocation.objects.order_by("gpu__uuid", "job__key", "source").values_list(
                "gpu__uuid", "job__key", "source", "share", "asserted"
            )
        ),
        list(SourceReport.objects.order_by("kind", "ok").values_list("kind", "ok", "asserted")),
        list(GPUProcess.objects.order_by("pid").values_list("pid", "seen_ms")),
    )


STORY = (
    {
        "sequence": 1,
        "start_ms": at(3),
        "gpus": [gpu(power_limit_w=700.0)],
        "node_labels": {"rack": "1"},
        "sources": [{"kind": "slurm", "ok": False}],
    },
    {
        "sequence": 2,
        "start_ms": at(3, 1),
        "gpus": [
            gpu(power_limit_w=600.0),
            gpu("MIG-1", parent_uuid="GPU-1", mig_profile="1g.10gb"),
        ],
        "jobs": [job(state="RUNNING"), job("slurm/della/2", account="vision")],
        "allocations": [
            {"gpu": 0, "job": 0, "start_ms": at(2), "source": "slurm", "share": 0.5},
            {"gpu": 1, "job": 1, "source": "slurm"},
        ],
        "processes": [{"gpu": 0, "job": 0, "pid": 7}],
        "sources": [{"kind": "slurm", "ok": True}],
    },
    {
        "sequence": 3,
        "start_ms": at(3, 2),
        "gpus": [gpu(power_limit_w=650.0, unread={"sm_active": "not_supported"})],
        "jobs": [job(state="COMPLETED", end_ms=at(3, 2) + 10_000)],
        "allocations": [
            {
                "gpu": 0,
                "job": 0,
                "start_ms": at(2),
                "end_ms": at(3, 2) + 10_000,
                "source": "slurm",
                "share": 0.5,
            }
        ],
        "processes": [{"gpu": 0, "job": 0, "pid": 8}],
        "sources": [{"kind": "slurm", "ok": True}],
        "agent": {"version": "1.0.0"},
    },
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_and_number_of_arrivals_do_not_matter(order):
    for place in (*order, order[0]):
        store(**STORY[place])

    gpus, nodes, jobs, allocations, sources, processes = facts()
    assert gpus[0] == {
        "uuid": "GPU-1",
        "node__name": "n1",
        "power_limit_w": 650.0,
        "model__name": "H100 SXM",
        "parent__uuid": None,
        "first_ms": at(3),
        "last_ms": at(3, 2) + 30_000,
        "unread": {"sm_active": "not_supported"},
    }
    assert (gpus[1]["uuid"], gpus[1]["parent__uuid"], gpus[1]["first_ms"]) == (
        "MIG-1",
        "GPU-1",
        at(3, 1),
    )
    assert nodes == [
        {
            "name": "n1",
            "last_ms": at(3, 2) + 30_000,
            "labels": {},
            "agent": {"version": "1.0.0"},
            "facts_order": [batch().boot_start_ms, 3],
        }
    ]
    assert [(row["key"], row["state"], row["team__slug"]) for row in jobs] == [
        ("slurm/della/1", "COMPLETED", "nlp"),
        ("slurm/della/2", "", "vision"),
    ]
    assert allocations == [
        ("GPU-1", "slurm/della/1", "slurm", 0.5, [(at(2), at(3, 2) + 10_000)]),
        ("MIG-1", "slurm/della/2", "slurm", None, [(at(3, 1), at(3, 1) + 30_000)]),
    ]
    assert sources == [
        ("slurm", False, [(at(3), at(3) + 30_000)]),
        ("slurm", True, [(at(3, 1), at(3, 1) + 30_000), (at(3, 2), at(3, 2) + 30_000)]),
    ]
    assert processes == [(8, at(3, 2) + 30_000)]


def test_a_retired_gpu_marks_the_hours_in_which_it_was_no_more():
    last = NOW + timedelta(days=8)
    store(start_ms=at(3), gpus=[gpu("GPU-1"), gpu("GPU-2")])
    store(
        sequence=2,
        start_ms=to_ms(last),
        gpus=[gpu("GPU-1")],
        received_at=last + timedelta(minutes=1),
    )
    forget()

    did = retire_silent_gpus(last + timedelta(minutes=1))

    assert did == {"retired": 1}
    assert TouchedHour.objects.earliest("hour").hour == from_ms(at(3))
    assert TouchedHour.objects.latest("hour").hour == last


def test_windows_of_hours_that_are_final_are_no_capacity(settings):
    settings.RAW_RETENTION_DAYS = 2
    store(start_ms=at(8))
    forget()

    store(sequence=2, start_ms=at(11, 59) + 50_000 - 48 * HOUR_MS, count=3)

    gpu = GPU.objects.get()
    assert (gpu.first_ms, gpu.last_ms) == (at(12) - 48 * HOUR_MS, at(8) + 30_000)
    assert TouchedHour.objects.order_by("hour").first().hour == from_ms(at(12) - 48 * HOUR_MS)


def test_a_gpu_seen_in_final_hours_alone_never_was_capacity(settings):
    settings.RAW_RETENTION_DAYS = 2

    store(start_ms=at(8) - 72 * HOUR_MS)

    assert GPU.objects.get().first_ms is None
    assert touched() == []
