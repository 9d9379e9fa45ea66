"""How incidents that are over ended, as it is said when that is told."""

import pytest

from fleetwatch.alerts.incidents.past_ends import how_it_went_on
from fleetwatch.jobs.models import Job
from tests.alerts.factories import a_rule, an_incident, at, ms
from tests.costs.factories import a_job

pytestmark = pytest.mark.django_db
QUIET = "it worked at 13:24 UTC for 20 s, and was quiet again from 13:46 UTC"
OPENS = "; a new incident opens after 30 minutes of that"


def clock(at_ms: int) -> str:
    return f"minute {(at_ms - ms(0)) // 60_000}"


@pytest.mark.parametrize(
    ("minutes", "job_ended", "says"),
    [
        (29, None, OPENS),
        (31, None, ""),  # that is past
        (29, 20, "; its job ended at minute 20"),  # no new one opens
        (82, 58, "; its job ended at minute 58"),
        (29, 29, "; its job ended at minute 29"),
        (29, 30, OPENS),  # nobody knows yet that it will
    ],
)
def test_an_end_that_is_told_later_promises_nothing_that_is_past_or_will_not_be(
    minutes, job_ended, says
):
    a_job(key="slurm/della/7")
    Job.objects.update(end_ms=None if job_ended is None else ms(job_ended))
    one = an_incident(
        a_rule(), "slurm/della/7", opened_at=at(-60), resolved_at=at(0), resolution=QUIET + OPENS
    )

    assert how_it_went_on(one, at(minutes), clock) == QUIET + says
