"""Problems of a GPU and of a node: findings of jobs that wasted there, and what to do first."""

import re
from datetime import timedelta

import pytest

from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import to_ms
from tests.dashboard.factories import hold
from tests.diagnosis.told import NOW, cause, finding, gpu, job, rate
from tests.markup import tight

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def wasted(key: str, *, on: int = 1, low: float = 1.0, **facts) -> int:
    """A finding of a job that was idle for the hour from 10:00; its number."""
    of = job(key, **facts)
    cause(of=of, on=gpu(on), low=low)
    hold(gpu(on), of, hours_ago=2, hours=1)
    return finding(of).pk


def problems_of(client, address: str) -> str:
    page = tight(client.get(address).content.decode())
    start = page.find("<h2>Problems")
    return page[start : page.index("States and readings")] if start >= 0 else ""


def in_text(section: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


@pytest.mark.parametrize("address", ["/gpus/GPU-n1-1", "/nodes/n1"])
def test_findings_of_jobs_that_wasted_there_are_problems(admin, address):
    rate("2.00")
    pk = wasted("slurm/della/7", name="sweep", user="ann", end_ms=1)

    section = problems_of(admin, address)

    assert f'href="/findings/{pk}"' in section
    assert "Idle: still held" in in_text(section)
    assert "sweep · ann" in in_text(section)
    assert "$2.00 recoverable" in in_text(section)


def test_of_a_gpu_are_only_findings_of_jobs_that_wasted_on_it(admin):
    rate("2.00")
    wasted("slurm/della/7", on=1)
    gpu(2)

    assert problems_of(admin, "/gpus/GPU-n1-2") == ""


def test_what_somebody_decided_about_is_no_problem_any_more(admin):
    of = job()
    cause(of=of, on=gpu(1))
    finding(of, status="dismissed")

    assert problems_of(admin, "/gpus/GPU-n1-1") == ""


def test_the_costliest_come_first_and_the_others_are_a_link_away(admin):
    """Five jobs, each for an hour of $2: a share of 0.2, 0.4, 0.6, 0.8, 1 could be saved."""
    rate("2.00")
    shares = (0.2, 1.0, 0.4, 0.8, 0.6)
    pks = {share: wasted(f"slurm/della/{round(10 * share)}", low=share) for share in shares}

    section = problems_of(admin, "/gpus/GPU-n1-1?range=24h")

    shown = [int(pk) for pk in re.findall(r'href="/findings/(\d+)"', section)]
    assert shown == [pks[1.0], pks[0.8], pks[0.6]]
    assert "2 more findings of jobs that wasted here" in in_text(section)
    assert 'href="/findings?from=now-24h&amp;to=now&amp;node=n1"' in section


@pytest.mark.parametrize(
    ("start", "end_ms", "is_over"),
    [
        (NOW - HOUR, None, False),  # to 12:00, which is now, and the job runs
        (NOW - HOUR, 1, True),
        (NOW - 2 * HOUR, None, True),  # to 11:00: the job runs, and works
    ],
)
def test_it_goes_on_while_the_job_runs_and_was_seen_so_lately_here(admin, start, end_ms, is_over):
    of = job(end_ms=end_ms)
    cause(of=of, on=gpu(1), start=start)
    cause(of=of, on=gpu(2), start=NOW - HOUR)
    hold(gpu(1), of, hours_ago=3, hours=3)
    Node.objects.update(last_ms=to_ms(NOW))
    finding(of)

    section = in_text(problems_of(admin, "/gpus/GPU-n1-1"))

    assert f"Fri 20 Nov, {start:%H:%M}" in section
    assert ("over here since" in section) == is_over
    assert ("goes on" in section) == (not is_over)
