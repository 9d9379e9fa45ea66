"""What owners of the demo's recurring jobs say of their findings, and what is measured of it."""

from datetime import UTC, datetime, timedelta

import pytest

from agent.sources.simulated.archetypes import BY_NAME
from agent.sources.simulated.recurring import DAY_MS, runs_of_day
from fleetwatch.accounts.models import User
from fleetwatch.demo import cast, demo_decisions, demo_fixes
from fleetwatch.diagnosis.models import CauseEntry, Finding, Fix, Said
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.lib.intervals import from_ms
from tests.costs.factories import a_gpu

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TODAY = 20_779  # 2026-11-22 in days since the epoch
HALF = 0.5  # of a wasteful run is wasted


@pytest.fixture
def past():
    """Two weeks of the recurring jobs, as diagnosed: of a wasteful run all has the cause, of a
    mended one nothing.
    """
    User.objects.create(username="admin", role=User.Role.ADMIN)
    gpu = a_gpu()
    for run in (run for day in range(TODAY - 14, TODAY) for run in runs_of_day(7, day)):
        job = Job.objects.create(
            key=f"slurm/a/{run.name}/{run.start_ms}",
            user=run.series.user,
            name=run.name,
            start_ms=run.start_ms,
            end_ms=run.end_ms,
        )
        Allocation.objects.create(gpu=gpu, job=job, source="slurm")
        truth, held_ms = BY_NAME[run.archetype].truth, run.end_ms - run.start_ms
        wasted_ms = 0 if truth == "healthy" else int(held_ms * HALF)
        parts = dict.fromkeys(
            (
                "idle_certain_ms",
                "idle_probable_ms",
                "stalled_potential_ms",
                "underused_ms",
                "low_ms",
            ),
            0,
        )
        CauseEntry.objects.create(
            node=gpu.node, gpu=gpu, job=job, start=from_ms(run.start_ms), cause=truth, confidence=3,
            cells=1, held_ms=held_ms,
            stalled_probable_ms=wasted_ms, high_ms=wasted_ms, **parts,
        )  # fmt: skip
        if wasted_ms:
            Finding.objects.create(job=job, cause=truth, first_ms=run.start_ms, last_ms=run.end_ms)


def test_the_last_run_before_is_called_fixed_when_it_was_mended(past):
    assert demo_fixes.decide_fixes(NOW, days=14) == 3

    said = Said.objects.get(finding__job__name="tiles-refresh-2077")
    assert (said.kind, said.at, said.note) == (
        "fixed",
        datetime(2026, 11, 16, tzinfo=UTC),
        "tiles are copied to local NVMe before the first epoch",
    )
    assert said.finding.job.end_ms < (TODAY - 6) * DAY_MS < said.finding.job.end_ms + DAY_MS


def test_one_fix_is_seen_to_have_saved_hours_and_others_to_be_back(past):
    demo_fixes.decide_fixes(NOW, days=14)

    outcomes = {fix.job_name: fix.outcome for fix in Fix.objects.all()}
    assert outcomes == {
        "tiles-refresh-2077": "regressed",
        "reward-refresh-2076": "regressed",
        "reward-refresh-2077": "improved",
    }
    improved = Fix.objects.get(outcome="improved")
    assert (improved.useful_before, improved.useful_after, improved.was_noticed) == (
        pytest.approx(0.5),
        1.0,
        False,
    )
    assert 0 < improved.saved_low_ms <= improved.saved_high_ms


def test_told_again_nothing_is_said_twice_and_what_people_said_stays(past):
    demo_fixes.decide_fixes(NOW, days=14)
    Said.objects.filter(finding__job__name="tiles-refresh-2077").update(kind=Said.Kind.REOPENED)

    assert demo_fixes.decide_fixes(NOW, days=14) == 0
    assert Said.objects.count() == 3


def test_nothing_is_diagnosed_before_anything_was_posted():
    assert not demo_fixes.is_diagnosed(NOW, days=14)
    assert not demo_fixes.is_diagnosed(NOW + timedelta(days=1), days=1)


def test_of_open_findings_people_decide_about_those_that_are_theirs(past):
    cast.make_people("violet harbour eighty-four", now=NOW)
    demo_fixes.decide_fixes(NOW, days=14)

    # of noor's findings it is not priya's to say anything
    assert demo_decisions.decide_some(NOW) == 1

    said = Said.objects.exclude(kind="fixed").get()
    assert (said.kind, said.by.username, said.finding.cause) == (
        "accepted",
        "amara",
        "checkpoint_stall",
    )
    assert said.finding.status == "accepted"
    assert demo_decisions.decide_some(NOW) == 0
