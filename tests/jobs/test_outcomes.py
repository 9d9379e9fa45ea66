"""No job that ended is said to run: its scheduler answers, and names it no longer."""

import pytest

from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import LAG_MS, with_outcomes
from tests.jobs.test_run_ends import MINUTE, T0, history, names, store

pytestmark = pytest.mark.django_db

LAG = LAG_MS // MINUTE


def state():
    return [job.state for job in with_outcomes(Job.objects.all())]


def held(minutes, *, node="n1", state="RUNNING", **facts):
    return names(T0 + minutes * MINUTE, since_ms=T0, node=node, state=state, **facts)


def answers(minute, *, node="n1", ok=True, kind="slurm"):
    """A batch of the half minute before `minute`, that names no job."""
    nothing = {"jobs": [], "allocations": [], "sources": [{"kind": kind, "ok": ok}]}
    return names(T0 + minute * MINUTE, node=node) | nothing


@pytest.mark.parametrize(
    ("after", "expected"), [(LAG - 1, "RUNNING"), (LAG, "ENDED"), (LAG + 1, "ENDED")]
)
def test_a_job_that_its_scheduler_names_no_longer_has_ended(after, expected):
    store(**held(20))
    store(**answers(20 + after))

    assert state() == [expected]
    assert Job.objects.get().state == "RUNNING"  # as it was told last


@pytest.mark.parametrize("silent", [{"ok": False}, {"kind": "process"}])
def test_where_the_scheduler_does_not_answer_nothing_is_known(silent):
    store(**held(20))
    store(**answers(60, **silent))

    assert state() == ["RUNNING"]


def test_a_job_on_two_nodes_runs_until_neither_names_it():
    store(**held(20, node="n1"))
    store(**held(60, node="n2"))
    store(**answers(65, node="n1"))
    one = state()
    store(**answers(60 + LAG, node="n2"))

    assert (one, state()) == (["RUNNING"], ["ENDED"])


def test_a_job_that_no_scheduler_gave_out_may_go_on_unseen():
    store(**held(20, source="process"))
    store(**answers(60, kind="process"))

    assert state() == ["RUNNING"]


def test_a_job_that_is_named_again_runs():
    store(**held(20))
    store(**answers(40))
    left = state()
    store(**names(T0 + 60 * MINUTE, start_ms=T0 + 59 * MINUTE, state="RUNNING", restarts=1))

    assert (left, state()) == (["ENDED"], ["RUNNING"])


def test_what_was_told_of_the_end_is_not_touched():
    store(**held(20))
    store(**answers(60))
    store(**history(T0 + 20 * MINUTE, state="OUT_OF_MEMORY"))

    assert state() == ["OUT_OF_MEMORY"]


def test_jobs_that_do_not_run_ask_nothing(django_assert_num_queries):
    store(**held(20, state="COMPLETING"))
    known = list(Job.objects.all())

    with django_assert_num_queries(0):
        assert [job.state for job in with_outcomes(known)] == ["COMPLETING"]
