"""Whose jobs are is kept by the process, and read again of those that changed."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event

import numpy as np
import pytest
from django.db import connection, transaction

from fleetwatch.accounts.models import Team
from fleetwatch.costs import owner_changes
from fleetwatch.costs.models import Attribution, MappingRule, OwnerChange
from fleetwatch.figures import job_owners, selectors
from fleetwatch.figures.job_owners import Owner, every_owner, owners_of
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.sql import execute
from tests.costs.factories import HOUR, LONG_AGO, a_gpu, a_job, a_rate, an_entry

JULY = datetime(2026, 7, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(job_owners._memory, "reading", None)


def owners(known):
    """By job id whose it is, and from when to when."""
    rows: dict[int, list[Owner]] = {}
    for job, owner in zip(known.job.tolist(), known.owner.tolist(), strict=True):
        rows.setdefault(job, []).append(known.owners[owner])
    return {job: set(of_job) for job, of_job in rows.items()}


def users(known):
    return {job: {owner.user_name for owner in of_job} for job, of_job in owners(known).items()}


def attributed(job, *, team=None, since=LONG_AGO, until=None):
    payer = team and Team.objects.get_or_create(slug=team, defaults={"name": team})[0]
    return Attribution.objects.create(
        job=job, team=payer, is_named=True, valid_from=since, valid_to=until
    )


def test_jobs_that_nobody_changed_are_read_once():
    job = a_job(user="ann")

    first = every_owner()

    assert users(first) == {job.pk: {"ann"}}
    assert every_owner() is first


def test_a_job_that_two_teams_paid_one_after_the_other_is_there_twice():
    job = a_job(user="ann", team="nlp")
    attributed(job, team="nlp", until=JULY)
    attributed(job, team="vision", since=JULY)

    found = owners(every_owner())

    assert {(each.valid_from, each.valid_to) for each in found[job.pk]} == {
        (LONG_AGO, JULY),
        (JULY, None),
    }


CHANGES = {
    "a new job": lambda job: a_job(user="cy"),
    "another user": lambda job: Job.objects.filter(pk=job.pk).update(user="cy"),
    "an account": lambda job: Job.objects.filter(pk=job.pk).update(account="grant-7"),
    "no team": lambda job: Job.objects.filter(pk=job.pk).update(team=None),
    "its team is deleted": lambda job: Team.objects.filter(slug="nlp").delete(),
    "a rule speaks for it": lambda job: attributed(job, team="vision"),
    "a rule speaks otherwise": lambda job: Attribution.objects.update(project="blue"),
    "no rule speaks any more": lambda job: Attribution.objects.all().delete(),
    "it is deleted": lambda job: Job.objects.filter(pk=job.pk).delete(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_changed_is_in_the_next_reading_and_the_rest_as_it_was(change):
    job, other, third = (a_job(user=user, team=None) for user in ("", "ben", "dee"))
    Job.objects.filter(pk=job.pk).update(team=Team.objects.create(slug="nlp", name="NLP"))
    attributed(other)
    before = owners(every_owner())

    change(job)

    after = owners(every_owner())
    assert after != before
    assert after == owners(job_owners._read(None))
    assert after[third.pk] == before[third.pk]


def test_what_says_nothing_of_owners_changes_nothing():
    job = a_job()
    first = every_owner()

    Job.objects.filter(pk=job.pk).update(name="another", end_ms=1, user=job.user)

    assert every_owner() is first


def test_a_change_that_was_under_way_is_read_when_it_is_committed():
    slow, quick = a_job(user="ann"), a_job(user="ann")
    is_changed, may_commit = Event(), Event()

    def change():
        with closing(connection), transaction.atomic():
            Job.objects.filter(pk=slow.pk).update(user="slow")
            is_changed.set()
            may_commit.wait(60)

    with ThreadPoolExecutor(1) as worker:
        changing = worker.submit(change)
        is_changed.wait(60)
        every_owner()
        Job.objects.filter(pk=quick.pk).update(user="quick")
        between = users(every_owner())
        may_commit.set()
        changing.result()

    assert between == {slow.pk: {"ann"}, quick.pk: {"quick"}}
    assert users(every_owner()) == {slow.pk: {"slow"}, quick.pk: {"quick"}}


def test_who_changes_a_job_reads_it_and_nobody_else_does_when_it_is_taken_back():
    job = a_job(user="ann")
    first = every_owner()

    with transaction.atomic():
        Job.objects.filter(pk=job.pk).update(user="cy")
        own = users(every_owner())
        transaction.set_rollback(True)

    assert own == {job.pk: {"cy"}}
    assert every_owner() is first


def test_an_older_view_takes_nothing_back():
    job = a_job(user="ann")

    def newest():
        with closing(connection):
            Job.objects.filter(pk=job.pk).update(user="cy")
            return every_owner()

    with ThreadPoolExecutor(1) as worker, transaction.atomic():
        execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        execute("SELECT 1")
        kept = worker.submit(newest).result()
        of_the_older_view = every_owner()

    assert of_the_older_view is kept
    assert users(every_owner()) == {job.pk: {"cy"}}


def test_after_an_hour_all_are_read_anew(monkeypatch):
    a_job()
    first = every_owner()

    monkeypatch.setattr(job_owners, "KEPT_FOR", timedelta())

    assert every_owner() is not first


def test_few_jobs_are_looked_up_and_many_are_kept(monkeypatch):
    monkeypatch.setattr(job_owners, "FEW", 2)
    jobs = np.array(sorted(a_job().pk for _ in range(3)))

    assert set(owners(owners_of(jobs[:2]))) == set(jobs[:2].tolist())
    assert owners_of(jobs) is every_owner()


def test_of_jobs_that_are_asked_for_positions_and_owners_are_given():
    first, second, third = (a_job(user=user) for user in ("ann", "ben", "cy"))
    attributed(second, team="nlp", until=JULY)
    attributed(second, team="vision", since=JULY)

    owned = every_owner().of(np.array([first.pk, second.pk, third.pk + 1]))

    assert owned.at.tolist() == [0, 1, 1]
    assert [owned.owners[place].user_name for place in owned.owner] == ["ann", "ben", "ben"]


class TestForgetting:
    NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)

    def test_a_change_is_kept_for_two_hours_after_it_was_seen_first(self):
        a_job()
        later = self.NOW + owner_changes.KEPT_FOR

        assert owner_changes.forget(self.NOW) == {"deleted": 0}
        assert owner_changes.forget(later) == {"deleted": 0}
        assert OwnerChange.objects.exists()
        assert owner_changes.forget(later + timedelta(seconds=1)) == {"deleted": 1}
        assert not OwnerChange.objects.exists()

    def test_they_are_kept_for_longer_than_a_process_keeps_what_it_read(self):
        assert owner_changes.KEPT_FOR >= 2 * job_owners.KEPT_FOR


def test_dollars_by_owner_are_the_same_of_jobs_that_are_kept_and_that_are_looked_up(monkeypatch):
    gpu, job, other = a_gpu(), a_job(user="ann", team="nlp"), a_job(user="ben", team=None)
    noon = HOUR + timedelta(hours=3)
    attributed(job, team="nlp", until=noon)
    attributed(job, team="vision", since=noon)
    vision = Team.objects.get(slug="vision")
    MappingRule.objects.create(user="ann", team=vision, valid_from=noon, created_at=noon)
    a_rate("2.00", gpu=gpu)
    an_entry(gpu, "useful", HOUR_MS, start=HOUR, job=job)
    an_entry(gpu, "idle", HOUR_MS, start=noon, job=job)
    an_entry(gpu, "idle", HOUR_MS, start=noon + timedelta(hours=1), job=other)
    day = Interval(HOUR, HOUR + timedelta(hours=12))

    def lines(group_by):
        return {line.key: line.totals.cost_usd for line in selectors.breakdown(day, group_by).lines}

    looked_up = {name: lines(name) for name in ("team", "user")}
    monkeypatch.setattr(job_owners, "FEW", 0)

    assert {name: lines(name) for name in ("team", "user")} == looked_up
    assert looked_up["user"] == {"ann": 4, "ben": 2}
    assert (looked_up["team"]["nlp"], looked_up["team"]["vision"]) == (2, 2)
