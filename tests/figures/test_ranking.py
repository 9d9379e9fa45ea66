"""The largest of many groups and the rest as one: the same order and the same dollars as all the
groups one by one.
"""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.figures.pricing import usd
from fleetwatch.figures.ranking import Wasters
from fleetwatch.figures.selectors import NOBODY, Scope, look, ranked, totals, totals_by, wasters
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

DAY = Interval(HOUR - timedelta(hours=9), HOUR + timedelta(hours=15))


@pytest.fixture
def busy():
    """Ten jobs: job n wasted n x 333,333 ms at $1.000001 (of two teams, three users), and one GPU
    stood free for an hour.
    """
    gpu = a_gpu()
    a_rate("1.000001", gpu=gpu)
    for number in range(10):
        job = a_job(
            key=f"k{number}",
            user=("ann", "bob", "")[number % 3],
            team=("nlp", "vision")[number % 2],
        )
        an_entry(gpu, "idle", 333_333 * number, job=job, tier="certain")
        an_entry(gpu, "useful", HOUR_MS, job=job, energy_j=1.5)
    an_entry(gpu, "free", HOUR_MS, start=HOUR + timedelta(hours=1))
    return gpu


def keys(found):
    return [group.key for group in found.groups]


def test_the_largest_come_first_and_the_rest_is_the_whole_without_them(busy):
    found = ranked(DAY, "job", size=3)

    assert keys(found) == ["k9", "k8", "k7"]
    assert (found.before.groups, found.after.groups, found.count) == (0, 8, 11)
    assert found.totals == totals(DAY)
    assert found.after.totals.wasted_ms == 333_333 * (1 + 2 + 3 + 4 + 5 + 6)
    shown = sum((group.totals.cost_usd for group in found.groups), Decimal(0))
    assert usd(shown + found.after.totals.cost_usd) == usd(totals(DAY).cost_usd)


@pytest.mark.parametrize("group_by", ["job", "gpu"])
@pytest.mark.parametrize("size", [1, 3, 11, 100])
def test_pages_are_the_lines_of_totals_by_in_its_order(busy, group_by, size):
    a_rate("3", gpu=a_gpu(uuid="other", model="L4"))
    lines, shown, start = totals_by(DAY, group_by), [], 0
    while page := ranked(DAY, group_by, size=size, start=start).groups:
        shown += page
        start += len(page)

    assert shown == lines


def test_a_page_starts_after_a_place_whatever_came_before_it_meanwhile(busy):
    first = ranked(DAY, "job", size=4, scope=Scope(is_allocated=True))
    an_entry(busy, "idle", HOUR_MS * 20, job=a_job(key="new"), tier="certain")

    second = ranked(DAY, "job", size=4, scope=Scope(is_allocated=True), start=first.last)

    assert (keys(first), keys(second)) == (["k9", "k8", "k7", "k6"], ["k5", "k4", "k3", "k2"])
    assert (second.before.groups, second.after.groups) == (5, 2)


@pytest.mark.parametrize("sort", ["cost", "time"])
def test_jobs_are_sorted_by_dollars_and_by_time_too(busy, sort):
    an_entry(busy, "useful", HOUR_MS * 5, job=a_job(key="long"))

    assert keys(ranked(DAY, "job", size=2, sort=sort)) == ["long", "k9"]


def test_some_jobs_alone_are_ranked_among_each_other(busy):
    wanted = [
        a_job(key="idle").pk,
        *(entry.job_id for entry in busy.entry_set.filter(job__key__in=["k2", "k5"])),
    ]

    seen = look(DAY, "job")

    assert keys(seen.of("job", wanted).ranked("job", 9)) == ["k5", "k2"]
    assert seen.of("job", []).ranked("job", 9).groups == []
    assert seen.of("job", None).ranked("job", 9) == ranked(DAY, "job", size=9)


def test_without_a_rate_the_time_decides(db):
    gpu = a_gpu()
    for number in (1, 3, 2):
        an_entry(gpu, "idle", number, job=a_job(key=f"k{number}"), tier="certain")

    found = ranked(DAY, "job", size=2)

    assert keys(found) == ["k3", "k2"]
    assert found.totals.unpriced_ms == 6


def test_an_empty_ledger_has_nobody_to_rank(db):
    found = ranked(DAY, "job", size=5)

    assert (found.groups, found.count, found.last, found.totals) == ([], 0, None, totals(DAY))


def test_one_look_gives_the_teams_users_and_jobs_of_totals_by(busy):
    found = wasters(DAY, 2)

    assert isinstance(found, Wasters)
    assert found.teams == [group for group in totals_by(DAY, "team") if group.key]
    unallocated = [group for group in totals_by(DAY, "team") if not group.key]
    assert ([found.unallocated] if found.unallocated else []) == unallocated
    assert found.users.groups == [group for group in totals_by(DAY, "user") if group.key][:2]
    assert keys(found.users) == ["ann", NOBODY]  # 18 and 15 times 333,333 ms
    assert (keys(found.jobs), found.users.count, found.jobs.count) == (["k9", "k8"], 3, 10)


@pytest.mark.parametrize(("group_by", "sort"), [("team", "waste"), ("job", "colour")])
def test_what_is_not_ranked_is_refused(db, group_by, sort):
    with pytest.raises(ValueError, match="can't rank"):
        ranked(DAY, group_by, size=1, sort=sort)
