"""Policies tried in the background: rows that workers claim, go on with, and end."""

from datetime import timedelta

import pytest
import time_machine

from fleetwatch.finance import policy_trial, trial_runs
from fleetwatch.finance.models import PolicyTrial
from fleetwatch.finance.trial_sums import GROUPS, TrialSums
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import newest_policy
from fleetwatch.ledger.trial import TrialError
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from tests.costs.factories import a_rate
from tests.ledger.fleet import BUSY, QUIET, START, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db
HOUR = Interval(START, START + timedelta(hours=1))
NOW = HOUR.end
NODES = ("n1", "n2", "n3")
CHANGED = {"idle_batch_s": 300.0}


@pytest.fixture(autouse=True)
def _fleet():
    """An hour of three nodes: jobs on two work for 50 minutes and rest for 10, one rests."""
    with time_machine.travel(NOW, tick=False):
        quiet_in_the_end = (*[BUSY] * 50, *[QUIET] * 10)
        for node in NODES[:2]:
            post(
                Sender(node=node).batch(T0, *quiet_in_the_end, jobs=[a_job()], allocations=[held()])
            )
        post(Sender(node=NODES[2]).batch(T0, *[QUIET] * 60))
        for gpu in GPU.objects.filter(node__name="n1"):
            a_rate("3.60", gpu=gpu)
        yield


def asked(**changed: float) -> PolicyTrial:
    return trial_runs.ask(newest_policy(), changed or CHANGED, HOUR, by="vera", now=NOW)


def lines_of(trial: PolicyTrial) -> dict:
    trial.refresh_from_db()
    sums = TrialSums.from_json(trial.sums)
    return {grouping: sums.lines(grouping) for grouping in GROUPS}


def test_in_the_background_it_says_what_it_says_at_once():
    trial = asked()

    assert trial_runs.advance(NOW) == {"nodes": 3}

    at_once = policy_trial.compare_by(GROUPS, Policy(), Policy(idle_batch_s=300), HOUR)
    assert lines_of(trial)["state"] == at_once["state"]
    assert lines_of(trial)["team"] == at_once["team"]
    assert trial.state == "done"
    assert trial.finished_at == NOW


def test_of_jobs_those_are_kept_whose_time_moves():
    moved = asked()
    trial_runs.advance(NOW)
    unmoved = asked(idle_batch_s=1000.0)
    trial_runs.advance(NOW)

    assert {line.group for line in lines_of(moved)["job"]} == {"slurm/della/7"}
    assert lines_of(unmoved)["job"] == []
    assert len(lines_of(unmoved)["state"]) == len(lines_of(moved)["state"]) - 1


def test_a_worker_whose_time_is_over_leaves_the_rest_to_the_next(monkeypatch):
    monkeypatch.setattr(trial_runs, "WORK_S", -1.0)
    trial = asked()

    steps = [trial_runs.advance(NOW)["nodes"] for _ in range(4)]

    assert steps == [1, 1, 1, 0]
    assert lines_of(trial)["state"] == policy_trial.compare(
        Policy(), Policy(idle_batch_s=300), HOUR
    )


def killed(monkeypatch, *, at_node: int) -> None:
    """A worker that keeps each node and dies at the so-manieth."""
    judge = trial_runs._judge
    judged = []

    def judge_or_die(*arguments) -> None:
        judged.append(arguments)
        if len(judged) == at_node:
            raise KeyboardInterrupt
        judge(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(trial_runs, "KEEP_EVERY_S", -1.0)
        patched.setattr(trial_runs, "_judge", judge_or_die)
        with pytest.raises(KeyboardInterrupt):
            trial_runs.advance(NOW)


def test_what_a_killed_worker_kept_is_not_judged_again(monkeypatch):
    trial = asked()
    killed(monkeypatch, at_node=3)
    lapsed = NOW + trial_runs.CLAIMED_FOR + timedelta(seconds=1)

    assert trial_runs.advance(NOW) == {"nodes": 0}  # may be alive
    assert trial_runs.advance(lapsed) == {"nodes": 1}
    assert lines_of(trial)["state"] == policy_trial.compare(
        Policy(), Policy(idle_batch_s=300), HOUR
    )


def test_who_was_taken_for_dead_adds_nothing(monkeypatch):
    trial = asked()
    slow = trial_runs._claim(NOW)
    lapsed = NOW + trial_runs.CLAIMED_FOR + timedelta(seconds=1)
    trial_runs.advance(lapsed)

    trial_runs._work(slow)

    trial.refresh_from_db()
    assert trial.nodes_done == 3


def test_a_stopped_trial_ends_with_the_node_that_is_judged(monkeypatch):
    monkeypatch.setattr(trial_runs, "KEEP_EVERY_S", -1.0)
    trial = asked()
    judge = trial_runs._judge

    def judge_and_stop(*arguments) -> None:
        judge(*arguments)
        trial_runs.stop(trial.pk, now=NOW)

    monkeypatch.setattr(trial_runs, "_judge", judge_and_stop)

    assert trial_runs.advance(NOW) == {"nodes": 1}
    trial.refresh_from_db()
    assert trial.state == "stopped"
    assert not trial_runs.stop(trial.pk, now=NOW)


def test_a_trial_that_fails_says_so_and_the_next_is_taken(monkeypatch):
    trial = asked()
    monkeypatch.setattr(trial_runs, "_judge", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        trial_runs.advance(NOW)

    trial.refresh_from_db()
    assert trial.state == "failed"
    assert asked().state == "running"


def test_one_runs_at_a_time():
    asked()

    with pytest.raises(RefusedFieldError, match="Another trial is running"):
        asked()


def test_a_policy_that_reaches_farther_than_is_kept_is_refused():
    with pytest.raises(TrialError, match="more of the past"):
        asked(idle_batch_s=9e9)


def test_the_newest_trials_are_kept(monkeypatch):
    monkeypatch.setattr(trial_runs, "KEPT", 2)
    for _ in range(3):
        trial_runs.stop(asked().pk, now=NOW)

    assert PolicyTrial.objects.count() == 2
    assert trial_runs.newest().first().pk == PolicyTrial.objects.latest("pk").pk


def test_with_nothing_to_try_nothing_is_done():
    assert trial_runs.advance(NOW) == {"nodes": 0}
