"""No dollar and no millisecond leaks between lines."""

from datetime import timedelta

import pytest

from fleetwatch.lib.intervals import Interval
from fleetwatch.stack.management.commands.check_ledger import uneven_lines
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

DAY = Interval(HOUR.replace(hour=0), HOUR.replace(hour=0) + timedelta(days=1))


@pytest.fixture
def gpu(db):
    """Time of three teams, of nobody, and of a job without a team, at a rate that divides nothing
    evenly.
    """
    gpu = a_gpu()
    a_rate("2.999999", gpu=gpu)
    for number, team in enumerate(("nlp", "vision", "bio", None)):
        an_entry(gpu, "useful", 333_333 + number, job=a_job(team=team, user=f"user-{number}"))
    an_entry(gpu, "free", 1)
    return gpu


def test_lines_sum_to_the_fleet_by_whatever_they_are(gpu):
    assert list(uneven_lines(DAY)) == []
