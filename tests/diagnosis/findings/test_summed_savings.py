"""What findings could save, summed by group and of some alone, from rows worked out by hand."""

from datetime import timedelta

import pytest

from fleetwatch.diagnosis.findings import inbox
from fleetwatch.figures.totals import EVERYTHING
from fleetwatch.lib.intervals import Interval
from tests.diagnosis.told import DAY, NOW, capacity, cause, finding, gpu, job, place, rate

pytestmark = pytest.mark.django_db

WEEK = Interval(NOW - 7 * DAY, NOW)


EVERY = {"slurm/della/1", "slurm/della/2", "ann", "eve", "n1", "n2"}


def recoverable(group_by, keys):
    return inbox.recoverable_by(group_by, WEEK, keys=keys, now=NOW, scope=EVERYTHING)


def high_usd(group_by):
    saved = recoverable(group_by, EVERY)
    assert saved.of_others.high_usd == 0
    return {key: saving.high_usd for key, saving in saved.by_key.items()}


def test_each_group_has_the_savings_of_its_own_time_under_every_rate_and_cause():
    rate("2.00")
    rate("4.00", valid_from=NOW - timedelta(hours=2))
    mine, hers = job("slurm/della/1"), job("slurm/della/2", user="eve")
    for of, on in ((mine, gpu(0)), (hers, gpu(1, node="n2"))):
        cause(of=of, on=on, start=NOW - timedelta(hours=3))
        finding(of)
    cause("data_starved", of=hers, on=gpu(2), hours=0.5, waste="stalled_probable_ms")
    finding(hers, "data_starved")

    # an hour at $2 each; of hers half an hour at $4 beside, on another node
    assert high_usd("job") == {"slurm/della/1": 2, "slurm/della/2": 4}
    assert high_usd("user") == {"ann": 2, "eve": 4}
    assert high_usd("node") == {"n1": 4, "n2": 2}


@pytest.mark.parametrize(("group_by", "key"), [("job", "slurm/della/2"), ("user", "eve")])
def test_what_groups_that_are_not_shown_could_save_is_one_sum(group_by, key):
    rate()
    for number, user in enumerate(("ann", "eve", "joe")):
        of = job(f"slurm/della/{number + 1}", user=user)
        cause(of=of, on=gpu(number), hours=1 + number)
        finding(of)

    saved = recoverable(group_by, {key, "slurm/della/404"})

    assert {each: saving.high_usd for each, saving in saved.by_key.items()} == {key: 4}
    assert (saved.of_others.high_usd, saved.in_all.high_usd) == (8, 12)
    assert recoverable(group_by, ()).of_others == saved.in_all


def test_what_was_decided_is_in_no_groups_savings():
    rate()
    cause()
    finding(status="dismissed")

    assert high_usd("job") == high_usd("team") == {}


def test_some_findings_have_the_savings_that_the_inbox_says_of_jobs_and_of_places():
    rate()
    asked, other = job("slurm/della/1"), job("slurm/della/2")
    for of, on in ((asked, gpu(0)), (other, gpu(1))):
        cause(of=of, on=on)
    own, others = finding(asked), finding(other)
    capacity("broken", on=gpu(2))
    broken = place("broken", node=gpu(2).node)

    savings = inbox.savings_of({own.pk, broken.pk}, WEEK, now=NOW)

    every = inbox.inbox(WEEK, now=NOW)
    lines = [*every.of_jobs[:], *every.of_places]
    told = {line.finding.pk: line.caused.saving for line in lines}
    assert others.pk in told
    assert savings == {pk: told[pk] for pk in (own.pk, broken.pk)}


def test_of_a_job_finding_no_place_is_looked_at():
    rate()
    cause()

    assert [
        saving.high_usd for saving in inbox.savings_of({finding().pk}, WEEK, now=NOW).values()
    ] == [2]
