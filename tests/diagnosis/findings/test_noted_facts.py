"""Numbers of findings' newest windows, noted so that lists give each its own advice."""

import pytest
from django.core.cache import cache
from redis import RedisError

from fleetwatch.diagnosis import selectors, services
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.diagnosis.findings.noted_facts import advice_of, note
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from tests.ledger.fleet import BUSY, NOW, QUIET, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db
HALF_BUSY = BUSY | {"util_mean": 0.5}
GENERAL = "Ask for as many GPUs as the program uses, or use them all."
ITS_OWN = "Ask for 2 GPUs instead of 3, or use them all."


@pytest.fixture
def unused() -> Finding:
    """Of a job on three nodes, two hours long, one of whose GPUs does nothing."""
    cache.clear()
    job = a_job()
    for number, says in enumerate((HALF_BUSY, QUIET, BUSY)):
        allocations = [held(end=T0 + 2 * HOUR_MS)]
        batch = Sender(f"n{number}").batch(T0, *[says] * 120, jobs=[job], allocations=allocations)
        post(batch)
    services.diagnose(NOW, 1000)
    return Finding.objects.get(cause="partial_idle")


def first_step() -> str:
    """What a list says to do about it."""
    shown = inbox.inbox(Interval(from_ms(T0), NOW), now=NOW).of_jobs[:]
    [line] = [line for line in shown if line.finding.cause == "partial_idle"]
    [advice] = advice_of(selectors.with_jobs([line], before=NOW))
    return advice.first.text


def test_a_list_says_what_the_findings_own_page_says_once_it_is_noted(unused):
    page = inbox.explained(unused, Interval(from_ms(T0), NOW), now=NOW).advice

    assert first_step() == GENERAL
    assert note(10) == 1
    assert first_step() == ITS_OWN == page.first.text


def test_it_is_noted_again_only_when_it_goes_on(unused):
    assert [note(10), note(10)] == [1, 0]

    Finding.objects.filter(pk=unused.pk).update(last_ms=unused.last_ms + 1)

    assert note(10) == 1


def test_what_is_known_of_the_job_is_that_of_now(unused):
    note(10)
    Job.objects.update(scheduler="kubernetes")

    shown = inbox.inbox(Interval(from_ms(T0), NOW), now=NOW).of_jobs[:]
    [line] = [line for line in shown if line.finding.cause == "partial_idle"]
    [advice] = advice_of(selectors.with_jobs([line], before=NOW))

    assert advice.first.code == "resources: {limits: {nvidia.com/gpu: 2}}"


@pytest.mark.parametrize("row", [None, "x", {}, {"facts": {"gpus": "three"}}])
def test_what_another_version_noted_is_passed_by(unused, row):
    cache.set(f"finding-numbers/3/{unused.pk}", row)

    assert first_step() == GENERAL


def test_without_the_cache_the_list_says_what_holds_in_general(unused, monkeypatch):
    note(10)

    def away(_):
        raise RedisError

    monkeypatch.setattr(cache, "get_many", away)

    assert first_step() == GENERAL
