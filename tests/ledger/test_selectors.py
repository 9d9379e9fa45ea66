"""Runs joined from their parts, and what idles now."""

from datetime import timedelta

import pytest

from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import selectors
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from tests.ledger.fleet import BUSY, MINUTE, QUIET, T0, Sender, a_job, held, post, store

pytestmark = pytest.mark.django_db

JOB = {"jobs": [a_job()], "allocations": [held()]}


def idle_for(hours, *, minutes=0):
    """A job busy for half an hour, then quiet until `hours` and `minutes` after T0; and when that
    is.
    """
    sender = Sender()
    ends = T0 + hours * HOUR_MS + minutes * MINUTE
    now = from_ms(ends) + timedelta(seconds=20)
    batches = [sender.batch(T0, *[BUSY] * 30, *[QUIET] * 30, **JOB)]
    for start in range(T0 + HOUR_MS, ends, HOUR_MS):
        batches.append(sender.batch(start, *[QUIET] * min(60, (ends - start) // MINUTE), **JOB))
    post(*batches, now=now)
    return sender, now


def test_a_run_is_whole_however_many_hours_it_crosses():
    idle_for(50)
    gpu, job = GPU.objects.get(), Job.objects.get()

    (run,) = selectors.runs([gpu.pk], start_ms=T0 + 24 * HOUR_MS, end_ms=T0 + 24 * HOUR_MS + 1)

    assert (run.gpu_id, run.job_id, run.condition) == (gpu.pk, job.pk, "quiet")
    assert (run.start_ms, run.end_ms) == (T0 + 30 * MINUTE, T0 + 50 * HOUR_MS)
    assert run.state_ms == {"idle": run.duration_ms}
    assert run.memory_used_bytes == QUIET["memory_used_bytes"]


def test_a_run_is_as_long_from_wherever_it_is_looked_at():
    sender, now = idle_for(50)
    post(
        sender.batch(T0 + 50 * HOUR_MS, BUSY, *[QUIET] * 20, **JOB), now=now + timedelta(minutes=30)
    )
    gpu = GPU.objects.get().pk

    found = [
        selectors.runs([gpu], start_ms=at, end_ms=at + 1, conditions=("quiet",))
        for at in range(T0 + HOUR_MS, T0 + 50 * HOUR_MS, 7 * HOUR_MS)
    ]

    assert found == [found[0]] * 7
    assert [(run.start_ms, run.end_ms) for run in found[0]] == [
        (T0 + 30 * MINUTE, T0 + 50 * HOUR_MS)
    ]


def test_runs_may_be_asked_for_by_condition():
    idle_for(3)
    gpu = GPU.objects.get().pk

    found = selectors.runs([gpu], start_ms=T0, end_ms=T0 + 3 * HOUR_MS, conditions=("active",))

    assert [(run.condition, run.start_ms, run.end_ms) for run in found] == [
        ("active", T0, T0 + 30 * MINUTE)
    ]


def test_a_run_says_what_was_read_in_it_and_for_how_long():
    idle_for(3)

    active = Run.objects.get(condition="active")

    assert active.figures == {
        "active_ms": 30 * MINUTE,
        "active_sum": 30 * MINUTE,
        "memory_used_bytes_ms": 30 * MINUTE,
        "memory_used_bytes_sum": 30 * MINUTE * BUSY["memory_used_bytes"],
        "spin_unresolved_ms": 30 * MINUTE,
        "spin_unresolved_sum": 30 * MINUTE,
    }


def test_a_gpu_that_idles_now_is_named_with_its_job_and_since_when():
    _, now = idle_for(3, minutes=1)

    (idle,) = selectors.open_idle_runs(now)

    assert (idle.job_id, idle.start_ms, idle.end_ms) == (
        Job.objects.get().pk,
        T0 + 30 * MINUTE,
        T0 + 3 * HOUR_MS + MINUTE,
    )


def test_a_gpu_goes_on_idling_while_its_newest_windows_wait_to_be_posted():
    sender, now = idle_for(3)

    store(sender.batch(T0 + 3 * HOUR_MS, QUIET, QUIET, **JOB), now=now + timedelta(minutes=2))

    assert len(selectors.open_idle_runs(now + timedelta(minutes=2))) == 1


def test_what_works_again_does_not_idle():
    sender, now = idle_for(3)

    post(sender.batch(T0 + 3 * HOUR_MS, BUSY, **JOB), now=now + timedelta(minutes=1))

    assert selectors.open_idle_runs(now + timedelta(minutes=1)) == []


def test_quiet_for_less_than_t_idle_is_not_idle():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 30, *[QUIET] * 14, **JOB), now=from_ms(T0 + 44 * MINUTE))

    assert selectors.open_idle_runs(from_ms(T0 + 44 * MINUTE)) == []


def test_a_silent_node_says_nothing_of_now():
    _, now = idle_for(3)

    assert len(selectors.open_idle_runs(now + timedelta(minutes=4))) == 1
    assert selectors.open_idle_runs(now + timedelta(minutes=6)) == []


def test_one_idle_gpu_of_several_is_named():
    sender = Sender(gpus=2)
    both = {"jobs": [a_job()], "allocations": [held(0), held(1)]}
    batch = sender.batch(T0, *[QUIET] * 40, **both)
    batch["windows"]["util_mean"] = [float(place) for place in batch["windows"]["gpu"]]
    batch["windows"]["util_max"] = batch["windows"]["util_mean"]
    now = from_ms(T0 + 40 * MINUTE)

    post(batch, now=now)

    assert [idle.gpu_id for idle in selectors.open_idle_runs(now)] == [GPU.objects.get(index=0).pk]


def test_windows_too_long_to_tell_spinning_from_work_are_flagged():
    sender = Sender()
    unresolved = [BUSY] * 10
    resolved = [BUSY | {"spin_fraction": 0.0}] * 10
    post(sender.batch(T0, *unresolved, *resolved, **JOB), now=from_ms(T0 + 20 * MINUTE))

    run = Run.objects.get()

    assert (run.end_ms - run.start_ms, run.figures["spin_unresolved_ms"]) == (
        20 * MINUTE,
        10 * MINUTE,
    )
