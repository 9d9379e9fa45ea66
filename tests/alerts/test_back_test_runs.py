"""Back-tests in the background: asked for, worked at, stopped, and what is kept of them."""

from datetime import timedelta

import pytest
import time_machine

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.alerts import back_test_runs, tried_rules
from fleetwatch.alerts.back_test import STEPS, back_test
from fleetwatch.alerts.back_test_runs import MAX_OF_ONE, MAX_WAITING, Asked
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.models import BackTestRun, Rule
from fleetwatch.alerts.services import terms_of
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.operations.background import MAX_TAKEOVERS
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db

RULE = BackTestRun.Kind.RULE


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


def asked(number: int = 1) -> Asked:
    return Asked(
        kind=RULE, what={"n": number}, days=7, steps=2, name="GPU idle", address="/alerts/rules/1"
    )


def ask(number: int = 1, *, by: str = "vera") -> BackTestRun:
    return back_test_runs.ask(asked(number), by=by, now=NOW)


def state_of(run: BackTestRun) -> tuple[str, int]:
    run.refresh_from_db()
    return run.state, run.steps_done


def test_a_worker_tries_it_and_keeps_what_came_of_it():
    run = ask()

    def try_out(what, interval, on_step):
        assert (what["n"], interval) == (1, Interval(NOW - timedelta(days=7), NOW))
        on_step()
        assert state_of(run) == ("running", 1)
        return {"came": "of it"}

    assert back_test_runs.advance(RULE, try_out, NOW) == {"back_tests": 1}
    assert state_of(run) == ("done", 2)
    assert back_test_runs.newest(asked(), now=NOW).result == {"came": "of it"}


def test_what_is_asked_again_while_it_runs_is_the_same_run():
    assert ask() == ask()
    assert ask(2) != ask()
    assert AuditEntry.objects.filter(action="back_test.start").count() == 2


def test_an_outcome_stands_for_an_hour_and_is_forgotten_then():
    ask()
    back_test_runs.advance(RULE, lambda *_: {"large": "outcome"}, NOW)

    assert back_test_runs.newest(asked(), now=NOW + timedelta(minutes=59)) is not None
    assert back_test_runs.newest(asked(), now=NOW + timedelta(minutes=60)) is None
    back_test_runs.advance(RULE, lambda *_: {}, NOW + timedelta(minutes=60))
    assert not BackTestRun.objects.exists()


def test_one_that_waited_for_hours_is_still_the_one_that_is_asked_for():
    run = ask()

    assert back_test_runs.newest(asked(), now=NOW + timedelta(hours=2)) == run
    with time_machine.travel(NOW + timedelta(hours=2), tick=False):
        back_test_runs.advance(RULE, lambda *_: {}, NOW + timedelta(hours=2))
    assert back_test_runs.newest(asked(), now=NOW + timedelta(hours=2)) == run


def test_one_that_is_stopped_ends_with_its_step():
    run = ask()

    def try_out(_what, _interval, on_step):
        back_test_runs.stop(run, now=NOW)
        on_step()
        raise AssertionError("it went on")

    assert back_test_runs.advance(RULE, try_out, NOW) == {"back_tests": 0}
    assert state_of(run) == ("stopped", 0)
    assert back_test_runs.stop(run, now=NOW) is False


def test_one_that_fails_says_so_and_is_asked_for_again():
    run = ask()

    def try_out(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        back_test_runs.advance(RULE, try_out, NOW)
    assert state_of(run)[0] == "failed"
    assert ask() != run


def test_no_second_worker_takes_it_but_where_the_first_is_gone():
    ask()

    def try_out(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_test_runs.advance(RULE, try_out, NOW)
    soon = NOW + back_test_runs.CLAIMED_FOR - timedelta(seconds=1)
    assert back_test_runs.advance(RULE, lambda *_: {}, soon) == {"back_tests": 0}
    assert back_test_runs.advance(RULE, lambda *_: {}, soon + timedelta(seconds=1)) == {
        "back_tests": 1
    }


def test_what_its_workers_die_of_is_not_tried_for_ever():
    run = ask()
    later = NOW

    def kill(*_):
        raise KeyboardInterrupt

    for _ in range(1 + MAX_TAKEOVERS):
        with pytest.raises(KeyboardInterrupt), time_machine.travel(later, tick=False):
            back_test_runs.advance(RULE, kill, later)
        later += back_test_runs.CLAIMED_FOR

    assert back_test_runs.advance(RULE, kill, later) == {"back_tests": 0}
    assert state_of(run)[0] == "failed"


@pytest.mark.parametrize("other", [RULE, BackTestRun.Kind.POLICY])
def test_one_is_worked_at_at_a_time_so_that_other_tasks_have_a_worker(other):
    ask(1)
    second = ask(2)
    BackTestRun.objects.filter(pk=second.pk).update(kind=other)

    def try_out(*_):
        assert back_test_runs.advance(other, try_out, NOW) == {"back_tests": 0}
        return {}

    assert back_test_runs.advance(RULE, try_out, NOW) == {"back_tests": 1}
    assert back_test_runs.advance(other, lambda *_: {}, NOW) == {"back_tests": 1}
    assert state_of(second)[0] == "done"


def test_of_one_person_fewer_wait_than_of_all():
    for number in range(MAX_OF_ONE):
        ask(number)

    with pytest.raises(RefusedFieldError, match="3 of your back-tests are running"):
        ask(MAX_OF_ONE)
    assert ask(MAX_OF_ONE, by="otto").state == "running"


def test_no_more_wait_than_a_few():
    for number in range(MAX_WAITING):
        ask(number, by=f"walker-{number}")

    with pytest.raises(RefusedFieldError, match="Other back-tests are running"):
        ask(MAX_WAITING)
    assert ask(0).state == "running"


@pytest.mark.parametrize("name", ["job_idle", "gpu_idle"])
def test_what_is_kept_of_a_rule_is_what_it_says_at_once(name):
    factories.rate("2.00")
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/1", user="ann", team="nlp")
    stored_runs.store(
        factories.run(gpu, hours_ago=5, hours=2, states={"idle": 2 * HOUR_MS}, held_by=job)
    )
    rule = Rule.objects.get(condition=name)
    own = terms_of(rule).settings, terms_of(rule).scope
    week = Interval(NOW - timedelta(days=7), NOW)
    wanted = tried_rules.asked_of(rule, own, own, days=7, address="/")
    run = back_test_runs.ask(wanted, by="vera", now=NOW)

    back_test_runs.advance(RULE, tried_rules.try_out, NOW)

    run.refresh_from_db()
    at_once = back_test(condition(name), *own, week)
    kept, saved = tried_rules.outcomes_of(run)
    assert (run.state, run.steps_all) == ("done", 2 * STEPS)
    assert kept == saved == at_once
    assert kept.cost_usd == at_once.cost_usd
    assert kept.trials[:1] == at_once.trials[:1]
