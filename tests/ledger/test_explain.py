"""What explain tells is what was judged: its milliseconds are the entries', its words name the rule
and its numbers.
"""

from collections import Counter
from datetime import timedelta

import pytest
from django.db.models import Sum
from hypothesis import HealthCheck, given, settings

from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.judgement import states
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from tests.ledger import timelines
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    HALF,
    MINUTE,
    NOW,
    QUIET,
    START,
    T0,
    Sender,
    a_job,
    held,
    post,
    store,
)

pytestmark = pytest.mark.django_db

ALL = Interval(START, START + timedelta(hours=4))
JOB = {"jobs": [a_job()], "allocations": [held()]}


def told(interval=ALL, **only):
    return explain.stretches(GPU.objects.get(index=0), interval, **only)


def rules(found):
    """The distinct rules, in their order."""
    return list(dict.fromkeys(" | ".join(one.rule) for one in found))


def test_windows_sum_to_the_entries():
    post(Sender().batch(T0, *[BUSY] * 20, *[QUIET] * 20, None, *[HALF] * 40, *[EMPTY] * 30, **JOB))

    sums = Counter()
    for one in told():
        for part in one.parts:
            sums[
                one.start_ms // HOUR_MS * HOUR_MS,
                one.job_id,
                part.state,
                part.kind,
                part.reason,
                part.tier,
                part.signal,
            ] += part.gpu_ms

    rows = Entry.objects.values_list(
        "start", "job_id", "state", "kind", "reason", "tier", "signal", "gpu_ms"
    )
    wanted = Counter()
    for start, *key, gpu_ms in rows:
        wanted[round(start.timestamp() * 1000), *key] += gpu_ms
    assert sums == wanted


def test_windows_that_came_after_the_last_posting_wait_for_their_entries():
    """Ten minutes are posted; five more have come since."""
    sender = Sender()
    now = from_ms(T0 + 15 * MINUTE)
    post(sender.batch(T0, *[QUIET] * 10, **JOB), now=now)
    store(sender.batch(T0 + 10 * MINUTE, *[QUIET] * 5, **JOB), now=now)

    assert sum(each.gpu_ms for each in told()) == 10 * MINUTE
    assert Entry.objects.aggregate(Sum("gpu_ms"))["gpu_ms__sum"] == 10 * MINUTE


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(timelines.nodes())
def test_every_millisecond_of_any_timeline_has_words(node):
    question = node.question()
    sums, wanted = Counter(), Counter()
    judged = states.judged_places(question)
    for one in explain._stretches(judged, question.target, 1):
        assert one.rule
        assert all(one.rule)
        for part in one.parts:
            sums[
                one.gpu_id, one.job_id, part.state, part.kind, part.reason, part.tier, part.signal
            ] += part.gpu_ms
    for one in node.judge().entries:
        wanted[one.gpu_id, one.job_id, one.state, one.kind, one.reason, one.tier, one.signal] += (
            one.gpu_ms
        )
    assert sums == wanted


def test_the_words_name_values_and_thresholds():
    link = QUIET | {"pcie_rx_bytes_s": 1e9}
    post(
        Sender().batch(
            T0, *[HALF | {"power_w": 200.0}] * 2, *[link] * 2, *[QUIET] * 20, BUSY, **JOB
        )
    )

    assert rules(told()) == [
        (
            "active 50 % of the time, busy-waiting 0 %: working 50 % | working at 53.72 % efficiency"
            " (estimated by power): 26.86 % of the time useful, 23.14 % underused | inactive 50 %"
            " of the time"
        ),
        (
            "no activity above 2 % (the highest reading was 0 %), but it works: PCIe traffic to the GPU"
            " 1000 MB/s, more than 52 MB/s | active 0 % of the time, busy-waiting 0 %: working 0 % | inactive"
            " 100 % of the time"
        ),
        (
            "quiet: no activity above 2 % (the highest reading was 0 %), and no other reading shows"
            " work | in a quiet run since 06:04:00 UTC of 20 min, at least the 15 min after which a"
            " batch job is idle: idle from its start"
        ),
        (
            "active 100 % of the time, busy-waiting 0 %: working 100 % | working at 100 % efficiency"
            " (busy, unverified): 100 % of the time useful, 0 % underused"
        ),
    ]


def test_work_that_no_job_and_no_process_explains_is_said():
    post(Sender().batch(T0, EMPTY | {"util_mean": 1.0, "util_max": 1.0, "tensor_active": 0.35}))

    assert rules(told()) == [
        "active 100 % of the time, busy-waiting 0 %: working 100 % | working at 100 % efficiency"
        " (by sensors): 100 % of the time useful, 0 % underused"
        " | no job and no process is named, but it works, and nobody knows for whom"
    ]


def test_energy_that_is_estimated_is_marked():
    post(
        Sender().batch(
            T0,
            BUSY | {"power_w": 600.0, "energy_j": 1e9},
            BUSY | {"power_w": 600.0, "energy_j": 36_000.0},
            **JOB,
        )
    )

    estimated, read = (one.rule[-1] for one in told()[:2])

    assert (
        estimated
        == "energy estimated as 600 W × time: the counter's 1000000 kJ are more than 1.3 times what"
        " the power limit allows"
    )
    assert "energy" not in read


def test_short_runs_gaps_and_free_time_are_told_too():
    post(
        Sender().batch(
            T0, *[QUIET] * 5, BUSY, *[QUIET] * 5, BUSY, None, EMPTY, QUIET, window_s=60,
            jobs=[a_job()],
            allocations=[held(end=T0 + 13 * MINUTE)],
        )
    )  # fmt: skip

    found = rules(told())

    assert found[0].endswith(
        "in a quiet run since 06:00:00 UTC that begins at an observed allocation start: starting"
        " for up to 15 min, then stalled"
    )
    assert found[2].endswith(
        "in a quiet run since 06:06:00 UTC of 5 min, less than the 15 min after which a batch job is idle:"
        " stalled"
    )
    assert found[3:] == [
        "no window covers it, and nothing says that it was down",
        (
            "quiet: no activity above 2 % (the highest reading was 0 %), and no other reading shows"
            " work | no allocation, and nothing holds it"
        ),
        (
            "quiet: no activity above 2 % (the highest reading was 0 %), and no other reading shows"
            " work | no allocation, but a process holds it"
        ),
    ]


@pytest.mark.parametrize(("hour", "day"), [(-8, "19 Nov "), (0, "")])
def test_a_quiet_run_began_when_it_began_whatever_hours_are_looked_at(hour, day):
    """Quiet for five hours, busy before and after, from 22:00 the day before or from 06:00."""
    start_ms = T0 + hour * HOUR_MS
    says = [*[BUSY] * 30, *[QUIET] * 300, *[BUSY] * 30]
    job = {"jobs": [a_job()], "allocations": [held(start=start_ms, end=start_ms + 6 * HOUR_MS)]}
    post(Sender().batch(start_ms, *says, **job))

    for first, last in ((0, 6), (0, 1), (2, 3), (5, 6), (4, 6)):
        seen = Interval(from_ms(start_ms + first * HOUR_MS), from_ms(start_ms + last * HOUR_MS))
        quiet = {rule.partition(" | ")[2] for rule in rules(told(seen)) if "quiet run" in rule}

        assert quiet == {
            f"in a quiet run since {day}{from_ms(start_ms):%H}:30:00 UTC of 5 h, at least the"
            " 15 min after which a batch job is idle: idle from its start"
        }


def test_an_outage_and_shared_time_are_told():
    lost = {"events": [{"gpu": 0, "at_ms": T0 + 5 * MINUTE, "kind": "gpu_lost"}]}
    shared = [held(share=0.5), held(job=1, share=0.5)]
    post(
        Sender().batch(
            T0,
            *[BUSY] * 5,
            *[QUIET] * 5,
            jobs=[a_job(), a_job("slurm/della/8")],
            allocations=shared,
            **lost,
        )
    )

    found = rules(told())

    assert found[0].endswith("shared: 30 of 60 s are this holder's")
    assert found[1] == "unavailable: the driver lost it, and nothing yet says that it works"


def test_a_job_a_state_and_a_time_narrow_it():
    post(
        Sender().batch(
            T0,
            *[BUSY] * 30,
            *[EMPTY] * 30,
            jobs=[a_job()],
            allocations=[held(end=T0 + 30 * MINUTE)],
        )
    )
    gpu = GPU.objects.get()
    job_id = Entry.objects.get(state="useful").job_id

    assert len(told()) == 60
    assert len(told(job_id=job_id)) == 30
    assert len(told(states=["free"])) == 30
    assert len(told(Interval(START + timedelta(minutes=10), START + timedelta(minutes=12)))) == 2
    assert [row.state for row in explain.rows(gpu, ALL)] == ["free", "useful"]
    assert [row.state for row in explain.rows(gpu, ALL, job_id=job_id)] == ["useful"]
    assert explain.rows(gpu, ALL, states=["idle"]) == []


def test_six_hours_at_once_and_no_millisecond_more():
    post(Sender().batch(T0, BUSY, **JOB))

    assert told(Interval(START, START + timedelta(hours=6)))
    with pytest.raises(ValueError, match="at most 6 hours"):
        told(Interval(START, START + timedelta(hours=6, milliseconds=1)))


def test_the_newest_hours_of_a_longer_period():
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    gpu = GPU.objects.get()
    whole = Interval(START - timedelta(days=1, minutes=5), START + timedelta(minutes=5))

    assert explain.newest(gpu, whole) == Interval(
        START - timedelta(hours=5), START + timedelta(minutes=5)
    )
    assert explain.newest(gpu, ALL) == ALL


def test_the_newest_hours_are_those_with_something_to_explain():
    post(Sender().batch(T0, *[BUSY] * 60, **JOB))
    gpu, job_id = GPU.objects.get(), Job.objects.get().pk
    week = Interval(START - timedelta(days=4), START + timedelta(days=3))

    assert explain.newest(gpu, week, job_id=job_id) == Interval(
        START - timedelta(hours=5), START + timedelta(hours=1)
    )
    assert explain.newest(gpu, week, states=["idle"]) == Interval(
        week.end - timedelta(hours=6), week.end
    )


def test_an_instance_is_told_without_its_parent():
    instance = {
        "uuid": "MIG-n1-0",
        "index": 9,
        "parent_uuid": "GPU-n1-0",
        "mig_profile": "3g.40gb",
        "sm_count": 33,
    }
    mapping = Sender(extra_gpus=[instance]).batch(
        T0, *[BUSY] * 10, jobs=[a_job()], allocations=[held(gpu=1)]
    )
    mapping["gpus"][0]["sm_count"] = 132
    post(mapping)

    alone, whole = explain.stretches(GPU.objects.get(index=9), ALL), told()

    assert sum(one.gpu_ms for one in alone) == 10 * MINUTE // 4
    assert sum(one.gpu_ms for one in whole) == 10 * MINUTE


def test_hours_whose_windows_are_gone_say_so():
    interval = Interval(from_ms(T0), from_ms(T0 + HOUR_MS))

    assert not explain.is_final(interval, NOW)
    assert explain.is_final(interval, NOW + timedelta(days=36))
