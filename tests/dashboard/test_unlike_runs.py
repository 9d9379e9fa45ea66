"""Patterns whose runs are not alike: how each of them stands, and whose advice is told."""

import re

import pytest
from django.core.cache import cache

from fleetwatch.alerts.models import Silence
from fleetwatch.diagnosis.findings import inbox, patterns
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
WEEK = Interval(NOW - 7 * DAY, NOW)


@pytest.fixture
def runs() -> list[Finding]:
    """Three runs of ann's "train" at $2 an hour, all over; the first wasted two hours, each of the
    others one. Of their eight GPUs they needed two, three and one.
    """
    cache.clear()
    rate()
    several = []
    for number, (hours, used) in enumerate(((2, 2), (1, 3), (1, 1))):
        end = NOW - (3 - number) * DAY
        own = job(f"slurm/della/{number}", end_ms=to_ms(end))
        cause("partial_idle", of=own, on=gpu(number), start=end - DAY / 12, hours=hours)
        last_ms = to_ms(end)
        each = finding(own, "partial_idle", first_ms=last_ms - 2 * HOUR_MS, last_ms=last_ms)
        several.append(each)
        noted(each, used)
    return several


def noted(of: Finding, used: int) -> None:
    facts = {"gpus": 8, "affected_gpus": 8 - used, "gpus_on_node": 8}
    cache.set(f"finding-numbers/3/{of.pk}", {"last_ms": of.last_ms, "facts": facts})


def shown(admin, address: str = "/findings") -> str:
    return in_text(tight(admin.get(address).content.decode()))


def test_where_runs_need_unlike_numbers_the_latest_runs_is_told_as_such(admin, runs):
    page = shown(admin)

    assert "Of the latest run: Ask for 1 GPU instead of 8, or use them all." in page
    assert "Ask for 2 GPUs" not in page
    assert "each opens its latest run" in page


def opened(admin, address: str) -> tuple[set[str], set[str]]:
    """The findings and the jobs that the page leads to."""
    page = tight(admin.get(address).content.decode())
    findings = re.findall(r'href="/findings/(\d+)\?', page)
    return set(findings), set(re.findall(r'href="/jobs/(slurm/della/\d)', page))


@pytest.mark.parametrize("view", ["", "?view=compact"])
def test_a_pattern_that_goes_on_opens_the_job_that_runs_and_not_what_was_seen_after_it(
    admin, runs, view
):
    """The second runs and was seen ten minutes ago; the third ended five minutes ago."""
    _, running, ended = runs
    Job.objects.filter(pk=running.job_id).update(end_ms=None)
    Finding.objects.filter(pk=running.pk).update(last_ms=to_ms(NOW) - 10 * 60_000)
    Finding.objects.filter(pk=ended.pk).update(last_ms=to_ms(NOW) - 5 * 60_000)

    findings, jobs = opened(admin, f"/findings{view}")

    assert findings == {str(running.pk)}
    assert jobs == ({"slurm/della/1"} if not view else set())
    says = "Of the running job: Ask for 3 GPUs instead of 8, or use them all."
    assert (says in shown(admin, f"/findings{view}")) == (not view)


def test_a_pattern_that_is_over_opens_its_latest_run_and_not_the_dearest(admin, runs):
    findings, jobs = opened(admin, "/findings")

    assert (findings, jobs) == ({str(runs[2].pk)}, {"slurm/della/2"})


def test_where_all_runs_need_the_same_it_is_told_of_all(admin, runs):
    for each in runs:
        noted(each, 2)

    page = shown(admin)

    assert "Ask for 2 GPUs instead of 8" in page
    assert "Of the latest run" not in page


@pytest.mark.parametrize("view", ["", "&view=compact"])
def test_a_pattern_says_how_many_of_its_runs_stand_how(admin, runs, view):
    Finding.objects.filter(pk=runs[0].pk).update(status="accepted")

    page = shown(admin, f"/findings?status=all{view}")

    assert "1 of 3 accepted" in page
    assert " accepted 1 of" not in page


def test_a_pattern_that_stands_as_one_says_so_in_one_word(admin, runs):
    Finding.objects.update(status="accepted")

    [pattern] = patterns.patterns(inbox.inbox(WEEK, now=NOW).of_jobs, WEEK, now=NOW)[:]

    assert (pattern.status, pattern.decided_parts) == ("accepted", [])


def test_accepting_a_pattern_leaves_what_was_decided_of_others(admin, runs):
    Finding.objects.filter(pk=runs[0].pk).update(status="dismissed")
    page = admin.get("/findings?status=all").content.decode()
    assert 'value="accept">Accept</button>' in page
    assert "the 2 that nobody decided about" in in_text(tight(page))

    sent = {"action": "accept", "group_by": "pattern", "id": [runs[0].pk]}
    admin.post("/findings/act?status=all", sent)

    stands = dict(Finding.objects.values_list("pk", "status"))
    assert [stands[each.pk] for each in runs] == ["dismissed", "accepted", "accepted"]


def test_what_is_exempt_beside_open_ones_is_counted_apart(runs):
    Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "job", "values": ["slurm/della/0"], "is_not": False}],
        starts_at=NOW - DAY,
        ends_at=NOW + DAY,
        created_at=NOW - DAY,
    )

    [pattern] = patterns.patterns(inbox.inbox(WEEK, now=NOW).of_jobs, WEEK, now=NOW)[:]

    assert (pattern.status, pattern.decided_parts) == ("open", [("exempt", 1)])
