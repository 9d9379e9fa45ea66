"""Which GPUs a finding's evidence is drawn of."""

from dataclasses import replace
from typing import Any

import pytest
from django.db.models import Sum

from fleetwatch.diagnosis import services
from fleetwatch.diagnosis.cause import Pauses
from fleetwatch.diagnosis.findings.evidence import Evidence, Read, each_once, evidence
from fleetwatch.diagnosis.findings.excerpts import Excerpt, WindowReadings
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry
from tests.ledger.fleet import BUSY, EMPTY, MINUTE, NOW, QUIET, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db

SLOW = {"sm_clock_hz": 1.0e9, "sm_clock_max_hz": 2.0e9}
FAST = {"sm_clock_hz": 1.8e9, "sm_clock_max_hz": 2.0e9}


def drawn(cause: str, *says: dict) -> tuple[str, str | None]:
    """Of a job with a GPU on each of so many nodes, two hours long: the node of the GPU looked at,
    and of the one beside it.
    """
    job = a_job()
    for number, said in enumerate(says):
        post(
            Sender(f"n{number}").batch(
                T0, *[said] * 120, jobs=[job], allocations=[held(end=T0 + 120 * 60_000)]
            )
        )
    services.diagnose(NOW, 1000)
    found = evidence(Job.objects.get(), cause)
    return found.gpu.node.name, found.beside and found.beside.node.name


def test_beside_an_unused_gpu_stands_the_jobs_busiest():
    assert drawn("partial_idle", BUSY | {"util_mean": 0.5}, QUIET, BUSY) == ("n1", "n2")


def unused(minutes: int, *, then: int = 60) -> Evidence:
    """Of a job that ends after so many minutes, whose other GPU is idle from then on; it read 80 %
    until then.
    """
    end = T0 + minutes * MINUTE
    job = a_job(start_ms=T0, end_ms=end)
    for node, said in (("n0", QUIET), ("n1", BUSY | {"util_mean": 0.8})):
        says = [said] * minutes + [QUIET] * then
        post(Sender(node).batch(T0, *says, jobs=[job], allocations=[held(end=end)]))
    services.diagnose(NOW, 1000)
    Job.objects.update(start_ms=T0, end_ms=end)
    return evidence(Job.objects.get(), "partial_idle")


def test_an_unused_gpu_is_judged_by_the_last_half_hour_that_its_job_held_whole():
    """It ends one minute into an hour, and into a cell of which the other four are nobody's."""
    seen = unused(61)

    assert (seen.start_ms, seen.end_ms) == (T0 + 30 * MINUTE, T0 + 60 * MINUTE)
    signs = {sign.feature: sign.text for sign in seen.signs}
    assert signs["job_util_max"] == "80 %"
    assert (seen.gpu.node.name, seen.beside.node.name) == ("n0", "n1")


def test_an_unused_gpu_of_a_job_that_never_held_a_whole_half_hour_is_judged_as_it_is():
    seen = unused(28)

    assert (seen.end_ms - seen.start_ms) <= 28 * MINUTE
    assert all(sign.is_met for sign in seen.signs)


def test_of_a_slow_rank_the_slow_one_is_looked_at_and_not_those_that_wait_for_it():
    watts = [{"power_w": 500.0}, {"power_w": 510.0}, {"power_w": 520.0}]

    # beside it the GPU in the middle of the others
    assert drawn(
        "straggler",
        BUSY | FAST | watts[0],
        BUSY | FAST | watts[1],
        BUSY | SLOW,
        BUSY | FAST | watts[2],
    ) == ("n2", "n1")


def test_of_a_cause_that_compares_nothing_no_other_gpu_is_drawn():
    assert drawn("idle_held", QUIET, QUIET) == ("n0", None)


def test_without_such_a_cause_there_is_no_evidence():
    post(Sender().batch(T0, *[EMPTY] * 60, jobs=[a_job()], allocations=[held()]))
    services.diagnose(NOW, 1000)

    assert evidence(Job.objects.get(), "hung") is None


def test_what_was_measured_ends_with_the_newest_window_and_not_with_its_cell():
    """The last of 58 minutes lie in the cell from 55 to 60."""
    post(
        Sender().batch(T0, *[QUIET] * 58, jobs=[a_job()], allocations=[held(end=T0 + 58 * 60_000)])
    )
    services.diagnose(NOW, 1000)

    found = evidence(Job.objects.get(), "idle_held")
    assert (found.start_ms - T0) // 60_000 % 5 == 0
    assert found.end_ms == T0 + 58 * 60_000


def test_what_decided_is_none_of_the_time_in_which_the_job_had_ended():
    """It ends 3 minutes after a cell began; another one holds the GPU from then on."""
    end = T0 + 58 * 60_000
    held_next = held(job=1, start=end, end=end + 60 * 60_000)
    jobs = [a_job(end_ms=end), a_job("slurm/della/8", start_ms=end)]
    says = [QUIET] * 58 + [BUSY] * 60
    post(Sender().batch(T0, *says, jobs=jobs, allocations=[held(end=end), held_next]))
    services.diagnose(NOW, 1000)

    found = evidence(Job.objects.get(key="slurm/della/7"), "idle_held")
    assert found.end_ms == T0 + 55 * 60_000


def test_pauses_are_the_times_in_which_all_gpus_of_the_job_were_idle():
    """One GPU is idle for 100 minutes of two hours, the other for the last 60 and the first 40."""
    whole = 120
    first = [QUIET] * 100 + [BUSY] * 20
    second = [QUIET] * 40 + [BUSY] * 20 + [QUIET] * 60
    job = a_job(kind="interactive")
    for node, says in (("n0", first), ("n1", second)):
        end = T0 + whole * 60_000
        post(Sender(node).batch(T0, *says, jobs=[job], allocations=[held(end=end)]))
    services.diagnose(NOW, 1000)

    facts = evidence(Job.objects.get(), "idle_held").facts

    spans = ((T0, T0 + 40 * MINUTE), (T0 + 60 * MINUTE, T0 + 100 * MINUTE))
    assert facts.pauses == Pauses(
        spans, 1800.0, idle_gpu_ms=200 * MINUTE, worked_ms=T0 + 120 * MINUTE
    )


# a kernel for half a second of its minute: too little to end the ledger's run
MOMENT = QUIET | {"util_mean": 0.01, "util_max": 0.5}


def evidence_of_session(*says: dict, lasts: int = 0, **facts: Any) -> Evidence:
    """Of an interactive job that reads so from T0 on, a minute each, and ended after so many."""
    end = T0 + (lasts or len(says)) * MINUTE
    ended = a_job(kind="interactive", end_ms=end, **facts)
    post(Sender().batch(T0, *says, jobs=[ended], allocations=[held(end=end)]))
    services.diagnose(NOW, 1000)
    Job.objects.update(end_ms=end)
    return evidence(Job.objects.get(), "idle_held")


def test_a_pause_goes_on_over_a_moment_of_work_as_the_ledgers_run_does():
    """The moment lies in the first of the pause's two hours; of its time 0.6 s are no idle."""
    says = [QUIET] * 36 + [MOMENT] + [QUIET] * 34 + [BUSY] * 10 + [QUIET] * 39

    pauses = evidence_of_session(*says).facts.pauses

    assert pauses.spans == ((T0, T0 + 71 * MINUTE), (T0 + 81 * MINUTE, T0 + 120 * MINUTE))
    assert pauses.idle_gpu_ms == 110 * MINUTE - 600
    assert pauses.counted == pytest.approx(1 - 0.01 / 110)
    assert (pauses.has_moments, pauses.are_all) == (True, False)
    assert pauses.worked_ms == T0 + 81 * MINUTE
    entries = Entry.objects.filter(state="idle").aggregate(Sum("gpu_ms"))
    assert pauses.idle_gpu_ms == entries["gpu_ms__sum"]


@pytest.mark.parametrize(("minutes", "count"), [(29, 0), (30, 1), (31, 1)])
def test_a_pause_is_what_the_ledger_calls_idle(minutes, count):
    says = [BUSY] * 10 + [QUIET] * minutes + [BUSY] * 10 + [QUIET] * 40

    pauses = evidence_of_session(*says).facts.pauses

    assert len(pauses.spans) == count + 1
    assert pauses.idle_gpu_ms == (count * minutes + 40) * MINUTE


def test_a_pause_decides_and_not_the_minutes_of_its_last_cell():
    """It rests from 61 to 117 minutes, of which the last five begin with 115."""
    says = [BUSY] * 61 + [QUIET] * 59

    seen = evidence_of_session(*says, lasts=117)

    assert (seen.start_ms, seen.end_ms) == (T0 + 65 * MINUTE, T0 + 117 * MINUTE)
    assert [(sign.label, sign.text) for sign in seen.deciding] == [("time idle", "100 %")]


def quiet_sign(seen: Evidence) -> tuple[str, bool]:
    return next((sign.text, sign.is_met) for sign in seen.signs if sign.feature == "quiet_s")


def test_the_quiet_run_that_decides_is_the_ledgers_and_ends_with_the_job():
    """It works 3 s at 70: quiet from 41 to 70, and from 71 to 88, when it ends within a cell."""
    moment = QUIET | {"util_mean": 0.03, "util_max": 0.58, "util_longest_low_s": 57.0}
    says = [BUSY] * 41 + [QUIET] * 29 + [moment] + [QUIET] * 49

    seen = evidence_of_session(*says, lasts=88)

    assert (seen.start_ms, seen.end_ms) == (T0 + 60 * MINUTE, T0 + 88 * MINUTE)
    assert quiet_sign(seen) == ("29 min", True)
    assert seen.facts.pauses.spans == ()


def test_of_a_session_that_goes_on_a_quiet_run_is_counted_from_its_beginning():
    """Quiet from 10 to 110 minutes, at work for half a minute then, and quiet for 12 more."""
    moment = QUIET | {"util_mean": 0.5, "util_max": 1.0}

    seen = evidence_of_session(*[BUSY] * 10, *[QUIET] * 100, moment, *[QUIET] * 12)

    assert quiet_sign(seen) == ("1 h 40 min", True)
    assert seen.facts.pauses.spans == ((T0 + 10 * MINUTE, T0 + 110 * MINUTE),)


@pytest.mark.parametrize(("minutes", "is_one"), [(9, False), (10, True), (11, True)])
def test_a_short_session_is_judged_by_its_own_time_and_not_by_what_was_before_it(minutes, is_one):
    """Of a GPU that nobody held, and that was quiet, for 42 minutes before."""
    start, end = T0 + 42 * MINUTE, T0 + (42 + minutes) * MINUTE
    short = a_job(kind="interactive", start_ms=start, end_ms=end)
    allocations = [held(start=start, end=end)]
    post(Sender().batch(T0, *[QUIET] * 90, jobs=[short], allocations=allocations))
    services.diagnose(NOW, 1000)
    Job.objects.update(start_ms=start, end_ms=end)

    seen = evidence(Job.objects.get(), "idle_held")

    assert (seen is not None) == is_one
    if seen:
        assert (seen.start_ms, seen.end_ms) == (start, end)
        assert quiet_sign(seen) == (f"{minutes} min", True)


def test_a_job_that_never_worked_is_told_by_all_of_its_time():
    pauses = evidence_of_session(*[QUIET] * 40).facts.pauses

    assert (pauses.are_all, pauses.worked_ms) == (True, None)
    assert pauses.spans == ((T0, T0 + 40 * MINUTE),)


def test_what_it_did_after_it_was_idle_last_is_known_too():
    """Idle for an hour, then at work for two."""
    pauses = evidence_of_session(*[QUIET] * 60, *[BUSY] * 90).facts.pauses

    assert (pauses.are_all, pauses.worked_ms) == (False, T0 + 150 * MINUTE)
    assert pauses.rest_s == 0


def test_a_moment_of_work_within_a_pause_is_a_sign_of_use_of_its_whole_hour():
    """At work for ten minutes, then at rest until 180 but for a moment at 70."""
    says = [BUSY] * 10 + [QUIET] * 60 + [MOMENT] + [QUIET] * 109

    pauses = evidence_of_session(*says).facts.pauses

    assert pauses.spans == ((T0 + 10 * MINUTE, T0 + 180 * MINUTE),)
    assert (pauses.worked_ms, pauses.rest_s) == (T0 + 120 * MINUTE, 60 * 60.0)


def test_of_a_jobs_only_gpu_no_sign_is_told_twice_and_none_after_its_end():
    """It ended after 57 minutes, of which the cell from 55 to 60 is the last."""
    end = T0 + 57 * 60_000
    ended = a_job(state="COMPLETED", end_ms=end)
    post(Sender().batch(T0, *[QUIET] * 60, jobs=[ended], allocations=[held(end=end)]))
    services.diagnose(NOW, 1000)
    Job.objects.update(end_ms=end)

    seen = evidence(Job.objects.get(), "idle_held")

    assert seen.end_ms == end
    assert [sign.label for sign in seen.signs if "of the job" in sign.label] == []


def test_of_two_bounds_that_are_met_the_one_that_says_more_is_told():
    looser = Read("ranks_apart", "ranks", 0.0, "0", "below 2", is_met=True, is_needed=True)
    stricter = replace(looser, bound="below 1", is_needed=False)
    other = Read("p5", "busy", 0.99, "99 %", "at least 95 %", is_met=True, is_needed=True)

    assert list(each_once((other, looser, stricter), gpus=8)) == [
        other,
        replace(stricter, is_needed=True),
    ]
    unmet = replace(stricter, is_met=False)
    assert list(each_once((looser, unmet), gpus=8)) == [looser]


def test_windows_of_a_minute_that_read_the_same_are_one_line():
    busy = WindowReadings(0, 0.2, 0.9, 1.0, 0.0, 0.0, None)
    windows = (*(replace(busy, start_ms=at * 10_000) for at in range(5)), replace(busy, zeros=0.1))

    windows = (*windows[:-1], replace(windows[-1], start_ms=50_000))
    alike = Excerpt(10, windows).alike

    read = [(window.zeros, count, end_ms) for window, count, end_ms in alike]
    assert read == [(0.0, 5, 50_000), (0.1, 1, 60_000)]
