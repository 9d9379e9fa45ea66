"""Fixes that somebody told or that are noticed, from causes to dollars."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.diagnosis.findings import fixes, fixing
from fleetwatch.diagnosis.models import CauseEntry, Finding, Fix
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.lib.intervals import Interval, to_ms
from tests.costs.factories import a_gpu, a_rate

pytestmark = pytest.mark.django_db

START = datetime(2026, 10, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HOUR = 3_600_000
NOW = START + 10 * DAY
QUARTER = Interval(START, START + 92 * DAY)
STARVED, SHORTER, FULLER = (10, 5, "data_starved"), (6, 1, "healthy"), (10, 1, "healthy")


@pytest.fixture
def gpu():
    return a_gpu()


def a_run(gpu: GPU, day: int, told: tuple[float, float, str], **facts) -> Job:
    """One run on that day: hours held, of these stalled, and the cause of all of it."""
    hours, wasted, cause = told
    begins = to_ms(START + day * DAY)
    facts = {
        "user": "ann",
        "name": "train",
        "start_ms": begins,
        "end_ms": begins + 12 * HOUR,
    } | facts
    job, _ = Job.objects.get_or_create(
        key=facts.pop("key", f"slurm/della/{facts['name']}-{day}"), defaults=facts
    )
    Allocation.objects.get_or_create(gpu=gpu, job=job, source="slurm")
    nothing = dict.fromkeys(
        (
            "idle_certain_ms",
            "idle_probable_ms",
            "stalled_potential_ms",
            "underused_ms",
            "low_ms",
            "high_ms",
        ),
        0,
    )
    CauseEntry.objects.create(
        node=gpu.node, gpu=gpu, job=job, start=START + day * DAY, cause=cause, confidence=2,
        cells=1, held_ms=hours * HOUR,
        stalled_probable_ms=wasted * HOUR, **nothing,
    )  # fmt: skip
    return job


def fixed(job: Job, day: int, cause: str = "data_starved") -> Finding:
    return Finding.objects.create(
        job=job, cause=cause, first_ms=0, last_ms=1, status="fixed", decided_at=START + day * DAY
    )


def test_a_told_fix_is_measured_by_the_runs_around_it_and_priced(gpu):
    jobs = [a_run(gpu, day, STARVED) for day in range(3)] + [
        a_run(gpu, day, SHORTER) for day in (3, 4, 5)
    ]
    finding = fixed(jobs[2], 3)

    assert fixing.measure(NOW) == {"fixes": 1, "noticed": 0}

    fix = Fix.objects.get()
    assert (fix.finding, fix.outcome, fix.gpus, fix.runs_before, fix.runs_after) == (
        finding,
        "improved",
        1,
        3,
        3,
    )
    assert (fix.useful_before, fix.useful_after) == (0.5, pytest.approx(5 / 6))
    assert (fix.saved_low_ms, fix.saved_high_ms) == (12 * HOUR, 12 * HOUR)


def test_time_that_nobody_saw_is_no_part_of_a_run_and_neither_is_what_of_it_was_wasted(gpu):
    for day in range(6):
        job = a_run(gpu, day, STARVED if day < 3 else SHORTER)
        # of five hours too little was seen to say why, and that was idle
        CauseEntry.objects.create(
            node=gpu.node, gpu=gpu, job=job, start=START + day * DAY, cause="no_telemetry",
            confidence=0, cells=2, held_ms=5 * HOUR,
            idle_certain_ms=2 * HOUR, idle_probable_ms=0, stalled_probable_ms=0,
            stalled_potential_ms=0, underused_ms=0,
            low_ms=0, high_ms=0,
        )  # fmt: skip
    fixed(Job.objects.get(key="slurm/della/train-2"), 3)
    fixing.measure(NOW)

    fix = Fix.objects.get()
    assert (fix.useful_before, fix.useful_after) == (0.5, pytest.approx(5 / 6))


def test_what_nobody_told_is_noticed_and_stays_where_it_was_noticed(gpu):
    for day in range(3):
        a_run(gpu, day, STARVED)
    for day in (3, 4, 5):
        a_run(gpu, day, FULLER)

    assert fixing.measure(NOW) == {"fixes": 1, "noticed": 1}
    for day in (6, 7, 8):
        a_run(gpu, day, STARVED)
    fixing.measure(NOW)

    fix = Fix.objects.get()
    assert (fix.was_noticed, fix.at, fix.outcome) == (True, START + 3 * DAY, "regressed")
    assert fix.saved_high_ms == 0


def test_twice_changes_nothing(gpu):
    for day in range(6):
        a_run(gpu, day, STARVED if day < 3 else SHORTER)
    fixing.measure(NOW)
    before = list(Fix.objects.values())

    fixing.measure(NOW)

    assert list(Fix.objects.values()) == before


def test_a_finding_that_is_open_again_takes_its_fix_with_it(gpu):
    jobs = [a_run(gpu, day, STARVED) for day in range(2)]
    finding = fixed(jobs[1], 2)
    fixing.measure(NOW)
    assert Fix.objects.get().outcome == "waiting"

    Finding.objects.filter(pk=finding.pk).update(status="open")

    assert fixing.measure(NOW) == {"fixes": 0, "noticed": 0}
    assert not Fix.objects.exists()


def test_jobs_without_a_name_or_of_another_size_are_no_runs_of_the_series(gpu):
    jobs = [a_run(gpu, day, STARVED) for day in range(3)]
    for day in (3, 4):
        a_run(gpu, day, SHORTER)
    a_run(gpu, 5, SHORTER, name="", key="slurm/della/nameless")
    for one in (gpu, a_gpu()):
        a_run(one, 6, SHORTER)
    fixed(jobs[0], 3)

    fixing.measure(NOW)

    assert (Fix.objects.get().runs_after, Fix.objects.get().outcome) == (2, "waiting")


def test_a_fix_keeps_its_figures_when_the_runs_before_it_are_too_old_to_be_read(gpu):
    jobs = [a_run(gpu, day, STARVED) for day in range(3)] + [
        a_run(gpu, day, SHORTER) for day in (3, 4, 5)
    ]
    fixed(jobs[2], 3)
    fixing.measure(NOW)
    before = list(Fix.objects.values())
    a_run(gpu, 90, SHORTER)

    for day in (92, 100, 200):
        fixing.measure(START + day * DAY)
        assert list(Fix.objects.values()) == before, day


def test_a_run_that_goes_on_is_not_looked_at_yet(gpu):
    for day in range(3):
        a_run(gpu, day, STARVED)
    for day in (3, 4, 9):
        a_run(gpu, day, SHORTER, end_ms=None)

    assert fixing.measure(NOW) == {"fixes": 0, "noticed": 0}  # the one of the last day may go on
    assert fixing.measure(NOW + 2 * DAY) == {"fixes": 1, "noticed": 1}


def test_days_of_a_service_are_its_runs_whatever_it_holds(gpu):
    service = {"key": "kubernetes/prod/chat", "name": "chat", "kind": "service", "end_ms": None}
    for day in range(3):
        job = a_run(gpu, day, (24, 20, "bursty_service"), **service)
    for day in (3, 4, 5):
        a_run(gpu, day, (8, 4, "healthy"), **service)
    fixed(job, 3, "bursty_service")

    fixing.measure(NOW)

    fix = Fix.objects.get()
    assert (fix.gpus, fix.runs_before, fix.runs_after) == (None, 3, 3)
    assert fix.saved_low_ms == 3 * 16 * HOUR


def test_the_top_fixes_are_those_that_saved_most_and_the_unproven_come_last(gpu):
    for name, after in (("a", FULLER), ("b", SHORTER), ("c", STARVED)):
        jobs = [a_run(gpu, day, STARVED if day < 3 else after, name=name) for day in range(6)]
        fixed(jobs[0], 3)
    a_rate("2.00", gpu=gpu)
    fixing.measure(NOW)

    top = fixes.top_fixes(QUARTER)

    assert [(one.fix.job_name, one.fix.outcome) for one in top] == [
        ("b", "improved"),
        ("a", "improved"),
        ("c", "unproven"),
    ]
    assert [one.saving.high_usd for one in top] == [Decimal(24), 0, 0]
    assert fixes.realised(top).low_ms == 12 * HOUR
    assert fixes.top_fixes(Interval(START + 4 * DAY, START + 5 * DAY)) == []


@pytest.mark.parametrize(
    ("narrowing", "names"),
    [
        ({}, ["a", "b"]),
        ({"job_name": "a"}, ["a"]),
        ({"cause": "checkpoint_stall"}, []),
        ({"team": "nlp"}, ["b"]),
        ({"team": "nlp", "job_name": "a"}, []),
        ({"node": "elsewhere"}, ["a", "b"]),  # of what node a fix is nobody knows
    ],
)
def test_fixes_are_narrowed_as_their_series_jobs_are(gpu, narrowing, names):
    for name in ("a", "b"):
        fixed(a_run(gpu, 0, STARVED, name=name), 3)
    Job.objects.filter(name="b").update(team=Team.objects.create(slug="nlp"))
    fixing.measure(NOW)

    top = fixes.top_fixes(QUARTER, narrowing)

    assert sorted(each.fix.job_name for each in top) == names


def test_two_fixes_of_one_job_that_the_same_shorter_runs_measure_are_summed_once(gpu):
    jobs = [a_run(gpu, day, STARVED if day < 3 else SHORTER) for day in range(6)]
    for cause in ("data_starved", "checkpoint_stall"):
        fixed(jobs[0], 3, cause)
    a_rate("2.00", gpu=gpu)
    fixing.measure(NOW)

    top = fixes.top_fixes(QUARTER)

    assert [one.saving.high_ms for one in top] == [12 * HOUR, 12 * HOUR]
    # three runs are four hours shorter each, however many changes brought that
    assert (fixes.realised(top).high_ms, fixes.realised(top).high_usd) == (12 * HOUR, Decimal(24))


def test_a_findings_fix_is_told_once_it_is_measured(gpu):
    jobs = [a_run(gpu, day, STARVED if day < 3 else SHORTER) for day in range(6)]
    finding = fixed(jobs[0], 3)
    assert fixes.of_finding(finding) is None

    fixing.measure(NOW)

    found = fixes.of_finding(finding)
    assert found is not None
    assert found.effect == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("at", "start", "end"),
    [
        (datetime(2026, 11, 22, tzinfo=UTC), (2026, 10), (2027, 1)),
        (datetime(2026, 3, 31, 22, 30, tzinfo=UTC), (2026, 4), (2026, 7)),  # in Berlin it is April
        (datetime(2026, 1, 1, tzinfo=UTC), (2026, 1), (2026, 4)),
    ],
)
def test_a_quarter_begins_at_the_organisations_midnight(at, start, end):
    berlin = ZoneInfo("Europe/Berlin")

    assert fixes.quarter(at, berlin) == Interval(
        datetime(*start, 1, tzinfo=berlin), datetime(*end, 1, tzinfo=berlin)
    )
