"""The clusters that jobs are of."""

import pytest

from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import clusters

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs():
    for number, cluster in enumerate(("della", "", "aurora", "della", "tiger")):
        Job.objects.create(key=f"slurm/{cluster}/{number}", cluster=cluster)


@pytest.mark.parametrize(
    ("limit", "names"),
    [(0, []), (1, ["aurora"]), (2, ["aurora", "della"]), (9, ["aurora", "della", "tiger"])],
)
def test_each_is_named_once_by_name_as_many_as_are_asked_for(jobs, limit, names):
    assert clusters(limit) == names


def test_none_is_read_twice(jobs, django_assert_num_queries):
    with django_assert_num_queries(4):  # one each, and one that finds no more
        clusters(9)


def test_without_jobs_there_is_none():
    assert clusters(9) == []
