"""Which stored job is which of those that are believed: the same owner first, then its records',
then any that is left.
"""

from dataclasses import dataclass

import pytest

from fleetwatch.jobs.matching import matched
from fleetwatch.jobs.records import JobFacts, KnownJob, Record, Voice


@dataclass(frozen=True)
class Row:
    pk: int
    user: str
    account: str = ""


def known(user, *, was=None):
    """A job of the user, whose only record was of the stored job `was`."""
    facts = JobFacts(user=user)
    return KnownJob(facts, (Record(1, 1, Voice.BOOKS, (0, 0, 0), facts, job_id=was),))


@pytest.mark.parametrize(
    ("jobs", "rows", "chosen"),
    [
        ([known("ann")], [], [None]),
        ([known("ann")], [Row(1, "eve"), Row(2, "ann")], [2]),
        ([known("mallory", was=1), known("ann", was=1)], [Row(1, "ann")], [None, 1]),
        ([known("ann", was=2)], [Row(1, "eve"), Row(2, "")], [2]),
        ([known("ann")], [Row(1, "eve")], [1]),
        ([known("ann", was=1), known("bob", was=1)], [Row(1, "")], [1, None]),
    ],
)
def test_a_row_is_that_of_its_owner_then_of_its_records_then_of_who_is_left(jobs, rows, chosen):
    assert matched(jobs, rows) == chosen
